"""Message sets v0 and v1 against Apache Kafka's bytes and kafka-python, both ways."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatch, LegacyRecordBatchBuilder

from suite.seeds import examples
from tailrace.model.errors import (
    CorruptMessageError,
    InvalidDataError,
    InvalidRecordError,
    MessageTooLargeError,
    UnsupportedCompressionError,
)
from tailrace.record.batch import LOG_APPEND_TIME
from tailrace.record.builder import batch_of
from tailrace.record.compression import compress
from tailrace.record.legacy import LegacyMessage, check_codec, compressed_wrapper, messages_of, plain_message
from tailrace.record.shallow import batches, check_integrity

THREE = [(42, 1_000, b"a", b"first"), (43, 3_000, None, b""), (46, 2_000, b"c", None)]
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3}
LIMIT = 1 << 20

NULLABLE = st.none() | st.binary(max_size=60)
MESSAGES = st.lists(st.tuples(st.integers(0, 2**62), NULLABLE, NULLABLE), min_size=1, max_size=6)


def read(data: bytes) -> list[LegacyMessage]:
    found = []
    for entry in batches(data):
        check_integrity(data, entry)
        found += messages_of(data, entry, LIMIT)
    return found


def plain_set(magic: int, timestamp_type: int = 0) -> bytes:
    return b"".join(
        plain_message(
            offset, 6_000 if timestamp_type else timestamp, key, value, magic=magic, timestamp_type=timestamp_type
        )
        for offset, timestamp, key, value in THREE
    )


def wrap(value: bytes | None, magic: int = 1, codec: int = 1, offset: int = 9, timestamp_type: int = 0) -> bytes:
    """A wrapper around anything, with a good CRC."""
    covered = struct.pack(">bb", magic, codec | timestamp_type << 3) + (struct.pack(">q", 5_555) if magic else b"")
    covered += struct.pack(">i", -1) + (struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)))
    covered += value or b""
    return struct.pack(">qiI", offset, len(covered) + 4, zlib.crc32(covered)) + covered


def expected(magic: int, timestamp_type: int = 0) -> list[LegacyMessage]:
    found = []
    for offset, timestamp, key, value in THREE:
        if magic == 0:
            found.append(LegacyMessage(offset, 0, -1, -1, key, value))
        else:
            found.append(LegacyMessage(offset, 1, 6_000 if timestamp_type else timestamp, timestamp_type, key, value))
    return found


@pytest.mark.spec("RF-07", "RF-18")
@pytest.mark.parametrize(
    ("name", "magic", "timestamp_type"), [("v0-none", 0, 0), ("v1-none", 1, 0), ("v1-none-append-time", 1, 1)]
)
def test_plain_messages_are_kafkas(kafka_batches: dict[str, bytes], name: str, magic: int, timestamp_type: int) -> None:
    assert plain_set(magic, timestamp_type) == kafka_batches[name]
    assert read(kafka_batches[name]) == expected(magic, timestamp_type)


@pytest.mark.spec("RF-07", "RF-18")
@pytest.mark.parametrize(
    ("magic", "codec", "append_time"),
    [(0, "gzip", False), (0, "snappy", False)]
    + [(1, codec, append_time) for codec in ("gzip", "snappy", "lz4") for append_time in (False, True)],
)
def test_wrappers_of_every_codec(kafka_batches: dict[str, bytes], magic: int, codec: str, append_time: bool) -> None:
    theirs = kafka_batches[f"v{magic}-{codec}" + "-append-time" * append_time]
    ours = compressed_wrapper(
        THREE, magic=magic, codec=CODECS[codec], timestamp_type=int(append_time), log_append_time_ms=6_000
    )
    assert read(theirs) == read(ours) == expected(magic, int(append_time))
    (mine,), (foreign,) = batches(ours), batches(theirs)
    assert mine._replace(size=0, crc=0) == foreign._replace(size=0, crc=0)
    assert ours[mine.position + 18 + 8 * magic :].startswith(b"\xff\xff\xff\xff")  # a wrapper's key is null


@pytest.mark.spec("RF-07", "RF-12", "RF-18")
@given(messages=MESSAGES, magic=st.sampled_from([0, 1]))
def test_plain_messages_are_kafka_pythons(messages: list, magic: int) -> None:
    judge = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    for i, (timestamp, key, value) in enumerate(messages):
        judge.append(i, timestamp if magic else None, key, value)
    ours = b"".join(
        plain_message(i, timestamp, key, value, magic=magic) for i, (timestamp, key, value) in enumerate(messages)
    )
    assert ours == judge.build()


@pytest.mark.spec("RF-07", "RF-12", "RF-18")
@settings(max_examples=examples(50))
@given(messages=MESSAGES, magic_and_codec=st.sampled_from([(0, 0), (0, 1), (1, 0), (1, 1), (1, 3)]))
def test_kafka_python_reads_ours_and_we_read_its(messages: list, magic_and_codec: tuple[int, int]) -> None:
    magic, codec = magic_and_codec
    placed = [(100 + i, *message) for i, message in enumerate(messages)]
    if codec:
        ours = compressed_wrapper(placed, magic=magic, codec=codec)
    else:
        ours = b"".join(plain_message(*message, magic=magic) for message in placed)
    content = [(offset, timestamp if magic else None, key, value) for offset, timestamp, key, value in placed]
    judged = []
    for entry in batches(ours):
        batch = LegacyRecordBatch(bytearray(ours[entry.position : entry.end]), magic)
        assert batch.validate_crc()
        judged += [(r.offset, r.timestamp, r.key, r.value) for r in batch]
    assert judged == content

    judge = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for i, (timestamp, key, value) in enumerate(messages):
        judge.append(i, timestamp if magic else None, key, value)
    theirs = [(m.offset + 100, m.timestamp if magic else None, m.key, m.value) for m in read(bytes(judge.build()))]
    assert theirs == content


@pytest.mark.spec("RF-07")
def test_a_v1_wrapper_places_its_messages_by_its_own_offset() -> None:
    data = bytearray(compressed_wrapper(THREE, magic=1, codec=1))
    assert [message.offset for message in read(data)] == [42, 43, 46]
    struct.pack_into(">q", data, 0, 1_046)  # what a broker does to assign offsets
    assert [message.offset for message in read(data)] == [1_042, 1_043, 1_046]
    struct.pack_into(">q", data, 0, 0)  # what some producers send
    assert [message.offset for message in read(data)] == [0, 1, 4]
    struct.pack_into(">q", data, 0, 3)
    with pytest.raises(InvalidRecordError, match="greater relative offset 4"):
        read(data)


@pytest.mark.spec("RF-07")
def test_a_v0_wrapper_does_not() -> None:
    data = bytearray(compressed_wrapper(THREE, magic=0, codec=1))
    struct.pack_into(">q", data, 0, 1_046)
    assert [message.offset for message in read(data)] == [42, 43, 46]


@pytest.mark.spec("RF-07")
def test_append_time_of_the_wrapper_overrides_its_messages() -> None:
    inner = plain_message(0, 1_000, None, b"v", magic=1) + plain_message(1, 2_000, None, b"w", magic=1)
    wrapper = wrap(compress(1, inner), timestamp_type=LOG_APPEND_TIME)
    assert [(m.timestamp, m.timestamp_type) for m in read(wrapper)] == [(5_555, 1), (5_555, 1)]
    assert [(m.timestamp, m.timestamp_type) for m in read(wrap(compress(1, inner)))] == [(1_000, 0), (2_000, 0)]


def test_messages_of_the_other_old_magic_in_a_wrapper_are_read() -> None:
    inner = plain_message(0, 1_000, None, b"v", magic=0) + plain_message(1, 2_000, None, b"w", magic=1)
    found = read(wrap(compress(1, inner), timestamp_type=LOG_APPEND_TIME))
    assert [(m.offset, m.magic, m.timestamp, m.timestamp_type) for m in found] == [(8, 0, -1, -1), (9, 1, 5_555, 1)]
    found = read(wrap(compress(1, inner), magic=0))
    assert [(m.offset, m.magic, m.timestamp, m.timestamp_type) for m in found] == [(0, 0, -1, -1), (1, 1, 2_000, -1)]


@pytest.mark.spec("RF-18")
def test_codecs_by_magic() -> None:
    for magic, codecs in ((0, 2), (1, 3)):
        for codec in range(8):
            if codec <= codecs:
                check_codec(magic, codec)
                continue
            with pytest.raises(UnsupportedCompressionError, match=f"magic {magic} know no codec {codec}"):
                read(wrap(b"whatever", magic=magic, codec=codec))
            with pytest.raises(UnsupportedCompressionError):
                compressed_wrapper(THREE, magic=magic, codec=codec)


@pytest.mark.spec("RF-11")
def test_wrappers_that_hold_no_messages_are_refused() -> None:
    message = plain_message(0, 1, b"k", b"v", magic=1)
    nested = compressed_wrapper([(0, 1, b"k", b"v")], magic=1, codec=1)
    damaged = bytearray(message)
    damaged[-1] ^= 1
    for inner, error, why in (
        (b"", InvalidRecordError, "no messages"),
        (nested, InvalidRecordError, "compressed message"),
        (message + nested, InvalidRecordError, "compressed message"),
        (bytes(batch_of([(1, None, None)])), InvalidRecordError, "magic 2"),
        (message[:-1], InvalidRecordError, "no messages"),
        (bytes(damaged), CorruptMessageError, "CRC"),
        (bytes(40), CorruptMessageError, "length of 0"),
    ):
        with pytest.raises(error, match=why):
            read(wrap(compress(1, inner)))
    with pytest.raises(InvalidRecordError, match="null value"):
        read(wrap(None))
    with pytest.raises(InvalidDataError):
        read(wrap(b"not gzip"))


@pytest.mark.spec("RF-11")
def test_decompression_is_bounded() -> None:
    data = wrap(compress(1, plain_message(0, 1, None, bytes(LIMIT), magic=1)))
    (entry,) = batches(data)
    assert len(list(messages_of(data, entry, LIMIT + 100))) == 1
    with pytest.raises(MessageTooLargeError):
        list(messages_of(data, entry, LIMIT))


@pytest.mark.spec("RF-11")
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(
    ("tail", "why"),
    [
        (struct.pack(">ii", 1, -1), "before its value"),
        (struct.pack(">ii", 5, -1), "field of 5 bytes"),
        (struct.pack(">ii", 2**31 - 1, -1), "field of 2147483647 bytes"),
        (struct.pack(">ii", -1, 1), "field of 1 bytes"),
    ],
)
def test_lengths_that_do_not_add_up_are_refused(magic: int, tail: bytes, why: str) -> None:
    covered = struct.pack(">bb", magic, 0) + bytes(8 * magic) + tail
    data = struct.pack(">qiI", 7, len(covered) + 4, zlib.crc32(covered)) + covered
    with pytest.raises(CorruptMessageError, match=why):
        read(data)


def test_bytes_that_are_no_message_are_passed_over() -> None:
    message = plain_message(0, 1, b"k", b"v", magic=1)
    for length in (1, 12, 17, len(message) - 1):
        found = read(wrap(compress(1, message + message[:length])))
        assert found == [LegacyMessage(9, 1, 1, 0, b"k", b"v")]


def test_every_negative_length_is_null_and_bytes_behind_the_value_are_nothing() -> None:
    covered = struct.pack(">bbii", 0, 0, -7, -(2**31)) + b"more"
    assert read(struct.pack(">qiI", 7, len(covered) + 4, zlib.crc32(covered)) + covered) == [
        LegacyMessage(7, 0, -1, -1, None, None)
    ]


@given(
    magic=st.sampled_from([0, 1]),
    codec=st.integers(0, 7),
    inner=st.binary(max_size=80),
    compressed=st.booleans(),
    position=st.integers(0, 200),
    byte=st.integers(0, 255),
)
def test_no_bytes_do_worse_than_a_typed_error(
    magic: int, codec: int, inner: bytes, compressed: bool, position: int, byte: int
) -> None:
    data = bytearray(wrap(compress(1, inner) if compressed else inner, magic=magic, codec=codec))
    data[16 + position % (len(data) - 16)] = byte
    try:
        for entry in batches(data):
            list(messages_of(data, entry, LIMIT))
    except (InvalidDataError, MessageTooLargeError):
        pass


def test_what_makes_no_message_is_refused() -> None:
    for fields in (
        {"magic": 2},
        {"magic": -1},
        {"magic": 1, "timestamp_type": 2},
    ):
        with pytest.raises(InvalidRecordError):
            plain_message(0, 1, None, None, **fields)
    for offset, timestamp in ((2**63, 0), (0, 2**63), (0, -2)):
        with pytest.raises(InvalidRecordError):
            plain_message(offset, timestamp, None, None, magic=1)
    for messages, magic, codec in (([], 1, 1), (THREE, 2, 1), (THREE, 1, 0), (THREE + THREE[:1], 1, 1)):
        with pytest.raises(InvalidRecordError):
            compressed_wrapper(messages, magic=magic, codec=codec)
