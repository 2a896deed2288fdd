"""Topics as DataFrames and streams, in and out, without a connector jar.

    from tailrace.spark import read, read_stream, session, write, write_stream

    orders = read("orders", brokers="localhost:9092")

or, in any session, `spark.read.format("tailrace")` with the options of Spark's own Kafka source. Needs the extra
`tailrace[spark]`. docs/spark.md tells it all.

`table` makes a table of a topic, and keeps it so: docs/tables.md. Needs the extra `tailrace[tables]`.

`audit` holds every byte of log directories against every rule, `stats` tells what is in a topic, `find` finds records:
docs/audit.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace.spark.auditing.audit import audit
    from tailrace.spark.auditing.audit_report import AuditReport
    from tailrace.spark.frames import read, read_stream, write, write_stream
    from tailrace.spark.searching.find import find
    from tailrace.spark.spark_session import session
    from tailrace.spark.statistics.stats import stats
    from tailrace.spark.tables.reading import read_table
    from tailrace.spark.tables.table import TableJob, TableReport, table

__all__ = [
    "AuditReport",
    "TableJob",
    "TableReport",
    "audit",
    "find",
    "read",
    "read_stream",
    "read_table",
    "session",
    "stats",
    "table",
    "write",
    "write_stream",
]

_FRAMES = "tailrace.spark.frames"
_MODULES = {
    "AuditReport": "tailrace.spark.auditing.audit_report",
    "TableJob": "tailrace.spark.tables.table",
    "TableReport": "tailrace.spark.tables.table",
    "audit": "tailrace.spark.auditing.audit",
    "find": "tailrace.spark.searching.find",
    "read": _FRAMES,
    "read_stream": _FRAMES,
    "read_table": "tailrace.spark.tables.reading",
    "session": "tailrace.spark.spark_session",
    "stats": "tailrace.spark.statistics.stats",
    "table": "tailrace.spark.tables.table",
    "write": _FRAMES,
    "write_stream": _FRAMES,
}


def __getattr__(name: str) -> Any:
    """Executors import parts of this package: none of them should load what only a driver needs."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
