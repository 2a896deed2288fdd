"""Bytes that are no batch to be trusted: what happened to them, and where batches go on.

One fault should be one finding, so a batch with a wrong CRC is only that if batches go on where it ends. If not, its
length is not to be believed, and the next batch is looked for.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tailrace.env import File
from tailrace.record.batch import ATTRIBUTES_AT, HEADER_BYTES, LOG_OVERHEAD, MAGIC_V2, BatchHeader
from tailrace.record.shallow import LEAST_LENGTH
from tailrace.spark.auditing.pieces import AuditPiece
from tailrace.spark.auditing.rules import BAD_FRAME, BAD_HEADER, CRC, TRAILING_BYTES, TRUNCATED, UNKNOWN_FORMAT
from tailrace.spark.auditing.task.file_crc import crc32c_in
from tailrace.spark.auditing.task.search import Search
from tailrace.spark.source.files.headers import batch_at, is_intact
from tailrace.storage.log_walk import is_zero_from

_KNOWN_MAGICS: Final = frozenset(LEAST_LENGTH)


class Damage(NamedTuple):
    """The bytes of [position, behind)."""

    position: int
    behind: int
    rule: str | None
    """None: it is no damage but room for later batches, and the file ends here."""
    words: str
    next_offset: int | None = None
    is_to_end: bool = False
    """No batch follows in the file."""
    base_offset: int | None = None
    """Of the damaged batch, as far as it can be believed."""


class DamageJudge:
    """For one file, of which the bytes up to `limit` are looked at."""

    def __init__(self, piece: AuditPiece, file: File, limit: int, low: int, behind: int) -> None:
        self._piece = piece
        self._file = file
        self._low = low
        self._behind = behind
        self.limit = limit
        self.search = Search(file, limit, low, behind)

    def judge(self, position: int, came_to: int) -> Damage:
        """What stands at `position`, where a batch of offset `came_to` or above should begin."""
        head = self._file.read_at(HEADER_BYTES, position)
        header = BatchHeader.at(head) if len(head) == HEADER_BYTES else None
        end = position + header.size if header is not None and header.length >= LEAST_LENGTH[0] else position
        if header is not None and position < end <= self.limit:
            known = self._framed(position, end, header)
            if known is not None:
                return known
        found = self.search.next_batch(position + 1)
        if found is None:
            return self._to_end(position, head, header, came_to)
        if header is not None and self._has_crc(position, found, header):
            size = found - position
            words = f"states a length of {header.length} bytes, but the batch has {size - LOG_OVERHEAD}"
            return Damage(position, found, BAD_FRAME, words, header.next_offset)
        return Damage(position, found, BAD_FRAME, f"{found - position} bytes are no batch")

    def give_up(self, position: int) -> Damage:
        """For a file of which too much is damaged."""
        words = f"so much is damaged that the {self.limit - position} bytes from here on are not looked at"
        return Damage(position, self.limit, BAD_FRAME, words, None, True)

    def _framed(self, position: int, end: int, header: BatchHeader) -> Damage | None:
        """The bytes up to where the length says that the batch ends, if that can be believed."""
        if header.magic != MAGIC_V2 and self._has_crc(position, end, header):
            words = f"has magic {header.magic}, and is a batch of magic {MAGIC_V2} in all else"
            return Damage(position, end, BAD_HEADER, words, header.next_offset)
        if not self._goes_on_at(position, end, header):
            return None
        if header.magic not in _KNOWN_MAGICS:
            words = f"a batch of magic {header.magic}; 0, 1 and 2 are known"
            return Damage(position, end, UNKNOWN_FORMAT, words)
        if header.magic == MAGIC_V2 and self._has_crc(position, end, header):
            words = f"holds offsets {header.base_offset} to {header.last_offset}"
            return Damage(position, end, BAD_HEADER, words)
        words = f"does not have the CRC {header.crc:08x} that it states"
        is_possible = self._low <= header.base_offset < self._behind
        return Damage(position, end, CRC, words, base_offset=header.base_offset if is_possible else None)

    def _goes_on_at(self, start: int, position: int, header: BatchHeader) -> bool:
        """Whether the file ends here, or a batch begins that is intact or has the offset that follows.

        Zeros to the end may be room for more, unless they belong to the batch that begins at `start`.
        """
        if position == self.limit:
            return True
        batch = batch_at(self._file, position)
        if batch is None:
            is_room = self._piece.next_base is None and is_zero_from(self._file, position)
            return is_room and not self._has_crc(start, self.limit, header)
        if batch.base_offset == header.next_offset:
            return True
        return self._low <= batch.last_offset < self._behind and is_intact(self._file, position, batch)

    def _has_crc(self, position: int, end: int, header: BatchHeader) -> bool:
        if end - position < HEADER_BYTES:
            return False
        return crc32c_in(self._file, position + ATTRIBUTES_AT, end) == header.crc

    def _to_end(self, position: int, head: bytes, header: BatchHeader | None, came_to: int) -> Damage:
        """Nothing is a batch from here to the end of the file."""
        piece, left = self._piece, self.limit - position
        if piece.next_base is None and is_zero_from(self._file, position):
            if not piece.is_closed:
                return Damage(position, self.limit, None, "", None, True)
            words = f"{left} zeros to the end of the file, which was closed: room for more is taken away then"
            return Damage(position, self.limit, TRAILING_BYTES, words, None, True)
        if header is not None and self._has_crc(position, self.limit, header):
            words = f"states a length of {header.length} bytes, but the batch has {left - LOG_OVERHEAD}"
            return Damage(position, self.limit, BAD_FRAME, words, header.next_offset, True)
        is_complete = piece.next_base is not None and came_to >= piece.next_base
        if not is_complete and self._begins_batch(head, header, came_to, left):
            words = f"the file ends within a batch, after {left} bytes"
            return Damage(position, self.limit, TRUNCATED, words, None, True)
        is_garbage = header is None or header.base_offset != came_to
        is_behind = is_complete or (piece.next_base is None and is_garbage)
        words = f"{left} bytes to the end of the file are no batch"
        return Damage(position, self.limit, TRAILING_BYTES if is_behind else BAD_FRAME, words, None, True)

    def _begins_batch(self, head: bytes, header: BatchHeader | None, came_to: int, left: int) -> bool:
        """Whether these are the first bytes of a batch that was longer."""
        if header is None:
            expected = came_to.to_bytes(8, "big")
            return head[:8] == expected[: len(head)]
        is_longer = header.size > left and header.magic in _KNOWN_MAGICS
        return is_longer and came_to <= header.base_offset < self._behind
