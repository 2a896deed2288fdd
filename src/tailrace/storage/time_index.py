"""The time index of a segment: from which offset on to look for a timestamp.

File. 12-byte entries: timestamp int64, relative offset int32 (offset − base offset of the segment). Timestamps
ascend strictly, offsets do not descend. An entry (T, O) says: T is the largest timestamp of all records up to
offset O. The last slot is kept for the segment's largest timestamp, which is written when it rolls or closes.
For crash rule and callers see `SparseIndex`.
"""

from __future__ import annotations

import struct
from typing import ClassVar, Final

from tailrace.env import Buffer
from tailrace.model.errors import CorruptIndexError, IndexAppendError
from tailrace.model.ids import NO_TIMESTAMP
from tailrace.model.offsets import MAX_RELATIVE_OFFSET, TimestampOffset
from tailrace.storage.index import Column, SparseIndex

_ENTRY: Final = struct.Struct(">qi")
_tuple: Final = tuple.__new__  # half the time of a named tuple's own constructor
_TIMESTAMP: Final = Column(0, struct.Struct(">q").unpack_from)
_OFFSET: Final = Column(8, struct.Struct(">i").unpack_from)


class TimeIndex(SparseIndex[TimestampOffset]):
    """Timestamps to offsets; see the module for the bytes and `SparseIndex` for who may call what."""

    __slots__ = ()

    ENTRY_BYTES: ClassVar[int] = _ENTRY.size

    @property
    def is_full(self) -> bool:
        """One slot before the end, which is kept for `maybe_append(…, skip_full_check=True)`."""
        entries = self._entries
        return (entries if entries >= 0 else self.entries) >= self._max_entries - 1

    @property
    def last_entry(self) -> TimestampOffset:
        """(−1, base offset) while there is none."""
        return self._last_entry()

    @property
    def last_offset(self) -> int:
        """Of the last entry; the base offset while there is none."""
        return self._last_entry().offset

    def lookup(self, target: int) -> TimestampOffset:
        """The entry with the greatest timestamp ≤ `target`; (−1, base offset) when there is none."""
        last = self._last or self._last_entry()
        if target >= last[0]:
            return last
        slot, raw = self._floor(_TIMESTAMP, target)
        return self._before_first() if slot < 0 else self._decode(raw)

    def maybe_append(self, timestamp: int, offset: int, skip_full_check: bool = False) -> None:
        """Append unless the timestamp is the last one's, or −1; neither number may be lower than the last one's.

        `skip_full_check` is for the last entry of a segment that rolls or closes: it always finds room.
        """
        last = self._last or self._last_entry()
        entries = self._entries
        if entries >= self._max_entries - 1 and not skip_full_check:
            raise IndexAppendError(f"{self.path} is full with {entries} entries")
        if entries:
            if offset < last[1]:
                raise IndexAppendError(f"offset {offset} is lower than the last one, {last[1]}, of {self.path}")
            if timestamp < last[0]:
                raise IndexAppendError(f"timestamp {timestamp} is lower than the last one, {last[0]}, of {self.path}")
        if timestamp <= last[0]:
            return
        relative = offset - self._base_offset
        if not 0 <= relative <= MAX_RELATIVE_OFFSET:
            self._relative(offset)
        try:
            raw = _ENTRY.pack(timestamp, relative)
        except struct.error:
            raise IndexAppendError(f"timestamp {timestamp} for {self.path} is not an int64") from None
        self._append(raw, _tuple(TimestampOffset, (timestamp, offset)))

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose offset is `offset` or more."""
        self._cut_from(_OFFSET, offset - self._base_offset)

    def _check_ends(self, first: TimestampOffset, last: TimestampOffset) -> None:
        if first.offset < self._base_offset or last.offset < self._base_offset:
            raise CorruptIndexError(
                f"{self.path} goes from offset {first.offset} to {last.offset}: below its base {self._base_offset}"
            )
        if self._entries > 1 and (last.timestamp <= first.timestamp or last.offset < first.offset):
            raise CorruptIndexError(f"{self.path} does not ascend: first entry {tuple(first)}, last {tuple(last)}")
        if last == (0, self._base_offset):
            raise CorruptIndexError(f"{self.path} ends in an empty slot: it was never cut to its entries")

    def _decode(self, raw: Buffer) -> TimestampOffset:
        timestamp, relative = _ENTRY.unpack(raw)
        return TimestampOffset(timestamp, self._base_offset + relative)

    def _before_first(self) -> TimestampOffset:
        return TimestampOffset(NO_TIMESTAMP, self._base_offset)
