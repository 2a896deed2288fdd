"""The transaction index of a segment: the transactions whose abort marker lies in it.

File. 34-byte entries, big-endian: version int16 (0), producer id int64, first offset int64, last offset int64 (the
marker's), last stable offset int64 (at the time of the abort). Last offsets ascend strictly. The file does not
exist while there is no entry.

Crash rule. No checksum; an entry may be torn or missing after a crash. `sanity_check` finds what is torn; the index
is rebuilt with the other indexes of its segment when a log is recovered.

Who may call. One owner appends, cuts, renames and closes; any thread may read and sync. No descriptor is held
between calls: aborts are rare and logs are many. An OSError of the disk passes through as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from tailrace.env import File, Files, Mode, write_fully
from tailrace.model.errors import CorruptIndexError, IndexAppendError, SegmentGoneError

_ENTRY: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0
_ENTRIES_PER_READ: Final = 1024
_UNKNOWN: Final = -1


class AbortedTxn(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Aborted transactions in the order of their markers; see the module for bytes, crash rule and callers."""

    __slots__ = ("_base_offset", "_entries", "_files", "_is_closed", "_is_synced", "_last_offset", "_path")

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        """Touches no file."""
        self._files = files
        self._path = path
        self._base_offset = base_offset
        self._entries = _UNKNOWN
        self._last_offset: int | None = None  # None: no entry, or not read yet
        self._is_synced = False
        self._is_closed = False

    def __repr__(self) -> str:
        return f"TransactionIndex({self._path})"

    @property
    def path(self) -> str:
        return self._path

    @property
    def entries(self) -> int:
        """Whole entries; a torn one at the end does not count. Any thread may ask; only the owner keeps the answer."""
        if self._is_closed:
            raise SegmentGoneError(f"{self._path} is closed")
        known = self._entries
        return known if known >= 0 else self._file_bytes() // _ENTRY.size

    def append(self, aborted: AbortedTxn) -> None:
        """The last offset must be greater than the last entry's."""
        entries = self._entries = self.entries
        last_offset = self._load_last_offset()
        if last_offset is not None and aborted.last_offset <= last_offset:
            raise IndexAppendError(
                f"an abort at offset {aborted.last_offset} does not come after the last one of {self._path}, "
                f"at {last_offset}"
            )
        try:
            raw = _ENTRY.pack(_VERSION, *aborted)
        except struct.error:
            raise IndexAppendError(f"{aborted} has a number that is not an int64") from None
        self._is_synced = False
        file = self._files.open(self._path, Mode.CREATE)
        try:
            write_fully(file, (raw,), entries * _ENTRY.size)
        finally:
            file.close()
        self._entries = entries + 1
        self._last_offset = aborted.last_offset

    def collect(self, fetch_offset: int, upper_bound: int) -> tuple[list[AbortedTxn], bool]:
        """The transactions that overlap fetch_offset ≤ offset < upper_bound, and whether these are all.

        They are once an entry's last stable offset is at or above the upper bound: no transaction aborted later can
        have begun below it. Otherwise go on with the next segment.
        """
        found: list[AbortedTxn] = []
        for aborted in self._read():
            if aborted.last_offset >= fetch_offset and aborted.first_offset < upper_bound:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_bound:
                return found, True
        return found, False

    def all(self) -> list[AbortedTxn]:
        return list(self._read())

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose last offset is `offset` or more."""
        if not self.entries:
            return
        last_offset = None
        for number, aborted in enumerate(self._read()):
            if aborted.last_offset >= offset:
                self._cut(number)
                break
            last_offset = aborted.last_offset
        self._last_offset = last_offset

    def reset(self) -> None:
        """Drop every entry; also whatever else the file holds."""
        if self._is_closed:
            raise SegmentGoneError(f"{self._path} is closed")
        if self._files.exists(self._path):
            self._cut(0)
        self._entries = 0
        self._last_offset = None

    def sanity_check(self) -> None:
        """Raises CorruptIndexError where the file cannot be what was written."""
        file_bytes = self._file_bytes()
        if file_bytes % _ENTRY.size:
            raise CorruptIndexError(
                f"{self._path} has {file_bytes} bytes, not a multiple of its {_ENTRY.size}-byte entries"
            )
        previous = self._base_offset - 1
        for aborted in self._read():
            if aborted.last_offset <= previous:
                raise CorruptIndexError(
                    f"{self._path}: {aborted} does not come after offset {previous} "
                    f"(base of the segment is {self._base_offset})"
                )
            if not 0 <= aborted.first_offset < aborted.last_offset:
                raise CorruptIndexError(f"{self._path}: {aborted} does not end after its beginning")
            previous = aborted.last_offset

    def sync(self) -> None:
        """Make every entry durable. The file's name is durable once its directory was synced too."""
        if self._is_closed:
            raise SegmentGoneError(f"{self._path} is closed")
        if self._is_synced:
            return
        self._is_synced = True  # before the sync, so that an append during it is not taken for synced
        try:
            with suppress(FileNotFoundError):
                file = self._files.open(self._path, Mode.WRITE)
                try:
                    file.sync()
                finally:
                    file.close()
        except OSError:
            self._is_synced = False
            raise

    def close(self) -> None:
        """Reads from now on raise SegmentGoneError. Again is fine."""
        self._is_closed = True

    def delete(self) -> None:
        """Close and unlink; a file that does not exist is fine."""
        self.close()
        with suppress(FileNotFoundError):
            self._files.unlink(self._path)

    def rename_to(self, path: str) -> None:
        """Rename the file, if there is one."""
        if self._files.exists(self._path):
            self._files.rename(self._path, path)
        self._path = path

    def moved_to(self, path: str) -> None:
        """The file has a new path already, since its directory was renamed."""
        self._path = path

    def _file_bytes(self) -> int:
        try:
            return self._files.size(self._path)
        except FileNotFoundError:
            return 0

    def _load_last_offset(self) -> int | None:
        if self._last_offset is None and self._entries:
            file = self._open()
            try:
                for aborted in self._decode(file.read_at(_ENTRY.size, (self._entries - 1) * _ENTRY.size)):
                    self._last_offset = aborted.last_offset
            finally:
                file.close()
        return self._last_offset

    def _open(self) -> File:
        path = self._path
        try:
            file = self._files.open(path, Mode.READ)
        except FileNotFoundError:
            raise SegmentGoneError(f"{path} does not exist any more") from None
        if path != self._path:  # renamed meanwhile: another segment's may have its name by now
            file.close()
            raise SegmentGoneError(f"{path} was renamed while it was opened")
        return file

    def _read(self) -> Iterator[AbortedTxn]:
        entries = self.entries
        if not entries:
            return
        file = self._open()
        try:
            for first in range(0, entries, _ENTRIES_PER_READ):
                count = min(_ENTRIES_PER_READ, entries - first)
                yield from self._decode(file.read_at(count * _ENTRY.size, first * _ENTRY.size))
        finally:
            file.close()

    def _decode(self, raw: bytes) -> Iterator[AbortedTxn]:
        whole = len(raw) - len(raw) % _ENTRY.size  # fewer than asked for when the owner cuts the file meanwhile
        # Bytes, not a view: see `producer_snapshot.decode`.
        for version, *fields in _ENTRY.iter_unpack(raw[:whole]):
            if version != _VERSION:
                raise CorruptIndexError(f"{self._path} has an entry of the unknown version {version}")
            yield AbortedTxn(*fields)

    def _cut(self, entries: int) -> None:
        self._is_synced = False
        file = self._files.open(self._path, Mode.WRITE)
        try:
            file.truncate(entries * _ENTRY.size)
        finally:
            file.close()
        self._entries = entries
