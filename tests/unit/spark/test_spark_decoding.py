"""Decoding: whatever batches a partition has, their rows are those that the reader of records reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.records.column_runs import batch, resealed
from tailrace.client.fetcher import AbortedTransaction
from tailrace.model.errors import CorruptMessageError
from tailrace.model.ids import TopicPartition
from tailrace.record.batch import LOG_APPEND_TIME
from tailrace.record.control import ABORT, COMMIT, end_txn_marker
from tailrace.record.legacy import compressed_wrapper, plain_message
from tailrace.record.reader import application_records
from tailrace.record.shallow import batches
from tailrace.spark.source import arrow_columns
from tailrace.spark.source.columns import ALL, HEADERS, Columns
from tailrace.spark.source.decoding import Decoder
from tailrace.spark.source.ranges import OffsetRange, TimeRange

PARTITION = TopicPartition("orders", 3)
EVERYTHING = (*ALL, HEADERS)
SOME = (1000, b"key", b"value", [("a", b"1"), ("b", None)])
PLAIN = (1001, None, b"")
TOMBSTONE = (1002, b"", None)


def decoder(start: int = 0, end: int = 1000, columns: Sequence[str] = EVERYTHING, **options: Any) -> Decoder:
    return Decoder(Columns(tuple(columns)), OffsetRange(PARTITION, start, end), **options)


def decoded(
    given: Decoder, *buffers: bytes | bytearray, aborted: Sequence[AbortedTransaction] = ()
) -> list[dict[str, Any]]:
    made = [rows for buffer in buffers for rows in given.decode(buffer, aborted)]
    made += given.rest()
    assert not list(given.rest())
    for each in made:
        each.validate(full=True)
    return [row for each in made for row in each.cast(_comparable(each.schema)).to_pylist()]


def _comparable(schema: pa.Schema) -> pa.Schema:
    """Timestamps as numbers: there are some that Python's own cannot be."""
    if "timestamp" not in schema.names:
        return schema
    return schema.set(schema.get_field_index("timestamp"), pa.field("timestamp", pa.int64()))


def expected(data: bytes | bytearray, wants: Callable[[Any], bool] = lambda record: True) -> list[dict[str, Any]]:
    return [
        {
            "key": each.key,
            "value": each.value,
            "topic": PARTITION.topic,
            "partition": PARTITION.partition,
            "offset": each.offset,
            "timestamp": each.timestamp * 1000,
            "timestampType": each.timestamp_type,
            "headers": [{"key": key, "value": value} for key, value in each.headers] or None,
        }
        for each in application_records(data)
        if wants(each)
    ]


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    return [row["offset"] for row in rows]


def test_rows_have_all_columns() -> None:
    data = batch(0, SOME, PLAIN, TOMBSTONE)
    rows = decoded(decoder(), data)
    assert rows == expected(data)
    assert rows[0] == {
        "key": b"key",
        "value": b"value",
        "topic": "orders",
        "partition": 3,
        "offset": 0,
        "timestamp": 1_000_000,
        "timestampType": 0,
        "headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
    }
    assert rows[1]["key"] is None
    assert rows[2]["headers"] is None


def test_only_chosen_columns_are_made_in_their_order() -> None:
    data = batch(0, SOME, PLAIN)
    for names in (("offset",), ("value", "topic"), ("timestampType", "key", "headers"), ("topic",)):
        whole = [{name: row[name] for name in names} for row in expected(data)]
        assert decoded(decoder(columns=names), data) == whole


def test_record_batches_are_cut_by_rows() -> None:
    given = decoder(rows_per_batch=4, end=100)
    data = b"".join(batch(3 * n, SOME, PLAIN, SOME) for n in range(6))
    made = list(given.decode(data))
    assert [each.num_rows for each in made] == [4, 4, 4, 4]
    assert [each.num_rows for each in given.rest()] == [2]
    assert all(each.schema == Columns(EVERYTHING).arrow_schema() for each in made)


def test_record_batches_are_cut_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_columns, "MOST_BYTES", 10_000)
    large = (1000, b"", b"v" * 4000)
    alone = (1000, b"", b"v" * 25_000)
    data = batch(0, large, large, large, alone, alone, large)
    given = decoder(end=6)
    made = [*given.decode(data), *given.rest()]
    assert [each.num_rows for each in made] == [2, 1, 1, 1, 1]
    headers = (1000, b"", b"", [("k" * 300, b"v" * 300)] * 5)
    given = decoder(end=20)
    made = [*given.decode(batch(0, *[headers] * 20)), *given.rest()]
    assert sum(each.num_rows for each in made) == 20
    assert 2 <= max(each.num_rows for each in made) <= 6


