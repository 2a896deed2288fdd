"""Rows of Arrow batches into record batches: what goes in comes out, wherever batches are cut."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from tailrace.client.partitioner import partition_of_key  # noqa: E402
from tailrace.model.ids import TopicPartition  # noqa: E402
from tailrace.record.batch import HEADER_BYTES, BatchHeader, set_crc  # noqa: E402
from tailrace.record.builder import batch_of as batch_of_records  # noqa: E402
from tailrace.record.compression import CODEC_NAMES  # noqa: E402
from tailrace.record.reader import application_records  # noqa: E402
from tailrace.spark.errors import PipelineError  # noqa: E402
from tailrace.spark.options.sink import SinkOptions  # noqa: E402
from tailrace.spark.sink import rows as sink_rows  # noqa: E402
from tailrace.spark.sink.rows import EncodedBatch, RowEncoder  # noqa: E402

NOW_MS = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("partition", pa.int32()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("more", pa.float64()),
    ]
)
PARTITIONS = {"a": 3, "b": 7}


class Found(NamedTuple):
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]


def encoder(
    schema: Any = SCHEMA,
    *,
    topic: str | None = None,
    codec: str = "none",
    batch_bytes: int = 1 << 16,
    partitions_of: Callable[[str], int] = PARTITIONS.__getitem__,
    choose: Callable[[Sequence[int]], int] = min,
) -> RowEncoder:
    options = SinkOptions(brokers="nowhere:1", topic=topic, codec=codec, batch_bytes=batch_bytes)
    return RowEncoder(schema, options, partitions_of, choose=choose, now_ms=lambda: NOW_MS)


def encoded(encoder: RowEncoder, batches: Iterable[Any]) -> list[EncodedBatch]:
    return [*(each for batch in batches for each in encoder.encode(batch)), *encoder.rest()]


def found_in(batches: Iterable[EncodedBatch]) -> dict[TopicPartition, list[Found]]:
    found: dict[TopicPartition, list[Found]] = {}
    for partition, data, count in batches:
        header = BatchHeader.at(data)
        assert (header.size, header.record_count, header.last_offset_delta) == (len(data), count, count - 1)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
        set_crc(data)
        records = list(application_records(data))
        assert header.base_timestamp == records[0].timestamp
        assert header.max_timestamp == max(record.timestamp for record in records)
        if not header.codec:
            assert data == batch_of_records((each.timestamp, each.key, each.value, each.headers) for each in records)
        found.setdefault(partition, []).extend(
            Found(
                None if each.key is None else bytes(each.key),
                None if each.value is None else bytes(each.value),
                each.timestamp,
                tuple((key, None if value is None else bytes(value)) for key, value in each.headers),
            )
            for each in records
        )
    return found


def batch_of(rows: Iterable[dict[str, Any]], schema: Any = SCHEMA) -> Any:
    return pa.RecordBatch.from_pylist(list(rows), schema)


def expected_of(rows: Iterable[dict[str, Any]], topic: str | None = None) -> dict[TopicPartition, list[Found]]:
    """Rows without a key or a partition are with partition 0: see `choose`."""
    expected: dict[TopicPartition, list[Found]] = {}
    for row in rows:
        name, key, number, time = topic or row["topic"], row["key"], row["partition"], row["timestamp"]
        if number is None:
            number = 0 if key is None else partition_of_key(key, PARTITIONS[name])
        headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
        expected.setdefault(TopicPartition(name, number), []).append(
            Found(key, row["value"], NOW_MS if time is None else int(time.timestamp() * 1_000_000) // 1000, headers)
        )
    return expected


contents = st.none() | st.binary(max_size=300)
pairs = st.fixed_dictionaries({"key": st.sampled_from(["", "h", "näme"]), "value": st.none() | st.binary(max_size=5)})
some_rows = st.lists(
    st.fixed_dictionaries(
        {
            "topic": st.sampled_from(["a", "b"]),
            "key": contents,
            "value": contents,
            "headers": st.none() | st.lists(pairs, max_size=4),
            "partition": st.none() | st.integers(0, 2),
            "timestamp": st.none()
            | st.integers(0, 4_000_000_000_000).map(lambda ms: datetime.fromtimestamp(ms // 1000, UTC)),
            "more": st.none() | st.just(0.5),
        }
    ),
    max_size=25,
)


@given(batches=st.lists(some_rows, max_size=4), cut=st.integers(0, 9), codec=st.sampled_from(CODEC_NAMES))
def test_all_rows_arrive_in_order(batches: list[list[dict[str, Any]]], cut: int, codec: str) -> None:
    """Also from slices of batches, whose columns begin in the middle of their memory."""
    slices = [batch_of(rows).slice(cut) for rows in batches]
    rows = [row for each in batches for row in each[cut:]]
    assert found_in(encoded(encoder(codec=codec), slices)) == expected_of(rows)


@given(rows=some_rows, batch_bytes=st.sampled_from([0, 100, 250, 400]))
def test_rows_larger_than_a_batch_get_one_of_their_own(rows: list[dict[str, Any]], batch_bytes: int) -> None:
    rows = [row | {"key": row["key"] or b"key"} for row in rows]  # they would move on
    out = encoded(encoder(batch_bytes=batch_bytes), [batch_of(rows)])
    assert found_in(out) == expected_of(rows)
    assert all(each.record_count == 1 or len(each.data) <= batch_bytes for each in out)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_strings_and_binaries_of_both_sizes(kind: Any) -> None:
    texts = ["", "a", None, "ä" * 100]
    schema = pa.schema([("value", kind), ("key", kind)])
    rows = pa.record_batch([pa.array(texts).cast(kind)] * 2, schema)
    (found,) = found_in(encoded(encoder(schema, topic="a", partitions_of=lambda _: 1), [rows])).values()
    wanted = [None if text is None else text.encode() for text in texts]
    assert [row.value for row in found] == [row.key for row in found] == wanted


def test_the_option_goes_before_the_column() -> None:
    rows = batch_of([{"topic": "a", "value": b"1"}, {"topic": None, "value": b"2"}])
    found = found_in(encoded(encoder(topic="b"), [rows]))
    assert {partition.topic for partition in found} == {"b"}


def test_no_rows_ask_nobody() -> None:
    assert encoded(encoder(partitions_of=lambda _: pytest.fail("was asked")), [batch_of([])]) == []


def test_batches_go_out_when_they_are_full_and_others_wait() -> None:
    rows = batch_of({"topic": "a", "key": b"key", "value": bytes(1000)} for _ in range(100))
    subject = encoder(batch_bytes=16_384)
    full = list(subject.encode(rows))
    assert all(15_000 < len(each.data) <= 16_384 for each in full)
    assert sum(each.record_count for each in full) + sum(each.record_count for each in subject.rest()) == 100
    assert list(subject.rest()) == []
    assert sum(each.record_count for each in encoded(subject, [rows])) == 100


def test_rows_without_a_key_stay_until_a_batch_is_full() -> None:
    asked: list[list[int]] = []

    def choose(numbers: Sequence[int]) -> int:
        asked.append(list(numbers))
        return numbers[-1]

    rows = batch_of({"topic": "a", "value": bytes(1000)} for _ in range(40))
    out = encoded(encoder(batch_bytes=16_384, choose=choose), [rows])
    assert [each.partition.partition for each in out] == [2, 1, 2]
    assert asked == [[0, 1, 2], [0, 1], [0, 2]]


def test_large_rows_without_a_key_move_on_each() -> None:
    rows = batch_of({"topic": "a", "value": bytes(1000)} for _ in range(4))
    out = encoded(encoder(batch_bytes=500, choose=max), [rows])
    assert [each.partition.partition for each in out] == [2, 1, 2, 1]


def test_a_key_that_is_empty_is_a_key() -> None:
    rows = batch_of([{"topic": "b", "key": b"", "value": b""}])
    assert list(found_in(encoded(encoder(), [rows]))) == [TopicPartition("b", partition_of_key(b"", 7))]


def test_seconds_in_doubles_are_times() -> None:
    schema = pa.schema([("value", pa.string()), ("timestamp", pa.float64())])
    rows = batch_of([{"value": "a", "timestamp": 1_700_000_000.123}, {"value": "b", "timestamp": None}], schema)
    (found,) = found_in(encoded(encoder(schema, topic="a"), [rows])).values()
    assert [row.timestamp_ms for row in found] == [1_700_000_000_123, NOW_MS]


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 1e300])
def test_numbers_that_are_no_time(seconds: float) -> None:
    schema = pa.schema([("value", pa.string()), ("timestamp", pa.float64())])
    rows = batch_of([{"value": "a", "timestamp": seconds}], schema)
    with pytest.raises(PipelineError, match="timestamp attribute holds numbers that are no time in seconds"):
        encoded(encoder(schema, topic="a"), [rows])


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"topic": None}, "null topic present in the data. Use the topic option for setting a default topic."),
        ({"partition": 3}, "a row names partition 3 of topic a, which has partitions 0 to 2"),
        ({"partition": -1}, "a row names partition -1 of topic a, which has partitions 0 to 2"),
        ({"timestamp": datetime(1969, 12, 31, tzinfo=UTC)}, "a row for topic a has the timestamp 1969-12-31"),
        ({"headers": [{"key": None, "value": b""}]}, "a row for topic a has a header without a key"),
        ({"headers": [None]}, "a row for topic a has a header without a key"),
    ],
)
def test_rows_that_are_refused(row: dict[str, Any], text: str) -> None:
    rows = batch_of([{"topic": "b", "value": b""}, {"topic": "a", "value": b""} | row])
    with pytest.raises(PipelineError) as told:
        encoded(encoder(), [rows])
    assert text in str(told.value)


def test_many_partitions_have_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_rows, "OPEN_BYTES", 1 << 16)
    rows = [{"topic": "many", "key": b"%d" % each, "value": bytes(100)} for each in range(3000)]
    out = encoded(encoder(partitions_of=lambda _: 12), [batch_of(rows)])
    assert sum(each.record_count for each in out) == 3000
    assert 5000 < max(len(each.data) for each in out) <= (1 << 16) // 12


def test_a_topic_that_comes_later_makes_open_batches_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_rows, "OPEN_BYTES", 1 << 15)
    subject = encoder(partitions_of={"one": 1, "more": 7}.__getitem__)
    first = list(subject.encode(batch_of({"topic": "one", "value": bytes(1000)} for _ in range(20))))
    assert first == []
    second = list(subject.encode(batch_of([{"topic": "more", "key": b"k", "value": b""}])))
    assert [(each.partition.topic, each.record_count) for each in second] == [("one", 20)]
    assert [(each.partition.topic, each.record_count) for each in subject.rest()] == [("more", 1)]


def test_open_batches_take_no_more_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more partitions than there are smallest batches, all go out together."""
    monkeypatch.setattr(sink_rows, "OPEN_BYTES", 8 * sink_rows.SMALLEST_SLOT_BYTES)
    monkeypatch.setattr(sink_rows, "MOST_SLOTS", 8)
    rows = [{"topic": "many", "partition": each % 100, "value": b"%d" % each} for each in range(1000)]
    subject = encoder(partitions_of=lambda _: 100)
    found = found_in(encoded(subject, [batch_of(rows)]))
    assert {each.partition: [row.value for row in rows] for each, rows in found.items()} == {
        number: [b"%d" % each for each in range(number, 1000, 100)] for number in range(100)
    }
    assert len(subject._room) == 8 * sink_rows.SMALLEST_SLOT_BYTES


def test_a_batch_is_never_smaller_than_its_header() -> None:
    rows = batch_of([{"topic": "a", "value": b""}])
    (out,) = encoded(encoder(batch_bytes=1), [rows])
    assert len(out.data) > HEADER_BYTES


@pytest.mark.parametrize("codec", CODEC_NAMES)
@pytest.mark.parametrize("value_bytes", [100, 1983, 4970, 19_925])
def test_what_grows_when_compressed_is_not_larger_than_the_topic_takes(codec: str, value_bytes: int) -> None:
    dice, limit = random.Random(value_bytes), 20_000
    values = [dice.randbytes(value_bytes) for _ in range(40)]
    batch = pa.RecordBatch.from_pydict({"value": values})
    options = SinkOptions(brokers="nowhere:1", topic="t", codec=codec)
    for slots in (1, 4096):  # batches, and rows that are too large for one
        rows = RowEncoder(batch.schema, options, lambda _, lanes=slots: lanes, limit_of=lambda _: limit, choose=min)
        batches = encoded(rows, [batch])
        assert max(len(each.data) for each in batches) <= limit
        assert sorted(row.value or b"" for each in found_in(batches).values() for row in each) == sorted(values)
