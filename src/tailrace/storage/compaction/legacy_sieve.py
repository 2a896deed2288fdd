"""Which messages of format v0 and v1 stay, and the entries without the others.

These formats have no delete horizon: tombstones go when the segment they are in is old enough. They have no empty
batches either; where one is asked for, an empty batch of format v2 takes the entry's place. Nor do they have
transactions.

Such logs are old and small: one Python object per message.
"""

from __future__ import annotations

from typing import NamedTuple

from tailrace.env import Buffer
from tailrace.record.batch import CREATE_TIME
from tailrace.record.builder import empty_batch
from tailrace.record.legacy import LegacyMessage, compressed_wrapper, messages_of
from tailrace.record.reader import MAX_DECOMPRESSED_BYTES
from tailrace.record.shallow import ShallowBatch
from tailrace.storage.compaction.offset_map import OffsetMap


class SiftedMessages(NamedTuple):
    """`data` is None when nothing stays."""

    data: Buffer | None
    read: int
    kept: int
    without_key: int


def sift_messages(
    data: Buffer, entry: ShallowBatch, offset_map: OffsetMap, *, keeps_tombstones: bool, keeps_empty: bool
) -> SiftedMessages:
    """One message, or one wrapper with those in it."""
    read = without_key = 0
    kept: list[LegacyMessage] = []
    for message in messages_of(data, entry, MAX_DECOMPRESSED_BYTES):
        read += 1
        if message.offset > offset_map.latest_offset:
            kept.append(message)
        elif message.key is None:
            without_key += 1
        elif message.offset >= offset_map.get(message.key) and (message.value is not None or keeps_tombstones):
            kept.append(message)
    return SiftedMessages(_written(data, entry, kept, read, keeps_empty), read, len(kept), without_key)


def _written(
    data: Buffer, entry: ShallowBatch, kept: list[LegacyMessage], read: int, keeps_empty: bool
) -> Buffer | None:
    if not kept:
        return empty_batch(entry.last_offset, entry.last_offset) if keeps_empty else None
    # Logs exist in which a wrapper holds messages of another magic than its own: they are mended on the way.
    if len(kept) == read and all(message.magic == entry.magic for message in kept):
        return memoryview(data)[entry.position : entry.end]
    return compressed_wrapper(
        ((message.offset, message.timestamp, message.key, message.value) for message in kept),
        magic=entry.magic,
        codec=entry.codec,
        timestamp_type=CREATE_TIME if entry.magic == 0 else entry.timestamp_type,
        log_append_time_ms=entry.max_timestamp,
    )
