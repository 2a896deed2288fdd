"""Records read from batches of all magics and codecs; hostile bytes end in typed errors."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from suite.seeds import examples
from tailrace.model.errors import (
    CorruptMessageError,
    InvalidDataError,
    InvalidRecordError,
    MessageTooLargeError,
    UnsupportedCompressionError,
)
from tailrace.record.batch import BatchHeader
from tailrace.record.builder import batch_of, empty_batch
from tailrace.record.compression import compress
from tailrace.record.control import COMMIT, end_txn_marker
from tailrace.record.reader import Record, application_records, records_of
from tailrace.record.shallow import batches
from tailrace.record.varint import encode_varint, encode_varlong

HEADERS = (("h", b"v"), ("", None), ("ключ", b""))
SEQUENCES = [2**31 - 3, 2**31 - 2, 2**31 - 1, 0, 1]
NULLABLE = st.none() | st.binary(max_size=60)


def five(timestamps: list[int], timestamp_type: int = 0) -> list[Record]:
    """The records of every v2 batch in kafka_batches.txt."""
    content = [
        (b"a", b"first", ()),
        (None, b"", HEADERS),
        (b"c", None, ()),
        (b"", b"x" * 200, HEADERS),
        (b"a", b"last", ()),
    ]
    return [
        Record(42 + i, timestamps[i], timestamp_type, key, value, headers, SEQUENCES[i])
        for i, (key, value, headers) in enumerate(content)
    ]


CREATED = five([1_000, 3_000, 500, 2_000, 4_000])


def read(data: bytes, max_bytes: int = 1 << 20) -> list[Record]:
    (batch,) = batches(data)
    return list(records_of(data, batch, max_bytes))


def raw_batch(payload: bytes, count: int = 1, codec: int = 0) -> bytes:
    """A batch around any payload; the reader leaves the CRC to its caller."""
    return BatchHeader(7, 49 + len(payload), 0, 2, 0, codec, 0, 1_000, 1_000, -1, -1, -1, count).pack() + payload


def raw_record(body: bytes) -> bytes:
    return encode_varint(len(body)) + body


@pytest.mark.spec("RF-05")
@pytest.mark.parametrize("name", ["v2-none", "v2-gzip", "v2-snappy", "v2-lz4", "v2-zstd", "v2-horizon"])
def test_kafkas_batches_are_read(kafka_batches: dict[str, bytes], name: str) -> None:
    assert read(kafka_batches[name]) == CREATED
    assert list(application_records(kafka_batches[name])) == CREATED


@pytest.mark.spec("RF-05")
def test_append_time_is_every_records_timestamp(kafka_batches: dict[str, bytes]) -> None:
    assert read(kafka_batches["v2-append-time"]) == five([6_000] * 5, 1)


@pytest.mark.spec("RF-08")
@pytest.mark.parametrize("name", ["v2-none-kept-1-3", "v2-zstd-kept-1-3", "v2-horizon-kept-1-3"])
def test_filtered_batches_keep_offsets_timestamps_and_sequences(kafka_batches: dict[str, bytes], name: str) -> None:
    assert read(kafka_batches[name]) == [CREATED[1], CREATED[3]]


@pytest.mark.spec("RF-08")
def test_an_empty_batch_has_no_records(kafka_batches: dict[str, bytes]) -> None:
    assert read(kafka_batches["v2-emptied"]) == []


@pytest.mark.spec("RF-05", "RF-12")
@settings(max_examples=examples(60))
@given(
    records=st.lists(
        st.tuples(
            st.integers(0, 2**62), NULLABLE, NULLABLE, st.lists(st.tuples(st.text(max_size=8), NULLABLE), max_size=3)
        ),
        min_size=1,
        max_size=8,
    ),
    codec=st.sampled_from([0, 1, 3, 4]),
)
def test_kafka_pythons_batches_are_read(records: list, codec: int) -> None:
    judge = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, batch_size=1 << 20)
    for i, (timestamp, key, value, headers) in enumerate(records):
        judge.append(i, timestamp, key, value, headers)
    assert list(application_records(bytes(judge.build()))) == [
        Record(i, timestamp, 0, key, value, tuple(headers))
        for i, (timestamp, key, value, headers) in enumerate(records)
    ]


@pytest.mark.spec("RF-07")
@pytest.mark.parametrize(
    "name", ["v0-none", "v0-gzip", "v0-snappy", "v1-none", "v1-gzip", "v1-snappy", "v1-lz4", "v1-lz4-append-time"]
)
def test_old_message_sets_are_read_as_records(kafka_batches: dict[str, bytes], name: str) -> None:
    if name.startswith("v0"):
        times, timestamp_type = [-1, -1, -1], -1
    elif name.endswith("append-time"):
        times, timestamp_type = [6_000, 6_000, 6_000], 1
    else:
        times, timestamp_type = [1_000, 3_000, 2_000], 0
    assert list(application_records(kafka_batches[name])) == [
        Record(42, times[0], timestamp_type, b"a", b"first"),
        Record(43, times[1], timestamp_type, None, b""),
        Record(46, times[2], timestamp_type, b"c", None),
    ]


@pytest.mark.spec("RF-06", "RF-09")
def test_applications_get_no_control_records_and_no_partial_batches(kafka_batches: dict[str, bytes]) -> None:
    marker = end_txn_marker(COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=1, base_offset=1)
    last = batch_of([(2, b"l", b"w")], base_offset=50)
    data = b"".join(
        [
            batch_of([(1, b"k", b"v")]),
            marker,
            kafka_batches["abort"],
            empty_batch(13, 14),
            kafka_batches["v1-gzip"],
            last,
        ]
    )
    partial = batch_of([(3, b"m", b"x")], base_offset=51)[:-1]
    assert [record.offset for record in application_records(data + partial)] == [0, 42, 43, 46, 50]
    assert [record.offset for record in application_records(data, len(data) - len(last))] == [50]
    assert [record.offset for record in application_records(data, 0, len(data) - 1)] == [0, 42, 43, 46]


@pytest.mark.spec("RF-11")
def test_applications_get_no_damaged_batch(kafka_batches: dict[str, bytes]) -> None:
    for name in ("v2-none", "v1-none"):
        data = bytearray(kafka_batches[name])
        data[-1] ^= 1
        with pytest.raises(CorruptMessageError, match="CRC"):
            list(application_records(data))
    data = bytearray(kafka_batches["v2-none"])
    data[17] ^= 1
    assert list(application_records(data, check_crcs=False)) == CREATED


@pytest.mark.spec("RF-12")
def test_header_keys_that_are_no_utf_8_are_escaped_not_altered() -> None:
    body = b"\0" + encode_varlong(0) + encode_varint(0) + b"\1\1" + encode_varint(1)
    body += encode_varint(2) + b"\xff\xc0" + encode_varint(0)
    (record,) = read(raw_batch(raw_record(body)))
    assert record.headers == (("\udcff\udcc0", b""),)


@pytest.mark.spec("RF-11")
@pytest.mark.parametrize("count", [-1, -(2**31), 0, 1, 3, 2**31 - 1])
def test_a_wrong_record_count_is_refused(kafka_batches: dict[str, bytes], count: int) -> None:
    for name in ("v2-none", "v2-zstd"):
        data = bytearray(kafka_batches[name])
        struct.pack_into(">i", data, 57, count)
        with pytest.raises(InvalidRecordError):
            read(data)


GOOD = b"\0\0\0"  # attributes, timestamp delta 0, offset delta 0


@pytest.mark.spec("RF-11")
@pytest.mark.parametrize(
    "record",
    [
        b"",
        encode_varint(-1),
        encode_varint(0),
        encode_varint(2**31 - 1),
        b"\x80",
        b"\xff\xff\xff\xff\xff\x01",
        raw_record(b"\0"),
        raw_record(b"\0\x80"),
        raw_record(b"\0" + b"\xff" * 10 + b"\x01\0\1\1\0"),
        raw_record(GOOD),
        raw_record(GOOD + encode_varint(100)),
        raw_record(GOOD + b"\1" + encode_varint(2**31 - 1)),
        raw_record(GOOD + b"\1\1"),
        raw_record(GOOD + b"\1\1" + encode_varint(-1)),
        raw_record(GOOD + b"\1\1" + encode_varint(2**31 - 1)),
        raw_record(GOOD + b"\1\1" + encode_varint(1)),
        raw_record(GOOD + b"\1\1" + encode_varint(1) + encode_varint(-1) + b"\1"),
        raw_record(GOOD + b"\1\1" + encode_varint(1) + encode_varint(9) + b"\1"),
        raw_record(GOOD + b"\1\1\0" + b"\0"),
        raw_record(GOOD + b"\1\1\0")[:-1],
        raw_record(GOOD + b"\1\1\0") + b"\0",
    ],
)
def test_broken_records_are_refused(record: bytes) -> None:
    for data in (raw_batch(record), raw_batch(compress(4, record), codec=4)):
        with pytest.raises(InvalidRecordError):
            read(data)


def test_a_field_may_not_reach_into_the_next_record() -> None:
    stolen = raw_record(GOOD + b"\1" + encode_varint(4))
    with pytest.raises(InvalidRecordError, match="field of 4 bytes"):
        read(raw_batch(stolen + raw_record(GOOD + b"\1\1\0"), count=2))


def test_every_negative_length_is_null() -> None:
    (record,) = read(raw_batch(raw_record(GOOD + encode_varint(-5) + encode_varint(-(2**31)) + b"\0")))
    assert (record.key, record.value) == (None, None)


@pytest.mark.spec("RF-11")
@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_decompression_is_bounded(codec: int) -> None:
    data = batch_of([(1, None, bytes(1 << 20))], codec=codec)
    assert len(read(data, (1 << 20) + 100)) == 1
    with pytest.raises(MessageTooLargeError):
        read(data, 1 << 20)


@pytest.mark.spec("RF-11")
def test_blocks_that_are_not_compressed_as_stated_are_refused() -> None:
    for codec in (1, 2, 3, 4):
        with pytest.raises(InvalidDataError):
            read(raw_batch(b"neither this nor that", codec=codec))
    for codec in (5, 6, 7):
        with pytest.raises(UnsupportedCompressionError):
            read(raw_batch(b"whatever", codec=codec))


@given(payload=st.binary(max_size=100), count=st.integers(-1, 20), codec=st.integers(0, 7))
def test_no_payload_does_worse_than_a_typed_error(payload: bytes, count: int, codec: int) -> None:
    with contextlib.suppress(InvalidDataError, MessageTooLargeError):
        read(raw_batch(payload, count, codec))


@given(data=st.data())
def test_no_damaged_record_does_worse_than_a_typed_error(kafka_batches: dict[str, bytes], data: st.DataObject) -> None:
    names = [name for name in kafka_batches if name.startswith("v")]
    damaged = bytearray(kafka_batches[data.draw(st.sampled_from(names))])
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(InvalidDataError, MessageTooLargeError):
        list(application_records(damaged, check_crcs=False, max_decompressed_bytes=1 << 20))
