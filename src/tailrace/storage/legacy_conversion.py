"""Message sets of magic 0 and 1: what old clients send made into v2, and validation for logs of those formats.

A log always holds v2, so `rebuild_as_v2` is what `validator` needs. `prepare_legacy_set` is the same door as
`validator.prepare_leader_set` for a target of magic 0 or 1:

    source                          target without codec    target with codec
    same magic, plain               patched in place        rebuilt as one wrapper
    magic 1 wrapper, target 1       rebuilt as messages     same codec: the wrapper alone is patched: offset of its last
                                                            message, timestamp; its messages keep their offsets 0 … n−1
    magic 0 wrapper, target 0       rebuilt as messages     rebuilt: its messages have offsets of the log
    another magic                   rebuilt as messages     rebuilt as one wrapper

A wrapper stands alone in its set, and all entries of a set have one magic. A wrapper has no key, and one that comes
with a key or with other inner offsets is rebuilt. Messages are read one at a time, and a wrapper only as far as
`ValidationRules.max_legacy_bytes`: what old clients send can be slow, but not without bound.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final

from tailrace.env.files import Buffer
from tailrace.model.errors import InvalidRecordError, UnsupportedForMessageFormatError
from tailrace.record.batch import (
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    TIMESTAMP_TYPE_BIT,
)
from tailrace.record.builder import BatchBuilder
from tailrace.record.legacy import KEY_AT, LegacyMessage, check_codec, compressed_wrapper, messages_of, plain_message
from tailrace.record.reader import Record, records_of
from tailrace.record.shallow import NO_TIMESTAMP, ShallowBatch, batches
from tailrace.storage.append_set import NO_OFFSET, AppendSet, analyse, check_size
from tailrace.storage.validation import ValidatedSet, ValidationRules

_OFFSET: Final = Struct(">q")
_CRC: Final = Struct(">I")
_KEY_LENGTH: Final = Struct(">i")
_ATTRIBUTES_AND_TIMESTAMP: Final = Struct(">bq")
_CRC_AT: Final = LOG_OVERHEAD
_ATTRIBUTES_AT: Final = MAGIC_AT + 1


def rebuild_as_v2(
    given: AppendSet, *, first_offset: int, leader_epoch: int, now_ms: int, rules: ValidationRules
) -> ValidatedSet:
    """One v2 batch of all messages of the set, which is of magic 0 or 1, with offsets from `first_offset` on."""
    _check_shape(given)
    builder = BatchBuilder(
        base_offset=first_offset,
        codec=_codec_for(given, rules),
        timestamp_type=rules.timestamp_type,
        leader_epoch=leader_epoch,
        log_append_time_ms=now_ms,
        level=rules.level,
    )
    for record in _checked_records(given, now_ms, rules):
        builder.append(record.timestamp, record.key, record.value)
    return _assigned(builder.build(), first_offset, now_ms, rules, size_changed=True)


def prepare_legacy_set(
    records: Buffer, *, magic: int, first_offset: int, now_ms: int, rules: ValidationRules
) -> ValidatedSet:
    """The set as messages of `magic`, 0 or 1, with offsets from `first_offset` on.

    Raises what `prepare_leader_set` raises, and UnsupportedForMessageFormatError for v2 batches of an idempotent or
    transactional producer or with headers, for which the old formats have no place. A set without a whole entry is
    an InvalidRecordError. A set that is refused is as it came.
    """
    given = analyse(records, max_message_bytes=rules.max_message_bytes, ignore_size=False)
    _check_shape(given)
    codec = _codec_for(given, rules)
    check_codec(magic, codec)
    if given.batches[0].magic == magic and codec == given.source_codec:
        if codec == 0:
            return _patched_messages(given, first_offset, now_ms, rules)
        if magic == 1:
            patched = _patched_wrapper(given, first_offset, now_ms, rules)
            if patched is not None:
                return patched
    return _rebuilt_messages(given, magic, codec, first_offset, now_ms, rules)


def _codec_for(given: AppendSet, rules: ValidationRules) -> int:
    return given.source_codec if rules.target_codec is None else rules.target_codec


def _check_shape(given: AppendSet) -> None:
    """One magic in all entries; a wrapper or a v2 batch stands alone."""
    if not given.batches:
        raise InvalidRecordError("a set holds no whole message")
    magic = given.batches[0].magic
    for entry in given.batches:
        if entry.magic != magic:
            raise InvalidRecordError(f"an entry of magic {entry.magic} in a set of magic {magic}")
    if len(given.batches) > 1 and (given.source_codec or magic == MAGIC_V2):
        raise InvalidRecordError(f"a batch or wrapper among {len(given.batches)} entries; it must stand alone")


def _checked_records(given: AppendSet, now_ms: int, rules: ValidationRules) -> Iterator[LegacyMessage | Record]:
    """Every record of the set in order. An error in one comes up when it is reached."""
    for index, record in enumerate(_records(given, rules)):
        rules.check_record(index, record.timestamp, record.timestamp_type, record.key, now_ms)
        yield record


def _records(given: AppendSet, rules: ValidationRules) -> Iterator[LegacyMessage | Record]:
    for entry in given.batches:
        if entry.is_v2:
            yield from _v2_records(given, entry, rules)
            continue
        for message in messages_of(given.buffer, entry, rules.max_legacy_bytes):
            if message.magic != entry.magic:
                raise InvalidRecordError(f"a message of magic {message.magic} in a wrapper of magic {entry.magic}")
            yield message


def _v2_records(given: AppendSet, batch: ShallowBatch, rules: ValidationRules) -> Iterator[Record]:
    if batch.is_transactional or batch.has_producer_id:
        raise UnsupportedForMessageFormatError(f"a batch of producer {batch.producer_id} in a log of an older format")
    if batch.is_control:
        raise InvalidRecordError("a producer sent a control batch")
    if batch.record_count < 1 or batch.last_offset - batch.base_offset != batch.record_count - 1:
        raise InvalidRecordError(
            f"a batch states {batch.record_count} records from {batch.base_offset} to {batch.last_offset}"
        )
    for place, record in enumerate(records_of(given.buffer, batch, rules.max_legacy_bytes), batch.base_offset):
        if record.offset != place:
            raise InvalidRecordError(f"a record has offset {record.offset} where {place} is next")
        if record.headers:
            raise UnsupportedForMessageFormatError(f"the record at offset {place} has headers; older formats have none")
        yield record


def _patched_messages(given: AppendSet, first_offset: int, now_ms: int, rules: ValidationRules) -> ValidatedSet:
    """Plain messages of the target's magic, each one patched."""
    for _ in _checked_records(given, now_ms, rules):
        pass
    buffer = _writable(given)
    for offset, entry in enumerate(given.batches, first_offset):
        timestamp = now_ms if rules.timestamp_type == LOG_APPEND_TIME else entry.max_timestamp
        _patch(buffer, entry, offset, rules.timestamp_type, timestamp)
    return _assigned(buffer, first_offset, now_ms, rules, size_changed=False)


