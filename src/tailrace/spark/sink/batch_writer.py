"""The sink of a batch query: appends, at least once. A task that Spark runs again writes its rows again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tailrace.spark.options.sink import SinkOptions
from tailrace.spark.sink.schema import check_schema
from tailrace.spark.sink.task import write_at_least_once


@dataclass
class RowsWritten(WriterCommitMessage):
    """By one task; all of it is acknowledged."""

    rows: int
    bytes: int


class BatchSink(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_schema(schema, options.topic)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsWritten:
        return RowsWritten(*write_at_least_once(self._options, iterator))
