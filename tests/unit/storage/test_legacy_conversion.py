from __future__ import annotations

import struct
import zlib

import pytest
from foreign_sets import HOUR_MS, LOG_APPEND_RULES, MESSAGES, NOW_MS, RULES, Message, Seen, entries, produced, seen
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from tailrace.env.files import Buffer
from tailrace.model.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    TailraceError,
    UnsupportedCompressionError,
    UnsupportedForMessageFormatError,
)
from tailrace.record.builder import batch_of
from tailrace.record.compression import compress
from tailrace.record.legacy import compressed_wrapper, plain_message
from tailrace.record.reader import records_of
from tailrace.record.shallow import batches, check_integrity
from tailrace.storage.append_set import analyse
from tailrace.storage.legacy_conversion import prepare_legacy_set, rebuild_as_v2
from tailrace.storage.validation import ValidatedSet, ValidationRules


def prepare(records: Buffer, magic: int, rules: ValidationRules = RULES, first_offset: int = 1000) -> ValidatedSet:
    prepared = prepare_legacy_set(records, magic=magic, first_offset=first_offset, now_ms=NOW_MS, rules=rules)
    assert list(batches(prepared.buffer)) == list(prepared.batches)
    return prepared


def as_v2(records: Buffer, rules: ValidationRules = RULES) -> ValidatedSet:
    found = analyse(records, max_message_bytes=rules.max_message_bytes, ignore_size=False)
    return rebuild_as_v2(found, first_offset=1000, leader_epoch=7, now_ms=NOW_MS, rules=rules)


def seen_at(first_offset: int, magic: int, timestamp_type: int = 0, timestamp: int | None = None) -> list[Seen]:
    return [
        Seen(first_offset + i, sent if timestamp is None else timestamp, timestamp_type, key, value)
        if magic
        else Seen(first_offset + i, None, None, key, value)
        for i, (sent, key, value) in enumerate(MESSAGES)
    ]


def wrapper(
    inner: bytes, *, magic: int = 1, codec: int = 1, offset: int = 0, key: bytes | None = None, type_bit: int = 0
) -> bytearray:
    """A wrapper of whatever bytes, under a CRC that holds."""
    value = compress(codec, inner) if codec < 4 else inner
    head = struct.pack(">bbq", 1, codec | type_bit, NOW_MS) if magic else struct.pack(">bb", 0, codec | type_bit)
    covered = head + (b"\xff" * 4 if key is None else struct.pack(">i", len(key)) + key)
    covered += struct.pack(">i", len(value)) + value
    return bytearray(struct.pack(">qiI", offset, len(covered) + 4, zlib.crc32(covered)) + covered)


# Magic 0


@pytest.mark.spec("RF-16")
def test_a_v0_wrapper_is_unpacked_and_each_message_gets_its_offset() -> None:
    records = produced(magic=0, codec=1)
    sent = bytes(records)

    prepared = prepare(records, 0)

    (entry,) = entries(prepared.buffer)
    assert (entry.magic, entry.compression_type, entry.base_offset) == (0, 1, 1002)
    assert seen(prepared.buffer) == seen_at(1000, 0)
    assert prepared.buffer[18:22] == b"\xff\xff\xff\xff"  # a wrapper has no key
    assert prepared.size_changed
    assert records == sent
    assert (prepared.first_offset, prepared.last_offset) == (1000, 1002)
    assert (prepared.max_timestamp, prepared.offset_of_max_timestamp, prepared.log_append_time_ms) == (-1, -1, -1)


def test_plain_v0_messages_are_patched_in_place() -> None:
    records = produced(magic=0)
    sent = bytes(records)

    prepared = prepare(records, 0, LOG_APPEND_RULES)  # a clock has no place in magic 0

    assert isinstance(prepared.buffer, memoryview)
    assert prepared.buffer.obj is records
    assert seen(records) == seen_at(1000, 0)
    assert not prepared.size_changed
    assert prepared.log_append_time_ms == -1
    assert [bytes(records[b.position + 8 : b.end]) for b in prepared.batches] == [
        sent[b.position + 8 : b.end] for b in prepared.batches
    ]


