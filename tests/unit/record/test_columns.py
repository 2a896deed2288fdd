"""Both forms of the kernel that makes columns: what it gives is what the reader reads, and it ends where it should."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.records.column_runs import FAR, INT64_MAX, INT64_MIN, Bench, batch, resealed, rows_of
from support.records.kernel_forms import FORMS, both_forms, form_of
from support.records.raw_records import batch as raw_batch
from support.records.raw_records import record
from tailrace.record.builder import append_record
from tailrace.record.kernels import (
    COLUMNS_AT_END,
    COLUMNS_BAD_CRC,
    COLUMNS_BEHIND,
    COLUMNS_FULL,
    COLUMNS_ODD,
    GAPS_FULL,
)
from tailrace.record.reader import application_records, records_of
from tailrace.record.shallow import batches

SOME = (1000, b"key", b"value", [("a", b"1"), ("", None)])
PLAIN = (1001, None, b"")
TOMBSTONE = (1002, b"", None)


@both_forms
def test_rows_are_the_records(name: str) -> None:
    bench = Bench(form_of(name))
    data = batch(3, SOME, PLAIN, TOMBSTONE) + batch(6, SOME, timestamp_type=1, log_append_time_ms=77)
    assert bench.batches(data) == COLUMNS_AT_END
    assert bench.rows == rows_of(application_records(data))
    assert bench.rows[0] == (3, 1_000_000, 0, b"key", b"value", ((b"a", b"1"), (b"", None)))
    assert [row[2] for row in bench.rows] == [0, 0, 0, 1]
    assert bench.rows[3][1] == 77_000
    assert bench.run.position == len(data)
    assert bench.run.next_offset == 7
    assert bench.gaps == [(0, 3)]


@both_forms
@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("walked", [1, 2, 100])
def test_it_goes_on_in_the_middle_of_a_batch(name: str, rows: int, walked: int) -> None:
    data = batch(0, SOME, PLAIN, SOME, TOMBSTONE, SOME) + batch(5, SOME)
    bench = Bench(form_of(name), rows=rows, data_bytes=0, walked=walked)
    assert bench.batches(data) == COLUMNS_AT_END
    assert bench.rows == rows_of(application_records(data))


@both_forms
def test_a_batch_that_is_not_whole_is_left(name: str) -> None:
    first, second = batch(0, SOME), batch(1, SOME, PLAIN)
    for cut in range(len(second)):
        bench = Bench(form_of(name))
        # With less than a header there may be an old message, which is for others to look at.
        assert bench.batches(first + second[:cut]) == (COLUMNS_ODD if 12 <= cut < 61 else COLUMNS_AT_END)
        assert bench.run.position == len(first)
        assert [row[0] for row in bench.rows] == [0]


@both_forms
@pytest.mark.parametrize(
    ("place", "byte", "reason"),
    [
        (16, 1, COLUMNS_ODD),  # magic
        (16, 3, COLUMNS_ODD),
        (11, 48, COLUMNS_ODD),  # less than a header
        (8, 0x80, COLUMNS_ODD),  # a negative length
        (0, 0x80, COLUMNS_ODD),  # a negative offset
        (23, 0x80, COLUMNS_ODD),  # ends before it begins
        (22, 4, COLUMNS_ODD),  # compressed
        (60, 2, COLUMNS_BAD_CRC),
        (17, 1, COLUMNS_BAD_CRC),
    ],
)
def test_what_is_not_plain_and_sound_is_left(name: str, place: int, byte: int, reason: int) -> None:
    first, second = batch(0, SOME), batch(1, SOME)
    second[place] = byte
    bench = Bench(form_of(name))
    assert bench.batches(first + second) == reason
    assert bench.run.position == len(first)
    assert bench.run.next_offset == 1
    assert len(bench.rows) == 1


@both_forms
def test_an_offset_beyond_all_is_left(name: str) -> None:
    data = batch(INT64_MAX - 1, SOME, SOME)
    assert Bench(form_of(name), end=INT64_MAX).batches(data) == COLUMNS_ODD


@both_forms
def test_records_that_are_not_right_are_passed_and_told(name: str) -> None:
    good = batch(10, SOME)
    for payload, count, delta, rows, bad in (
        (record(0) + record(1)[:-1], 2, 1, [0], (1, 2)),
        (record(0) + record(1), 1, 1, [0], (1, 2)),
        (record(0) + record(1) + b"\0", 2, 1, [0, 1], (2, 2)),
        (record(0), 2, 1, [0], (1, 2)),
        (record(0), 9, 8, [], (0, 9)),
        (record(0), -1, 0, [], (0, 1)),
        (record(1) + record(0), 2, 1, [], (0, 2)),
        (record(0) + record(5), 2, 1, [], (0, 2)),
        (b"\0", 0, 4, [], (0, 5)),
    ):
        data, _ = raw_batch(payload, count, last_offset_delta=delta)
        bench = Bench(form_of(name))
        assert bench.batches(data + good) == COLUMNS_AT_END
        assert [row[0] for row in bench.rows] == [*rows, 10]
        assert bench.bad == [bad]
        assert bench.run.batch_start == len(data)


@both_forms
def test_an_empty_batch_is_no_gap(name: str) -> None:
    data, _ = raw_batch(b"", 0, last_offset_delta=4)
    bench = Bench(form_of(name))
    assert bench.batches(data + batch(5, SOME)) == COLUMNS_AT_END
    assert (bench.gaps, bench.bad, len(bench.rows)) == ([], [], 1)


@both_forms
def test_only_wanted_offsets(name: str) -> None:
    data = b"".join(batch(base, SOME, PLAIN, SOME) for base in (0, 3, 6, 9))
    bench = Bench(form_of(name), start=4, end=8)
    assert bench.batches(data) == COLUMNS_BEHIND
    assert [row[0] for row in bench.rows] == [4, 5, 6, 7]
    assert bench.run.next_offset == 9
    assert bench.run.position == len(data) * 3 // 4
    assert not bench.gaps
    assert bench.batches(data) == COLUMNS_BEHIND
    assert len(bench.rows) == 4


@both_forms
def test_what_was_seen_is_not_given_again(name: str) -> None:
    bench = Bench(form_of(name))
    assert bench.batches(batch(0, SOME, SOME)) == COLUMNS_AT_END
    assert bench.batches(batch(0, SOME, SOME) + batch(1, SOME, SOME)) == COLUMNS_AT_END
    assert [row[0] for row in bench.rows] == [0, 1, 2]


@both_forms
def test_only_wanted_times(name: str) -> None:
    data = b"".join(batch(2 * n, (n * 10, b"", b""), (n * 10 + 5, b"", b"")) for n in range(5))
    bench = Bench(form_of(name), first_ms=15, last_ms=30)
    assert bench.batches(data) == COLUMNS_AT_END
    assert [row[1] for row in bench.rows] == [15_000, 20_000, 25_000, 30_000]
    assert not bench.gaps


@both_forms
def test_times_beyond_microseconds_are_the_greatest(name: str) -> None:
    for stamp, micros in ((INT64_MAX, INT64_MAX), (INT64_MIN, INT64_MIN), (-1, -1000)):
        data, _ = raw_batch(record(0), 1, attributes=8, max_timestamp=stamp)
        bench = Bench(form_of(name))
        bench.batches(data)
        assert [row[1] for row in bench.rows] == [micros]


@both_forms
def test_gaps_are_told_within_the_wanted_offsets(name: str) -> None:
    data = b"".join(batch(base, SOME) for base in (2, 3, 9, 12, 40))
    bench = Bench(form_of(name), start=1, end=30, gaps=1)
    assert bench.batches(data) == COLUMNS_BEHIND
    assert bench.gaps == [(1, 2), (4, 9), (10, 12), (13, 30)]
    bench = Bench(form_of(name), gaps=1)
    bench.run.begin_batches(len(data), 0)
    assert bench.run.take(data) == GAPS_FULL


@both_forms
def test_transactions_are_odd_from_where_some_are_aborted(name: str) -> None:
    producer = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    marker = {**producer, "base_sequence": -1, "control": True}
    data = batch(0, SOME, **producer) + batch(1, SOME, **marker) + batch(2, SOME)
    sizes = [each.size for each in batches(data)]
    for aborted_from, rows, reason, position in (
        (3, [0, 2], COLUMNS_AT_END, len(data)),
        (1, [0], COLUMNS_ODD, sizes[0]),
        (0, [], COLUMNS_ODD, 0),
    ):
        bench = Bench(form_of(name))
        bench.run.aborted_from = aborted_from
        assert bench.batches(data) == reason
        assert [row[0] for row in bench.rows] == rows
        assert bench.run.position == position
    assert not bench.gaps


@both_forms
def test_records_without_their_batch(name: str) -> None:
    body = bytearray()
    append_record(body, 0, 0, b"a", None, [])
    append_record(body, 3, 5, None, b"b", [("h", None)])
    bench = Bench(form_of(name), rows=1, start=2)
    bench.run.begin_records(len(body), 2, 4, 9, 100, -1)
    assert bench.go_on(body) == COLUMNS_AT_END
    assert bench.rows == [(4, 100_000, -1, b"a", None, ()), (7, 105_000, -1, None, b"b", ((b"h", None),))]
    assert bench.run.next_offset == 10
    assert bench.gaps == [(2, 4)]
    bench.run.pass_batch(12, 14)
    assert bench.batches(batch(15, SOME)) == COLUMNS_AT_END
    assert bench.gaps == [(2, 4), (10, 12)]


@both_forms
def test_columns_that_nobody_wants_need_no_room(name: str) -> None:
    form = form_of(name)
    data = batch(0, SOME, PLAIN)
    offsets = array("q", bytes(80))
    columns = form.columns.new_column_set(offsets, array("q"), array("i"), None, None)
    run = form.columns.ColumnRun(0, FAR, INT64_MIN, INT64_MAX, array("q", bytes(64)), array("q", bytes(16)), columns)
    run.begin_batches(len(data), 0)
    assert run.take(data) == COLUMNS_AT_END
    assert (columns.rows, offsets[:2].tolist()) == (2, [0, 1])


@both_forms
def test_what_cannot_be_is_refused(name: str) -> None:
    form, data = form_of(name), batch(0, PLAIN, PLAIN)
    bench = Bench(form, rows=1)
    for size, position in ((5, 6), (5, -1)):
        with pytest.raises(IndexError):
            bench.run.begin_batches(size, position)
    bench.run.begin_batches(len(data), 0)
    with pytest.raises(IndexError):
        bench.run.take(data + b"\0")
    assert bench.run.take(data) == COLUMNS_FULL
    for begin in (
        lambda: bench.run.begin_batches(len(data), 0),
        lambda: bench.run.begin_records(len(data), 1, 0, 0, 0, 0),
        lambda: Bench(form).run.begin_records(10, 1, -1, 0, 0, 0),
        lambda: Bench(form).run.begin_records(10, 1, 5, 4, 0, 0),
        lambda: Bench(form).run.begin_records(10, 1, 5, INT64_MAX, 0, 0),
        lambda: Bench(form).run.pass_batch(0, INT64_MAX),
        lambda: Bench(form, start=-1),
        lambda: Bench(form, walked=0),
        lambda: Bench(form, gaps=0),
        lambda: form.columns.new_bytes_column(array("i"), bytearray(), bytearray()),
        lambda: bench.columns.keys.column.grow(array("i", bytes(4)), bytearray(), bytearray()),
        lambda: bench.columns.set.add_headers(
            array("i", bytes(8)), bytearray(1), bench.columns.keys.column, bench.columns.keys.column
        ),
    ):
        with pytest.raises(IndexError):
            begin()


part = st.one_of(st.none(), st.sampled_from([b"", b"a", b"bb", b"c" * 200]))
headers = st.lists(st.tuples(st.sampled_from(["", "name", "ñ" * 40]), part), max_size=3)
records = st.lists(st.tuples(st.integers(-1, 5000), part, part, headers), min_size=1, max_size=6)
pieces = st.tuples(
    st.sampled_from([0, 0, 0, 1, 7]), records, st.sampled_from([0, 0, 0, 0, 0, 4]), st.booleans(), st.booleans()
)


def written(drawn: list[tuple[Any, ...]]) -> bytearray:
    data, base = bytearray(), 0
    for gap, some, codec, is_transactional, is_stamped in drawn:
        base += gap
        data += batch(
            base,
            *some,
            codec=codec,
            transactional=is_transactional,
            producer_id=4 if is_transactional else -1,
            producer_epoch=0 if is_transactional else -1,
            base_sequence=0 if is_transactional else -1,
            timestamp_type=int(is_stamped),
            log_append_time_ms=77 if is_stamped else -1,
        )
        base += len(some)
    return data


@settings(max_examples=examples(150))
@given(
    st.lists(pieces, max_size=6),
    st.sampled_from(sorted(FORMS)),
    st.integers(1, 20),
    st.sampled_from([0, 50, 5000]),
    st.integers(1, 9),
    st.integers(0, 10),
    st.integers(5, 40),
    st.sampled_from([INT64_MIN, 70, 2000]),
    st.sampled_from([INT64_MAX, 3000]),
)
def test_rows_are_those_of_the_reader(
    drawn: list[tuple[Any, ...]],
    name: str,
    rows: int,
    data_bytes: int,
    walked: int,
    start: int,
    end: int,
    first_ms: int,
    last_ms: int,
) -> None:
    data = written([(*piece[:2], 0, *piece[3:]) for piece in drawn])
    bench = Bench(
        FORMS[name],
        start=start,
        end=end,
        first_ms=first_ms,
        last_ms=last_ms,
        rows=rows,
        data_bytes=data_bytes,
        walked=walked,
        gaps=1,
    )
    assert bench.batches(data) in (COLUMNS_AT_END, COLUMNS_BEHIND)
    wanted = [
        each
        for one in batches(data)
        for each in records_of(data, one)
        if start <= each.offset < end and first_ms <= each.timestamp <= last_ms
    ]
    assert bench.rows == rows_of(wanted)
    covered = {offset for one in batches(data) for offset in range(one.base_offset, one.next_offset)}
    missing = {offset for low, high in bench.gaps for offset in range(low, high)}
    assert missing == set(range(start, min(end, bench.run.next_offset))) - covered


@settings(max_examples=examples(300))
@given(
    st.lists(pieces, max_size=4),
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=3),
    st.booleans(),
    st.integers(1, 9),
    st.sampled_from([0, 100, 4000]),
    st.integers(1, 9),
    st.sampled_from([0, 3]),
    st.sampled_from([9, FAR]),
)
def test_both_forms_agree(
    drawn: list[tuple[Any, ...]],
    damage: list[tuple[int, int]],
    is_sealed: bool,
    rows: int,
    data_bytes: int,
    walked: int,
    start: int,
    end: int,
) -> None:
    data = written(drawn)
    for place, byte in damage:
        if data:
            data[place % len(data)] = byte
    if is_sealed:
        resealed(data)
    found = []
    for form in FORMS.values():
        bench = Bench(form, start=start, end=end, rows=rows, data_bytes=data_bytes, walked=walked)
        found.append((bench.batches(data), bench.outcome()))
    assert all(each == found[0] for each in found)
