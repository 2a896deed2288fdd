"""The 61-byte header against kafka-python, which reads and writes it with code of its own."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from tailrace.model.errors import CorruptMessageError
from tailrace.record import batch as header_module
from tailrace.record.batch import (
    CREATE_TIME,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
    check_crc,
    crc_of,
    set_base_offset,
    set_leader_epoch,
    set_max_timestamp,
)


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


HEADERS = st.builds(
    BatchHeader,
    base_offset=_integers(64),
    length=_integers(32),
    leader_epoch=_integers(32),
    magic=_integers(8),
    crc=st.integers(0, 0xFFFFFFFF),
    attributes=_integers(16),
    last_offset_delta=_integers(32),
    base_timestamp=_integers(64),
    max_timestamp=_integers(64),
    producer_id=_integers(64),
    producer_epoch=_integers(16),
    base_sequence=_integers(32),
    record_count=_integers(32),
)


def foreign_batch(**fields: int) -> bytearray:
    """A batch of three records written by kafka-python."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=fields.get("codec", 0),
        is_transactional=fields.get("transactional", 0),
        producer_id=fields.get("producer_id", 77),
        producer_epoch=5,
        base_sequence=fields.get("base_sequence", 100),
        batch_size=1 << 20,
    )
    for i, timestamp in enumerate((1_000, 3_000, 2_000)):
        builder.append(i, timestamp, b"key-%d" % i, b"value-%d" % i * 20, [])
    return bytearray(builder.build())


@pytest.mark.spec("RF-01")
@given(header=HEADERS, before=st.binary(max_size=20), after=st.binary(max_size=20))
def test_any_header_survives_a_round_trip_at_any_position(header: BatchHeader, before: bytes, after: bytes) -> None:
    packed = header.pack()
    assert len(packed) == HEADER_BYTES == 61
    assert BatchHeader.at(before + packed + after, len(before)) == header
    assert BatchHeader.at(packed).pack() == packed


@pytest.mark.spec("RF-01")
def test_fields_stand_where_the_format_puts_them() -> None:
    header = BatchHeader(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)
    widths = [8, 4, 4, 1, 4, 2, 4, 8, 8, 8, 2, 4, 4]
    assert header.pack() == b"".join(value.to_bytes(width, "big") for value, width in zip(header, widths, strict=True))


@pytest.mark.spec("RF-01")
def test_a_foreign_header_is_read_field_by_field() -> None:
    batch = foreign_batch(transactional=1)
    judge = DefaultRecordBatch(batch)
    header = BatchHeader.at(batch)
    assert header == (
        judge.base_offset,
        len(batch) - 12,
        judge.leader_epoch,
        2,
        judge.crc,
        0x10,
        2,
        1_000,
        3_000,
        77,
        5,
        100,
        3,
    )
    assert header.size == len(batch)
    assert (header.last_offset, header.next_offset, header.last_sequence) == (2, 3, 102)
    assert header.has_producer_id
    assert header.pack() == batch[:61]


@pytest.mark.spec("RF-01")
def test_the_judge_reads_what_we_pack() -> None:
    header = BatchHeader(7, 49, 4, 2, 0, 0x38, 9, -1, 5_000, 2**40, 3, 2**31 - 4, 0)
    batch = bytearray(header.pack())
    struct.pack_into(">I", batch, 17, crc_of(batch, 0, len(batch)))
    judge = DefaultRecordBatch(batch)
    assert judge.validate_crc()
    assert (judge.base_offset, judge.last_offset, judge.leader_epoch) == (7, 16, 4)
    assert (judge.first_timestamp, judge.max_timestamp, judge.timestamp_type) == (-1, 5_000, LOG_APPEND_TIME)
    assert (judge.producer_id, judge.producer_epoch, judge.base_sequence) == (2**40, 3, 2**31 - 4)
    assert judge.is_transactional
    assert judge.is_control_batch
    assert judge.last_sequence == BatchHeader.at(batch).last_sequence == 5  # wrapped past 2147483647
    assert list(judge) == []


