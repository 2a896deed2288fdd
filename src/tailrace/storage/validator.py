"""A leader's door: a set of batches is proven, every record in it checked, and given the log's next offsets.

    set of                      codec kept           another codec wanted
    one or more v2 batches      patched in place     each unpacked and packed again, its records byte for byte the same
    messages of magic 0 and 1   rebuilt as one v2 batch (`legacy_conversion`)

Patching touches only fields that belong to the leader: base offset and leader epoch, which the CRC does not cover, and
timestamp type and maximum timestamp, after which the CRC is made anew. Everything is checked before the first byte is
changed: a set that is refused is as it came, and used no offset.

A client sends one batch with offsets from 0 on and without control records. A coordinator may send several, control
batches among them; those of a raft leader may be of any size too.

Nearly every set is one uncompressed batch without any flag. `admit_plain` takes just those, in one step of a kernel.

The owner of the log calls this. A buffer that can be written to is the log's from here on; one that cannot is copied.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from tailrace.env.files import Buffer
from tailrace.model.errors import InvalidRecordError, InvalidTimestampError
from tailrace.model.record_rules import RecordRules
from tailrace.record.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_V2,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    check_crc,
    set_crc,
    set_max_timestamp,
)
from tailrace.record.check import check_batch
from tailrace.record.checksum import crc32c
from tailrace.record.compression import compress, decompress
from tailrace.record.kernels import admit
from tailrace.record.shallow import NO_TIMESTAMP, ShallowBatch, batches
from tailrace.storage.append_set import NO_OFFSET, AppendSet, analyse, check_size
from tailrace.storage.legacy_conversion import rebuild_as_v2
from tailrace.storage.origin import Origin
from tailrace.storage.validation import MAX_INT64, MIN_INT64, ValidatedSet, ValidationRules

__all__ = ["PlainRules", "ValidatedSet", "ValidationRules", "admit_plain", "plain_rules", "prepare_leader_set"]


_unpack_header = HEADER.unpack_from
_pack_place = Struct(">qii").pack_into  # base offset, length, leader epoch
_tuple = tuple.__new__
_CLIENT = Origin.CLIENT
_RAFT_LEADER = Origin.RAFT_LEADER


class PlainRules(NamedTuple):
    """What is asked of a plain set at a certain time. Timestamps are int64."""

    max_message_bytes: int
    require_key: bool
    earliest_ms: int
    latest_ms: int


def plain_rules(rules: ValidationRules, now_ms: int) -> PlainRules | None:
    """None where no set stays as it came."""
    if rules.timestamp_type == LOG_APPEND_TIME or rules.target_codec:
        return None
    earliest_ms, latest_ms = rules.timestamp_bounds(now_ms)
    return PlainRules(
        rules.max_message_bytes, rules.require_key, max(earliest_ms, MIN_INT64), min(latest_ms, MAX_INT64)
    )


def admit_plain(records: Buffer, first_offset: int, leader_epoch: int, rules: PlainRules) -> ShallowBatch | None:
    """A client's set of one plain batch, checked and patched in place.

    None, and the set is unchanged, where it is of another kind or not right: `prepare_leader_set` tells which.
    """
    max_message_bytes, require_key, earliest_ms, latest_ms = rules
    if type(records) is memoryview:
        if records.readonly:
            return None
    elif type(records) is not bytearray:
        return None
    if len(records) > max_message_bytes:
        return None
    fields = admit(records, first_offset, leader_epoch, require_key, earliest_ms, latest_ms)
    return None if fields is None else _tuple(ShallowBatch, fields)


def prepare_leader_set(
    records: Buffer,
    *,
    first_offset: int,
    leader_epoch: int,
    now_ms: int,
    rules: ValidationRules,
    origin: Origin,
) -> ValidatedSet | None:
    """The set with offsets from `first_offset` on, in its own buffer where that can be; None when no batch is whole.

    Raises CorruptMessageError, InvalidRecordError, InvalidTimestampError, UnsupportedCompressionError or
    MessageTooLargeError; the set is unchanged then.
    """
    # Nearly every set that `admit_plain` leaves is one whole batch whose codec is kept, so this is the way of such a
    # set: fields read once, tuples made without their constructors. All others take the long way, which does the same.
    view = records if type(records) is memoryview else memoryview(records)
    size = len(view)
    if size < HEADER_BYTES or view.readonly:
        return _prepare_any(view, first_offset, leader_epoch, now_ms, rules, origin)
    fields = _unpack_header(view)
    base_offset, length, _, magic, crc, attributes, delta, base_time, stated_max, producer, epoch, sequence, count = (
        fields
    )
    timestamp_type, before_max_ms, after_max_ms, require_key, target_codec, max_message_bytes, _ = rules
    is_kept = target_codec is None or target_codec == attributes & CODEC_MASK
    if magic != MAGIC_V2 or length != size - LOG_OVERHEAD or not is_kept:
        return _prepare_any(view, first_offset, leader_epoch, now_ms, rules, origin)
    header: BatchHeader = _tuple(BatchHeader, fields)
    if size > max_message_bytes and origin is not _RAFT_LEADER:
        check_size(size, max_message_bytes)
    if crc32c(view[ATTRIBUTES_AT:]) != crc:
        check_crc(view, 0, header)
    is_plain = delta == count - 1 and count > 0 and not base_offset and not attributes & ~CODEC_MASK
    if not is_plain or (producer > -1 and (sequence < 0 or epoch < 0)):
        _check_header(header, origin)
    if timestamp_type:
        earliest_ms, latest_ms = MIN_INT64, MAX_INT64
    else:
        earliest_ms, latest_ms = now_ms - before_max_ms, now_ms + after_max_ms
    if attributes & TIMESTAMP_TYPE_BIT:
        raise _stamped(RecordRules(require_key, earliest_ms, latest_ms))
    max_timestamp, _ = check_batch(
        view, 0, header, require_key=require_key, earliest_ms=earliest_ms, latest_ms=latest_ms
    )
    if timestamp_type:
        max_timestamp = now_ms
    if timestamp_type or max_timestamp != stated_max:
        set_max_timestamp(view, 0, header, timestamp_type, max_timestamp)
        fields = _unpack_header(view)
        crc, attributes = fields[4], fields[5]
    _pack_place(view, 0, first_offset, length, leader_epoch)
    last_offset = first_offset + delta
    batch: ShallowBatch = _tuple(
        ShallowBatch,
        (
            0,
            size,
            MAGIC_V2,
            first_offset,
            last_offset,
            max_timestamp,
            leader_epoch,
            attributes,
            producer,
            epoch,
            sequence,
            count,
            crc,
            base_time,
        ),
    )
    prepared: ValidatedSet = _tuple(
        ValidatedSet,
        (
            view,
            (batch,),
            first_offset,
            last_offset,
            max_timestamp,
            last_offset if max_timestamp > NO_TIMESTAMP else NO_OFFSET,
            now_ms if timestamp_type else NO_TIMESTAMP,
            False,
        ),
    )
    return prepared


def _prepare_any(
    view: memoryview, first_offset: int, leader_epoch: int, now_ms: int, rules: ValidationRules, origin: Origin
) -> ValidatedSet | None:
    given = analyse(view, max_message_bytes=rules.max_message_bytes, ignore_size=origin is _RAFT_LEADER)
    if not given.batches:
        return None
    if given.batches[0].magic != MAGIC_V2:
        return rebuild_as_v2(given, first_offset=first_offset, leader_epoch=leader_epoch, now_ms=now_ms, rules=rules)
    return _prepare_batches(given, first_offset, leader_epoch, now_ms, rules, origin)


def _prepare_batches(
    given: AppendSet, first_offset: int, leader_epoch: int, now_ms: int, rules: ValidationRules, origin: Origin
) -> ValidatedSet:
    """Any set that begins with a v2 batch."""
    if origin is _CLIENT and len(given.batches) > 1:
        raise InvalidRecordError(f"a producer sent {len(given.batches)} batches in one set; one is allowed")
    headers = []
    max_timestamps = []
    for batch in given.batches:
        if batch.magic != MAGIC_V2:
            raise InvalidRecordError(f"an entry of magic {batch.magic} in a set of magic {MAGIC_V2}")
        header = BatchHeader.at(given.buffer, batch.position)
        _check_header(header, origin)
        headers.append(header)
        max_timestamps.append(_checked_max_timestamp(given.buffer, batch.position, header, now_ms, rules))
    size_changed = not all(_keeps_codec(header, rules) for header in headers)
    if size_changed:
        buffer = memoryview(_repacked_set(given, headers, rules, origin))
    else:
        buffer = memoryview(bytearray(given.buffer)) if given.buffer.readonly else given.buffer
    position, offset = 0, first_offset
    for max_timestamp in max_timestamps:
        header = BatchHeader.at(buffer, position)
        set_max_timestamp(buffer, position, header, rules.timestamp_type, max_timestamp)
        _pack_place(buffer, position, offset, header.length, leader_epoch)
        position += header.size
        offset += header.record_count
    assigned = tuple(batches(buffer))
    greatest = max(assigned, key=lambda batch: batch.max_timestamp)
    return ValidatedSet(
        buffer=buffer,
        batches=assigned,
        first_offset=first_offset,
        last_offset=offset - 1,
        max_timestamp=greatest.max_timestamp,
        offset_of_max_timestamp=greatest.last_offset if greatest.max_timestamp > NO_TIMESTAMP else NO_OFFSET,
        log_append_time_ms=now_ms if rules.timestamp_type == LOG_APPEND_TIME else NO_TIMESTAMP,
        size_changed=size_changed,
    )


def _check_header(header: BatchHeader, origin: Origin) -> None:
    """Every rule about one batch that its header alone can break."""
    count = header.record_count
    if count < 1 or header.last_offset_delta != count - 1:
        raise InvalidRecordError(
            f"a batch states {count} records and a last offset delta of {header.last_offset_delta}"
        )
    if header.is_transactional and not header.has_producer_id:
        raise InvalidRecordError("a transactional batch has no producer id")
    if origin is not _CLIENT:
        return
    if header.base_offset != 0:
        raise InvalidRecordError(f"a producer's batch has base offset {header.base_offset} instead of 0")
    if header.is_control:
        raise InvalidRecordError("a producer sent a control batch")
    if header.has_producer_id and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise InvalidRecordError(
            f"producer {header.producer_id} sent base sequence {header.base_sequence} in epoch {header.producer_epoch}"
        )


def _stamped(record_rules: RecordRules) -> InvalidTimestampError:
    error = InvalidTimestampError("a producer set LogAppendTime in its batch; only a leader may", record_index=0)
    error.record_rules = record_rules
    return error


def _checked_max_timestamp(
    view: memoryview, position: int, header: BatchHeader, now_ms: int, rules: ValidationRules
) -> int:
    """Check every record of a batch; returns the greatest timestamp that the batch will have."""
    earliest_ms, latest_ms = rules.timestamp_bounds(now_ms)
    if header.timestamp_type == LOG_APPEND_TIME:
        raise _stamped(RecordRules(rules.require_key, earliest_ms, latest_ms))
    checked = check_batch(
        view, position, header, require_key=rules.require_key, earliest_ms=earliest_ms, latest_ms=latest_ms
    )
    return now_ms if rules.timestamp_type == LOG_APPEND_TIME else checked.max_timestamp


def _keeps_codec(header: BatchHeader, rules: ValidationRules) -> bool:
    """Control batches are never packed anew: whoever looks for markers reads them as they were made."""
    return rules.target_codec is None or rules.target_codec == header.codec or header.is_control


def _repacked_set(given: AppendSet, headers: list[BatchHeader], rules: ValidationRules, origin: Origin) -> bytearray:
    """The batches with the codec that the topic wants. Nothing but codec, length and CRC changes in them."""
    out = bytearray()
    for batch, header in zip(given.batches, headers, strict=True):
        whole = given.buffer[batch.position : batch.end]
        if _keeps_codec(header, rules):
            out += whole
            continue
        repacked = _repacked(whole, header, rules)
        if origin is not _RAFT_LEADER:
            check_size(len(repacked), rules.max_message_bytes)
        out += repacked
    return out


def _repacked(whole: memoryview, header: BatchHeader, rules: ValidationRules) -> bytearray:
    target = rules.target_codec or 0
    payload = whole[HEADER_BYTES:].tobytes()
    if header.codec:
        payload = decompress(header.codec, payload, rules.max_rebuild_bytes)
    if target:
        payload = compress(target, payload, rules.level)
    repacked = bytearray(
        header._replace(
            length=HEADER_BYTES - LOG_OVERHEAD + len(payload), attributes=header.attributes & ~CODEC_MASK | target
        ).pack()
    )
    repacked += payload
    set_crc(repacked)
    return repacked
