"""Batches of all three magics, written by kafka-python, seen from outside."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from tailrace.model.errors import CorruptMessageError
from tailrace.record.batch import BatchHeader
from tailrace.record.shallow import (
    NO_TIMESTAMP,
    NO_TIMESTAMP_TYPE,
    UNKNOWN,
    ShallowBatch,
    batches,
    check_integrity,
    next_batch,
)

RECORDS = [(1_000, b"a", b"first" * 30), (3_000, None, b"second" * 30), (2_000, b"c", None)]


def foreign(magic: int, codec: int = 0, **producer: int) -> bytes:
    builder = MemoryRecordsBuilder(magic, codec, 1 << 20, **producer)
    for timestamp, key, value in RECORDS:
        builder.append(timestamp if magic else None, key, value)
    builder.close()
    return bytes(builder.buffer())


def judged(data: bytes) -> tuple[int, int]:
    """How many whole batches kafka-python finds, and their bytes."""
    records = MemoryRecords(data)
    return sum(1 for _ in records), records.valid_bytes()


@pytest.mark.spec("RF-01", "RF-03")
def test_a_v2_batch_shows_its_header() -> None:
    data = bytearray(foreign(2, 4, producer_id=9, producer_epoch=2, base_sequence=2**31 - 2, transactional=True))
    struct.pack_into(">q", data, 0, 500)
    batch = next_batch(b"..." + bytes(data), 3, len(data) + 3)
    assert batch is not None
    header = BatchHeader.at(data)
    assert (batch.position, batch.size, batch.end) == (3, len(data), len(data) + 3)
    assert (batch.magic, batch.is_v2) == (2, True)
    assert (batch.base_offset, batch.last_offset, batch.next_offset) == (500, 502, 503)
    assert (batch.base_timestamp, batch.max_timestamp) == (1_000, 3_000)
    assert (batch.leader_epoch, batch.attributes, batch.crc) == (header.leader_epoch, 0x14, header.crc)
    assert (batch.codec, batch.timestamp_type) == (4, 0)
    assert (batch.is_transactional, batch.is_control, batch.delete_horizon_ms) == (True, False, None)
    assert (batch.producer_id, batch.producer_epoch, batch.has_producer_id) == (9, 2, True)
    assert (batch.base_sequence, batch.last_sequence) == (2**31 - 2, 0)
    assert batch.record_count == 3


@pytest.mark.spec("RF-03", "RF-08")
def test_the_delete_horizon_is_the_base_timestamp_with_bit_6() -> None:
    header = BatchHeader(0, 49, 0, 2, 0, 0x60, 0, 777, 1, -1, -1, -1, 0)
    (batch,) = batches(header.pack())
    assert (batch.delete_horizon_ms, batch.is_control, batch.last_sequence) == (777, True, -1)


@pytest.mark.spec("RF-07")
@pytest.mark.parametrize(("magic", "timestamps", "timestamp_type"), [(0, [-1] * 3, -1), (1, [1_000, 3_000, 2_000], 0)])
def test_plain_messages_of_old_magics(magic: int, timestamps: list[int], timestamp_type: int) -> None:
    data = foreign(magic)
    found = list(batches(data))
    assert [batch.base_offset for batch in found] == [0, 1, 2]
    assert [batch.last_offset for batch in found] == [0, 1, 2]
    assert [batch.max_timestamp for batch in found] == timestamps
    assert {batch.timestamp_type for batch in found} == {timestamp_type}
    assert {batch.record_count for batch in found} == {1}
    assert sum(batch.size for batch in found) == len(data)
    for batch in found:
        assert (batch.is_v2, batch.is_transactional, batch.is_control, batch.has_producer_id) == (False,) * 4
        assert (batch.leader_epoch, batch.producer_epoch, batch.last_sequence) == (-1, -1, -1)
        assert batch.delete_horizon_ms is None
        check_integrity(data, batch)


@pytest.mark.spec("RF-07")
@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_knows_its_last_offset_only(magic: int) -> None:
    data = bytearray(foreign(magic, codec=1))
    struct.pack_into(">q", data, 0, 41)
    (batch,) = batches(data)
    assert (batch.base_offset, batch.last_offset, batch.next_offset) == (UNKNOWN, 41, 42)
    assert (batch.record_count, batch.codec) == (UNKNOWN, 1)
    check_integrity(data, batch)


def test_magic_0_has_no_timestamp_whatever_its_attributes_say() -> None:
    message = bytearray(foreign(0)[:40])
    message[17] = 0x38
    batch = next_batch(bytes(message) + bytes(200), 0, 240)
    assert batch is not None
    assert (batch.max_timestamp, batch.timestamp_type) == (NO_TIMESTAMP, NO_TIMESTAMP_TYPE)
    assert (batch.is_control, batch.is_transactional) == (False, False)


@pytest.mark.spec("RF-09")
def test_a_partial_batch_is_not_handed_on_wherever_it_is_cut() -> None:
    data = foreign(2) + foreign(1) + foreign(0) + foreign(1, codec=1) + foreign(2, codec=1)
    whole = list(batches(data))
    assert whole[-1].end == len(data)
    assert [batch.magic for batch in whole] == [2, 1, 1, 1, 0, 0, 0, 1, 2]
    for cut in range(len(data) + 1):
        fitting = [batch for batch in whole if batch.end <= cut]
        assert list(batches(data[:cut])) == fitting  # the buffer ends there
        assert list(batches(data, 0, cut)) == fitting  # the caller's window ends there
        assert judged(data[:cut]) == (len(fitting), sum(batch.size for batch in fitting))
    assert list(batches(data, 0, len(data) + 99)) == whole


@pytest.mark.spec("RF-09")
@pytest.mark.parametrize("length", [49, 2**31 - 1])
def test_a_length_beyond_the_end_is_a_partial_batch_not_a_wrapped_number(length: int) -> None:
    header = BatchHeader(0, length, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1).pack()
    assert next_batch(header[:60], 0, 60) is None
    assert (next_batch(header, 0, 61) is None) is (length > 49)
    legacy = struct.pack(">qiIbbq", 0, length, 0, 1, 0, 0) + bytes(40)
    assert next_batch(legacy[:60], 0, 60) is None


@pytest.mark.spec("RF-11")
@pytest.mark.parametrize(
    ("magic", "length"),
    [(0, 13), (1, 21), (2, 48), (0, 0), (1, 0), (2, 0), (0, -1), (1, -1), (2, -1), (2, -(2**31)), (1, -(2**31))],
)
@pytest.mark.parametrize("room", [17, 61, 200])
def test_a_length_below_the_minimum_of_its_magic_is_corrupt(magic: int, length: int, room: int) -> None:
    data = struct.pack(">qiib", 0, length, 0, magic).ljust(200, b"\0")
    with pytest.raises(CorruptMessageError, match=f"length of {length} bytes"):
        next_batch(data, 0, room)


def test_the_least_lengths_are_accepted() -> None:
    for magic, length in ((0, 14), (1, 22), (2, 49)):
        data = struct.pack(">qiib", 5, length, 0, magic).ljust(12 + length, b"\0")
        batch = next_batch(data, 0, len(data))
        assert batch is not None
        assert (batch.magic, batch.size) == (magic, 12 + length)


@pytest.mark.spec("RF-11")
@pytest.mark.parametrize("magic", [-128, -1, 3, 127])
@pytest.mark.parametrize("room", [17, 61, 200])
def test_an_unknown_magic_is_corrupt(magic: int, room: int) -> None:
    data = struct.pack(">qiib", 0, 100, 0, magic).ljust(200, b"\0")
    with pytest.raises(CorruptMessageError, match=f"magic {magic};"):
        next_batch(data, 0, room)


def test_an_impossible_length_is_seen_before_the_magic_is_there() -> None:
    assert next_batch(bytes(11), 0, 11) is None
    with pytest.raises(CorruptMessageError):
        next_batch(bytes(12), 0, 12)
    assert next_batch(struct.pack(">qi", 0, 14), 0, 12) is None


@pytest.mark.spec("RF-02", "RF-18")
@pytest.mark.parametrize(("magic", "covered_from"), [(0, 16), (1, 16), (2, 21)])
def test_integrity_of_every_covered_byte(magic: int, covered_from: int) -> None:
    data = foreign(magic)
    batch = next(iter(batches(data)))
    check_integrity(data, batch)
    for position in range(batch.size):
        damaged = bytearray(data)
        damaged[position] ^= 1
        if position < covered_from:
            check_integrity(damaged, batch)
        else:
            with pytest.raises(CorruptMessageError, match="CRC"):
                check_integrity(damaged, batch)


@pytest.mark.spec("RF-18")
def test_old_magics_use_crc_32_and_not_crc_32c() -> None:
    data = foreign(1)
    batch = next(iter(batches(data)))
    assert batch.crc == zlib.crc32(data[16 : batch.size])


@given(data=st.binary(max_size=300), start=st.integers(0, 50))
def test_no_bytes_do_worse_than_corrupt(data: bytes, start: int) -> None:
    try:
        found = list(batches(data, start))
    except CorruptMessageError:
        return
    _assert_in_order(found, start, len(data))


@given(
    magic=st.integers(-1, 3),
    length=st.one_of(st.integers(-1, 80), st.integers(-(2**31), 2**31 - 1)),
    tail=st.binary(max_size=120),
)
def test_no_head_does_worse_than_corrupt(magic: int, length: int, tail: bytes) -> None:
    data = struct.pack(">qiib", 1, length, 0, magic) + tail
    try:
        found = list(batches(data))
    except CorruptMessageError:
        return
    _assert_in_order(found, 0, len(data))


def _assert_in_order(found: list[ShallowBatch], start: int, end: int) -> None:
    for batch in found:
        assert batch.position == start
        assert batch.size >= 26
        start = batch.end
    assert not found or start <= end
