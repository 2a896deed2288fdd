"""Both forms of the kernel that compacts runs of plain batches: where a run ends, and that the two agree on anything.

What stays of a run is held against `record.filter` in the tests of the sieve.
"""

from __future__ import annotations

from array import array
from types import SimpleNamespace
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.records.kernel_forms import FORMS, both_forms, form_of
from tailrace.record import kernels
from tailrace.record.batch import CRC_AT, BatchHeader, crc_of
from tailrace.record.builder import BatchBuilder
from tailrace.record.kernels import (
    BATCH_ROW,
    STOP_AT_END,
    STOP_BAD_RECORDS,
    STOP_ODD,
    STOP_OUT_FULL,
    STOP_TABLE_FULL,
)
from tailrace.record.shallow import batches

FAR = 1 << 60
NOW_MS = 1000


def batch(base: int, *keys: bytes | None, value: bytes | None = b"value", **fields: Any) -> bytearray:
    builder = BatchBuilder(base, **fields)
    for place, key in enumerate(keys):
        builder.append(NOW_MS + place, key, value)
    return builder.build()


def resealed(data: bytearray) -> bytearray:
    data[CRC_AT : CRC_AT + 4] = crc_of(data, 0, len(data)).to_bytes(4, "big")
    return data


class Bench:
    """A kernel with its table and all the room around it."""

    def __init__(self, form: SimpleNamespace, *, records: int = 50, slots: int = 40, out_bytes: int = 4000) -> None:
        self.table = array("Q", bytes(24 * slots))
        self.limit = slots
        self.marks = (bytearray(2), 3)
        self.seen = array("q", bytes(8 * 3))
        self.run = form.plain_run.PlainRun(array("q", bytes(64 * records)), bytearray(records), self.seen)
        self.out = bytearray(out_bytes)
        self.made = array("q", bytes(8 * BATCH_ROW * 9))
        self.place()

    def place(self, first: int = 0, end: int = FAR, aborted_from: int = FAR, framed_from: int = FAR) -> None:
        self.run.next_offset, self.run.end_offset = first, end
        self.run.aborted_from, self.run.framed_from = aborted_from, framed_from

    def map(self, data: bytes | bytearray, start: int = 0, entries: int = 0) -> int:
        found: int = self.run.map(data, start, len(data), self.table, entries, self.limit, 11, 12, 0, *self.marks)
        return found

    def sift(self, data: bytes | bytearray, latest_offset: int, written: int = 0, made: int = 0) -> int:
        found: int = self.run.sift(
            data,
            0,
            len(data),
            self.table,
            11,
            12,
            latest_offset,
            *self.marks,
            NOW_MS,
            NOW_MS + 7,
            self.out,
            written,
            self.made,
            made,
        )
        return found

    def state(self) -> tuple[object, ...]:
        run = self.run
        return (
            (run.position, run.next_offset, run.reason, self.seen[: run.seen_count].tolist()),
            (run.entries, run.latest_offset, self.table.tolist()),
            (run.records_read, run.records_kept, run.keyless),
            (bytes(self.out[: run.written]), self.made[: BATCH_ROW * run.made_count].tolist()),
        )


@both_forms
def test_a_run_of_all_there_is(name: str) -> None:
    bench = Bench(form_of(name))
    data = batch(3, b"a", b"b") + batch(5, b"a", None) + batch(9, b"c")
    assert bench.map(data) == STOP_AT_END
    assert (bench.run.position, bench.run.next_offset, bench.run.latest_offset) == (len(data), 10, 9)
    assert bench.run.entries == 3
    bench.place()
    assert bench.sift(data, 9) == STOP_AT_END
    kept = list(batches(bytes(bench.out[: bench.run.written])))
    assert [(each.base_offset, each.last_offset, each.record_count) for each in kept] == [
        (3, 4, 1),
        (5, 6, 1),
        (9, 9, 1),
    ]
    assert (bench.run.records_read, bench.run.records_kept, bench.run.keyless) == (5, 3, 1)
    assert [bench.made[BATCH_ROW * n + kernels.BATCH_LAST_OFFSET] for n in range(3)] == [4, 6, 9]


