"""Messages older than format v2, as records of v2: what knows the one form then knows all."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import Final, NamedTuple

from tailrace.env.files import Buffer
from tailrace.model.errors import CorruptMessageError
from tailrace.record.builder import append_record
from tailrace.record.legacy import LegacyMessage, messages_of
from tailrace.record.reader import MAX_DECOMPRESSED_BYTES
from tailrace.record.shallow import ShallowBatch

_GREATEST_DELTA: Final = (1 << 31) - 1
_TWO_TO_63: Final = 1 << 63


class Records(NamedTuple):
    """`record_count` records of format v2, uncompressed, which have offsets from `base_offset` to `last_offset`.

    They count from `base_timestamp`, or all have it under LogAppendTime.
    """

    data: Buffer
    record_count: int
    base_offset: int
    last_offset: int
    base_timestamp: int
    timestamp_type: int


def records_of_legacy(buffer: Buffer, entry: ShallowBatch) -> list[Records]:
    """Of an entry of magic 0 or 1 whose CRC was checked. Messages of different timestamp types are apart."""
    messages = list(messages_of(buffer, entry, MAX_DECOMPRESSED_BYTES))
    offsets = [message.offset for message in messages]
    if offsets[0] < 0 or any(offset <= before for before, offset in pairwise(offsets)):
        raise CorruptMessageError(f"messages of an entry have offsets that do not ascend, from {offsets[0]} on")
    if offsets[-1] - offsets[0] > _GREATEST_DELTA:
        raise CorruptMessageError(f"messages of an entry go from offset {offsets[0]} to {offsets[-1]}")
    groups = [list(group) for _, group in groupby(messages, key=lambda message: message.timestamp_type)]
    return [_reframed(group) for group in groups]


def _reframed(messages: list[LegacyMessage]) -> Records:
    base = messages[0]
    data = bytearray()
    for message in messages:
        # What leaves 64 bits wraps, and comes back when it is added again.
        delta = (message.timestamp - base.timestamp + _TWO_TO_63) % (2 * _TWO_TO_63) - _TWO_TO_63
        append_record(data, message.offset - base.offset, delta, message.key, message.value, ())
    return Records(data, len(messages), base.offset, messages[-1].offset, base.timestamp, base.timestamp_type)
