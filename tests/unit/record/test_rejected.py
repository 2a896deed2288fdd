"""The list of rejected records: the same as a check of each record, wherever the batch is cut into pieces."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.records.kernel_forms import both_forms, form_of
from support.records.raw_records import INT64_MAX, INT64_MIN, batch, cuts, record
from tailrace.model.errors import CorruptMessageError, InvalidRecordError
from tailrace.model.record_rules import BROKER_STAMPED, NO_KEY, OUT_OF_RANGE, RecordRules, RejectedRecord
from tailrace.record import rejected
from tailrace.record.compression import GZIP, compress
from tailrace.record.rejected import rejected_records

BASE = 1000  # timestamp of the batches of `support.records.raw_records`
RULES = RecordRules(require_key=True, earliest_ms=BASE - 10, latest_ms=BASE + 10)
ALL = 1 << 31


def rows_of(batch: bytes, rules: RecordRules = RULES, limit: int = ALL) -> list[RejectedRecord]:
    return list(rejected_records(batch, rules, limit))


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.spec("LM-22")
def test_each_fault_is_listed_with_its_record(codec: int) -> None:
    payload = (
        record(0)
        + record(1, key=None, value=None)
        + record(2, timestamp_delta=11)
        + record(3, key=None, timestamp_delta=-11)
        + record(4, key=b"", value=b"xyz", timestamp_delta=-11)
        + record(5, timestamp_delta=-BASE - 1)  # no timestamp
    )
    data, _ = batch(payload, 6, codec)
    expected = [
        (1, NO_KEY, BASE, -1, -1),
        (2, OUT_OF_RANGE, BASE + 11, 3, 5),
        (3, NO_KEY, BASE - 11, -1, 5),
        (4, OUT_OF_RANGE, BASE - 11, 0, 3),
    ]
    assert rows_of(data) == expected
    found = rejected_records(data + b"more", RULES, ALL)
    assert (len(found), found.count_of(NO_KEY), found.is_compressed) == (4, 2, codec != 0)


def test_append_time_is_a_fault_of_each_record_without_another() -> None:
    payload = record(0, timestamp_delta=500) + record(1, key=None)
    data, _ = batch(payload, 2, attributes=0x08, max_timestamp=BASE + 5)
    assert rows_of(data) == [(0, BROKER_STAMPED, BASE + 5, 3, 5), (1, NO_KEY, BASE + 5, -1, 5)]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
def test_a_full_list_ends_the_check(limit: int) -> None:
    """The malformed record after the first four is reached only where the list has room left."""
    payload = b"".join(record(index, key=None) for index in range(4)) + record(9)
    data, _ = batch(payload, 5)
    if limit == 5:
        with pytest.raises(InvalidRecordError, match="record 4 of the batch: its offset delta is 9, not 4") as refused:
            rows_of(data, limit=limit)
        assert refused.value.record_rules is None
    else:
        assert [row.record_index for row in rows_of(data, limit=limit)] == list(range(limit))


@pytest.mark.parametrize(("count", "reason"), [(3, "ends before it"), (1, "goes on behind")])
def test_a_wrong_count_is_malformed(count: int, reason: str) -> None:
    data, _ = batch(record(0, key=None) + record(1), count)
    with pytest.raises(InvalidRecordError, match=reason):
        rows_of(data)


def test_damage_after_a_rejected_record_is_an_error_of_its_own() -> None:
    packed = compress(GZIP, b"".join(record(index, key=None) for index in range(50)))
    data, _ = batch(packed[:-12], 50, attributes=GZIP)
    with pytest.raises(CorruptMessageError):
        rows_of(data)


def test_more_records_than_the_kernel_takes_at_once() -> None:
    count = 3 * rejected._ROWS
    payload = b"".join(record(index, key=None if index % 1000 == 999 else b"k", value=b"") for index in range(count))
    data, _ = batch(payload, count)
    assert [row.record_index for row in rows_of(data)] == list(range(999, count, 1000))


faults = st.tuples(st.one_of(st.none(), st.binary(max_size=3)), st.integers(-20, 20), st.binary(max_size=70))


@given(data=st.data(), records=st.lists(faults, max_size=12), limit=st.integers(1, 15), stamped=st.booleans())
@settings(max_examples=examples(200))
def test_where_the_pieces_are_cut_makes_no_difference(
    data: st.DataObject, records: list[tuple[bytes | None, int, bytes]], limit: int, stamped: bool
) -> None:
    payload = b"".join(record(index, key, value, (), delta) for index, (key, delta, value) in enumerate(records))
    pieces = data.draw(cuts(payload))
    whole, _ = batch(payload, len(records), attributes=0x08 if stamped else 0)
    expected = []
    for index, (key, delta, value) in enumerate(records):
        timestamp = BASE + (0 if stamped else delta)
        if key is None:
            fault = NO_KEY
        elif abs(timestamp - BASE) > 10:
            fault = OUT_OF_RANGE
        elif stamped:
            fault = BROKER_STAMPED
        else:
            continue
        expected.append((index, fault, timestamp, -1 if key is None else len(key), len(value)))

    def in_pieces(codec: int, payload: memoryview) -> Iterator[bytes]:
        return iter(pieces)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rejected, "blocks", in_pieces)
        assert rows_of(whole, limit=limit) == expected[:limit]


@both_forms
def test_the_kernel_keeps_to_its_arrays(name: str) -> None:
    find = form_of(name).rejected.find_rejected
    rows, found = array("q", bytes(64 * 2)), array("q", bytes(8 * 7))
    rows[3], rows[8], rows[11] = -1, 1, -1
    assert find(rows, 2, 0, True, INT64_MIN, INT64_MAX, False, found, 0) == (1, 1)
    assert found.tolist() == [0, 0, 0, -1, 0, 0, 0]
    for count, first, filled in ((-1, 0, 0), (3, 0, 0), (1, 0, -1), (1, -1, 0), (1, INT64_MAX, 0)):
        with pytest.raises(IndexError):
            find(rows, count, first, True, INT64_MIN, INT64_MAX, False, found, filled)
    assert find(rows, 2, 0, True, INT64_MIN, INT64_MAX, False, found, 1 << 60) == (0, 1 << 60)


@given(
    cells=st.lists(st.integers(INT64_MIN, INT64_MAX) | st.integers(-2, 3), min_size=24, max_size=24),
    first=st.sampled_from([0, 1, 1 << 62]),
    rules=st.tuples(st.booleans(), st.integers(-5, 5), st.integers(-5, 5), st.booleans()),
    room=st.integers(0, 3),
)
@settings(deadline=None)
def test_compiled_and_interpreted_agree(
    cells: list[int], first: int, rules: tuple[bool, int, int, bool], room: int
) -> None:
    outcomes = []
    for name in ("compiled", "interpreted"):
        found = array("q", bytes(40 * room))
        taken = form_of(name).rejected.find_rejected(array("q", cells), 3, first, *rules, found, 0)
        outcomes.append((taken, found.tolist()))
    assert outcomes[0] == outcomes[1]
