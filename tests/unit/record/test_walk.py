"""Walking: rows from right batches, typed errors from wrong ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.records.raw_records import batch, damaged, record
from tailrace.model.errors import CorruptMessageError, InvalidDataError, InvalidRecordError
from tailrace.model.invariant import InvariantError
from tailrace.record import walk
from tailrace.record.compression import decompress


@pytest.mark.parametrize("codec", range(5))
def test_rows_of_one_batch(codec: int) -> None:
    payload = record(0, b"first", None, timestamp_delta=3) + record(4, None, b"second", [(b"h", b"v")])
    data, header = batch(payload, 2, codec, base_offset=100, last_offset_delta=4)
    records = decompress(codec, data[61:], 1000)
    rows = walk.walk_records(records, 0, len(records), header)
    assert len(rows) == 2 * walk.ROW
    assert rows[walk.OFFSET] == 100
    assert rows[walk.TIMESTAMP] == 1003
    assert records[rows[walk.KEY_START] :][: rows[walk.KEY_LENGTH]] == b"first"
    assert rows[walk.VALUE_LENGTH] == -1
    second = rows[walk.ROW :]
    assert second[walk.OFFSET] == 104
    assert second[walk.KEY_LENGTH] == -1
    assert records[second[walk.VALUE_START] :][: second[walk.VALUE_LENGTH]] == b"second"
    assert records[second[walk.HEADERS_START] : second[walk.HEADERS_END]] == b"\x02\x02h\x02v"


@pytest.mark.spec("RF-11")
@pytest.mark.parametrize("count", [-1, 3, 1 << 30])
def test_a_lying_count_is_refused_and_costs_no_memory(count: int) -> None:
    data, header = batch(record(0), count, last_offset_delta=0)
    with pytest.raises(InvalidRecordError, match=f"states {count} records"):
        walk.walk_records(data, 61, len(data), header)
    with pytest.raises(InvalidRecordError, match=str(count)):
        walk.walk_batches(data, 0, len(data), walk.new_rows(4))


def test_faults_are_named_with_their_record() -> None:
    data, header = batch(record(0) + record(1)[:-1] + b"\x01", 2)
    for attempt in (
        lambda: walk.walk_records(data, 61, len(data), header),
        lambda: walk.walk_batches(data, 0, len(data), walk.new_rows(4)),
    ):
        with pytest.raises(InvalidRecordError, match="record 1 of the batch: its header count is -1") as caught:
            attempt()
        assert caught.value.record_index == 1


def test_ranges_and_lengths_are_checked() -> None:
    data, header = batch(record(0), 1)
    with pytest.raises(CorruptMessageError, match="not in a buffer"):
        walk.walk_records(data, 61, len(data) + 1, header)
    with pytest.raises(CorruptMessageError, match="not in a buffer"):
        walk.walk_batches(data, 0, len(data) + 1, walk.new_rows(1))
    with pytest.raises(CorruptMessageError, match="length of 7 bytes"):
        walk.walk_batches(data[:8] + b"\x00\x00\x00\x07" + data[12:], 0, len(data), walk.new_rows(1))
    with pytest.raises(InvariantError):
        walk.walk_records(data, 61, len(data), header, walk.new_rows(0))


@given(damaged(), st.integers(0, 3))
@pytest.mark.spec("RF-11")
def test_damage_raises_typed_errors_only(case: tuple[bytes, int], flipped: int) -> None:
    payload, count = case
    data, _ = batch(payload, min(max(count, -1), (1 << 31) - 1), last_offset_delta=0)
    data = data[:22] + bytes([flipped << 3]) + data[23:]
    rows = walk.new_rows(8)
    try:
        position, filled, reason = walk.walk_batches(data, 0, len(data), rows)
    except InvalidDataError:
        return
    assert reason in (walk.AT_END, walk.NOT_PLAIN, walk.ROWS_FULL)
    for start, length in zip(rows[2 : 8 * filled : 8], rows[3 : 8 * filled : 8], strict=True):
        assert 61 <= start <= start + max(length, 0) <= position
