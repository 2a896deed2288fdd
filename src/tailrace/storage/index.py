"""What the offset index and the time index have in common: a file of equal entries in ascending order.

File. Entries one behind the other, big-endian, no header, no checksum. While a segment is active its index file is
as long as it may ever become (sparse, zeros behind the last entry); when the segment goes inactive it is cut to its
entries. So the number of entries of a file found on disk is its size divided by the size of an entry.

Reading goes through a read-only mapping made at the first lookup that needs it. Writing never does: a store into a
hole of a full disk would kill the process, where a write merely fails. Entries gather in memory and are written
together, since a write costs more than everything else about an entry.

Crash rule. An index is a hint and is rebuilt from its log: whoever opens a log that was not closed cleanly rebuilds
the indexes of every segment from the recovery point on. That is why entries may wait in memory until `sync`, `trim`
or `close`, and why a file that was never trimmed (zeros at its end) is reported by `sanity_check`.

Who may call. One owner appends, cuts, resizes, renames and closes; any thread may look up, sync and cool. A lookup
that races one of those waits for it, then maps the file again; on a closed index it raises SegmentGoneError.
An OSError of the disk passes through as it is.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from tailrace.env import Buffer, Files, Mapping
from tailrace.model.errors import CorruptIndexError, SegmentGoneError, SegmentOffsetOverflowError
from tailrace.model.invariant import invariant
from tailrace.model.offsets import MAX_RELATIVE_OFFSET
from tailrace.storage.index_file import IndexFile
from tailrace.storage.warm import WarmSet

WARM_BYTES: Final = 8192
"""Lookups near the end look only at the last so many bytes, which therefore stay in memory."""

PENDING_ENTRIES: Final = 64

_UNKNOWN: Final = -1
_NO_ENTRY: Final = (-1, b"")

EntryT = TypeVar("EntryT", bound=tuple[int, int])


class Column(NamedTuple):
    """A field of an entry that ascends from entry to entry."""

    start: int
    read: Callable[[Buffer, int], tuple[Any, ...]]  # a struct's unpack_from, of one field


class SparseIndex(ABC, Generic[EntryT]):
    """Entries, their search, and the life of the file; what an entry means is the subclass's.

    While warm it holds at most two descriptors, otherwise none.
    """

    __slots__ = (
        "_base_offset",
        "_entries",
        "_file",
        "_is_closed",
        "_is_preallocated",
        "_last",
        "_lock",
        "_max_bytes",
        "_max_entries",
        "_pending",
        "_warm",
        "_written",
    )

    ENTRY_BYTES: ClassVar[int]

    def __init__(
        self, files: Files, path: str, base_offset: int, max_bytes: int, warm: WarmSet, *, entries: int | None = None
    ) -> None:
        """Touches no file. Without `entries`, the count is taken from the file's size when it is first needed."""
        self._file = IndexFile(files, path)
        self._base_offset = base_offset
        self._max_bytes = max_bytes
        self._max_entries = max_bytes // self.ENTRY_BYTES
        self._warm = warm
        self._lock = threading.Lock()  # for everything below; touch the warm set only without it
        self._entries = _UNKNOWN if entries is None else entries
        self._written = self._entries  # how many of the entries are in the file
        self._pending = bytearray()  # the rest of them
        self._last: EntryT | None = None  # None: not read yet, or closed
        self._is_preallocated = False
        self._is_closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._file.path})"

    @abstractmethod
    def _decode(self, raw: Buffer) -> EntryT: ...

    @abstractmethod
    def _before_first(self) -> EntryT:
        """What stands for the last entry of an empty index."""

    # What it holds

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def base_offset(self) -> int:
        return self._base_offset

    @property
    def entries(self) -> int:
        if self._entries < 0:
            with self._lock:
                self._load()
        return self._entries

    @property
    def max_entries(self) -> int:
        return self._max_entries

    @property
    def is_full(self) -> bool:
        entries = self._entries
        return (entries if entries >= 0 else self.entries) >= self._max_entries

    @property
    def size_bytes(self) -> int:
        """Of the entries; the file may be longer."""
        return self.entries * self.ENTRY_BYTES

    def entry(self, n: int) -> EntryT:
        """The n-th entry, counted from 0."""
        with self._lock:
            self._load()
            invariant(0 <= n < self._entries, f"{self._file.path} has no entry {n}, only {self._entries}")
            raw = self._raw(n)
        self._touch()
        return self._decode(raw)

    def sanity_check(self) -> None:
        """Raises CorruptIndexError where the file's size or its first and last entry show that it is damaged."""
        with self._lock:
            self._load()
            self._write_pending()
            file_bytes = self._file.size()
            if file_bytes % self.ENTRY_BYTES:
                raise CorruptIndexError(
                    f"{self._file.path} has {file_bytes} bytes, not a multiple of its {self.ENTRY_BYTES}-byte entries"
                )
            if not self._entries:
                return
            first = self._decode(self._raw(0))
            last = self._decode(self._raw(self._entries - 1))
        self._touch()
        self._check_ends(first, last)

    @abstractmethod
    def _check_ends(self, first: EntryT, last: EntryT) -> None: ...

    # Growing and shrinking, by the owner

    def preallocate(self) -> None:
        """Make the file as long as it may become, ready for appends."""
        with self._lock:
            self._load()
            self._preallocate()
        self._touch()

    def extend(self, raw: bytes) -> None:
        """Append entries as they stand in a file. The caller knows that they are in order and that there is room."""
        if not raw:
            return
        with self._lock:
            self._load()
            if not self._is_preallocated:
                self._preallocate()
            self._pending += raw
            self._entries += len(raw) // self.ENTRY_BYTES
            self._last = self._decode(raw[-self.ENTRY_BYTES :])
            if len(self._pending) >= WARM_BYTES:
                self._write_pending()
        self._touch()

    def trim(self) -> None:
        """Cut the file to its entries and let go of it; an append would make it long again.

        A new index gets its (empty) file here at the latest. One of which nothing was asked yet is left alone.
        """
        with self._lock:
            self._refuse_closed()
            self._trim()

    def truncate(self) -> None:
        """Drop every entry."""
        with self._lock:
            self._refuse_closed()
            self._keep(0)

    def resize(self, size_bytes: int) -> None:
        """Make the file and the room for entries `size_bytes`, rounded down; entries that do not fit are dropped."""
        with self._lock:
            self._load()
            self._max_entries = size_bytes // self.ENTRY_BYTES
            if self._entries > self._max_entries:
                self._keep(self._max_entries)
            self._write_pending()
            self._file.set_size(self._max_entries * self.ENTRY_BYTES)
            self._is_preallocated = True
        self._touch()

    def reset(self) -> None:
        """Empty the index and make it ready to be filled anew, with nothing left of what the file held."""
        with self._lock:
            self._refuse_closed()
            self._keep(0)
            self._file.set_size(0)
            self._max_entries = self._max_bytes // self.ENTRY_BYTES
            self._preallocate()
        self._touch()

    # The life of the file

    def sync(self) -> None:
        """Make every entry durable. The file's name is durable once its directory was synced too."""
        with self._lock:
            self._refuse_closed()
            if self._entries < 0 and not self._file.exists():
                return
            self._write_pending()
            handle = self._file.writable()
        self._touch()
        handle.sync()

    def cool(self) -> None:
        """Let go of the mapping and the handle until the next use."""
        with self._lock:
            self._file.let_go()

    def release(self) -> None:
        """Close without writing; what was not written is lost, as in a crash. Again is fine."""
        with self._lock:
            self._shut()
        self._warm.forget(self)

    def close(self) -> None:
        """Write and trim, then unmap at once. Again is fine."""
        try:
            with self._lock:
                if not self._is_closed:
                    try:
                        self._trim()
                    finally:
                        self._shut()
        finally:
            self._warm.forget(self)

    def delete(self) -> None:
        """Close and unlink; a file that does not exist is fine."""
        self.release()
        self._file.unlink()

    def rename_to(self, path: str) -> None:
        """Rename the file, if there is one yet."""
        with self._lock:
            self._file.rename_to(path)

    def moved_to(self, path: str) -> None:
        """The file has a new path already, since its directory was renamed."""
        with self._lock:
            self._file.path = path

    # For subclasses

    def _relative(self, offset: int) -> int:
        relative = offset - self._base_offset
        if not 0 <= relative <= MAX_RELATIVE_OFFSET:
            raise SegmentOffsetOverflowError(
                f"offset {offset} does not fit an int32 relative to base {self._base_offset} of {self._file.path}"
            )
        return relative

    def _last_entry(self) -> EntryT:
        last = self._last
        if last is not None:
            return last
        with self._lock:
            last = self._load_last()
        self._touch()
        return last

    def _append(self, raw: bytes, entry: EntryT) -> None:
        """Take an entry that the subclass found to be in order."""
        must_write = len(self._pending) >= PENDING_ENTRIES * self.ENTRY_BYTES or not self._is_preallocated
        with self._lock:
            if must_write:
                self._load()
                if not self._is_preallocated:
                    self._preallocate()
                self._write_pending()
            self._pending += raw
            self._entries += 1
            self._last = entry
        if must_write:  # what only waits in memory has opened nothing
            self._touch()

    def _floor(self, column: Column, key: int) -> tuple[int, Buffer]:
        """Number and bytes of the last entry whose `column` is at most `key`; (−1, b"") when there is none."""
        with self._lock:
            if self._entries < 0 or self._is_closed:
                self._load()
            found = self._search(column, key)
        self._touch()
        return found

    def _after_floor(self, column: Column, key: int) -> EntryT | None:
        """The first entry whose `column` is greater than `key`; None when there is none."""
        with self._lock:
            self._load()
            slot = self._search(column, key)[0] + 1
            raw = self._raw(slot) if slot < self._entries else None
        self._touch()
        return None if raw is None else self._decode(raw)

    def _cut_from(self, column: Column, key: int) -> None:
        """Drop the entries whose `column` is at least `key`."""
        with self._lock:
            self._load()
            keep = self._search(column, key - 1)[0] + 1
            if keep < self._entries:
                self._keep(keep)
        self._touch()

    # With the lock held

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise SegmentGoneError(f"{self._file.path} is closed")

    def _load(self) -> None:
        self._refuse_closed()
        if self._entries < 0:
            self._entries = self._written = self._file.size() // self.ENTRY_BYTES

    def _load_last(self) -> EntryT:
        self._load()
        if self._last is None:
            self._last = self._decode(self._raw(self._entries - 1)) if self._entries else self._before_first()
        return self._last

    def _raw(self, n: int) -> Buffer:
        at = (n - self._written) * self.ENTRY_BYTES
        if at >= 0:
            return self._pending[at : at + self.ENTRY_BYTES]
        return self._slice(self._file.mapped(), n, n + 1)

    def _slice(self, mapping: Mapping, first: int, end: int) -> bytes:
        size = self.ENTRY_BYTES
        raw = mapping[first * size : end * size]
        if len(raw) != (end - first) * size:
            raise self._shorter_than_it_was()
        return raw

    def _shorter_than_it_was(self) -> CorruptIndexError:
        return CorruptIndexError(f"{self._file.path} is shorter than the {self._written} entries it had")

    def _search(self, column: Column, key: int) -> tuple[int, Buffer]:
        """Among the entries in memory, else in the warm section of the file, else below it."""
        section: Buffer = self._pending
        size, first = self.ENTRY_BYTES, self._written
        start, read = column
        if not section or read(section, start)[0] > key:
            if not first:
                return _NO_ENTRY
            mapping = self._file.mapping
            if mapping is None:
                mapping = self._file.mapped()
            end, first = first, self._entries - WARM_BYTES // size
            if first < 0:
                first = 0
            section = mapping[first * size : end * size]
            if len(section) != (end - first) * size:
                raise self._shorter_than_it_was()
            if read(section, start)[0] > key:
                return self._search_cold(mapping, first, column, key)
        low, high = 0, len(section) // size  # entry low ≤ key < entry high
        while high - low > 1:
            middle = (low + high) >> 1
            if read(section, middle * size + start)[0] > key:
                high = middle
            else:
                low = middle
        return first + low, section[low * size : low * size + size]

    def _search_cold(self, mapping: Mapping, end: int, column: Column, key: int) -> tuple[int, Buffer]:
        """Below entry `end`, which is greater than `key`."""
        start, read = column
        low, high = _NO_ENTRY[0], end
        found = _NO_ENTRY[1]
        while high - low > 1:
            middle = (low + high) >> 1
            raw = self._slice(mapping, middle, middle + 1)
            if read(raw, start)[0] > key:
                high = middle
            else:
                low, found = middle, raw
        return low, found

    def _write_pending(self) -> None:
        pending = self._pending
        if not pending:
            return
        self._file.write(bytes(pending), self._written * self.ENTRY_BYTES)  # a copy: a failed write may keep a view
        pending.clear()
        self._written = self._entries
        if self._written > self._max_entries:
            self._file.unmap()  # written behind what is mapped

    def _keep(self, entries: int) -> None:
        """The entries from number `entries` on are no more. What they leave in the file is overwritten or trimmed."""
        if entries <= self._written or self._entries < 0:
            self._pending.clear()
            self._written = entries
        else:
            del self._pending[(entries - self._written) * self.ENTRY_BYTES :]
        self._entries = entries
        self._last = None if entries else self._before_first()

    def _preallocate(self) -> None:
        self._file.set_size(max(self._max_entries, self._entries) * self.ENTRY_BYTES)
        self._is_preallocated = True

    def _trim(self) -> None:
        if self._entries >= 0:
            self._write_pending()
            self._file.set_size(self._entries * self.ENTRY_BYTES)
            self._is_preallocated = False
            self._file.let_go_of_handle()

    def _shut(self) -> None:
        self._is_closed = True
        self._last = None
        self._pending.clear()
        self._file.let_go()

    # Without the lock

    def _touch(self) -> None:
        if self._file.is_open:
            self._warm.touch(self)
