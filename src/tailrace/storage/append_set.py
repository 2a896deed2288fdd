"""A set of batches as it arrives at a log, from a producer or from a leader: walked once, proven whole, summed up.

A set is a row of entries of any magic. Bytes behind the last whole entry are left out: a fetch may end inside a
batch. An entry that is whole but damaged (length, magic, CRC) or larger than allowed condemns the whole set.

Nothing is decompressed, no record is read and no byte is changed. What `AppendSet` says is what the entries' headers
claim, under a CRC that holds. Pure; any thread may call it.
"""

from __future__ import annotations

from typing import NamedTuple

from tailrace.env.files import Buffer
from tailrace.model.errors import MessageTooLargeError
from tailrace.model.ids import NO_LEADER_EPOCH
from tailrace.record.shallow import NO_TIMESTAMP, UNKNOWN, ShallowBatch, check_integrity, next_batch

NO_OFFSET = -1


class AppendSet(NamedTuple):
    """The whole entries of a set and what they add up to; a set without any has `valid_bytes` 0."""

    buffer: memoryview
    """The whole entries, and nothing behind them."""
    batches: tuple[ShallowBatch, ...]
    first_offset: int
    """−1 where the first entry is a wrapper of magic 0 or 1: its first offset is only known inside."""
    last_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    """Last offset of the first entry that has the greatest timestamp; −1 where none has a timestamp."""
    source_codec: int
    """Codec of the last compressed entry, 0 when none is compressed."""
    valid_bytes: int
    offsets_monotonic: bool
    """Every entry begins behind the end of the one before it."""
    record_count: int
    """−1 where a wrapper hides how many there are."""
    leader_epoch: int
    """Of the last entry."""


def analyse(records: Buffer, *, max_message_bytes: int | None, ignore_size: bool) -> AppendSet:
    """Raises CorruptMessageError, or MessageTooLargeError for an entry over `max_message_bytes`.

    `ignore_size`, or no `max_message_bytes`, lets entries of any size pass: they are in a leader's log already.
    """
    view = memoryview(records)
    limit = len(view)
    greatest_size = limit if ignore_size or max_message_bytes is None else max_message_bytes
    found: list[ShallowBatch] = []
    position = source_codec = record_count = 0
    last_offset = offset_of_max_timestamp = NO_OFFSET
    max_timestamp = NO_TIMESTAMP
    offsets_monotonic = True
    while (batch := next_batch(view, position, limit)) is not None:
        check_size(batch.size, greatest_size)
        check_integrity(view, batch)
        first_known_offset = batch.last_offset if batch.base_offset == UNKNOWN else batch.base_offset
        if first_known_offset <= last_offset or batch.last_offset < first_known_offset:
            offsets_monotonic = False
        last_offset = batch.last_offset
        if batch.max_timestamp > max_timestamp:
            max_timestamp = batch.max_timestamp
            offset_of_max_timestamp = last_offset
        source_codec = batch.codec or source_codec
        record_count = UNKNOWN if UNKNOWN in (record_count, batch.record_count) else record_count + batch.record_count
        found.append(batch)
        position += batch.size
    return AppendSet(
        buffer=view[:position],
        batches=tuple(found),
        first_offset=found[0].base_offset if found else NO_OFFSET,
        last_offset=last_offset,
        max_timestamp=max_timestamp,
        offset_of_max_timestamp=offset_of_max_timestamp,
        source_codec=source_codec,
        valid_bytes=position,
        offsets_monotonic=offsets_monotonic,
        record_count=record_count,
        leader_epoch=found[-1].leader_epoch if found else NO_LEADER_EPOCH,
    )


def check_size(size: int, max_message_bytes: int) -> None:
    if size > max_message_bytes:
        raise MessageTooLargeError(f"a batch of {size} bytes; max.message.bytes is {max_message_bytes}")
