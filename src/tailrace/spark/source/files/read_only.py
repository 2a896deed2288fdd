"""The files of somebody else's log: every way to change one is shut, and the bytes read are counted."""

from __future__ import annotations

import builtins
import errno
from collections.abc import Sequence
from typing import ClassVar, NoReturn

from tailrace.env import Buffer, Entry, File, Files, Lock, Mapping, Mode, Space
from tailrace.env.real import RealFiles


def _refuse(path: str) -> NoReturn:
    raise OSError(errno.EROFS, "a source only reads", path)


class ReadOnlyFile:
    """One open file. It is not mapped: its owner may cut it at any time, and a mapping would end this process."""

    __slots__ = ("_count", "_file")

    def __init__(self, file: File, count: ReadOnlyFiles) -> None:
        self._file = file
        self._count = count

    @property
    def path(self) -> str:
        return self._file.path

    def fileno(self) -> int:
        return self._file.fileno()

    def size(self) -> int:
        return self._file.size()

    def read_at(self, size: int, position: int) -> bytes:
        data = self._file.read_at(size, position)
        self._count.add(len(data))
        return data

    def read_into(self, buffer: memoryview, position: int) -> int:
        read = self._file.read_into(buffer, position)
        self._count.add(read)
        return read

    def write_at(self, parts: Sequence[Buffer], position: int) -> int:
        _refuse(self.path)

    def truncate(self, size: int) -> None:
        _refuse(self.path)

    def sync(self) -> None:
        _refuse(self.path)

    def map(self) -> Mapping:
        _refuse(self.path)

    def close(self) -> None:
        self._file.close()


class ReadOnlyFiles:
    """`env.Files` for one task or one planner; the real ones unless a test hands in others."""

    bytes_read_here: ClassVar[int] = 0
    """By all of this process, for measurements."""

    def __init__(self, files: Files | None = None) -> None:
        self._files = files if files is not None else RealFiles()
        self.bytes_read = 0
        """Of everything that was opened here: data files, indexes, checkpoints."""

    def add(self, read: int) -> None:
        self.bytes_read += read
        ReadOnlyFiles.bytes_read_here += read

    def open(self, path: str, mode: Mode) -> File:
        if mode is not Mode.READ:
            _refuse(path)
        return ReadOnlyFile(self._files.open(path, mode), self)

    def list(self, path: str) -> builtins.list[Entry]:
        return self._files.list(path)

    def exists(self, path: str) -> bool:
        return self._files.exists(path)

    def size(self, path: str) -> int:
        return self._files.size(path)

    def modified_ms(self, path: str) -> int:
        return self._files.modified_ms(path)

    def canonical(self, path: str) -> str:
        return self._files.canonical(path)

    def space(self, path: str) -> Space:
        return self._files.space(path)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        _refuse(path)

    def make_dir(self, path: str) -> None:
        _refuse(path)

    def rename(self, source: str, target: str) -> None:
        _refuse(source)

    def unlink(self, path: str) -> None:
        _refuse(path)

    def remove_dir(self, path: str) -> None:
        _refuse(path)

    def sync_dir(self, path: str) -> None:
        _refuse(path)

    def lock(self, path: str) -> Lock:
        _refuse(path)
