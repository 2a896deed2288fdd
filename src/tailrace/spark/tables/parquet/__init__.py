"""Plain Parquet files with numbered manifests: the table is what the newest manifest names, and nothing else.

    ROOT/_tailrace/00000000000000000007.json    a manifest: offsets, columns, and every file of that version
    ROOT/_staging/                              files that tasks are still writing
    ROOT/…/*.parquet                            data, in folders `column=value` where the table is partitioned

A glob over the folder is not the table: it also finds files that a job has not committed, has given up, or has
replaced by larger ones.
"""

from __future__ import annotations

from tailrace.spark.tables.parquet.store import ParquetSnapshot, ParquetStore

__all__ = ["ParquetSnapshot", "ParquetStore"]
