"""Many batches at a time: both forms of the kernel find what `shallow` finds, and stop where a caller must act."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.records.batch_runs import ROOM, columns_of_run, rows_of, walked_run
from support.records.kernel_forms import both_forms, form_of
from support.records.raw_records import INT64_MAX, INT64_MIN, batch, record
from tailrace.model.errors import CorruptMessageError
from tailrace.model.invariant import InvariantError
from tailrace.model.offsets import GREATEST_OFFSET, TimestampOffset
from tailrace.record import kernels
from tailrace.record.batch import BatchHeader
from tailrace.record.batch_run import BatchRun
from tailrace.record.shallow import batches


def made(base_offset: int, count: int = 2, **fields: int) -> bytes:
    return batch(b"".join(record(n) for n in range(count)), count, base_offset=base_offset, **fields)[0]


PLAIN = (
    made(7)
    + made(9, producer_id=5, producer_epoch=-7, max_timestamp=-1)
    + made(20, 1, attributes=0x20, max_timestamp=INT64_MAX)
)


@both_forms
@pytest.mark.parametrize("before", [b"", b"????"])
def test_rows_say_what_the_headers_say(name: str, before: bytes) -> None:
    data = before + PLAIN + PLAIN[:30]
    assert walked_run(form_of(name), data, start=len(before)) == rows_of(batches(data, len(before)))


OTHERS = {
    "offsets that go back": made(20),
    "an end before its beginning": made(21, last_offset_delta=-1),
    "an end beyond what the segment holds": made(21, last_offset_delta=80),
    "a beginning beyond what the segment holds": made(101, last_offset_delta=0),
    "a negative offset": made(-1, last_offset_delta=100),
    "an end beyond all offsets": made(INT64_MAX, last_offset_delta=2**31 - 1),
    "a new leader epoch": made(21, leader_epoch=4),
    "a length below a header's": made(21)[:8] + (48).to_bytes(4, "big") + made(21)[12:],
    "a negative length": made(21)[:8] + b"\xff" * 4 + made(21)[12:],
    "an older magic": made(21)[:16] + b"\x01" + made(21)[17:],
    "a magic of the future": made(21)[:16] + b"\x03" + made(21)[17:],
}


@both_forms
@pytest.mark.parametrize("kind", OTHERS)
def test_a_run_ends_before_what_a_caller_must_look_at(name: str, kind: str) -> None:
    found = walked_run(form_of(name), PLAIN + OTHERS[kind] + made(30), greatest_offset=100, latest_epoch=3)
    assert found == rows_of(batches(PLAIN))


@both_forms
def test_a_run_ends_where_the_bytes_end(name: str) -> None:
    data = PLAIN + made(21)
    for end in range(len(PLAIN), len(data)):
        assert len(walked_run(form_of(name), data, end=end)) == 3
    assert len(walked_run(form_of(name), data)) == 4


@both_forms
def test_a_run_takes_what_is_just_allowed(name: str) -> None:
    data = made(7, leader_epoch=3) + made(99, leader_epoch=-1)
    assert len(walked_run(form_of(name), data, next_offset=7, greatest_offset=100, latest_epoch=3)) == 2
    assert not walked_run(form_of(name), data, next_offset=8)
    last = made(GREATEST_OFFSET - 1)
    assert len(walked_run(form_of(name), last, greatest_offset=GREATEST_OFFSET)) == 1


@both_forms
def test_a_run_ends_with_its_room(name: str) -> None:
    data = b"".join(made(2 * n) for n in range(ROOM + 1))
    assert len(walked_run(form_of(name), data)) == ROOM
    rows = array("q", bytes(8 * kernels.BATCH_ROW - 8))
    assert form_of(name).batch_run.walk_run(data, 0, len(data), 0, 100, 0, rows) == 0


@both_forms
def test_ranges_outside_the_buffer_are_refused(name: str) -> None:
    kernel, rows = form_of(name).batch_run, array("q", bytes(8 * kernels.BATCH_ROW))
    for start, end in ((-1, 3), (3, 2), (0, len(PLAIN) + 1)):
        with pytest.raises(IndexError):
            kernel.walk_run(PLAIN, start, end, 0, 100, 0, rows)
    for next_offset, greatest_offset in ((-1, 100), (0, INT64_MAX)):
        with pytest.raises(IndexError):
            kernel.walk_run(PLAIN, 0, len(PLAIN), next_offset, greatest_offset, 0, rows)
    for count in (-1, 2):
        with pytest.raises(IndexError):
            kernel.index_run(rows, count, 0, 0, 0, 0, 0, 0, 0, bytearray(8), bytearray(12))
        with pytest.raises(IndexError):
            kernel.check_run(PLAIN, rows, count)


@both_forms
@pytest.mark.parametrize("before", [b"", b"????"])
def test_columns_say_what_the_headers_say(name: str, before: bytes) -> None:
    odd = {"attributes": -0x7FF0, "leader_epoch": -(2**31), "base_timestamp": INT64_MIN, "base_sequence": 2**31 - 1}
    data = before + PLAIN + made(30, **odd) + made(40, producer_id=INT64_MIN, producer_epoch=2**15 - 1)
    rows = walked_run(form_of(name), data, start=len(before))
    found = zip(*columns_of_run(form_of(name), data, rows), strict=True)
    headers = [BatchHeader.at(data, row[kernels.BATCH_START]) for row in rows]
    assert len(headers) == 5
    for columns, row, header in zip(found, rows, headers, strict=True):
        fields = dict(zip(kernels.HEADER_COLUMNS, columns, strict=True))
        assert fields.pop("start") == row[kernels.BATCH_START]
        assert fields == {field: getattr(header, field) for field in fields}


@both_forms
def test_columns_are_only_filled_within_their_room_and_the_buffer(name: str) -> None:
    kernel, columns = form_of(name).batch_run, array("q", bytes(8 * len(kernels.HEADER_COLUMNS)))
    row = walked_run(form_of(name), PLAIN)[0]
    for count in (-1, 2):
        with pytest.raises(IndexError):
            kernel.columns_run(PLAIN, array("q", row), count, columns)
    with pytest.raises(IndexError):
        kernel.columns_run(PLAIN, array("q", row), 1, columns[:-1])
    for start in (-1, 1, INT64_MIN, INT64_MAX):
        with pytest.raises(IndexError):
            kernel.columns_run(PLAIN[:61], array("q", [start, *row[1:]]), 1, columns)
    assert columns == array("q", bytes(8 * len(kernels.HEADER_COLUMNS)))
    kernel.columns_run(PLAIN[:61], array("q", row), 1, columns)
    assert columns[kernels.HEADER_COLUMNS.index("base_offset")] == 7


@both_forms
@pytest.mark.parametrize("count", range(8))
@pytest.mark.parametrize("sizes", [(50,), (0, 50), (3, 200_000, 1), (9, 8, 7, 6, 5)])
def test_crcs_are_checked_up_to_the_first_that_is_wrong(name: str, count: int, sizes: tuple[int, ...]) -> None:
    """Three at a time, as far as they go together, and then each to its end."""
    parts = [bytearray(batch(record(0, value=bytes(sizes[n % len(sizes)])), 1, base_offset=n)[0]) for n in range(count)]
    rows = array("q", bytes(8 * kernels.BATCH_ROW * count))
    kernel = form_of(name).batch_run
    data = bytearray(b"".join(parts))
    assert kernel.walk_run(data, 0, len(data), 0, 100, 0, rows) == count
    for wrong in range(count):
        end = rows[kernels.BATCH_ROW * wrong + kernels.BATCH_END]
        for position in (rows[kernels.BATCH_ROW * wrong] + 21, end - 1):
            data[position] ^= 1
            assert kernel.check_run(data, rows, count) == wrong
            data[position] ^= 1
    assert kernel.check_run(data, rows, count) == count


@both_forms
@pytest.mark.parametrize(
    ("start", "end"),
    [(-1, 100), (0, 10_000), (50, 71), (100, 50), (0, 21), (INT64_MAX, 0), (0, INT64_MIN), (INT64_MIN, INT64_MIN)],
)
def test_a_row_outside_the_buffer_is_not_intact(name: str, start: int, end: int) -> None:
    row = [start, end, *[0] * (kernels.BATCH_ROW - 2)]
    assert form_of(name).batch_run.check_run(bytes(200), array("q", row), 1) == 0
    assert form_of(name).batch_run.check_run(bytes(200), array("q", row * 3), 3) == 0


@both_forms
def test_where_one_index_is_full_neither_gets_more(name: str) -> None:
    data = b"".join(made(2 * n, max_timestamp=1000 + n) for n in range(5))
    rows = array("q", bytes(8 * kernels.BATCH_ROW * 5))
    assert form_of(name).batch_run.walk_run(data, 0, len(data), 0, 100, 0, rows) == 5
    for offset_room, time_room, entries in ((5, 5, 5), (3, 5, 3), (5, 2, 2), (0, 5, 0), (5, 0, 0)):
        offset_entries, time_entries = bytearray(8 * offset_room), bytearray(12 * time_room)
        found = form_of(name).batch_run.index_run(rows, 5, 0, 0, 0, 1, -1, 0, -1, offset_entries, time_entries)
        since = len(data) - entries * len(data) // 5 + (len(data) // 5 if entries else 1)
        assert found == (8 * entries, 12 * entries, since, 1004, 9)


@given(
    parts=st.lists(
        st.tuples(
            st.sampled_from([0, 1, 1, 2, 5, -1, 50, 2**31, INT64_MAX]),  # from where the batch before ends
            st.sampled_from([0, 0, 1, 3, -1, 2**31 - 1]),  # last offset delta
            st.integers(-1, 2),  # leader epoch
            st.sampled_from([-1, 0, 5, INT64_MAX]),  # timestamp
            st.sampled_from([-1, 7]),  # producer
        ),
        max_size=8,
    ),
    damage=st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=2),
    cut=st.integers(0, 100),
)
@settings(max_examples=examples(300))
@pytest.mark.spec("RF-11")
def test_compiled_and_interpreted_agree(
    parts: list[tuple[int, int, int, int, int]], damage: list[tuple[int, int]], cut: int
) -> None:
    compiled, interpreted = form_of("compiled"), form_of("interpreted")
    data, offset = bytearray(), 0
    for gap, delta, epoch, timestamp, producer_id in parts:
        base = min(offset + gap, INT64_MAX)
        data += made(
            base, last_offset_delta=delta, leader_epoch=epoch, max_timestamp=timestamp, producer_id=producer_id
        )
        offset = min(base + max(delta, 0) + 1, INT64_MAX)
    for position, byte in damage:
        if position < len(data):
            data[position] = byte
    end = max(0, len(data) - cut)
    for greatest_offset in (100, 2**31 + 100, GREATEST_OFFSET):
        found = [
            walked_run(form, bytes(data), end=end, greatest_offset=greatest_offset, latest_epoch=1)
            for form in (compiled, interpreted)
        ]
        assert found[0] == found[1]


# The driver


def run_of(data: bytes, start: int = 0) -> tuple[BatchRun, memoryview]:
    buffer, run = memoryview(data), BatchRun(ROOM)
    run.walk(buffer, start, len(data), 0, 2**63, 3)
    return run, buffer


def test_a_run_tells_of_its_batches() -> None:
    run, buffer = run_of(b"??" + PLAIN, 2)
    assert (run.count, run.end, run.next_offset) == (3, 2 + len(PLAIN), 21)
    assert [run.batch(n, buffer) for n in range(3)] == list(batches(b"??" + PLAIN, 2))
    run.keep(1)
    assert (run.count, run.end, run.next_offset) == (1, 2 + len(made(7)), 9)
    with pytest.raises(InvariantError):
        run.keep(2)


TXN, CONTROL = 0x10, 0x20


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([], []),
        ([(-1, 0, 0)] * 8, []),
        ([(1, 0, 0)] * 3, [0, 1, 2]),
        ([(1, 0, 0)] * 8, [0, 6, 7]),
        ([(1, 0, TXN)] * 8, [0, 6, 7]),
        ([(1, 0, 0), (2, 0, 0), (-1, 0, 0)] * 2 + [(1, 0, 0)] * 2, [0, 1, 4, 6, 7]),
        ([(1, 0, 0)] * 4 + [(1, 1, 0)] * 4, list(range(8))),
        ([(1, 0, 0)] * 4 + [(1, 0, TXN)] * 4, list(range(8))),
        ([(1, 0, TXN)] * 7 + [(1, 0, TXN | CONTROL)], list(range(8))),
        ([(1, 0, CONTROL)] * 8, list(range(8))),
        ([(1, 0, 0)] * 6 + [(0, 0, TXN | CONTROL), (-1, 0, CONTROL)], [0, 4, 5, 6]),
    ],
)
def test_of_a_producer_that_does_the_same_all_the_time_the_last_batches_matter(
    parts: list[tuple[int, int, int]], expected: list[int]
) -> None:
    data = b"".join(
        made(2 * n, producer_id=producer_id, producer_epoch=epoch, attributes=attributes)
        for n, (producer_id, epoch, attributes) in enumerate(parts)
    )
    run, _ = run_of(data)
    assert run.count == len(parts)
    assert run.to_replay(kept=2) == expected
    assert run.markers() == [
        n for n, (producer_id, _, attributes) in enumerate(parts) if producer_id > -1 and attributes & CONTROL
    ]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("byte", [17, 21, 60, 61, -1])
def test_batches_count_up_to_the_first_whose_crc_is_wrong(place: int, byte: int) -> None:
    data = bytearray(PLAIN)
    run, buffer = run_of(bytes(data))
    assert run.intact(buffer) == 3
    found = run.batch(place, buffer)
    data[found.position + byte if byte >= 0 else found.end + byte] ^= 0x10
    run, buffer = run_of(bytes(data))
    assert run.intact(buffer) == place


def test_a_range_outside_the_buffer_is_a_typed_error() -> None:
    with pytest.raises(CorruptMessageError):
        BatchRun(ROOM).walk(memoryview(PLAIN), 0, len(PLAIN) + 1, 0, 100, 0)


def test_entries_of_a_run() -> None:
    data = b"".join(made(10 + 2 * n, max_timestamp=(5, 3, 9)[n]) for n in range(3))
    size = len(data) // 3
    run, _ = run_of(data)
    found = run.entries(
        4000,
        base_offset=10,
        interval_bytes=size,
        since_entry_bytes=size,
        largest=TimestampOffset(4, 10),
        last_indexed_timestamp=4,
        offset_room=9,
        time_room=9,
    )
    # The first batch stands one interval behind the last entry, which is not enough; so does the third.
    assert found.offset_entries == (3).to_bytes(4, "big") + (4000 + size).to_bytes(4, "big")
    assert found.time_entries == (5).to_bytes(8, "big") + (1).to_bytes(4, "big")
    assert found[2:] == (2 * size, TimestampOffset(9, 15))
