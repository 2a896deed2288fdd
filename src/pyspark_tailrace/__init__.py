"""How Spark finds `format("tailrace")` by itself: it looks for `DefaultSource` in every package named `pyspark_…`.

It is loaded when it is asked for, so that importing this package needs no Spark; where Spark or Arrow is missing there
is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.spark.data_source import TailraceSource as DefaultSource

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> object:
    if name == "DefaultSource":
        try:
            from tailrace.spark.data_source import TailraceSource
        except ImportError as error:
            # Spark looks here for every source there is: one that lacks its packages must not spoil the others.
            raise AttributeError(f"tailrace[spark] is not installed whole: {error}") from error
        return TailraceSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