def test_bitmaps_only_where_there_are_nulls() -> None:
    (made,) = [*(given := decoder(end=2)).decode(batch(0, SOME, SOME)), *given.rest()]
    for name in ("key", "value", "headers", "offset", "timestamp"):
        assert made.column(name).buffers()[0] is None
    (made,) = [*(given := decoder(end=2)).decode(batch(0, PLAIN, SOME)), *given.rest()]
    assert made.column("key").null_count == 1
    assert made.column("headers").null_count == 1
    assert made.column("value").null_count == 0


def test_rows_of_several_buffers_come_together() -> None:
    given = decoder()
    first, second = batch(0, SOME, SOME), batch(2, PLAIN)
    assert not list(given.decode(first + second[:-1]))
    assert given.taken_bytes == len(first)
    assert given.next_offset == 2
    assert offsets(decoded(given, second)) == [0, 1, 2]
    assert given.taken_bytes == len(second)


def test_a_piece_is_all_that_is_given() -> None:
    data = b"".join(batch(3 * n, SOME, PLAIN, SOME) for n in range(6))
    given = decoder(4, 11)
    assert offsets(decoded(given, data)) == list(range(4, 11))
    assert given.next_offset == 12
    assert given.taken_bytes == len(data) * 4 // 6
    assert not given.gaps
    assert not decoded(given, data)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_times_narrow_it_and_old_batches_are_not_opened(codec: int) -> None:
    data = b"".join(
        batch(2 * n, (10 * n, b"k", b"v" * 50), (10 * n + 5, b"k", b"v" * 50), codec=codec) for n in range(5)
    )
    rows = decoded(decoder(times=TimeRange(15, 30)), data)
    assert rows == expected(data, lambda record: 15 <= record.timestamp <= 30)
    assert len(rows) == 4


def test_gaps_are_told() -> None:
    compressed = batch(12, SOME, codec=4)
    given = decoder(1, 50)
    decoded(given, batch(3, SOME) + batch(8, SOME, SOME) + compressed + batch(70, SOME))
    assert given.gaps == [(1, 3), (4, 8), (10, 12), (13, 50)]
    assert given.next_offset >= 50


def test_a_reader_that_knows_of_a_gap_moves_over_it() -> None:
    given = decoder()
    given.next_offset = 7
    assert offsets(decoded(given, batch(5, SOME, SOME, SOME))) == [7]
    assert not given.gaps


# Transactions