def _patched_wrapper(given: AppendSet, first_offset: int, now_ms: int, rules: ValidationRules) -> ValidatedSet | None:
    """A wrapper of magic 1 whose codec is kept, patched; None when what is in it must change too."""
    (wrapper,) = given.batches
    count, max_timestamp = 0, NO_TIMESTAMP
    in_order = True
    for expected_offset, record in enumerate(_checked_records(given, now_ms, rules)):
        in_order = in_order and record.offset == expected_offset
        max_timestamp = max(max_timestamp, record.timestamp)
        count += 1
    (key_length,) = _KEY_LENGTH.unpack_from(given.buffer, wrapper.position + KEY_AT[1])
    if not in_order or key_length != -1:
        return None
    buffer = _writable(given)
    timestamp = now_ms if rules.timestamp_type == LOG_APPEND_TIME else max_timestamp
    _patch(buffer, wrapper, first_offset + count - 1, rules.timestamp_type, timestamp)
    return _assigned(buffer, first_offset, now_ms, rules, size_changed=False)


def _rebuilt_messages(
    given: AppendSet, magic: int, codec: int, first_offset: int, now_ms: int, rules: ValidationRules
) -> ValidatedSet:
    """One wrapper of all records of the set, or one message for each where there is no codec."""
    is_stamped = rules.timestamp_type == LOG_APPEND_TIME
    placed = (
        (offset, now_ms if is_stamped else record.timestamp, record.key, record.value)
        for offset, record in enumerate(_checked_records(given, now_ms, rules), first_offset)
    )
    if codec:
        buffer = bytearray(
            compressed_wrapper(
                placed, magic=magic, codec=codec, timestamp_type=rules.timestamp_type, log_append_time_ms=now_ms
            )
        )
    else:
        buffer = bytearray()
        for message in placed:
            buffer += plain_message(*message, magic=magic, timestamp_type=rules.timestamp_type)
    return _assigned(buffer, first_offset, now_ms, rules, size_changed=True)


def _writable(given: AppendSet) -> memoryview:
    return memoryview(bytearray(given.buffer)) if given.buffer.readonly else given.buffer


def _patch(buffer: memoryview, entry: ShallowBatch, offset: int, timestamp_type: int, timestamp: int) -> None:
    """Set an entry's offset, and in magic 1 its timestamp and the CRC over it where that changes."""
    start = entry.position
    _OFFSET.pack_into(buffer, start, offset)
    if entry.magic == 0 or (entry.timestamp_type, entry.max_timestamp) == (timestamp_type, timestamp):
        return
    attributes = entry.attributes & ~TIMESTAMP_TYPE_BIT | timestamp_type << 3
    _ATTRIBUTES_AND_TIMESTAMP.pack_into(buffer, start + _ATTRIBUTES_AT, attributes, timestamp)
    _CRC.pack_into(buffer, start + _CRC_AT, zlib.crc32(buffer[start + MAGIC_AT : entry.end]))


def _assigned(
    buffer: memoryview | bytearray, first_offset: int, now_ms: int, rules: ValidationRules, *, size_changed: bool
) -> ValidatedSet:
    assigned = tuple(batches(buffer))
    for batch in assigned:
        check_size(batch.size, rules.max_message_bytes)
    greatest = max(assigned, key=lambda batch: batch.max_timestamp)
    max_timestamp = max(greatest.max_timestamp, NO_TIMESTAMP)
    has_append_time = rules.timestamp_type == LOG_APPEND_TIME and greatest.magic > 0
    return ValidatedSet(
        buffer=buffer,
        batches=assigned,
        first_offset=first_offset,
        last_offset=assigned[-1].last_offset,
        max_timestamp=max_timestamp,
        offset_of_max_timestamp=greatest.last_offset if max_timestamp > NO_TIMESTAMP else NO_OFFSET,
        log_append_time_ms=now_ms if has_append_time else NO_TIMESTAMP,
        size_changed=size_changed,
    )
