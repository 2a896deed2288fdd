"""`format("tailrace")`: what Spark calls to make readers and writers.

Spark calls it in processes of its own and finds it by `pyspark_tailrace`, which needs no registration. Options are
checked here, before any task starts.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from tailrace.spark.errors import OptionError
from tailrace.spark.options.sink import sink_options
from tailrace.spark.options.source import chosen_columns, source_options
from tailrace.spark.source.columns import SPARK_TYPES, Columns

NAME = "tailrace"


class TailraceSource(DataSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        """That of Spark's own source for Kafka, or the chosen columns of it."""
        # Whether it will be a stream is not known yet: the other options are checked when it is.
        return Columns(chosen_columns(self.options)).spark_ddl()

    def reader(self, schema: StructType) -> DataSourceReader:
        from tailrace.spark.source.batch_reader import BatchReader, FilteringBatchReader

        options = source_options(self.options, streaming=False)
        kind = FilteringBatchReader if options.filter_pushdown else BatchReader
        return kind(options, _columns_for(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        from tailrace.spark.source.refused_stream import RefusedStream
        from tailrace.spark.source.stream_reader import StreamReader

        try:
            return StreamReader(source_options(self.options, streaming=True), _columns_for(schema))
        except OptionError as error:
            return RefusedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = sink_options(self.options, streaming=False, overwrite=overwrite)
        if options.transactional:
            from tailrace.spark.sink.exactly_once.batch import TransactionalBatchSink

            return TransactionalBatchSink(options, schema)
        from tailrace.spark.sink.batch_writer import BatchSink

        return BatchSink(options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        options = sink_options(self.options, streaming=True, overwrite=overwrite)
        if options.is_exactly_once:
            from tailrace.spark.sink.exactly_once.stream_writer import ExactlyOnceSink

            return ExactlyOnceSink(options, schema)
        from tailrace.spark.sink.stream_writer import AtLeastOnceSink

        return AtLeastOnceSink(options, schema)


def _columns_for(schema: StructType) -> Columns:
    """A schema given by the user chooses columns; it cannot change what they are."""
    columns = Columns(tuple(schema.fieldNames()))
    for field in schema.fields:
        wanted, there = field.dataType.simpleString(), SPARK_TYPES[field.name]
        if wanted != there:
            raise OptionError(f"column {field.name!r} is {there}, not {wanted}: cast it in the query")
    return columns
