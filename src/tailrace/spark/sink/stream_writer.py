"""The sink of a streaming query: at least once. An epoch that Spark runs again writes its rows again."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from tailrace.spark.options.sink import SinkOptions
from tailrace.spark.sink.batch_writer import RowsWritten
from tailrace.spark.sink.schema import check_schema
from tailrace.spark.sink.task import write_at_least_once


class AtLeastOnceSink(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_schema(schema, options.topic)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsWritten:
        return RowsWritten(*write_at_least_once(self._options, iterator))
