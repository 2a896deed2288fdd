"""An open file of the simulated disk, a mapping of one, a lock on one."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from tailrace.env.files import MAX_PARTS, Buffer, Mode
from tailrace.sim.disk_power import DiskPower
from tailrace.sim.faults import MappedFault, SimulatedCrash, os_error
from tailrace.sim.inode import PAGE_BYTES, Inode
from tailrace.sim.names import Names


class SimFile:
    """Dead (EBADF) once closed or once the life of the machine it was opened in is over."""

    __slots__ = ("_fd", "_inode", "_life", "_names", "_open", "_power", "_writable", "path")

    def __init__(self, power: DiskPower, names: Names, inode: Inode, path: str, mode: Mode, fd: int) -> None:
        self.path = path
        self._power = power
        self._names = names
        self._inode = inode
        self._writable = mode is not Mode.READ
        self._fd = fd
        self._life = power.life
        self._open = True

    def _check(self, *numbers: int) -> None:
        """Refuse in the kernel's order: negative numbers first, then a bad handle."""
        if self._power.down:
            raise SimulatedCrash
        if numbers and min(numbers) < 0:
            raise os_error(errno.EINVAL, self.path)
        if not self._open or self._life != self._power.life:
            raise os_error(errno.EBADF, self.path)

    @property
    def is_open(self) -> bool:
        return self._open and self._life == self._power.life

    def fileno(self) -> int:
        """A number no real descriptor has: given to the operating system by mistake, it is refused."""
        self._check()
        return self._fd

    def size(self) -> int:
        self._check()
        self._power.observe("stat", self.path)
        return self._inode.size

    def read_at(self, size: int, position: int) -> bytes:
        self._check(size, position)
        self._power.observe("read", self.path)
        return self._inode.read(size, position)

    def read_into(self, buffer: memoryview, position: int) -> int:
        view = buffer.cast("B")
        data = self.read_at(len(view), position)
        view[: len(data)] = data
        return len(data)

    def write_at(self, parts: Sequence[Buffer], position: int) -> int:
        self._check(position)
        if not self._writable:
            raise os_error(errno.EBADF, self.path)
        if len(parts) > MAX_PARTS:
            raise os_error(errno.EINVAL, self.path)
        power = self._power
        data = b"".join(parts)

        def write_all() -> int:
            count = self._room(len(data), position)
            if count > 1 and power.random.random() < power.faults.short_write_probability:
                count = power.random.randrange(1, count)
            return self._write(data[:count], position)

        def write_some() -> int:
            return self._write(data[: power.random.randint(0, self._room(len(data), position))], position)

        return power.change("write", self.path, write_all, act_partly=write_some)

    def _write(self, data: bytes, position: int) -> int:
        self._inode.modified_ms = self._power.clock.now_ms()
        written = self._inode.write(data, position)
        if self._power.on_write is not None:
            self._power.on_write(self.path, data[:written], position)
        return written

    def _room(self, size: int, position: int) -> int:
        capacity_bytes = self._power.faults.capacity_bytes
        if capacity_bytes is None:
            return size
        count = self._inode.room(size, position, capacity_bytes - self._names.allocated_bytes())
        if count == 0 and size > 0:
            raise os_error(errno.ENOSPC, self.path)
        return count

    def truncate(self, size: int) -> None:
        self._check(size)
        if not self._writable:
            raise os_error(errno.EINVAL, self.path)

        def cut() -> None:
            self._inode.modified_ms = self._power.clock.now_ms()
            self._inode.truncate(size)

        self._power.change("truncate", self.path, cut)

    def sync(self) -> None:
        self._check()
        power = self._power
        try:
            power.change("sync", self.path, self._inode.sync)
        except OSError:
            if power.faults.failed_sync_drops:
                self._inode.drop_dirty(power.random, power.faults.garbage_probability)
            raise

    def map(self) -> SimMapping:
        self._check()
        self._power.observe("map", self.path)
        if self._inode.size == 0:
            raise OSError(errno.EINVAL, "an empty file cannot be mapped", self.path)
        return SimMapping(self._power, self._inode, self.path)

    def close(self) -> None:
        """Never fails, so that clean-up code can run while the machine is down."""
        self._open = False

    def __repr__(self) -> str:
        return f"SimFile({self.path!r}, fd={self._fd})"


class SimMapping:
    """As long as the file was when mapped. It outlives its file handle, not its machine's life."""

    __slots__ = ("_inode", "_length", "_life", "_path", "_power")

    def __init__(self, power: DiskPower, inode: Inode, path: str) -> None:
        self._power = power
        self._inode: Inode | None = inode
        self._length = inode.size
        self._life = power.life
        self._path = path

    def __getitem__(self, key: slice, /) -> bytes:
        inode = self._inode
        if inode is None:
            raise ValueError(f"the mapping of {self._path} is closed")
        power = self._power
        if power.down:
            raise SimulatedCrash
        if self._life != power.life:
            raise os_error(errno.EBADF, self._path)
        power.observe("read", self._path)
        start, stop, step = key.indices(self._length)
        if step != 1 or stop <= start:
            return b"".join(self[at : at + 1] for at in range(start, stop, step))
        readable = -(-inode.size // PAGE_BYTES) * PAGE_BYTES
        if stop > readable:
            raise MappedFault(
                f"{self._path}: bytes {start} to {stop} of a mapping were read when the file had only {inode.size}"
            )
        return inode.read(stop - start, start).ljust(stop - start, b"\0")

    def __len__(self) -> int:
        if self._inode is None:
            raise ValueError(f"the mapping of {self._path} is closed")
        return self._length

    def close(self) -> None:
        self._inode = None


class SimLock:
    """Held until it is released or the life of the machine it was taken in is over."""

    __slots__ = ("_file",)

    def __init__(self, file: SimFile) -> None:
        self._file = file

    @property
    def is_held(self) -> bool:
        return self._file.is_open

    def release(self) -> None:
        self._file.close()
