"""What Spark's Python logs of a query that fails, traces and all, on top of the error that it raises."""

from __future__ import annotations

import logging
from typing import Final

_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def silence_query_logs() -> None:
    """For who tells the error itself."""
    from pyspark.logger import PySparkLogger

    for name in _LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