# Magic 1


@pytest.mark.spec("RF-16")
@pytest.mark.parametrize("codec", [1, 3])
def test_a_v1_wrapper_alone_gets_the_offset_of_its_last_message(codec: int) -> None:
    records = produced(magic=1, codec=codec)
    sent = bytes(records)

    prepared = prepare(records, 1)

    assert isinstance(prepared.buffer, memoryview)
    assert prepared.buffer.obj is records
    assert not prepared.size_changed
    assert records[:8] == struct.pack(">q", 1002)
    assert records[26:] == sent[26:]  # nothing was packed again
    assert seen(records) == seen_at(1000, 1)
    assert records[26:30] == b"\xff\xff\xff\xff"
    assert (prepared.first_offset, prepared.last_offset) == (1000, 1002)
    assert (prepared.max_timestamp, prepared.offset_of_max_timestamp) == (NOW_MS - 1, 1002)


@pytest.mark.spec("RF-17")
@pytest.mark.parametrize("codec", [0, 1, 3])
def test_log_append_time_sets_type_bit_and_timestamp_of_magic_1(codec: int) -> None:
    records = produced(magic=1, codec=codec)

    prepared = prepare(records, 1, LOG_APPEND_RULES)

    assert not prepared.size_changed
    for entry in entries(prepared.buffer):
        assert entry.timestamp_type == 1
    assert seen(records) == seen_at(1000, 1, timestamp_type=1, timestamp=NOW_MS)
    assert prepared.log_append_time_ms == prepared.max_timestamp == NOW_MS
    assert prepared.offset_of_max_timestamp == (1002 if codec else 1000)


@pytest.mark.spec("RF-17")
@pytest.mark.parametrize("source_magic", [0, 2])
@pytest.mark.parametrize("source", [0, 1])
@pytest.mark.parametrize("target", [0, 3])
def test_log_append_time_of_rebuilt_messages(source_magic: int, source: int, target: int) -> None:
    rules = LOG_APPEND_RULES._replace(target_codec=target)

    prepared = prepare(produced(magic=source_magic, codec=source), 1, rules)

    assert seen(prepared.buffer) == seen_at(1000, 1, timestamp_type=1, timestamp=NOW_MS)
    assert prepared.max_timestamp == NOW_MS


def test_plain_v1_messages_are_patched_in_place_or_copied() -> None:
    records = produced(magic=1)

    copied = prepare(bytes(records), 1)
    prepared = prepare(records, 1)

    assert bytes(copied.buffer) == bytes(prepared.buffer) == bytes(records)
    assert seen(records) == seen_at(1000, 1)
    assert (prepared.max_timestamp, prepared.offset_of_max_timestamp) == (NOW_MS - 1, 1001)


@pytest.mark.spec("RF-16")
@pytest.mark.parametrize("offsets", [(0, 0, 0), (5, 6, 7), (0, 2, 4)])
def test_a_v1_wrapper_with_other_inner_offsets_is_rebuilt(offsets: tuple[int, ...]) -> None:
    inner = b"".join(
        plain_message(offset, timestamp, key, value, magic=1)
        for offset, (timestamp, key, value) in zip(offsets, MESSAGES, strict=True)
    )

    prepared = prepare(wrapper(inner, offset=offsets[-1]), 1)

    assert prepared.size_changed
    assert seen(prepared.buffer) == seen_at(1000, 1)


@pytest.mark.spec("RF-16")
def test_a_wrapper_with_a_key_is_rebuilt_without_it() -> None:
    inner = plain_message(0, NOW_MS, b"k", b"v", magic=1)

    prepared = prepare(wrapper(inner, key=b"key"), 1)

    assert prepared.size_changed
    assert prepared.buffer[26:30] == b"\xff\xff\xff\xff"
    assert seen(prepared.buffer) == [Seen(1000, NOW_MS, 0, b"k", b"v")]


