"""Iceberg tables, by pyiceberg: executors write data files, the driver makes the commit.

    place.py            which catalog, which name in it, which folder
    catalog.py          the catalog: a SQLite file beside the table, or any other that pyiceberg knows
    types.py            columns of Arrow and of Iceberg
    data_files.py       our files as entries of a manifest, and back
    lineage.py          how far a snapshot has the topic
    snapshot.py         a table as one commit left it, and the next commit
    upkeep.py           snapshots that are too old, and files that nothing needs
    durable_io.py       what a commit writes is on the disk before the catalog names it
    store.py            all of it as a `Store`

The offsets are in the summary of the snapshot (`tailrace.offsets`). A table's are those of the nearest ancestor of its
current snapshot that has some: what somebody else appends changes nothing about them, and who rolls the table back
takes it back to where the topic was then. A table without a snapshot has its offsets in its properties.
"""

from __future__ import annotations

from importlib.util import find_spec

from tailrace.spark.errors import PipelineError

for _needed in ("pyiceberg", "sqlalchemy"):
    if find_spec(_needed) is None:
        raise PipelineError(f"Iceberg tables need the package {_needed}: pip install 'tailrace[tables]'")
