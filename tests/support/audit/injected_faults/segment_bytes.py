"""Faults in the bytes of a segment: frames, CRCs, headers, records, ends of files."""

from __future__ import annotations

from support.audit.injected_faults.catalog import Case, Expected, fault, garbage
from support.audit.logs import LZ4, ZSTD
from tailrace.record.batch import CODEC_MASK, HEADER_BYTES, set_crc
from tailrace.spark.auditing.rules import (
    BAD_COMPRESSION,
    BAD_CONTROL,
    BAD_FRAME,
    BAD_HEADER,
    BAD_RECORD,
    CRC,
    TRAILING_BYTES,
    TRUNCATED,
)

# A bit of a field that the CRC covers, or of the CRC


@fault()
def flipped_crc(case: Case) -> Expected:
    case.flip(1, 2, byte=18)
    return case.at(CRC, 1, 2)


@fault()
def flipped_attributes(case: Case) -> Expected:
    case.flip(1, 2, byte=22, bit=4)
    return case.at(CRC, 1, 2)


@fault()
def flipped_last_offset_delta(case: Case) -> Expected:
    case.flip(1, 2, byte=26)
    return case.at(CRC, 1, 2)


@fault()
def flipped_base_timestamp(case: Case) -> Expected:
    case.flip(1, 2, byte=30)
    return case.at(CRC, 1, 2)


@fault()
def flipped_max_timestamp(case: Case) -> Expected:
    case.flip(1, 2, byte=38, bit=3)
    return case.at(CRC, 1, 2)


@fault()
def flipped_producer_id(case: Case) -> Expected:
    case.flip(0, 3, byte=50, bit=2)
    return case.at(CRC, 0, 3)


@fault()
def flipped_producer_epoch(case: Case) -> Expected:
    case.flip(0, 3, byte=52)
    return case.at(CRC, 0, 3)


@fault()
def flipped_base_sequence(case: Case) -> Expected:
    case.flip(0, 3, byte=56, bit=5)
    return case.at(CRC, 0, 3)


@fault()
def flipped_record_count(case: Case) -> Expected:
    case.flip(0, 0, byte=60)
    return case.at(CRC, 0, 0)


@fault()
def flipped_record(case: Case) -> Expected:
    case.flip(2, 7, byte=HEADER_BYTES + 40)
    return case.at(CRC, 2, 7)


@fault()
def flipped_compressed_record(case: Case) -> Expected:
    case.flip(1, 7, byte=HEADER_BYTES + 20)
    return case.at(CRC, 1, 7)


@fault()
def flipped_in_active_segment(case: Case) -> Expected:
    case.flip(3, 2, byte=HEADER_BYTES + 10, bit=7)
    return case.at(CRC, 3, 2)


@fault()
def flipped_marker(case: Case) -> Expected:
    case.flip(1, 4, byte=HEADER_BYTES + 8, bit=1)
    return case.at(CRC, 1, 4)


# Frames


@fault()
def flipped_length(case: Case) -> Expected:
    expected = case.at(BAD_FRAME, 1, 2)
    case.flip(1, 2, byte=11, bit=3)
    return expected


@fault()
def huge_length(case: Case) -> Expected:
    expected = case.at(BAD_FRAME, 1, 2)
    case.flip(1, 2, byte=8, bit=6)
    return expected


@fault()
def small_length(case: Case) -> Expected:
    expected = case.at(BAD_FRAME, 0, 4)
    path, position = case.log(0), case.batch(0, 4).position
    content = bytearray(path.read_bytes())
    content[position + 8 : position + 12] = (3).to_bytes(4, "big")
    path.write_bytes(content)
    return expected


@fault()
def flipped_magic(case: Case) -> Expected:
    """A format of which nothing is known, and in all else a batch that is right."""
    expected = case.at(BAD_HEADER, 1, 2)
    case.flip(1, 2, byte=16, bit=3)
    return expected


@fault()
def overwritten_batch(case: Case) -> Expected:
    expected = case.at(BAD_FRAME, 2, 4)
    parts = case.partition.parts(2)
    parts[4] = garbage(len(parts[4]))
    case.log(2).write_bytes(b"".join(parts))
    return expected


@fault()
def zeroed_batch(case: Case) -> Expected:
    """As a disk gives that lost a page."""
    expected = case.at(BAD_FRAME, 1, 2)
    parts = case.partition.parts(1)
    parts[2] = bytes(len(parts[2]))
    case.log(1).write_bytes(b"".join(parts))
    return expected


# Headers and records that lie, with the right CRC


@fault()
def wrong_max_timestamp(case: Case) -> Expected:
    case.header(1, 2, max_timestamp=case.batch(1, 2).max_timestamp + 400)
    case.partition.index(1)
    return case.at(BAD_HEADER, 1, 2)


@fault()
def wrong_max_timestamp_of_a_marker(case: Case) -> Expected:
    case.header(1, 4, max_timestamp=case.batch(1, 4).max_timestamp + 400)
    case.partition.index(1)
    return case.at(BAD_HEADER, 1, 4)