def test_a_wrapper_whose_producer_left_its_offset_at_zero_is_patched() -> None:
    inner = b"".join(plain_message(i, *message, magic=1) for i, message in enumerate(MESSAGES))

    prepared = prepare(wrapper(inner, offset=0), 1)

    assert not prepared.size_changed
    assert seen(prepared.buffer) == seen_at(1000, 1)
    assert prepared.max_timestamp == NOW_MS - 1  # of the messages; the wrapper said otherwise


@pytest.mark.parametrize("target_magic", [0, 1])
@pytest.mark.parametrize("source_magic", [0, 1, 2])
@pytest.mark.parametrize("source", [0, 1])
@pytest.mark.parametrize("target", [None, 0, 1])
def test_every_magic_becomes_every_older_magic(
    target_magic: int, source_magic: int, source: int, target: int | None
) -> None:
    rules = RULES._replace(target_codec=target)

    prepared = prepare(produced(magic=source_magic, codec=source), target_magic, rules)

    codec = source if target is None else target
    assert {entry.magic for entry in entries(prepared.buffer)} == {target_magic}
    assert len(prepared.batches) == (1 if codec else 3)
    timestamp = -1 if source_magic == 0 else None
    assert seen(prepared.buffer) == seen_at(1000, target_magic, timestamp=timestamp)
    assert prepared.last_offset == 1002


# What is refused, for every target


def prepare_as(target_magic: int, records: Buffer, rules: ValidationRules = RULES) -> ValidatedSet:
    return as_v2(records, rules) if target_magic == 2 else prepare(records, target_magic, rules)


@pytest.mark.parametrize("target_magic", [0, 1, 2])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1])
def test_a_compacted_topic_refuses_messages_without_a_key(target_magic: int, magic: int, codec: int) -> None:
    records = produced(magic=magic, codec=codec)
    sent = bytes(records)

    with pytest.raises(InvalidRecordError, match="no key") as refused:
        prepare_as(target_magic, records, RULES._replace(require_key=True))
    assert refused.value.record_index == 1
    assert records == sent


@pytest.mark.spec("LS-12")
@pytest.mark.parametrize("target_magic", [0, 1, 2])
@pytest.mark.parametrize("codec", [0, 1])
def test_timestamps_of_messages_are_held_between_their_bounds(target_magic: int, codec: int) -> None:
    early: list[Message] = [(NOW_MS, b"k", b"v"), (NOW_MS - HOUR_MS - 1, b"k", b"v")]
    records = produced(early, magic=1, codec=codec)
    sent = bytes(records)

    with pytest.raises(InvalidTimestampError):
        prepare_as(target_magic, records, RULES._replace(before_max_ms=HOUR_MS))
    assert records == sent
    assert prepare_as(target_magic, records, RULES._replace(before_max_ms=HOUR_MS + 1)).last_offset == 1001


@pytest.mark.parametrize("target_magic", [0, 1, 2])
@pytest.mark.parametrize("rules", [RULES, LOG_APPEND_RULES])
def test_a_producer_may_not_set_log_append_time(target_magic: int, rules: ValidationRules) -> None:
    plain = plain_message(0, NOW_MS, b"k", b"v", magic=1, timestamp_type=1)
    wrapped = wrapper(plain_message(0, NOW_MS, b"k", b"v", magic=1), type_bit=8)

    for records in (plain, wrapped):
        with pytest.raises(InvalidTimestampError):
            prepare_as(target_magic, records, rules)