def odd_batches() -> dict[str, bytearray]:
    legacy = bytearray(batch(5, b"x"))
    legacy[16] = 1
    damaged = bytearray(batch(5, b"x"))
    damaged[-3] ^= 1
    huge = bytearray(batch(5, b"x"))
    huge[8:12] = b"\x7f\xff\xff\xff"
    negative = bytearray(batch(5, b"x"))
    negative[57:61] = b"\xff\xff\xff\xff"
    backwards = bytearray(batch(5, b"x"))
    backwards[23:27] = b"\xff\xff\xff\xff"
    return {
        "compressed": batch(5, b"x", codec=4),
        "control": batch(5, b"x", control=True, transactional=True, producer_id=1, producer_epoch=0),
        "of another magic": legacy,
        "damaged": damaged,
        "longer than the buffer": huge,
        "with a negative count": resealed(negative),
        "with too many records": batch(5, *[b"x"] * 51),
        "that ends before it begins": resealed(backwards),
        "below the offset that is next": batch(3, b"x"),
        "at the end offset": batch(1000, b"x"),
        "that reaches the end offset": batch(999, b"x", b"y"),
        "that may be aborted": batch(200, b"x", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0),
        "that stays when it is empty": batch(500, b"x"),
        "cut off": batch(5, b"x")[:-1],
        "cut off in its header": batch(5, b"x")[:60],
    }


@both_forms
@pytest.mark.parametrize("what", odd_batches())
def test_a_run_ends_before_a_batch(name: str, what: str) -> None:
    bench = Bench(form_of(name))
    first = batch(3, b"a", b"b")
    data = first + odd_batches()[what]
    for work in (lambda: bench.map(data), lambda: bench.sift(data, 4)):
        bench.place(end=1000, aborted_from=200, framed_from=500)
        assert work() == STOP_ODD
        assert (bench.run.position, bench.run.next_offset) == (len(first), 5)
    assert bench.run.latest_offset == 4
    assert bytes(bench.out[: bench.run.written]) == first


@both_forms
def test_transactional_batches_below_the_aborted_ones_are_plain(name: str) -> None:
    bench = Bench(form_of(name))
    one, two = ({"transactional": True, "producer_id": n, "producer_epoch": 0, "base_sequence": 0} for n in (1, 2))
    data = b"".join(
        (batch(1, b"a", **one), batch(2, b"b", **one), batch(3, b"c"), batch(4, b"d", **two), batch(5, b"e", **one))
    )
    bench.place(aborted_from=6)
    assert bench.map(data) == STOP_AT_END
    assert bench.seen[: bench.run.seen_count].tolist() == [1, 2, 1]
    bench.place(aborted_from=7)
    assert bench.map(data + batch(6, b"f", **two)) == STOP_ODD  # there is no more room for producers
    assert bench.run.position == len(data)


@both_forms
def test_records_that_are_not_what_the_batch_states(name: str) -> None:
    bench = Bench(form_of(name))
    for count in (1, 3, 40):
        wrong = bytearray(batch(3, b"a", b"b"))
        wrong[57:61] = count.to_bytes(4, "big")
        first = batch(1, b"z")
        for work in (bench.map, lambda data: bench.sift(data, 2)):
            bench.place()
            assert work(first + resealed(wrong)) == STOP_BAD_RECORDS
            assert bench.run.position == len(first)


@both_forms
def test_a_full_table_ends_the_map_within_a_batch(name: str) -> None:
    bench = Bench(form_of(name))
    bench.limit = 3
    data = batch(0, b"a", b"b") + batch(2, b"c", b"d", b"a")
    assert bench.map(data) == STOP_TABLE_FULL
    assert (bench.run.entries, bench.run.latest_offset) == (3, 2)


@both_forms
def test_more_batches_than_rows_or_room_are_taken_in_turns(name: str) -> None:
    data = b"".join(batch(2 * n, b"%d" % n, b"%d" % (n + 1)) for n in range(8))
    bench = Bench(form_of(name), records=5)
    assert bench.map(data) == STOP_AT_END
    assert (bench.run.entries, bench.run.latest_offset) == (9, 15)
    whole = Bench(form_of(name))
    whole.table[:], whole.marks = bench.table, bench.marks
    bench.place()
    assert bench.sift(data, 15) == whole.sift(data, 15) == STOP_AT_END
    assert bench.state()[2:] == whole.state()[2:]
    expected = bytes(whole.out[: whole.run.written])
    small, found, left = Bench(form_of(name), out_bytes=250), b"", data
    small.table[:], small.marks = bench.table, bench.marks
    while (reason := small.sift(left, 15)) == STOP_OUT_FULL:
        assert small.run.position
        found += bytes(small.out[: small.run.written])
        left = left[small.run.position :]
    assert reason == STOP_AT_END
    assert found + bytes(small.out[: small.run.written]) == expected
    tiny = Bench(form_of(name), out_bytes=90)
    assert tiny.sift(data, 15) == STOP_OUT_FULL
    assert (tiny.run.position, tiny.run.written) == (0, 0)


