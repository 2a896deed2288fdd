"""A topic as a DataFrame that is read once.

Spark makes the reader in a process of its own, asks for its partitions there, and pickles it for the tasks: it holds
values only. Where a query begins and ends is decided when it is first planned. Spark keeps that plan for the DataFrame:
whoever wants to see what has come since makes another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from tailrace.spark.options.source import SourceOptions
from tailrace.spark.source.columns import Columns
from tailrace.spark.source.filters import Pushed, push
from tailrace.spark.source.loss import LossPolicy
from tailrace.spark.source.origin import OpenOrigin, Origin
from tailrace.spark.source.piece_reader import Piece, read_piece
from tailrace.spark.source.planning import pieces
from tailrace.spark.source.ranges import EVER, OffsetRange
from tailrace.spark.source.starting import checked_ranges

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, columns: Columns) -> None:
        self._options = options
        self._columns = columns
        self._pushed = Pushed()

    def partitions(self) -> Sequence[InputPartition]:
        options, pushed = self._options, self._pushed
        with OpenOrigin(options) as origin:
            found = origin.partitions(options.subscription)
            ranges = checked_ranges(options, origin, found, LossPolicy(options.fail_on_data_loss))
            wanted = [narrowed for each in ranges if (narrowed := narrow(each, pushed)).size]
            if options.timestamp_disorder_ms is not None:
                wanted = until(wanted, pushed.times.last_ms + options.timestamp_disorder_ms, origin)
        cut = pieces(
            wanted,
            min_partitions=options.min_partitions,
            max_records_per_partition=options.max_records_per_partition,
        )
        return [Piece(each, pushed.times) for each in cut]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_piece(self._options, self._columns, partition)


class FilteringBatchReader(BatchReader):
    """Only this one has `pushFilters`: Spark refuses a reader that has it where push-down is switched off."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        self._pushed, rest = push(filters)
        return rest


def narrow(offsets: OffsetRange, pushed: Pushed) -> OffsetRange:
    """What is left of a range behind the filters; an empty one where nothing is."""
    partition = offsets.partition
    if not pushed.admits(partition):
        return offsets._replace(end=offsets.start)
    start = max(offsets.start, pushed.first_offset)
    return offsets._replace(start=start, end=max(min(offsets.end, pushed.last_offset + 1), start))


def until(ranges: list[OffsetRange], last_ms: int, origin: Origin) -> list[OffsetRange]:
    """Ranges without what lies behind the first record that is later than `last_ms`.

    Without a promise about their order, records behind it may be of any time, and no header of a batch tells its
    earliest: then everything has to be read.
    """
    if last_ms >= EVER[1]:
        return ranges
    # Times below 0 mean other things to a broker, as -1 the end of the log.
    ends = origin.behind_times({each.partition: max(last_ms + 1, 0) for each in ranges})
    cut = [each if (end := ends[each.partition]) is None else each._replace(end=min(each.end, end)) for each in ranges]
    return [each for each in cut if each.size]
