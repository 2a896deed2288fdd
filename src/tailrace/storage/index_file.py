"""The file under an index: what of it is open, and the rule that keeps its mapping safe.

A mapping is read-only, made when first asked for, and never longer than the file: whoever cuts the file closes the
mapping first, since touching a page beyond the end of a file ends the process.

Who may call. `SparseIndex`, holding its lock.
"""

from __future__ import annotations

from contextlib import suppress

from tailrace.env import Buffer, File, Files, Mapping, Mode, write_fully
from tailrace.model.errors import CorruptIndexError, SegmentGoneError


class IndexFile:
    """At most two descriptors: the mapping's own and the one written through."""

    __slots__ = ("_files", "_handle", "mapping", "path")

    def __init__(self, files: Files, path: str) -> None:
        """Touches no file."""
        self._files = files
        self._handle: File | None = None
        self.mapping: Mapping | None = None
        self.path = path

    @property
    def is_open(self) -> bool:
        return self.mapping is not None or self._handle is not None

    def exists(self) -> bool:
        return self._files.exists(self.path)

    def size(self) -> int:
        """0 when there is no file."""
        try:
            return self._files.size(self.path)
        except FileNotFoundError:
            return 0

    def mapped(self) -> Mapping:
        """The mapping of the whole file, which must not be empty."""
        if self.mapping is None:
            try:
                handle = self._handle or self._files.open(self.path, Mode.READ)
            except FileNotFoundError:
                raise SegmentGoneError(f"{self.path} does not exist any more") from None
            try:
                if not handle.size():
                    raise CorruptIndexError(f"{self.path} is empty, but had entries")
                self.mapping = handle.map()
            finally:
                if handle is not self._handle:
                    handle.close()
        return self.mapping

    def writable(self) -> File:
        """A handle to write through; makes the file."""
        if self._handle is None:
            self._handle = self._files.open(self.path, Mode.CREATE)
        return self._handle

    def write(self, data: Buffer, position: int) -> None:
        write_fully(self.writable(), (data,), position)

    def set_size(self, size_bytes: int) -> None:
        """Cut the file, or extend it with zeros that take no space; makes the file."""
        handle = self.writable()
        if handle.size() != size_bytes:
            self.unmap()
            handle.truncate(size_bytes)

    def unmap(self) -> None:
        mapping, self.mapping = self.mapping, None
        if mapping is not None:
            mapping.close()

    def let_go_of_handle(self) -> None:
        """It closes with its last reference: a sync on another thread may still be using it."""
        self._handle = None

    def let_go(self) -> None:
        self.unmap()
        self.let_go_of_handle()

    def rename_to(self, path: str) -> None:
        """Rename the file, if there is one yet."""
        if self.exists():
            self._files.rename(self.path, path)
        self.path = path

    def unlink(self) -> None:
        """A file that does not exist is fine."""
        with suppress(FileNotFoundError):
            self._files.unlink(self.path)
