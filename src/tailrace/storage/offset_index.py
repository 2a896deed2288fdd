"""The offset index of a segment: where in the .log file to begin looking for an offset.

File. 8-byte entries: relative offset int32 (offset − base offset of the segment), position int32 (byte position in
the .log file). Both ascend. An entry (O, P) says: the batch whose last offset is O begins at P. There is one about
every `index.interval.bytes` of log. For crash rule and callers see `SparseIndex`.
"""

from __future__ import annotations

import struct
from typing import ClassVar, Final

from tailrace.env import Buffer
from tailrace.model.errors import CorruptIndexError, IndexAppendError
from tailrace.model.offsets import MAX_RELATIVE_OFFSET, OffsetPosition
from tailrace.storage.index import Column, SparseIndex

_ENTRY: Final = struct.Struct(">ii")
_INT32: Final = struct.Struct(">i")
_tuple: Final = tuple.__new__  # half the time of a named tuple's own constructor
_OFFSET: Final = Column(0, _INT32.unpack_from)
_POSITION: Final = Column(4, _INT32.unpack_from)


class OffsetIndex(SparseIndex[OffsetPosition]):
    """Offsets to positions; see the module for the bytes and `SparseIndex` for who may call what."""

    __slots__ = ()

    ENTRY_BYTES: ClassVar[int] = _ENTRY.size

    @property
    def last_offset(self) -> int:
        """Of the last entry; the base offset while there is none."""
        return self._last_entry().offset

    @property
    def last_position(self) -> int:
        """Of the last entry; 0 while there is none."""
        return self._last_entry().position

    def lookup(self, target: int) -> OffsetPosition:
        """The entry with the greatest offset ≤ `target`; (base offset, 0) when there is none."""
        last = self._last or self._last_entry()
        if target >= last[0]:
            return last
        slot, raw = self._floor(_OFFSET, target - self._base_offset)
        return self._before_first() if slot < 0 else self._decode(raw)

    def first_from(self, position: int) -> OffsetPosition | None:
        """The first entry whose position is `position` or more; None when there is none."""
        return self._after_floor(_POSITION, position - 1)

    def append(self, offset: int, position: int) -> None:
        """`offset` must be greater than the last one's."""
        last = self._last or self._last_entry()
        relative = offset - self._base_offset
        if not 0 <= relative <= MAX_RELATIVE_OFFSET:
            self._relative(offset)
        entries = self._entries
        if entries >= self._max_entries:
            raise IndexAppendError(f"{self.path} is full with {entries} entries")
        if offset <= last[0] and entries:
            raise IndexAppendError(f"offset {offset} is not greater than the last one, {last[0]}, of {self.path}")
        try:
            raw = _ENTRY.pack(relative, position)
        except struct.error:
            raise IndexAppendError(f"position {position} in {self.path} is not an int32") from None
        self._append(raw, _tuple(OffsetPosition, (offset, position)))

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose offset is `offset` or more."""
        self._cut_from(_OFFSET, offset - self._base_offset)

    def sanity_check(self, log_size_bytes: int | None = None) -> None:
        """Raises CorruptIndexError where the file is damaged or points beyond a log of `log_size_bytes`.

        It looks at the size, the first and the last entry: enough to tell a file that was never trimmed.
        """
        super().sanity_check()
        if log_size_bytes is not None and self.entries and self.last_position >= log_size_bytes:
            raise CorruptIndexError(
                f"{self.path} points to position {self.last_position} of a log of {log_size_bytes} bytes"
            )

    def _check_ends(self, first: OffsetPosition, last: OffsetPosition) -> None:
        if first.offset < self._base_offset or last.offset < self._base_offset:
            raise CorruptIndexError(
                f"{self.path} goes from offset {first.offset} to {last.offset}: below its base {self._base_offset}"
            )
        if self._entries > 1 and (last.offset <= first.offset or last.position <= first.position):
            raise CorruptIndexError(f"{self.path} does not ascend: first entry {tuple(first)}, last {tuple(last)}")
        if not last.position:
            raise CorruptIndexError(f"{self.path} ends in an empty slot: it was never cut to its entries")

    def _decode(self, raw: Buffer) -> OffsetPosition:
        relative, position = _ENTRY.unpack(raw)
        if position < 0:
            raise CorruptIndexError(f"{self.path} has the negative position {position}")
        return OffsetPosition(self._base_offset + relative, position)

    def _before_first(self) -> OffsetPosition:
        return OffsetPosition(self._base_offset, 0)
