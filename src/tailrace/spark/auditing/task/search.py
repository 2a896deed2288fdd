"""Where batches go on behind bytes that are none.

A batch is believed that has possible numbers in its header and the CRC that it states. Bytes may be made so that very
many places look like one: no more than a fixed share of the file is ever read for CRCs, then the search gives up.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import numpy as np

from tailrace.env import File
from tailrace.model.errors import CorruptMessageError
from tailrace.record.batch import HEADER_BYTES, MAGIC_AT, MAGIC_V2, crc_of
from tailrace.record.shallow import LEAST_LENGTH, next_batch
from tailrace.spark.auditing.task.columns import headers_at
from tailrace.spark.auditing.task.window import MOST_HELD_BYTES

_CHUNK_BYTES: Final = 4 << 20
_MOST_PLACES: Final = 1 << 14
_LEAST_BUDGET_BYTES: Final = 64 << 20


class Search:
    """In one file, up to `limit`; batches hold offsets from `low` to the one before `behind`."""

    def __init__(self, file: File, limit: int, low: int, behind: int) -> None:
        self._file = file
        self.limit = limit
        self._low = low
        self._behind = behind
        self._budget = _LEAST_BUDGET_BYTES + 2 * limit
        self.knows_old = False
        """The segment has messages of magic 0 or 1, too: those are then looked for as well."""

    def next_batch(self, position: int) -> int | None:
        """The first position at or behind `position` at which an intact batch begins."""
        while position < self.limit:
            chunk = memoryview(self._file.read_at(min(_CHUNK_BYTES, self.limit - position), position))
            if len(chunk) <= MAGIC_AT:
                return None
            for at in self._places(chunk):
                if self._is_intact(position + at):
                    return position + at
                if self._budget < 0:
                    return None
            position += max(len(chunk) - HEADER_BYTES + 1, 1) if len(chunk) == _CHUNK_BYTES else len(chunk)
        return None

    def _places(self, chunk: memoryview) -> Iterator[int]:
        """Where in the chunk a header may begin."""
        room = len(chunk) - HEADER_BYTES + 1
        if room <= 0:
            return
        magic = np.frombuffer(chunk, np.uint8)[MAGIC_AT : MAGIC_AT + room]
        places = np.flatnonzero(magic <= MAGIC_V2 if self.knows_old else magic == MAGIC_V2)
        for first in range(0, len(places), _MOST_PLACES):
            some = places[first : first + _MOST_PLACES]
            found = headers_at(chunk, some)
            offset, length = found["base_offset"], found["length"]
            is_possible = (offset >= self._low) & (offset < self._behind) & (length >= LEAST_LENGTH[0])
            is_new = (
                (length >= LEAST_LENGTH[MAGIC_V2]) & (found["last_offset_delta"] >= 0) & (found["record_count"] >= 0)
            )
            is_possible &= is_new | (found["magic"] != MAGIC_V2)
            yield from some[is_possible].tolist()

    def _is_intact(self, position: int) -> bool:
        head = self._file.read_at(HEADER_BYTES, position)
        self._budget -= HEADER_BYTES
        try:
            batch = next_batch(head, 0, self.limit - position) if len(head) == HEADER_BYTES else None
        except CorruptMessageError:
            return False
        if batch is None or not self._low <= batch.last_offset < self._behind or batch.size > MOST_HELD_BYTES:
            return False
        self._budget -= batch.size
        data = self._file.read_at(batch.size, position)
        if len(data) < batch.size:
            return False
        return batch.crc == (crc_of(data, 0, len(data)) if batch.is_v2 else zlib.crc32(data[MAGIC_AT:]))
