"""What Spark's Python logs, traces and all, on top of the error that it raises: of a query that fails, of a Ctrl-C."""

from __future__ import annotations

import logging
from typing import Final

_BRIDGE: Final = "py4j"
"""Has no logger of its own for this."""
_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def silence_query_logs() -> None:
    """For who tells the error itself."""
    from pyspark.logger import PySparkLogger

    for name in _LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    root = logging.getLogger()
    if not root.handlers:  # else somebody has decided what is shown
        others = logging.StreamHandler()
        others.addFilter(lambda record: _BRIDGE not in record.pathname)
        root.addHandler(others)
