"""Batches we build: equal to Apache Kafka's and kafka-python's, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from suite.seeds import examples
from tailrace.model.errors import InvalidRecordError
from tailrace.record.batch import LOG_APPEND_TIME, BatchHeader, check_crc
from tailrace.record.builder import BatchBuilder, batch_of, decode_header_key, empty_batch, encode_header_key
from tailrace.record.reader import Record, records_of
from tailrace.record.shallow import batches, check_integrity

HEADERS = (("h", b"v"), ("", None), ("ключ", b""))
FIVE = [
    (1_000, b"a", b"first"),
    (3_000, None, b"", HEADERS),
    (500, b"c", None),
    (2_000, b"", b"x" * 200, HEADERS),
    (4_000, b"a", b"last"),
]
PRODUCER = {"producer_id": 77, "producer_epoch": 2, "base_sequence": 2**31 - 3, "transactional": True}
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

NULLABLE = st.none() | st.binary(max_size=80)
RECORDS = st.lists(
    st.tuples(
        st.integers(0, 2**62),
        NULLABLE,
        NULLABLE,
        st.lists(st.tuples(st.text(max_size=8), NULLABLE), max_size=3),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.spec("RF-01", "RF-05")
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("v2-none", {}),
        ("v2-horizon", {"delete_horizon_ms": 7_777}),
        ("v2-append-time", {"timestamp_type": LOG_APPEND_TIME, "log_append_time_ms": 6_000}),
    ],
)
def test_uncompressed_batches_are_kafkas(kafka_batches: dict[str, bytes], name: str, fields: dict[str, int]) -> None:
    assert batch_of(FIVE, base_offset=42, leader_epoch=3, **PRODUCER, **fields) == kafka_batches[name]


@pytest.mark.spec("RF-01", "RF-03")
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_differ_from_kafkas_in_the_block_only(kafka_batches: dict[str, bytes], codec: str) -> None:
    ours = batch_of(FIVE, base_offset=42, leader_epoch=3, codec=CODECS[codec], **PRODUCER)
    header = BatchHeader.at(ours)
    check_crc(ours, 0, header)
    assert header.size == len(ours) < len(kafka_batches["v2-none"])
    theirs = kafka_batches[f"v2-{codec}"]
    assert header._replace(length=0, crc=0) == BatchHeader.at(theirs)._replace(length=0, crc=0)
    (mine,), (foreign,) = batches(ours), batches(theirs)
    assert list(records_of(ours, mine)) == list(records_of(theirs, foreign))


@pytest.mark.spec("RF-01", "RF-05", "RF-12")
@given(records=RECORDS)
def test_uncompressed_batches_are_kafka_pythons(records: list) -> None:
    judge = DefaultRecordBatchBuilder(2, 0, False, 5, 6, 7, batch_size=1 << 20)
    for i, (timestamp, key, value, headers) in enumerate(records):
        judge.append(i, timestamp, key, value, headers)
    ours = batch_of(records, producer_id=5, producer_epoch=6, base_sequence=7, leader_epoch=0)
    assert ours == judge.build()


@pytest.mark.spec("RF-05", "RF-12")
@settings(max_examples=examples(50))
@given(records=RECORDS, base_offset=st.integers(0, 2**62), codec=st.sampled_from([0, 1, 3, 4]))
def test_kafka_python_reads_what_we_build(records: list, base_offset: int, codec: int) -> None:
    judge = DefaultRecordBatch(batch_of(records, base_offset=base_offset, codec=codec))
    assert judge.validate_crc()
    read = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in judge]
    assert read == [
        (base_offset + i, timestamp, key, value, headers) for i, (timestamp, key, value, headers) in enumerate(records)
    ]


def test_appending_at_offsets_leaves_gaps() -> None:
    builder = BatchBuilder(100)
    assert (builder.next_offset, builder.record_count, builder.uncompressed_bytes) == (100, 0, 61)
    builder.append_at(103, 1, b"k", b"v")
    builder.append(2, None, None)
    builder.append_at(100 + 2**31 - 1, 3, None, None)
    assert builder.record_count == 3
    batch = builder.build()
    assert builder.uncompressed_bytes == len(batch)
    (found,) = batches(batch)
    assert (found.base_offset, found.last_offset, found.record_count) == (100, 100 + 2**31 - 1, 3)
    assert [record.offset for record in records_of(batch, found)] == [103, 104, 100 + 2**31 - 1]
    assert builder.build() == batch


@pytest.mark.spec("RF-08")
def test_a_batch_may_end_beyond_its_last_record() -> None:
    builder = BatchBuilder(10, producer_id=1, producer_epoch=0, base_sequence=20)
    builder.append_at(12, 1, b"k", b"v")
    batch = builder.build(last_offset=19)
    (found,) = batches(batch)
    assert (found.base_offset, found.last_offset, found.base_sequence, found.last_sequence) == (10, 19, 20, 29)
    assert list(records_of(batch, found)) == [Record(12, 1, 0, b"k", b"v", (), 22)]
    for last_offset in (11, 10 + 2**31):
        with pytest.raises(InvalidRecordError):
            builder.build(last_offset)


@pytest.mark.spec("RF-08")
def test_an_empty_batch_is_kafkas(kafka_batches: dict[str, bytes]) -> None:
    empty = empty_batch(42, 46, max_timestamp=4_000, leader_epoch=3, **PRODUCER)
    assert empty == kafka_batches["v2-emptied"]
    (found,) = batches(empty)
    check_integrity(empty, found)
    assert (found.record_count, found.last_sequence, found.base_timestamp) == (0, 1, -1)
    assert list(records_of(empty, found)) == []


def test_an_empty_batch_has_its_attributes() -> None:
    empty = empty_batch(5, 5, timestamp_type=1, control=True, producer_id=1, unused_attributes=-32768 | 0x7F)
    assert BatchHeader.at(empty).attributes == -32768 | 0x28


@pytest.mark.spec("RF-03")
def test_unused_attribute_bits_are_carried_and_others_are_not() -> None:
    batch = batch_of([(1, None, None)], unused_attributes=0x7FFF)
    assert BatchHeader.at(batch).attributes == 0x7F80
    check_crc(batch, 0, BatchHeader.at(batch))


@pytest.mark.spec("RF-12")
@given(key=st.binary(max_size=20))
def test_header_keys_that_are_no_utf_8_survive(key: bytes) -> None:
    assert encode_header_key(decode_header_key(key)) == key
    batch = batch_of([(1, None, None, [(decode_header_key(key), key)])])
    (found,) = batches(batch)
    (record,) = records_of(batch, found)
    ((name, value),) = record.headers
    assert (encode_header_key(name), value) == (key, key)


def test_a_key_without_utf_8_form_is_refused_and_changes_nothing() -> None:
    builder = BatchBuilder()
    with pytest.raises(InvalidRecordError, match="UTF-8"):
        builder.append(9, None, None, [("\ud800", None)])
    builder.append(5, None, b"v")
    assert builder.build() == batch_of([(5, None, b"v")])


def test_timestamps_of_the_whole_range_are_written() -> None:
    stamps = [2**63 - 1, -1, 0]
    batch = batch_of([(stamp, None, None) for stamp in stamps])
    (found,) = batches(batch)
    assert [record.timestamp for record in records_of(batch, found)] == stamps
    assert (found.base_timestamp, found.max_timestamp) == (2**63 - 1, 2**63 - 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"transactional": True},
        {"producer_id": 1},
        {"producer_id": 1, "producer_epoch": 0},
        {"producer_id": 1, "producer_epoch": -1, "base_sequence": 0},
        {"timestamp_type": 2},
        {"timestamp_type": -1},
        {"timestamp_type": LOG_APPEND_TIME},
        {"delete_horizon_ms": -1},
        {"codec": 8},
        {"codec": -1},
        {"base_offset": 2**63},
        {"leader_epoch": 2**31},
        {"producer_id": 1, "producer_epoch": 2**15, "base_sequence": 0},
    ],
)
def test_fields_that_make_no_batch_are_refused(fields: dict[str, int]) -> None:
    with pytest.raises(InvalidRecordError):
        batch_of([(1, None, None)], **fields)


def test_records_that_do_not_fit_are_refused() -> None:
    builder = BatchBuilder(10)
    with pytest.raises(InvalidRecordError, match="empty_batch"):
        builder.build()
    for offset, timestamp in ((9, 0), (10 + 2**31, 0), (10, -2), (10, 2**63)):
        with pytest.raises(InvalidRecordError):
            builder.append_at(offset, timestamp, None, None)
    builder.append(0, None, None)
    with pytest.raises(InvalidRecordError, match="does not follow"):
        builder.append_at(10, 0, None, None)
    for last_offset in (9, 10 + 2**31):
        with pytest.raises(InvalidRecordError):
            empty_batch(10, last_offset)
