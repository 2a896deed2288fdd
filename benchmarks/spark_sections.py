"""The sections of docs/benchmarks.md that `spark_run.py` writes.

Each tells of measurements that belong together, and is written anew when all of them were made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peer_row import Row

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Section:
    name: str
    """In the page's marks."""
    title: str
    measurements: tuple[str, ...]
    command: str
    """What measures it."""
    words: Callable[[Facts], str]

    @property
    def marks(self) -> tuple[str, str]:
        return f"<!-- {self.name}: begin -->", f"<!-- {self.name}: end -->"

    def rows_of(self, found: Mapping[str, Sequence[Row]]) -> list[Row] | None:
        """None where a measurement is missing."""
        if any(key not in found for key in self.measurements):
            return None
        return [row for key in self.measurements for row in found[key]]


def topic_words(facts: Facts) -> str:
    return (
        f"{facts['rows']:,} rows with random keys of 8 bytes and values of 100, in {facts['partitions']} partitions, "
        "all seven columns to `noop`, beside Spark's scan of the same rows in uncompressed Parquet files; "
        f"{facts['warm_ups']} rounds to warm up and {facts['rounds']} that count, the sides taking turns. The broker "
        "runs on the same cores as Spark. Where bytes are read, they stand beside those that there are; many segments "
        "beside one; a stream into a topic beside the same into Parquet files. A filter on time in the middle of a log "
        "stops at its end only where `timestampDisorder` promises an order; without it, everything behind its "
        "beginning is read."
    )


def table_words(facts: Facts) -> str:
    return (
        f"{facts['rows']:,} rows of the same kind become a Delta table, beside Spark's own copy of Parquet files with "
        "the same rows, columns and codec (snappy). Upserts go into a table with six times as many keys in 40 "
        "buckets of 100 MB, and stand beside a plain rewrite of that table, in seconds, each with all that its job "
        "costs. "
        f"{facts['warm_ups']} rounds to warm up and {facts['rounds']} that count."
    )


def audit_words(facts: Facts) -> str:
    return (
        "Records of 1 KB in batches of 16 KB, from the page cache. An audit by one executor with one core stands "
        "beside one thread that reads the same files, checks the CRC of every batch and decompresses it. All rules are "
        "on but those of keys and replicas, which stand beside the step that reads everything. Executors are there "
        f"already; everything else counts. {facts['warm_ups']} rounds to warm up and {facts['rounds']} that count."
    )


TOPICS = Section(
    "bench-spark", "Spark on topics", ("reads", "filters", "segments", "sinks"), "make bench-spark", topic_words
)
TABLES = Section(
    "bench-spark-tables",
    "Topics as tables",
    ("appends", "upserts"),
    'make bench-spark ARGS="--only appends,upserts"',
    table_words,
)
AUDITS = Section("bench-spark-audit", "Audits", ("audit",), 'make bench-spark ARGS="--only audit"', audit_words)
SECTIONS = (TOPICS, TABLES, AUDITS)
