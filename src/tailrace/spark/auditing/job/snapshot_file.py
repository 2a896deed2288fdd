"""A producer snapshot as columns of numbers; `storage.producer_snapshot` has the format, and its entries one by one.

Logs with many segments and many producers have millions of entries, so none is an object here. A file that is too long
for any log's producers is not held in memory; its CRC is still taken.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from tailrace.env import File, Files, Mode
from tailrace.model.errors import CorruptSnapshotError
from tailrace.storage.producer_snapshot import VERSION
from tailrace.storage.verify import MAX_SNAPSHOT_BYTES

Snapshot = npt.NDArray[np.void]
"""Entries, with the fields of `ENTRY`."""

ENTRY: Final = np.dtype(
    [
        ("producer_id", ">i8"),
        ("epoch", ">i2"),
        ("last_sequence", ">i4"),
        ("last_offset", ">i8"),
        ("offset_delta", ">i4"),
        ("timestamp", ">i8"),
        ("coordinator_epoch", ">i4"),
        ("open_from", ">i8"),
    ]
)
MOST_HELD_BYTES: Final = 64 << 20  # 1.4 million producers
_HEADER: Final = Struct(">hIi")
_CRC_FROM: Final = 6
_CHUNK_BYTES: Final = 4 << 20
_PAGE_BYTES: Final = 4096


class NewerSnapshotError(CorruptSnapshotError):
    """A version that is not known, of a file that is not simply a known one with a damaged version."""


class CutSnapshotError(CorruptSnapshotError):
    """Without bytes, or some whole pages of what it says: what is left where a broker is killed while it writes one."""


def read_snapshot(files: Files, path: str) -> Snapshot | None:
    """All entries; None for a file that is right as far as its CRC says and too long to be held.

    CorruptSnapshotError, whose words do not name the file, for anything that no broker would have written; OSError of
    the disk.
    """
    file = files.open(path, Mode.READ)
    try:
        return _read(file)
    finally:
        file.close()


def _read(file: File) -> Snapshot | None:
    size = file.size()
    if size > MAX_SNAPSHOT_BYTES:
        raise CorruptSnapshotError(f"has {size} bytes: no snapshot is longer than {MAX_SNAPSHOT_BYTES}")
    head = file.read_at(_HEADER.size, 0)
    if len(head) < _HEADER.size:
        kind = CorruptSnapshotError if head else CutSnapshotError
        raise kind(f"snapshot of {len(head)} bytes; its header alone has {_HEADER.size}")
    version, stated_crc, count = _HEADER.unpack(head)
    is_whole = count >= 0 and size == _HEADER.size + count * ENTRY.itemsize
    if not is_whole and version > VERSION:
        raise NewerSnapshotError(f"snapshot of version {version}; only {VERSION} is known")
    if not is_whole:
        is_cut = size % _PAGE_BYTES == 0 and count >= 0 and size < _HEADER.size + count * ENTRY.itemsize
        kind = CutSnapshotError if is_cut else CorruptSnapshotError
        raise kind(f"snapshot of {size} bytes states {count} entries of {ENTRY.itemsize} bytes")
    crc, body = _crc_and_body(file, size)
    if crc != stated_crc:
        if version > VERSION:
            raise NewerSnapshotError(f"snapshot of version {version}; only {VERSION} is known")
        raise CorruptSnapshotError(f"snapshot has CRC {crc:08x} but states {stated_crc:08x}")
    if version != VERSION:
        raise CorruptSnapshotError(f"snapshot of version {version}, but all of it is as version {VERSION} has it")
    return None if body is None else _checked(np.frombuffer(body, ENTRY, count))


def _crc_and_body(file: File, size: int) -> tuple[int, bytes | None]:
    """The CRC that the bytes have, and what is behind the header unless it is too long."""
    if size <= MOST_HELD_BYTES:
        data = file.read_at(size, 0)
        if len(data) < size:
            raise CorruptSnapshotError(f"snapshot ends at {len(data)} of its {size} bytes while it is read")
        return crc32c(memoryview(data)[_CRC_FROM:]), data[_HEADER.size :]
    crc, position = 0, _CRC_FROM
    while position < size:
        chunk = file.read_at(min(_CHUNK_BYTES, size - position), position)
        if not chunk:
            raise CorruptSnapshotError(f"snapshot ends at {position} of its {size} bytes while it is read")
        crc = crc32c(chunk, crc)
        position += len(chunk)
    return crc, None


def _checked(entries: Snapshot) -> Snapshot:
    ids = np.sort(entries["producer_id"].astype(np.int64))
    if len(ids) and ids[0] < 0:
        raise CorruptSnapshotError(f"snapshot holds producer id {int(ids[0])}")
    _check_distinct("producer id", ids)
    begun = np.sort(entries["open_from"].astype(np.int64))
    _check_distinct("first offset of a transaction", begun[begun >= 0])
    return entries


def _check_distinct(what: str, ascending: npt.NDArray[np.int64]) -> None:
    twice = np.flatnonzero(np.diff(ascending) == 0)
    if len(twice):
        raise CorruptSnapshotError(f"snapshot holds the {what} {int(ascending[twice[0]])} twice")
