"""Topics as DataFrames and streams, in and out, without a connector jar.

    from tailrace.spark import read, read_stream, session, write, write_stream

    orders = read("orders", brokers="localhost:9092")

or, in any session, `spark.read.format("tailrace")` with the options of Spark's own Kafka source. Needs the extra
`tailrace[spark]`. docs/spark.md tells it all.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace.spark.frames import read, read_stream, write, write_stream
    from tailrace.spark.spark_session import session

__all__ = ["read", "read_stream", "session", "write", "write_stream"]


def __getattr__(name: str) -> Any:
    """Executors import parts of this package: none of them should load what only a driver needs."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "tailrace.spark.spark_session" if name == "session" else "tailrace.spark.frames"
    return getattr(import_module(module), name)
