"""The entries of an index file as they stand there, for tools: nothing is searched, repaired or believed.

    .index      relative offset int32, position int32
    .timeindex  timestamp int64, relative offset int32
    .txnindex   version int16, producer id, first offset, last offset, last stable offset int64

A slot of zeros is the end: the rest of a file that was made longer before it was filled. One exception: the first
slot of a time index may truly say timestamp 0 at the base offset, so it is handed out and the reader decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from tailrace.env import File

OFFSET_ENTRY: Final = Struct(">ii")
TIME_ENTRY: Final = Struct(">qi")
TXN_ENTRY: Final = Struct(">hqqqq")
MAX_INDEX_BYTES: Final = 2**31 - 1  # segment.index.bytes is an int32, and no index grows beyond it

_ENTRIES_PER_READ: Final = 8192


class RawEntry(NamedTuple):
    position: int
    fields: tuple[int, ...]


def raw_entries(file: File, entry: Struct) -> Iterator[RawEntry]:
    """Whole entries up to the first slot of zeros; a torn one at the end is left out."""
    position = 0
    while True:
        raw = file.read_at(_ENTRIES_PER_READ * entry.size, position)
        whole = len(raw) - len(raw) % entry.size
        # Bytes, not a view: see `producer_snapshot.decode`.
        for fields in entry.iter_unpack(raw[:whole]):
            if not any(fields) and not (position == 0 and entry is TIME_ENTRY):
                return
            yield RawEntry(position, fields)
            position += entry.size
        if whole < _ENTRIES_PER_READ * entry.size:
            return