@pytest.mark.parametrize("target_magic", [0, 1, 2])
def test_zstd_needs_v2(target_magic: int) -> None:
    for magic in (0, 1):
        with pytest.raises(UnsupportedCompressionError):
            prepare_as(target_magic, wrapper(b"whatever", magic=magic, codec=4))
    if target_magic < 2:
        with pytest.raises(UnsupportedCompressionError):
            prepare(produced(codec=4), target_magic)
        with pytest.raises(UnsupportedCompressionError):
            prepare(produced(magic=1), target_magic, RULES._replace(target_codec=4))


@pytest.mark.spec("RF-11")
@pytest.mark.parametrize("target_magic", [0, 1, 2])
@pytest.mark.parametrize(
    "inner",
    [
        b"",
        b"short",
        plain_message(0, NOW_MS, b"k", b"v", magic=0),
        compressed_wrapper([(0, NOW_MS, b"k", b"v")], magic=1, codec=1),
        bytes(batch_of([(NOW_MS, b"k", b"v")])),
        plain_message(0, NOW_MS, b"k", b"v", magic=1)[:-1] + b"w",
        plain_message(0, NOW_MS, b"k", b"v", magic=1)[:-1],
    ],
    ids=["empty", "cut", "magic 0", "wrapper", "v2 batch", "bad CRC", "message cut"],
)
def test_a_wrapper_of_anything_but_messages_of_its_magic_is_refused(target_magic: int, inner: bytes) -> None:
    with pytest.raises((InvalidRecordError, CorruptMessageError)):
        prepare_as(target_magic, wrapper(inner))


@pytest.mark.spec("RF-11")
@pytest.mark.parametrize("target_magic", [0, 1, 2])
def test_wrappers_stand_alone_and_magics_do_not_mix(target_magic: int) -> None:
    for records in (
        produced(magic=1, codec=1) + produced(magic=1, codec=1),
        produced(magic=1) + produced(magic=1, codec=1),
        produced(magic=0) + produced(magic=1),
        b"",
    ):
        with pytest.raises(InvalidRecordError):
            prepare_as(target_magic, records)


@pytest.mark.spec("RF-10")
@pytest.mark.parametrize("target_magic", [0, 1, 2])
def test_what_grew_is_measured_again(target_magic: int) -> None:
    records = produced([(NOW_MS, b"k", b"v" * 5000)], magic=1, codec=1)

    with pytest.raises(MessageTooLargeError):
        prepare_as(target_magic, records, RULES._replace(max_message_bytes=500, target_codec=0))


@pytest.mark.parametrize("target_magic", [0, 1, 2])
def test_a_wrapper_that_expands_without_end_is_not_unpacked_whole(target_magic: int) -> None:
    bomb = produced([(NOW_MS, b"k", bytes(17 << 20))], magic=1, codec=1)

    with pytest.raises(MessageTooLargeError):
        prepare_as(target_magic, bomb)


def test_what_older_formats_cannot_hold_is_refused() -> None:
    for records in (
        produced(producer_id=5, producer_epoch=0, base_sequence=0),
        produced(producer_id=5, producer_epoch=0, base_sequence=0, transactional=True),
        produced(headers=True),
    ):
        with pytest.raises(UnsupportedForMessageFormatError):
            prepare(records, 1)


@pytest.mark.spec("RF-11")
@settings(max_examples=examples(300))
@given(st.data(), st.sampled_from([0, 1]), st.sampled_from([0, 1]), st.sampled_from([0, 1, 2]))
def test_no_byte_under_a_right_crc_does_more_than_a_typed_error(
    data: st.DataObject, magic: int, codec: int, target_magic: int
) -> None:
    records = produced(MESSAGES[:1], magic=magic, codec=codec)
    place, byte = data.draw(st.integers(17, len(records) - 1)), data.draw(st.integers(0, 255))
    records[place] = byte
    struct.pack_into(">I", records, 12, zlib.crc32(records[16:]))
    try:
        prepared = prepare_as(target_magic, records)
    except TailraceError:
        return
    (entry,) = prepared.batches
    check_integrity(prepared.buffer, entry)
    assert [record.offset for record in records_of(prepared.buffer, entry)] == [1000]