def written_by(producer_id: int, base: int, *records: tuple[Any, ...], codec: int = 0) -> bytearray:
    return batch(
        base,
        *records,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def marker(producer_id: int, base: int, kind: int) -> bytearray:
    return end_txn_marker(
        kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=1, base_offset=base
    )


TRANSACTIONS = [
    written_by(7, 0, SOME),
    written_by(8, 1, SOME),
    batch(2, SOME),
    written_by(7, 3, SOME, codec=4),
    marker(7, 4, ABORT),
    written_by(7, 5, SOME),
    marker(8, 6, COMMIT),
    written_by(7, 7, SOME),
    marker(7, 8, COMMIT),
    written_by(8, 9, SOME),
    marker(8, 10, ABORT),
    batch(11, SOME),
]
ABORTED = [AbortedTransaction(7, 0), AbortedTransaction(8, 9)]


def test_control_batches_give_no_rows() -> None:
    rows = decoded(decoder(), b"".join(TRANSACTIONS))
    assert offsets(rows) == [0, 1, 2, 3, 5, 7, 9, 11]


@pytest.mark.parametrize("size", [1, 2, 5, 12])
def test_aborted_transactions_give_no_rows(size: int) -> None:
    given = decoder()
    buffers = [b"".join(TRANSACTIONS[at : at + size]) for at in range(0, len(TRANSACTIONS), size)]
    # What was told once may be told again, when it is long over.
    assert offsets(decoded(given, *buffers, aborted=ABORTED)) == [1, 2, 5, 7, 11]
    assert not given.gaps
    assert given.next_offset == 12


def test_a_piece_may_begin_in_an_aborted_transaction() -> None:
    data = b"".join(TRANSACTIONS[3:])
    assert offsets(decoded(decoder(3), data, aborted=ABORTED)) == [5, 7, 11]


# Older formats


def test_old_messages() -> None:
    data = b"".join(
        (
            plain_message(0, 5, b"a", b"b", magic=0),
            plain_message(1, 5, None, b"b", magic=1),
            compressed_wrapper([(2, 7, b"c", None), (4, 3, None, b"")], magic=1, codec=1),
            compressed_wrapper([(5, 7, b"c", None), (6, 3, None, b"")], magic=0, codec=2),
            compressed_wrapper(
                [(7, 7, b"c", None), (8, 3, None, b"")],
                magic=1,
                codec=3,
                timestamp_type=LOG_APPEND_TIME,
                log_append_time_ms=99,
            ),
            batch(9, SOME),
        )
    )
    given = decoder()
    rows = decoded(given, data)
    assert rows == expected(data)
    assert [row["timestampType"] for row in rows] == [-1, 0, 0, 0, -1, -1, 1, 1, 0]
    assert [row["timestamp"] for row in rows[:2]] == [-1000, 5000]
    assert not given.gaps
    assert offsets(decoded(decoder(2, 6), data)) == [2, 4, 5]


def test_the_smallest_old_message_is_whole() -> None:
    data = plain_message(0, 5, None, None, magic=0)
    given = decoder()
    assert len(decoded(given, data)) == 1
    assert given.taken_bytes == len(data) < 61
    given = decoder()
    assert not decoded(given, data[:-1])
    assert given.taken_bytes == 0


def test_old_messages_out_of_order_are_damage() -> None:
    wrong = compressed_wrapper([(0, 5, b"", b""), (3, 5, b"", b"")], magic=0, codec=1, base_offset=0)
    data = plain_message(2, 1, b"", b"", magic=0) + wrong
    assert offsets(decoded(decoder(), data)) == [2, 3]


# Damage


def damaged(base: int, *records: tuple[Any, ...], **fields: Any) -> bytearray:
    data = batch(base, *records, **fields)
    data[-1] ^= 0xFF
    return data


class Told:
    def __init__(self) -> None:
        self.of: list[tuple[int, int]] = []

    def __call__(self, start: int, end: int, why: str) -> None:
        assert why
        self.of.append((start, end))


@pytest.mark.parametrize("codec", [0, 4])
def test_damage_is_an_error_that_names_it(codec: int) -> None:
    data = batch(0, SOME) + damaged(1, SOME, SOME, codec=codec) + batch(3, SOME)
    with pytest.raises(CorruptMessageError, match=r"orders-3: offsets 1 to 2 cannot be read: .*CRC"):
        decoded(decoder(), data)


@pytest.mark.parametrize("codec", [0, 4])
@pytest.mark.parametrize("with_follower", [True, False])
def test_damage_is_skipped_and_told_when_asked(codec: int, with_follower: bool) -> None:
    told = Told()
    given = decoder(skips_corrupt=True, on_corrupt=told)
    buffers = [batch(0, SOME), damaged(1, SOME, SOME, codec=codec), batch(3, SOME)]
    rows = decoded(given, b"".join(buffers)) if with_follower else decoded(given, *buffers)
    assert offsets(rows) == [0, 3]
    assert told.of == [(1, 3)]
    assert not given.gaps


def test_damage_outside_the_piece_is_nobodys_matter() -> None:
    data = damaged(0, SOME, SOME) + batch(2, SOME) + damaged(3, SOME)
    assert offsets(decoded(decoder(2, 3), data)) == [2]


def test_a_damaged_last_offset_is_not_believed() -> None:
    told = Told()
    wrong = damaged(1, SOME, SOME)
    wrong[23] = 0x7F
    given = decoder(skips_corrupt=True, on_corrupt=told)
    assert offsets(decoded(given, batch(0, SOME), wrong, batch(3, SOME))) == [0, 3]
    assert (told.of, given.gaps) == ([(1, 2)], [(2, 3)])


def test_damaged_records_under_a_right_crc() -> None:
    wrong = batch(1, SOME, PLAIN)
    wrong[-3] ^= 0x55
    data = batch(0, SOME) + resealed(wrong) + batch(3, SOME)
    with pytest.raises(CorruptMessageError, match="orders-3: offsets 2 to 2 cannot be read"):
        decoded(decoder(), data)
    told = Told()
    assert offsets(decoded(decoder(skips_corrupt=True, on_corrupt=told), data)) == [0, 1, 3]
    assert told.of == [(2, 3)]


@pytest.mark.parametrize("place", [8, 16])
def test_a_batch_without_an_end(place: int) -> None:
    wrong = batch(1, SOME, SOME)
    wrong[place] = 0x83
    data = batch(0, SOME) + wrong + batch(3, SOME)
    with pytest.raises(CorruptMessageError, match="orders-3: nothing can be read from offset 1 on"):
        decoded(decoder(), data)
    told = Told()
    assert offsets(decoded(decoder(skips_corrupt=True, on_corrupt=told), data)) == [0, 3]
    assert told.of == [(1, 3)]
    with pytest.raises(CorruptMessageError):
        decoded(decoder(skips_corrupt=True), batch(0, SOME) + wrong)


def test_a_damaged_old_message_is_told() -> None:
    wrong = bytearray(compressed_wrapper([(1, 7, b"c", None), (4, 3, None, b"")], magic=1, codec=1))
    wrong[-1] ^= 1
    told = Told()
    given = decoder(skips_corrupt=True, on_corrupt=told)
    assert offsets(decoded(given, plain_message(0, 5, None, None, magic=1) + wrong + batch(5, SOME))) == [0, 5]
    assert told.of == [(1, 5)]


def test_a_header_key_that_is_no_text() -> None:
    rows = decoded(decoder(), batch(0, (1, b"", b"", [("a\udcff", b"1"), ("ñ", b"2")])))
    assert rows[0]["headers"] == [{"key": "a\ufffd", "value": b"1"}, {"key": "ñ", "value": b"2"}]


# Anything

part = st.one_of(st.none(), st.sampled_from([b"", b"a", b"bb", b"c" * 200]))
headers = st.lists(st.tuples(st.sampled_from(["", "name", "ñ" * 40]), part), max_size=3)
records = st.lists(st.tuples(st.integers(0, 5000), part, part, headers), min_size=1, max_size=6)
pieces = st.tuples(st.sampled_from([0, 0, 1, 7]), records, st.sampled_from([0, 0, 1, 2, 3, 4]), st.integers(0, 3))


def log_of(drawn: list[tuple[Any, ...]]) -> bytearray:
    data, base = bytearray(), 0
    for gap, some, codec, kind in drawn:
        base += gap
        if kind == 2 and codec < 4:
            plain = [(base + n, time, key, value) for n, (time, key, value, _) in enumerate(some)]
            if codec:
                data += compressed_wrapper(plain, magic=1, codec=codec)
            else:
                data += b"".join(plain_message(*each, magic=1) for each in plain)
        elif kind == 3:
            data += marker(7, base, COMMIT)
            base += 1
            continue
        else:
            data += batch(base, *some, codec=codec, timestamp_type=kind % 2, log_append_time_ms=77)
        base += len(some)
    return data


@settings(max_examples=examples(150))
@given(
    st.lists(pieces, max_size=7),
    st.integers(1, 9),
    st.integers(0, 20),
    st.integers(1, 40),
    st.integers(100, 1500),
)
def test_rows_are_those_of_the_reader(
    drawn: list[tuple[Any, ...]], rows_per_batch: int, start: int, size: int, buffer_bytes: int
) -> None:
    data = bytes(log_of(drawn))
    given = decoder(start, start + size, rows_per_batch=rows_per_batch)
    rows: list[pa.RecordBatch] = []
    position, wanted = 0, buffer_bytes
    while position < len(data) and given.next_offset < start + size:
        rows += given.decode(data[position : position + wanted])
        position += given.taken_bytes
        wanted = buffer_bytes if given.taken_bytes else 2 * wanted
    rows += given.rest()
    assert all(each.num_rows <= rows_per_batch for each in rows)
    found = [row for each in rows for row in each.cast(_comparable(each.schema)).to_pylist()]
    assert found == expected(data, lambda record: start <= record.offset < start + size)
    seen = {offset for one in batches(data) for offset in range(max(one.base_offset, 0), one.next_offset)}
    missing = {offset for low, high in given.gaps for offset in range(low, high)}
    assert not missing & seen or any(one.base_offset < 0 for one in batches(data))


@settings(max_examples=examples(200))
@given(
    st.lists(pieces, max_size=4),
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=4),
    st.booleans(),
    st.booleans(),
)
def test_damaged_bytes_end_in_rows_or_in_our_error(
    drawn: list[tuple[Any, ...]], damage: list[tuple[int, int]], is_sealed: bool, skips: bool
) -> None:
    data = log_of(drawn)
    for place, byte in damage:
        if data:
            data[place % len(data)] = byte
    if is_sealed:
        resealed(data)
    told = Told()
    given = decoder(skips_corrupt=skips, on_corrupt=told)
    try:
        rows = offsets(decoded(given, data))
    except CorruptMessageError:
        return
    assert rows == sorted(set(rows))
    assert 0 <= given.taken_bytes <= len(data)
    assert all(start < end for start, end in told.of)