def test_a_batch_without_a_producer_has_no_sequence() -> None:
    header = BatchHeader.at(foreign_batch(producer_id=-1, base_sequence=-1))
    assert not header.has_producer_id
    assert header.last_sequence == -1


@pytest.mark.spec("RF-02")
def test_crc_covers_attributes_to_end_and_nothing_before() -> None:
    batch = foreign_batch()
    header = BatchHeader.at(batch)
    check_crc(batch, 0, header)
    for position in range(len(batch)):
        damaged = bytearray(batch)
        damaged[position] ^= 0x40
        covered = position >= 21
        assert (crc_of(damaged, 0, len(damaged)) == header.crc) is not covered
        if covered:
            with pytest.raises(CorruptMessageError, match="CRC"):
                check_crc(damaged, 0, header)


@pytest.mark.spec("RF-02")
def test_offset_and_epoch_are_assigned_without_touching_the_crc() -> None:
    batch = foreign_batch()
    buffer = bytearray(b"..") + batch
    set_base_offset(buffer, 2, 2**40)
    set_leader_epoch(buffer, 2, 31)
    assert buffer[2 + 16 :] == batch[16:]
    judge = DefaultRecordBatch(buffer[2:])
    assert judge.validate_crc()
    assert (judge.base_offset, judge.leader_epoch) == (2**40, 31)
    assert [record.offset for record in judge] == [2**40, 2**40 + 1, 2**40 + 2]


@pytest.mark.spec("RF-02")
def test_a_length_below_the_header_is_no_batch() -> None:
    batch = foreign_batch()
    header = BatchHeader.at(batch)._replace(length=48)
    with pytest.raises(CorruptMessageError, match="48 bytes"):
        check_crc(batch, 0, header)


@pytest.mark.spec("RF-02", "RF-03")
def test_append_time_is_set_with_its_bit_and_a_new_crc() -> None:
    buffer = bytearray(b".") + foreign_batch()
    set_max_timestamp(buffer, 1, BatchHeader.at(buffer, 1), LOG_APPEND_TIME, 9_999)
    judge = DefaultRecordBatch(buffer[1:])
    assert judge.validate_crc()
    assert [(record.timestamp, record.timestamp_type) for record in judge] == [(9_999, 1)] * 3


def test_an_unchanged_timestamp_leaves_the_bytes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = foreign_batch()
    monkeypatch.delattr(header_module, "crc_of")
    set_max_timestamp(batch, 0, BatchHeader.at(batch), CREATE_TIME, 3_000)
    assert batch == foreign_batch()


@pytest.mark.spec("RF-03")
@given(attributes=_integers(16))
def test_attribute_bits(attributes: int) -> None:
    header = BatchHeader.at(foreign_batch())._replace(attributes=attributes)
    bits = [attributes >> bit & 1 for bit in range(16)]
    assert header.codec == bits[0] + 2 * bits[1] + 4 * bits[2]
    assert header.timestamp_type == bits[3]
    assert header.is_transactional is bool(bits[4])
    assert header.is_control is bool(bits[5])
    assert header.has_delete_horizon is bool(bits[6])


@pytest.mark.spec("RF-03")
@pytest.mark.parametrize("codec", [0, 1, 3, 4])
def test_codecs_have_the_numbers_others_give_them(codec: int) -> None:
    assert BatchHeader.at(foreign_batch(codec=codec)).codec == codec


@pytest.mark.spec("RF-03")
@given(attributes=_integers(16), timestamp_type=st.sampled_from([CREATE_TIME, LOG_APPEND_TIME]))
def test_patching_the_timestamp_type_leaves_every_other_bit_alone(attributes: int, timestamp_type: int) -> None:
    batch = foreign_batch()
    batch[21:23] = attributes.to_bytes(2, "big", signed=True)
    set_max_timestamp(batch, 0, BatchHeader.at(batch), timestamp_type, 4_000)
    patched = BatchHeader.at(batch)
    assert patched.attributes & ~0x08 == attributes & ~0x08
    assert (patched.timestamp_type, patched.max_timestamp) == (timestamp_type, 4_000)
    check_crc(batch, 0, patched)
