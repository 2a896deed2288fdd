"""Where a log ends, read from its last segment's files without opening the log: for tools, which change nothing.

The last entry of the offset index tells where to begin, so that a few kilobytes are read of a segment of any size. An
index that is missing, or that does not fit the data, costs a walk over the headers of all batches instead.

A batch that the file does not hold whole is one that a broker is writing, or did not get to write: the log ends before
it. So it does before the zeros of a segment that was made longer in advance.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tailrace.env import File, Files, Mode
from tailrace.model.errors import CorruptMessageError
from tailrace.record.batch import HEADER_BYTES
from tailrace.record.shallow import ShallowBatch, next_batch
from tailrace.storage import names
from tailrace.storage.index_entries import OFFSET_ENTRY

WINDOW_BYTES: Final = 16 << 10


class LogEnd(NamedTuple):
    """The offset behind the last whole batch; `damage` is what stands there, if it is no batch and not the end."""

    offset: int
    damage: str = ""


class IndexEntry(NamedTuple):
    offset: int
    position: int


def find_log_end(files: Files, directory: str, base_offset: int) -> LogEnd:
    """Of the log whose last segment has this base. An OSError passes through."""
    file = files.open(names.join(directory, names.log_name(base_offset)), Mode.READ)
    try:
        size = file.size()
        if not size:
            return LogEnd(base_offset)
        entry = last_entry(files, directory, base_offset)
        if entry is not None and 0 < entry.position < size:
            found = walked_end(file, size, entry.position, base_offset, entry.offset)
            if found is not None:
                return found
        return walked_end(file, size, 0, base_offset) or LogEnd(base_offset)
    finally:
        file.close()


def last_entry(files: Files, directory: str, base_offset: int) -> IndexEntry | None:
    """Of the offset index. Zeros follow it in an index that is in use, which was made longer in advance."""
    try:
        file = files.open(names.join(directory, names.offset_index_name(base_offset)), Mode.READ)
    except OSError:
        return None
    try:
        low, high = 0, file.size() // OFFSET_ENTRY.size  # entries before `low` are in use, those from `high` on are not
        if high and _entry(file, high - 1)[1]:
            low = high
        while low < high:
            middle = (low + high) // 2
            if _entry(file, middle)[1]:
                low = middle + 1
            else:
                high = middle
        if not low:
            return None
        relative, position = _entry(file, low - 1)
        return IndexEntry(base_offset + relative, position)
    except OSError:
        return None
    finally:
        file.close()


def _entry(file: File, place: int) -> tuple[int, int]:
    data = file.read_at(OFFSET_ENTRY.size, place * OFFSET_ENTRY.size)
    if len(data) < OFFSET_ENTRY.size:  # cut meanwhile
        return 0, 0
    relative, position = OFFSET_ENTRY.unpack(data)
    return relative, position


def walked_end(file: File, size: int, position: int, base_offset: int, indexed: int | None = None) -> LogEnd | None:
    """Over the batches from `position` on. None when no batch there reaches the offset that is `indexed` there."""
    end, start, window = base_offset, position, b""
    while position < size:
        if position - start + HEADER_BYTES > len(window):
            start = position
            window = file.read_at(min(WINDOW_BYTES, size - start), start)
        if len(window) < min(HEADER_BYTES, size - start):  # cut meanwhile
            break
        try:
            batch = next_batch(window, position - start, size - start)
        except CorruptMessageError:
            if indexed is not None:
                return None
            is_damage = any(file.read_at(WINDOW_BYTES, position))
            return LogEnd(end, f"no batch stands at position {position}" if is_damage else "")
        if batch is None:
            break
        if indexed is not None and not _holds(batch, indexed):
            return None
        indexed = None
        end = max(end, batch.next_offset)
        position += batch.size
    return LogEnd(end) if indexed is None else None


def _holds(batch: ShallowBatch, offset: int) -> bool:
    """A compressed set of an old format does not say where it begins."""
    return batch.last_offset >= offset and (not batch.is_v2 or batch.base_offset <= offset)
