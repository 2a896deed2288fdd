"""A run of a table and what is known of it, as commands print them; and what is left of that without colours."""

from __future__ import annotations

import re

from tailrace.spark.tables.job.report import TableReport
from tailrace.spark.tables.job.status import PartitionStatus, TableStatus
from tailrace.spark.tables.store import Removed

COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

STATUS = TableStatus(
    topic="orders",
    table="tables/orders",
    format="delta",
    mode="append",
    version=4,
    made_ms=1_700_000_300_000,
    partitions=(PartitionStatus(0, 30, 0, 130), PartitionStatus(1, 12, 0, 12), PartitionStatus(2, 5, None, None)),
    rows=42,
    files=2,
    size_bytes=9000,
    dead_letters=3,
)
REPORT = TableReport(
    topic="orders",
    table="tables/orders",
    format="delta",
    mode="append",
    created=True,
    version=4,
    batches=2,
    rows=42,
    dead_letters=3,
    files=2,
    size_bytes=9000,
    start={0: 0, 1: 0},
    offsets={0: 30, 1: 12},
    removed=Removed(3, 700, 1),
    seconds=2.0,
    busy_seconds=1.0,
)
FIRST = TableReport(
    "orders",
    "tables/orders",
    "delta",
    "append",
    version=2,
    batches=1,
    rows=22,
    start={0: 0, 1: 0},
    offsets={0: 20, 1: 2},
)


def plain(out: str) -> str:
    return COLOURS.sub("", out).replace("\N{NO-BREAK SPACE}", " ")