@fault()
def negative_record_count(case: Case) -> Expected:
    case.header(0, 0, record_count=-4)
    return case.at(BAD_RECORD, 0, 0)


@fault()
def negative_last_offset_delta(case: Case) -> Expected:
    case.header(2, 4, last_offset_delta=-2)
    return case.at(BAD_HEADER, 2, 4)


@fault()
def more_records_stated(case: Case) -> Expected:
    case.header(0, 0, record_count=5, last_offset_delta=3)
    return case.at(BAD_RECORD, 0, 0, also=(BAD_HEADER,))


@fault()
def fewer_records_stated(case: Case) -> Expected:
    case.header(0, 0, record_count=3)
    return case.at(BAD_RECORD, 0, 0)


@fault()
def fewer_compressed_records_stated(case: Case) -> Expected:
    case.header(0, 6, record_count=3)
    return case.at(BAD_RECORD, 0, 6)


@fault()
def other_codec(case: Case) -> Expected:
    attributes = case.batch(0, 2).attributes
    case.header(0, 2, attributes=attributes - LZ4 + ZSTD)
    return case.at(BAD_COMPRESSION, 0, 2)


@fault()
def unknown_codec(case: Case) -> Expected:
    attributes = case.batch(0, 2).attributes
    case.header(0, 2, attributes=attributes | CODEC_MASK)
    return case.at(BAD_COMPRESSION, 0, 2)


@fault()
def damaged_compression(case: Case) -> Expected:
    parts = case.partition.parts(1)
    parts[7] = _with_right_crc(parts[7], HEADER_BYTES + 1, 0xFF)
    case.log(1).write_bytes(b"".join(parts))
    return case.at(BAD_COMPRESSION, 1, 7)


@fault()
def wrong_record_length(case: Case) -> Expected:
    parts = case.partition.parts(2)
    parts[7] = _with_right_crc(parts[7], HEADER_BYTES, 2)
    case.log(2).write_bytes(b"".join(parts))
    return case.at(BAD_RECORD, 2, 7)


@fault()
def wrong_record_offset(case: Case) -> Expected:
    """The first record says that it is the third."""
    parts = case.partition.parts(2)
    at = HEADER_BYTES + 3 if parts[7][HEADER_BYTES] < 0x80 else HEADER_BYTES + 4
    parts[7] = _with_right_crc(parts[7], at, 4)
    case.log(2).write_bytes(b"".join(parts))
    return case.at(BAD_RECORD, 2, 7)


@fault()
def marker_of_no_kind(case: Case) -> Expected:
    """A control record without a whole key."""
    parts = case.partition.parts(2)
    parts[3] = _with_right_crc(parts[3], HEADER_BYTES + 5, 0xFF)
    case.log(2).write_bytes(b"".join(parts))
    return case.at(BAD_CONTROL, 2, 3)


def _with_right_crc(batch: bytes, position: int, byte: int) -> bytes:
    changed = bytearray(batch)
    changed[position] = byte
    set_crc(changed)
    return bytes(changed)


# Ends of files


@fault()
def cut_within_last_batch(case: Case) -> Expected:
    expected = case.at(TRUNCATED, 1, 7)
    _cut(case, 1, -20)
    return expected


@fault()
def cut_at_a_batch(case: Case) -> Expected:
    expected = case.at(TRUNCATED, 1, 7)
    case.partition.write(1, case.partition.parts(1)[:7])
    return expected


@fault()
def cut_to_nothing(case: Case) -> Expected:
    expected = case.at(TRUNCATED, 2, 0)
    case.partition.write(2, [])
    return expected


@fault()
def cut_active_segment_within_a_batch(case: Case) -> Expected:
    expected = case.at(TRUNCATED, 3, 6)
    _cut(case, 3, -20)
    return expected


@fault()
def cut_active_segment_at_a_batch(case: Case) -> Expected:
    """Below the high watermark: committed records are gone."""
    expected = case.at(TRUNCATED, 3, 6)
    case.partition.write(3, case.partition.parts(3)[:6])
    return expected


@fault()
def grown_segment(case: Case) -> Expected:
    _append(case, 1, garbage(100))
    return case.expects(TRAILING_BYTES, case.log(1), case.batch(2, 0).base_offset)


@fault()
def zeros_behind_closed_segment(case: Case) -> Expected:
    _append(case, 1, bytes(4096))
    return case.expects(TRAILING_BYTES, case.log(1), case.batch(2, 0).base_offset)


@fault()
def zeros_behind_the_last_segment(case: Case) -> Expected:
    """Room for more, which goes when a broker is shut down cleanly."""
    _append(case, 3, bytes(4096))
    return case.expects(TRAILING_BYTES, case.log(3), 87)


def _cut(case: Case, segment: int, size: int) -> None:
    """Off its end, when negative; indexes have no entry beyond it."""
    case.log(segment).write_bytes(case.log(segment).read_bytes()[:size])
    case.partition.index(segment)


def _append(case: Case, segment: int, data: bytes) -> None:
    with case.log(segment).open("ab") as file:
        file.write(data)
