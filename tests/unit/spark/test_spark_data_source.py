"""Which readers and writers the source makes of options, before Spark is asked for anything."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader, EqualTo, GreaterThanOrEqual, In, LessThan
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from tailrace.model.ids import TopicPartition
from tailrace.spark.data_source import TailraceSource
from tailrace.spark.errors import OptionError
from tailrace.spark.options.source import SourceOptions
from tailrace.spark.options.subscription import Topics
from tailrace.spark.source import batch_reader
from tailrace.spark.source.batch_reader import FilteringBatchReader, narrow
from tailrace.spark.source.columns import Columns
from tailrace.spark.source.filters import Pushed
from tailrace.spark.source.piece_reader import Piece
from tailrace.spark.source.ranges import Bounds, OffsetRange

KEYS = StructType([StructField("key", BinaryType()), StructField("offset", LongType())])
ROWS = StructType([StructField("value", BinaryType())])


def source(**options: str) -> TailraceSource:
    given = {"kafka.bootstrap.servers": "localhost:9092", **options}
    return TailraceSource(CaseInsensitiveDict({name: text for name, text in given.items() if text}))


def test_the_schema_is_that_of_sparks_kafka_source_or_the_chosen_part_of_it() -> None:
    assert source(subscribe="t").schema() == (
        "`key` binary, `value` binary, `topic` string, `partition` int, `offset` bigint, `timestamp` timestamp, "
        "`timestampType` int"
    )
    assert (
        source(subscribe="t", includeHeaders="true")
        .schema()
        .endswith("`headers` array<struct<key:string,value:binary>>")
    )
    assert source(subscribe="t", columns="value,key").schema() == "`key` binary, `value` binary"


def test_a_schema_chooses_columns_and_cannot_change_them() -> None:
    source(subscribe="t").reader(KEYS)
    with pytest.raises(OptionError, match="column 'offset' is bigint, not string: cast it"):
        source(subscribe="t").reader(StructType([StructField("offset", StringType())]))
    with pytest.raises(OptionError, match="no column 'offsets'"):
        source(subscribe="t").streamReader(StructType([StructField("offsets", LongType())])).initialOffset()


def test_only_a_reader_that_was_told_so_pushes_filters() -> None:
    """Spark fails on any other where push-down is off, as it is by default."""
    plain, pushing = (source(subscribe="t", filterPushdown=each).reader(KEYS) for each in ("false", "true"))
    assert type(plain).pushFilters is DataSourceReader.pushFilters
    assert type(pushing).pushFilters is not DataSourceReader.pushFilters


def test_wrong_options_are_refused_before_there_is_a_reader_or_writer() -> None:
    with pytest.raises(OptionError, match="subscribe"):
        source().reader(KEYS)
    with pytest.raises(OptionError, match="endingOffsets"):
        source(subscribe="t", endingOffsets="latest").streamReader(KEYS).initialOffset()
    with pytest.raises(OptionError, match="overwrite"):
        source(topic="t").writer(ROWS, overwrite=True)
    with pytest.raises(OptionError, match="sinkId"):
        source(topic="t", delivery="exactly-once").streamWriter(ROWS, overwrite=False)


def test_a_stream_is_refused_by_whatever_it_is_asked_first() -> None:
    """Spark stops the reader that it has made, and where there is none it fails for that alone."""
    refused = pickle.loads(pickle.dumps(source(subscribe="t", minPartitions="no").streamReader(KEYS)))
    asked = [
        refused.initialOffset,
        refused.getDefaultReadLimit,
        refused.prepareForTriggerAvailableNow,
        lambda: refused.latestOffset({}, ReadAllAvailable()),
        lambda: refused.partitions({}, {}),
        lambda: refused.read(batch_reader.InputPartition(None)),
    ]
    for each in asked:
        with pytest.raises(OptionError, match="option minPartitions is 'no'"):
            each()
    refused.stop()


@pytest.mark.parametrize(
    ("pushed", "start", "end"),
    [
        (Pushed(), 10, 20),
        (Pushed(first_offset=15), 15, 20),
        (Pushed(last_offset=11), 10, 12),
        (Pushed(first_offset=12, last_offset=12), 12, 13),
        (Pushed(first_offset=30), 30, 30),
        (Pushed(last_offset=5), 10, 10),
        (Pushed(partitions=frozenset({1})), 10, 10),
        (Pushed(topics=frozenset({"u"})), 10, 10),
    ],
)
def test_filters_narrow_a_range(pushed: Pushed, start: int, end: int) -> None:
    narrowed = narrow(OffsetRange(TopicPartition("t", 0), 10, 20), pushed)
    assert (narrowed.start, narrowed.end) == (start, end)


class FakeOrigin:
    def partitions(self, _: object) -> dict[TopicPartition, str | None]:
        return {TopicPartition("t", 0): "id", TopicPartition("t", 1): "id"}

    def bounds(self, partitions: object) -> dict[TopicPartition, Bounds]:
        return {TopicPartition("t", 0): Bounds(0, 100), TopicPartition("t", 1): Bounds(50, 80)}

    def at_times(self, times_ms: dict[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {each: None if each.partition else at_ms // 10 for each, at_ms in times_ms.items()}

    def behind_times(self, times_ms: dict[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return self.at_times(times_ms)

    def close(self) -> None:
        pass


def test_a_batch_reads_what_is_left_behind_its_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.spark.source.origin.open_origin", lambda _: FakeOrigin())
    options = SourceOptions(Topics(("t",)), brokers="localhost:9092", max_records_per_partition=10)
    reader = FilteringBatchReader(options, Columns())
    rest = reader.pushFilters([GreaterThanOrEqual(("offset",), 75), EqualTo(("key",), b"k")])
    assert list(rest) == [EqualTo(("key",), b"k")]
    planned = pickle.loads(pickle.dumps(reader)).partitions()
    assert all(isinstance(each, Piece) for each in planned)
    assert [repr(each) for each in planned] == ["t-0 [75, 83)", "t-0 [83, 91)", "t-0 [91, 100)", "t-1 [75, 80)"]


@pytest.mark.parametrize(("promised_ms", "end"), [(None, 100), (0, 30), (200, 50), (10_000, 100)])
def test_a_filter_on_time_ends_reading_only_where_an_order_is_promised(
    monkeypatch: pytest.MonkeyPatch, promised_ms: int | None, end: int
) -> None:
    monkeypatch.setattr("tailrace.spark.source.origin.open_origin", lambda _: FakeOrigin())
    options = SourceOptions(Topics(("t",)), brokers="localhost:9092", timestamp_disorder_ms=promised_ms)
    reader = FilteringBatchReader(options, Columns())
    reader.pushFilters([LessThan(("timestamp",), datetime.fromtimestamp(0.3, UTC))])
    assert [repr(each) for each in reader.partitions()] == [f"t-0 [0, {end})", "t-1 [50, 80)"]


def test_the_partition_that_spark_makes_up_for_an_empty_plan_has_no_rows() -> None:
    options = SourceOptions(Topics(("t",)), brokers="localhost:1")
    assert list(batch_reader.BatchReader(options, Columns()).read(batch_reader.InputPartition(None))) == []


def test_a_time_before_1970_is_not_taken_for_one_of_the_points_that_brokers_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    class Asked(FakeOrigin):
        def at_times(self, times_ms: dict[TopicPartition, int]) -> dict[TopicPartition, int | None]:
            asked.extend(times_ms.values())
            return super().at_times(times_ms)

    monkeypatch.setattr("tailrace.spark.source.origin.open_origin", lambda _: Asked())
    options = SourceOptions(Topics(("t",)), brokers="localhost:9092", timestamp_disorder_ms=0)
    for last in (LessThan(("timestamp",), datetime.fromtimestamp(-0.003, UTC)), In(("timestamp",), ())):
        reader = FilteringBatchReader(options, Columns())
        reader.pushFilters([last])
        reader.partitions()
    assert asked == [0, 0, 0, 0]
