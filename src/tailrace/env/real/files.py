"""Files of the operating system (Linux), by descriptor and position.

`RealFile.write_at` is on the path of every append: it is the system call and one comparison. A closed file has
descriptor −1, so that the kernel itself refuses its use with EBADF and reads and writes need no check of their own.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import mmap
import os
import stat
import struct
from collections.abc import Callable, Sequence
from typing import Final

from tailrace.env.files import Buffer, Entry, Mapping, Mode, Space

_ALWAYS: Final = os.O_CLOEXEC | os.O_NONBLOCK  # the latter so that a FIFO is opened, and refused, without a wait
_FLAGS: Final = {
    Mode.READ: os.O_RDONLY | _ALWAYS,
    Mode.WRITE: os.O_RDWR | _ALWAYS,
    Mode.CREATE: os.O_RDWR | _ALWAYS | os.O_CREAT,
    Mode.REPLACE: os.O_RDWR | _ALWAYS | os.O_CREAT | os.O_TRUNC,
}
_PERMISSIONS: Final = 0o666  # less the umask
_CLOSED: Final = -1
_WHOLE_FILE: Final = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)  # struct flock of 64-bit Linux


class RealFile:
    """An open descriptor. Any thread may read and write; only the owner closes, when no other thread uses it.

    The kernel does not know a descriptor's path; errors are given it here, for the person who reads them.
    """

    __slots__ = ("_fd", "path")

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self.path = path

    def fileno(self) -> int:
        if self._fd == _CLOSED:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        return self._fd

    def size(self) -> int:
        try:
            return os.fstat(self._fd).st_size
        except OSError as error:
            error.filename = self.path
            raise

    def read_at(self, size: int, position: int) -> bytes:
        try:
            data = os.pread(self._fd, size, position)
            if len(data) == size or not data:
                return data
            # At the end of the file, or the kernel stopped early (a signal, its 2 GiB limit): only the end reads empty.
            parts = [data]
            read = len(data)
            while read < size and (data := os.pread(self._fd, size - read, position + read)):
                parts.append(data)
                read += len(data)
            return b"".join(parts) if len(parts) > 1 else parts[0]
        except OSError as error:
            error.filename = self.path
            raise

    def read_into(self, buffer: memoryview, position: int) -> int:
        try:
            _refuse_negative(position)
            view = buffer.cast("B") if buffer.ndim != 1 or buffer.format != "B" else buffer
            read = 0
            while read < len(view) and (count := os.preadv(self._fd, [view[read:]], position + read)):
                read += count
            return read
        except OSError as error:
            error.filename = self.path
            raise

    def write_at(self, parts: Sequence[Buffer], position: int) -> int:
        try:
            if len(parts) == 1:
                return os.pwrite(self._fd, parts[0], position)
            _refuse_negative(position)
            return os.pwritev(self._fd, parts, position)
        except OSError as error:
            error.filename = self.path
            raise

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            error.filename = self.path
            raise

    def sync(self) -> None:
        """fsync, not fdatasync: the modification time decides retention of segments without timestamps."""
        try:
            os.fsync(self.fileno())
        except OSError as error:
            error.filename = self.path
            raise

    def map(self) -> Mapping:
        fd = self.fileno()
        try:
            size = os.fstat(fd).st_size
            if size == 0:
                raise OSError(errno.EINVAL, "an empty file cannot be mapped")
            return mmap.mmap(fd, size, access=mmap.ACCESS_READ)
        except OSError as error:
            error.filename = self.path
            raise

    def close(self) -> None:
        fd, self._fd = self._fd, _CLOSED
        if fd != _CLOSED:
            os.close(fd)

    # The default argument outlives the module's globals when the interpreter shuts down.
    def __del__(self, _close_fd: Callable[[int], None] = os.close) -> None:
        if self._fd != _CLOSED:
            _close_fd(self._fd)

    def __repr__(self) -> str:
        return f"RealFile({self.path!r}, fd={self._fd})"


def _refuse_negative(position: int) -> None:
    """Vectored calls take −1 for "at the cursor", which for us is the start of the file: bytes in the wrong place."""
    if position < 0:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


class RealLock:
    """A lock of the open file description: refuses a second holder in this process too, and Java's file locks."""

    __slots__ = ("_file",)

    def __init__(self, file: RealFile) -> None:
        """OSError, with the class BlockingIOError when it is taken."""
        self._file = file
        if hasattr(fcntl, "F_OFD_SETLK"):
            fcntl.fcntl(file.fileno(), fcntl.F_OFD_SETLK, _WHOLE_FILE)
        else:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        self._file.close()


class RealFiles:
    """Paths are taken as they are; symbolic links are followed. Only regular files are opened, never waited for."""

    __slots__ = ()

    def open(self, path: str, mode: Mode) -> RealFile:
        file = RealFile(os.open(path, _FLAGS[mode], _PERMISSIONS), path)
        kind = os.fstat(file.fileno()).st_mode
        if stat.S_ISREG(kind):
            return file
        file.close()
        if stat.S_ISDIR(kind):  # which the kernel refuses for writing only
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        raise OSError(errno.EINVAL, "not a regular file", path)

    def list(self, path: str) -> builtins.list[Entry]:
        with os.scandir(path) as entries:
            return sorted(Entry(entry.name, _is_directory(entry)) for entry in entries)

    def exists(self, path: str) -> bool:
        """Only what is truly absent is False: a directory that may not be searched raises."""
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def make_dir(self, path: str) -> None:
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def remove_dir(self, path: str) -> None:
        os.rmdir(path)

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        except OSError as error:
            error.filename = path
            raise
        finally:
            os.close(fd)

    def lock(self, path: str) -> RealLock:
        file = self.open(path, Mode.CREATE)
        try:
            return RealLock(file)
        except OSError as error:
            file.close()
            error.filename = path
            raise

    def canonical(self, path: str) -> str:
        return os.path.realpath(path, strict=True)

    def space(self, path: str) -> Space:
        disk = os.statvfs(path)
        return Space(disk.f_frsize * disk.f_blocks, disk.f_frsize * disk.f_bavail)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    """A link that leads to itself is none, as one that leads nowhere."""
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return False
