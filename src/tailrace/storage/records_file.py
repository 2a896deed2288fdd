"""The data file of a segment: batches one behind the other, and nothing else.

Crash rule: bytes are durable only after `sync`; behind the last synced byte a crash may leave any mixture of old,
new, zero and nonsense bytes, which recovery cuts off at the first batch that does not prove itself. A cut is synced
before anything is written behind it, so that a crash can never mix what was cut with what came after.

One thread changes a file (the owner of its log). Any thread may read: a slice that was taken before a truncation
notices it and raises SegmentGoneError instead of handing out other bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tailrace.env import Buffer, File, Files, Mode, write_fully
from tailrace.env.files import MAX_PARTS
from tailrace.model.errors import CorruptMessageError, SegmentGoneError
from tailrace.model.invariant import invariant
from tailrace.record.batch import HEADER_BYTES
from tailrace.record.shallow import ShallowBatch, next_batch
from tailrace.storage.warm import WarmSet

HEADER_WINDOW_BYTES: Final = 8192


class RecordsFile:
    """Positions are bytes from the start of the file; `size` is where the next batch goes."""

    __slots__ = (
        "_file",
        "_files",
        "_is_being_renamed",
        "_is_pinned",
        "_warm",
        "cuts",
        "has_waste",
        "is_closed",
        "path",
        "size",
    )

    def __init__(self, files: Files, path: str, warm: WarmSet, *, size: int) -> None:
        self._files = files
        self._warm = warm
        self._file: File | None = None
        self._is_pinned = False
        self._is_being_renamed = False
        self.path = path
        self.size = size
        self.cuts = 0
        """How often the file was cut: a slice of an older count is void."""
        self.has_waste = False
        """Bytes of a failed append, or of a cut on its way, follow the end: no append before they are cut off."""
        self.is_closed = False

    @classmethod
    def create(cls, files: Files, path: str, warm: WarmSet, *, preallocate_bytes: int = 0) -> RecordsFile:
        """An empty file, whatever stood at `path`; `preallocate_bytes` only lengthens the file, not `size`."""
        file = files.open(path, Mode.REPLACE)
        if preallocate_bytes:
            file.truncate(preallocate_bytes)
        made = cls(files, path, warm, size=0)
        made._file = file
        made._is_pinned = True
        return made

    @property
    def file(self) -> File:
        """The open handle. Holding it keeps the bytes readable after the file is unlinked or let go."""
        file = self._file
        if file is None:
            if self.is_closed:
                raise SegmentGoneError(f"{self.path} is closed")
            file = self._file = self._open()
        if not self._is_pinned:
            self._warm.touch(self)
        return file

    def _open(self) -> File:
        while True:
            path = self.path
            try:
                file = self._files.open(path, Mode.WRITE)
            except FileNotFoundError:
                if not self._is_being_renamed and path == self.path:  # asked in the order in which a rename ends
                    raise SegmentGoneError(f"{path} does not exist any more") from None
            else:
                if path == self.path:  # else the file was renamed meanwhile, and another may have its name
                    return file

    def _pin(self) -> None:
        """Keep the handle open: whoever has appended once will do so again."""
        self._is_pinned = True
        self._warm.forget(self)

    def unpin(self) -> None:
        """Nothing is appended any more."""
        self._is_pinned = False
        if self._file is not None:
            self._warm.touch(self)

    def cool(self) -> None:
        """Let the handle go; a reader that holds it keeps it alive until it is done."""
        if not self._is_pinned:
            self._file = None

    def append(self, parts: Sequence[Buffer], total_bytes: int) -> None:
        """Write behind the last batch. After an OSError `size` is unchanged and any bytes behind it are waste.

        From the first append on the handle stays open; a log that nobody writes to needs none.
        """
        if not self._is_pinned:
            self._pin()
        file = self._file or self.file
        self.has_waste = True
        written = file.write_at(parts if len(parts) <= MAX_PARTS else parts[:MAX_PARTS], self.size)
        if written < total_bytes:
            rest = _behind(parts, written)
            write_fully(file, rest, self.size + written)
        self.has_waste = False
        self.size += total_bytes

    def cut(self, size: int) -> None:
        """Drop everything from `size` on, durably. Slices taken before become void."""
        self.forget_from(size)
        self.cut_file()()
        self.end_cut()

    def forget_from(self, size: int) -> None:
        """The first part of `cut`: readers see no more than `size` bytes, and the file is as it was.

        Then come `cut_file`, the function that it returns, and `end_cut`. Until then nothing may be appended.
        """
        invariant(size <= self.size, f"{self.path}: cut at {size} beyond its end {self.size}")
        self.has_waste = True
        self.cuts += 1
        self.size = size

    def cut_file(self) -> Callable[[], None]:
        """The second part of `cut`. The function returned makes it durable, on any thread."""
        file = self.file
        file.truncate(self.size)
        return file.sync

    def end_cut(self) -> None:
        """The last part of `cut`: it is durable."""
        self.has_waste = False

    def trim(self) -> None:
        """Give back what preallocation added behind the last batch."""
        if self.file.size() > self.size:
            self.file.truncate(self.size)

    def sync(self) -> None:
        self.file.sync()

    def read(self, position: int, size: int) -> bytes:
        return self.file.read_at(size, position)

    def headers(self, position: int, limit: int | None = None) -> Iterator[tuple[int, ShallowBatch]]:
        """Each whole batch from `position` on with its place in the file, reading little more than headers.

        The batch's own `position` is not of the file. Raises CorruptMessageError where the bytes are no batch.
        """
        end = self.size if limit is None else min(limit, self.size)
        start = position
        window = b""
        while position < end:
            if position - start + HEADER_BYTES > len(window):
                start = position
                window = self.file.read_at(min(HEADER_WINDOW_BYTES, end - start), start)
                if len(window) < min(HEADER_BYTES, end - start):
                    raise SegmentGoneError(f"{self.path} is shorter than the {end} bytes it had")
            try:
                batch = next_batch(window, position - start, end - start)
            except CorruptMessageError as error:  # it knows the window only
                raise CorruptMessageError(f"{self.path} from byte {start} on: {error}") from None
            if batch is None:
                return
            yield position, batch
            position += batch.size

    def change_suffix(self, old: str, new: str) -> None:
        path = self.path.removesuffix(old) + new
        self._is_being_renamed = True
        try:
            self._files.rename(self.path, path)
            self.path = path
        finally:
            self._is_being_renamed = False

    def close(self) -> None:
        """End our use. The handle closes with its last reference, so that a reader who holds it can finish."""
        self.is_closed = True
        self._warm.forget(self)
        self._file = None


def _behind(parts: Sequence[Buffer], skip_bytes: int) -> list[Buffer]:
    """What is left of `parts` after their first `skip_bytes`."""
    rest: list[Buffer] = []
    for part in parts:
        if skip_bytes >= len(part):
            skip_bytes -= len(part)
        else:
            rest.append(memoryview(part)[skip_bytes:])
            skip_bytes = 0
    return rest
