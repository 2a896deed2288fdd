"""A stream that cannot be, because of its options.

Spark's planner makes a reader and stops it at the end, also where none could be made: it then fails for want of the
reader, and that is what a user reads last. So there is one, and whatever it is asked first is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from tailrace.spark.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, error: OptionError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name, as all below
        self._refuse()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._refuse()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        self._refuse()

    def stop(self) -> None:
        pass

    def _refuse(self) -> NoReturn:
        raise self._error
