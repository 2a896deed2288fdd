"""The kernel that fills batches from columns, in both forms, against the builder that takes one record at a time."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.records.kernel_forms import both_forms, form_of
from tailrace.client.partitioner import murmur2, partition_of_key
from tailrace.record import kernels
from tailrace.record.batch import HEADER_BYTES
from tailrace.record.builder import BatchBuilder

NOW_MS = 1_700_000_000_000
NO_BYTES = memoryview(b"")
NO_LONGS = NO_BYTES.cast("q")
NO_INTS = NO_BYTES.cast("i")


class Row(NamedTuple):
    key: bytes | None = None
    value: bytes | None = b""
    headers: Sequence[tuple[bytes, bytes | None]] | None = None
    time_us: int | None = None
    partition: int | None = None
    topic: int = 0


def bitmap(valid: Iterable[bool], first_bit: int) -> bytes:
    bits = sum(1 << at for at, each in enumerate([False] * first_bit + list(valid)) if each)
    return bits.to_bytes(bits.bit_length() // 8 + 8, "little")


def bytes_column(values: Sequence[bytes | None], first_bit: int = 0) -> tuple[Any, Any, Any, int]:
    offsets = array("q", [3])
    for value in values:
        offsets.append(offsets[-1] + len(value or b""))
    data = b"..." + b"".join(value or b"" for value in values)
    return offsets, data, bitmap([value is not None for value in values], first_bit), first_bit


def number_column(kind: str, values: Sequence[int | None], first_bit: int = 0) -> tuple[Any, Any, int]:
    return (
        array(kind, [value or 0 for value in values]),
        bitmap([value is not None for value in values], first_bit),
        first_bit,
    )


def attach(run: Any, rows: Sequence[Row], first_bit: int = 0) -> None:
    run.attach(
        len(rows),
        NOW_MS,
        array("i", [row.topic for row in rows]),
        bytes_column([row.key for row in rows], first_bit),
        bytes_column([row.value for row in rows], first_bit),
        number_column("i", [row.partition for row in rows], first_bit),
        number_column("q", [row.time_us for row in rows], first_bit),
    )
    pairs = [pair for row in rows for pair in row.headers or ()]
    ends = array("q", [0])
    for row in rows:
        ends.append(ends[-1] + len(row.headers or ()))
    run.attach_headers(
        (ends, bitmap([row.headers is not None for row in rows], first_bit), first_bit),
        (NO_BYTES, 0),
        bytes_column([name for name, _ in pairs], first_bit),
        bytes_column([content for _, content in pairs], first_bit),
    )


class Slots:
    """One for every lane, all of the same size."""

    def __init__(self, kernel: Any, partitions: Sequence[int], slot_bytes: int, sticky: int = 0) -> None:
        lanes = sum(partitions)
        self.slot_bytes = slot_bytes
        self.room = bytearray(lanes * slot_bytes)
        self.numbers = array("q", (HEADER_BYTES, 0, 0, 0)) * lanes
        self.lanes = array("q", range(lanes))
        self.topics = array("q")
        for at, count in enumerate(partitions):
            self.topics.extend((sum(partitions[:at]), count, sticky % count))
        self.run = kernel.RowRun()
        self.run.lay_out(self.room, slot_bytes, self.numbers, self.lanes, self.topics)

    def taken(self, lane: int) -> tuple[bytes, int, int, int]:
        used, count, base, greatest = self.numbers[4 * lane : 4 * lane + 4]
        self.numbers[4 * lane : 4 * lane + 4] = array("q", (HEADER_BYTES, 0, 0, 0))
        begin = lane * self.slot_bytes
        return bytes(self.room[begin + HEADER_BYTES : begin + used]), count, base, greatest


def built(rows: Sequence[Row]) -> tuple[bytes, int, int, int]:
    """The same by the builder."""
    builder = BatchBuilder()
    times = [NOW_MS if row.time_us is None else row.time_us // 1000 for row in rows]
    for row, time_ms in zip(rows, times, strict=True):
        builder.append(time_ms, row.key, row.value, [(key.decode(), content) for key, content in row.headers or ()])
    return bytes(builder.build()[HEADER_BYTES:]), len(rows), times[0], max(times)


contents = st.none() | st.binary(max_size=200)
header_lists = st.none() | st.lists(
    st.tuples(st.text(max_size=5).map(str.encode), st.none() | st.binary(max_size=9)), max_size=4
)
many_rows = st.lists(
    st.builds(
        Row,
        key=contents,
        value=contents,
        headers=header_lists,
        time_us=st.none() | st.integers(0, (1 << 63) - 1),
        partition=st.none() | st.integers(0, 2),
        topic=st.integers(0, 1),
    ),
    max_size=40,
)


@both_forms
@given(rows=many_rows, slot_bytes=st.integers(1200, 9000), first_bit=st.integers(0, 17))
def test_batches_are_those_of_the_builder(name: str, rows: list[Row], slot_bytes: int, first_bit: int) -> None:
    slots = Slots(form_of(name).rows, [3, 5], slot_bytes, sticky=2)
    attach(slots.run, rows, first_bit)
    expected: dict[int, list[Row]] = {}
    for row in rows:
        count = (3, 5)[row.topic]
        partition = 2 if row.key is None else partition_of_key(row.key, count)
        expected.setdefault(3 * row.topic + (partition if row.partition is None else row.partition), []).append(row)
    found: dict[int, list[tuple[bytes, int, int, int]]] = {lane: [] for lane in expected}
    while slots.run.go() == kernels.SLOT_FULL:
        found[slots.run.lane].append(slots.taken(slots.run.lane))
        assert found[slots.run.lane][-1][1], "a row fits an empty batch"
    assert slots.run.row == len(rows)
    for lane, of_lane in expected.items():
        for batch in [*found[lane], slots.taken(lane)]:
            head, of_lane = of_lane[: batch[1]], of_lane[batch[1] :]
            assert batch == built(head)
            assert len(batch[0]) + HEADER_BYTES <= slot_bytes
        assert not of_lane


@both_forms
@given(key=st.binary(max_size=70))
def test_keys_hash_as_in_the_client(name: str, key: bytes) -> None:
    assert form_of(name).rows.murmur2(key) == murmur2(key)


@both_forms
def test_batches_are_filled_to_the_last_byte(name: str) -> None:
    row = Row(key=b"k", value=b"v" * 50)
    size = len(built([row])[0])
    slots = Slots(form_of(name).rows, [1], HEADER_BYTES + 2 * size)
    attach(slots.run, [row] * 3)
    assert (slots.run.go(), slots.run.row, slots.run.lane) == (kernels.SLOT_FULL, 2, 0)
    assert slots.taken(0) == built([row] * 2)
    assert slots.run.go() == kernels.ROWS_TAKEN
    assert slots.taken(0) == built([row])


@both_forms
def test_a_row_that_no_batch_has_room_for_leaves_it_empty(name: str) -> None:
    slots = Slots(form_of(name).rows, [1], 200)
    attach(slots.run, [Row(value=bytes(200)), Row(value=b"small")])
    assert (slots.run.go(), slots.run.row, slots.taken(0)[1]) == (kernels.SLOT_FULL, 0, 0)
    slots.run.row += 1
    assert slots.run.go() == kernels.ROWS_TAKEN
    assert slots.taken(0) == built([Row(value=b"small")])


@both_forms
def test_lanes_get_their_slots_when_they_need_them(name: str) -> None:
    slots = Slots(form_of(name).rows, [2], 200)
    slots.lanes[0], slots.lanes[1] = -1, -1
    attach(slots.run, [Row(value=b"a", partition=1), Row(value=b"b", partition=0), Row(value=b"c", partition=1)])
    assert (slots.run.go(), slots.run.lane) == (kernels.NEEDS_SLOT, 1)
    slots.lanes[1] = 0
    assert (slots.run.go(), slots.run.lane) == (kernels.NEEDS_SLOT, 0)
    slots.lanes[0] = 1
    assert slots.run.go() == kernels.ROWS_TAKEN
    assert slots.taken(0) == built([Row(value=b"a"), Row(value=b"c")])
    assert slots.taken(1) == built([Row(value=b"b")])


@both_forms
@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (Row(topic=-1), kernels.NULL_TOPIC),
        (Row(partition=2), kernels.BAD_PARTITION),
        (Row(partition=-1), kernels.BAD_PARTITION),
        (Row(time_us=-1), kernels.BAD_TIMESTAMP),
    ],
)
def test_rows_that_cannot_be(name: str, row: Row, reason: int) -> None:
    slots = Slots(form_of(name).rows, [2], 200)
    attach(slots.run, [Row(), row])
    assert (slots.run.go(), slots.run.row) == (reason, 1)


@both_forms
@pytest.mark.parametrize("missing", ["pair", "name"])
def test_headers_without_a_key(name: str, missing: str) -> None:
    slots = Slots(form_of(name).rows, [1], 500)
    attach(slots.run, [Row(), Row()])
    nothing = bytes(8)
    slots.run.attach_headers(
        (array("q", [0, 1, 2]), NO_BYTES, 0),
        (nothing if missing == "pair" else NO_BYTES, 0),
        (array("q", [0, 1, 2]), b"ab", b"\x01" if missing == "name" else NO_BYTES, 0),
        (array("q", [0, 0, 0]), NO_BYTES, NO_BYTES, 0),
    )
    assert (slots.run.go(), slots.run.row) == (kernels.BAD_HEADER, 0 if missing == "pair" else 1)


@both_forms
@pytest.mark.parametrize("offsets", [[0, 5], [-1, 2], [3, 2], [0, 1 << 62]])
@pytest.mark.parametrize("column", ["key", "value", "name", "content", "list"])
def test_offsets_outside_their_buffer(name: str, offsets: list[int], column: str) -> None:
    def of(this: str) -> tuple[Any, Any, Any, int]:
        return array("q", offsets if this == column else [0, 1]), b"data", NO_BYTES, 0

    slots = Slots(form_of(name).rows, [1], 500)
    slots.run.attach(1, NOW_MS, NO_INTS, of("key"), of("value"), (NO_INTS, NO_BYTES, 0), (NO_LONGS, NO_BYTES, 0))
    lists, *_ = of("list")
    slots.run.attach_headers((lists, NO_BYTES, 0), (NO_BYTES, 0), of("name"), of("content"))
    assert (slots.run.go(), slots.run.row) == (kernels.BAD_OFFSETS, 0)


@both_forms
def test_columns_shorter_than_their_rows(name: str) -> None:
    run = form_of(name).rows.RowRun()
    longs, ints, none = array("q", [0, 0]), array("i", [0]), (NO_LONGS, NO_BYTES, NO_BYTES, 0)
    right = [
        NO_INTS,
        none,
        (array("q", [0] * 11), NO_BYTES, NO_BYTES, 0),
        (NO_INTS, NO_BYTES, 0),
        (NO_LONGS, NO_BYTES, 0),
    ]
    run.attach(10, NOW_MS, *right)
    wrong: list[tuple[int, object]] = [
        (0, ints),
        (1, (longs, NO_BYTES, NO_BYTES, 0)),
        (1, (array("q", [0] * 11), NO_BYTES, b"\xff", 0)),
        (1, (array("q", [0] * 11), NO_BYTES, b"\xff\xff", 7)),
        (2, none),
        (3, (ints, NO_BYTES, 0)),
        (3, (array("i", [0] * 10), b"\xff", 0)),
        (4, (longs, NO_BYTES, 0)),
        (4, (array("q", [0] * 10), b"\xff\xff", -1)),
    ]
    for at, column in wrong:
        with pytest.raises(IndexError):
            run.attach(10, NOW_MS, *right[:at], column, *right[at + 1 :])
        assert (run.go(), run.row) == (kernels.ROWS_TAKEN, 0), "there are no rows"
    run.attach(10, NOW_MS, *right)
    lists = (array("q", [0] * 11), NO_BYTES, 0)
    with pytest.raises(IndexError):
        run.attach_headers((longs, NO_BYTES, 0), (NO_BYTES, 0), none, none)
    with pytest.raises(IndexError):
        run.attach_headers(
            lists, (NO_BYTES, 0), (array("q", [0] * 3), NO_BYTES, NO_BYTES, 0), (longs, NO_BYTES, NO_BYTES, 0)
        )
    with pytest.raises(IndexError):
        run.lay_out(bytearray(100), 60, array("q", bytes(64)), longs, longs)