@both_forms
def test_what_is_written_comes_behind_what_is_there(name: str) -> None:
    bench = Bench(form_of(name))
    data = batch(3, b"a")
    bench.out[:5] = b"there"
    assert bench.sift(data, -1, written=5, made=2) == STOP_AT_END
    assert bytes(bench.out[: bench.run.written]) == b"there" + data
    assert bench.run.made_count == 3
    row = bench.made[2 * BATCH_ROW : 3 * BATCH_ROW]
    assert (row[kernels.BATCH_START], row[kernels.BATCH_END]) == (5, 5 + len(data))
    assert row[kernels.BATCH_CRC] == BatchHeader.at(data).crc


@both_forms
def test_what_is_outside_the_buffers_is_refused(name: str) -> None:
    bench, data = Bench(form_of(name)), bytes(batch(3, b"a"))
    table, run, out, made = bench.table, bench.run, bench.out, bench.made
    for start, end in ((-1, 5), (6, 5), (0, len(data) + 1)):
        with pytest.raises(IndexError):
            run.map(data, start, end, table, 0, 9, 1, 2, 0, bytearray(), 0)
        with pytest.raises(IndexError):
            run.sift(data, start, end, table, 1, 2, 0, b"", 0, 0, 0, out, 0, made, 0)
    for written, count in ((-1, 0), (len(out) + 1, 0), (0, -1), (0, 10)):
        with pytest.raises(IndexError):
            run.sift(data, 0, len(data), table, 1, 2, 0, b"", 0, 0, 0, out, written, made, count)
    with pytest.raises(IndexError):
        run.map(data, 0, len(data), array("Q", bytes(16)), 0, 9, 1, 2, 0, bytearray(), 0)
    bench.place(first=-1)
    with pytest.raises(IndexError):
        bench.map(data)
    with pytest.raises(IndexError):
        form_of(name).plain_run.PlainRun(array("q", bytes(64 * 3)), bytearray(2), array("q", bytes(8)))


keys = st.one_of(st.none(), st.sampled_from([b"", b"a", b"bb", b"c" * 20]))
pieces = st.tuples(
    st.integers(0, 3),
    st.lists(keys, min_size=1, max_size=6),
    st.sampled_from([None, b"", b"value"]),
    st.sampled_from([0, 0, 0, 0, 1]),
    st.sampled_from([None, None, NOW_MS - 1, NOW_MS + 1]),
    st.booleans(),
    st.booleans(),
)


def written(drawn: list[tuple[Any, ...]]) -> bytearray:
    data, base = bytearray(), 0
    for gap, some_keys, value, codec, horizon, transactional, is_stamped in drawn:
        base += gap
        made = batch(
            base,
            *some_keys,
            value=value,
            codec=codec,
            delete_horizon_ms=horizon,
            transactional=transactional,
            producer_id=4 if transactional else -1,
            producer_epoch=0 if transactional else -1,
            base_sequence=0 if transactional else -1,
            timestamp_type=int(is_stamped),
            log_append_time_ms=77 if is_stamped else -1,
        )
        data += made
        base += max(len(some_keys), 1)
    return data


@settings(max_examples=examples(200))
@given(
    st.lists(pieces, max_size=5),
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=3),
    st.booleans(),
    st.integers(0, 20),
    st.sampled_from([150, 4000]),
)
def test_both_forms_agree(
    drawn: list[tuple[Any, ...]], damage: list[tuple[int, int]], is_sealed: bool, latest_offset: int, out_bytes: int
) -> None:
    data = written(drawn)
    for place, byte in damage:
        if data:
            data[place % len(data)] = byte
    if is_sealed:  # so that the damage gets further than to the CRC
        position = 0
        while len(data) - position >= 61:
            size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
            end = min(position + max(size, 61), len(data))
            data[position + 17 : position + 21] = crc32c(data[position + 21 : end]).to_bytes(4, "big")
            position = end
    found = []
    for form in FORMS.values():
        bench = Bench(form, records=9, slots=6, out_bytes=out_bytes)
        reasons = [bench.map(data)]
        after_map = bench.state()
        bench.place()
        reasons.append(bench.sift(data, latest_offset))
        found.append((reasons, after_map, bench.state()))
    assert all(each == found[0] for each in found)
