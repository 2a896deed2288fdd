"""A disk in memory that does everything a real one may do to a program, and nothing else.

LEGAL FAULTS

Lost power (`crash`, `crash_at`, then `restart`). Nothing is safe but this: after `File.sync` returned, the bytes
and the size the file had then; after `Files.sync_dir` returned, the names the directory had then. Of everything newer:

    data    Each 4 KiB page by itself holds its synced version, the newest, or any in between; or a mixture
            of two versions, 512-byte sector by sector.
    size    Apart from the data: the synced size, the newest, or one in between. A write grows a file page by page, a
            truncate cuts or extends it in one step. Behind the chosen end everything is gone. Where the size is new
            and the page is not, there are zeros, or (`garbage_probability`) random bytes in sectors behind the
            synced end; never in space that a truncate added and no write touched.
    time    The modification time is the synced or the newest one.
    names   Making, renaming, unlinking: each change is there or not, by itself, but whole: a rename never leaves
            both names or none. A change needs the earlier ones on the same names, the making of its directory
            and, where it removes a directory, those in that directory. Syncing a file does not save its name;
            syncing a directory saves neither its own name nor the data of its files.

Struck at an operation (`crash_at`), that operation has happened, has not, or, if it is a write, has happened for
some first bytes of it. From then on every call raises SimulatedCrash until `restart` or `kill`.

Killed process (`kill`, also after `crash_at`). Nothing is lost; handles and mappings are dead.

Failing calls (`fail_next`, `Faults`). Any call can fail with any errno and has then done nothing. A write can be
short. A full disk takes the pages that fit, then ENOSPC; holes cost nothing until they are written; space of an
unlinked file is free at once. A failed sync can drop what it should have written (`failed_sync_drops`): afterwards
running code still sees it, later syncs succeed, and a crash shows it was lost.

Damage (`flip_bit`, `cut`). A bit of a file changes, or its end is gone, in cache and on the medium.

Not modelled: permissions, links, bytes of deleted files that come back, misdirected writes, a sync that lies from the
first.

The same seed and the same calls give the same outcome. One thread uses a disk.
"""

from __future__ import annotations

import builtins
import errno
import random
from collections.abc import Callable

from tailrace.env.clock import Clock
from tailrace.env.files import Entry, Mode, Space
from tailrace.model.invariant import invariant
from tailrace.sim.clock import SimClock
from tailrace.sim.disk_power import DiskPower, WriteListener
from tailrace.sim.faults import CrashPoint, Faults, Op, Survival, os_error
from tailrace.sim.handle import SimFile, SimLock
from tailrace.sim.inode import PAGE_BYTES, Inode
from tailrace.sim.names import Directory, Names

_FIRST_FD = 1 << 30
_LARGEST_DISK_BYTES = 2**63 - 1


class SimDisk:
    """Implements `env.files.Files`. Paths begin at the root, which exists; `..` is not known."""

    def __init__(self, seed: int = 0, clock: Clock | None = None, faults: Faults | None = None) -> None:
        clock = clock or SimClock()
        self._power = DiskPower(random.Random(seed), clock, faults or Faults())
        self._names = Names(clock.now_ms())
        self._opened = 0
        self._locks: dict[Inode, SimLock] = {}

    # What a test does to the disk

    @property
    def ops(self) -> int:
        """Operations so far that change something (with `faults.count_reads`, all)."""
        return self._power.ops

    @property
    def is_down(self) -> bool:
        return self._power.down

    @property
    def faults(self) -> Faults:
        return self._power.faults

    def fail_next(
        self,
        op: Op | None = None,
        path: str | Callable[[str], bool] | None = None,
        code: int = errno.EIO,
        *,
        skip: int = 0,
        times: int | None = 1,
    ) -> None:
        """See `Faults.fail_next`."""
        self.faults.fail_next(op, path, code, skip=skip, times=times)

    def crash_at(self, op_number: int | None, point: CrashPoint | None = None) -> None:
        """Lose power at the operation that makes `ops` equal `op_number`; None calls it off."""
        self._power.crash_at(op_number, point)

    def crash(self) -> None:
        """Lose power now, between two operations."""
        self._power.down = True

    def restart(self, survival: Survival = Survival.ANY) -> None:
        """Power is back after it was lost (just now, if no crash came before): only what survived is there."""
        self._names.restart(self._power.random, survival, self.faults.garbage_probability)
        self._power.power_up()

    def kill(self) -> None:
        """The process died and the operating system lives: the next process finds everything written."""
        self._power.power_up()

    def sync_all(self) -> None:
        """Make everything durable, without an operation: how a test lays out its beginning."""
        self._names.sync_all()

    def watch_writes(self, listener: WriteListener) -> None:
        """Notify one listener, within the operation, of all that programs write from now on."""
        self._power.on_write = listener

    def flip_bit(self, path: str, bit: int) -> None:
        """Flip one bit, counted from the lowest bit of the file's first byte."""
        inode = self._names.file(path)
        invariant(0 <= bit < inode.size * 8, f"{path} has {inode.size * 8} bits, none numbered {bit}")
        inode.flip_bit(bit)

    def cut(self, path: str, size: int) -> None:
        """Cut a file on the medium and in the cache: damage, not an operation of a program."""
        inode = self._names.file(path)
        invariant(0 <= size <= inode.size, f"{path} has {inode.size} bytes and cannot be cut to {size}")
        inode.truncate(size)
        inode.sync()

    def paths(self) -> builtins.list[str]:
        """The path of every file, without an operation."""
        return self._names.paths()

    def inspect(self, path: str) -> bytes:
        """The bytes of a file as running code sees them, without an operation."""
        inode = self._names.file(path)
        return inode.read(inode.size, 0)

    def allocated_bytes(self) -> int:
        """What counts against `faults.capacity_bytes`."""
        return self._names.allocated_bytes()

    def clone(self, seed: int | None = None) -> SimDisk:
        """A disk of its own in the same state, to try several futures; `seed` gives it other dice.

        Handles of this disk do not work on the clone. Both share the clock.
        """
        copy = SimDisk()
        copy._power = self._power.clone(seed)
        copy._names = self._names.clone()
        copy._opened = self._opened
        return copy

    # What a program does (`env.files.Files`)

    def open(self, path: str, mode: Mode) -> SimFile:
        self._power.observe("open", path)
        try:
            inode = self._names.file(path)
        except FileNotFoundError:
            if mode in (Mode.READ, Mode.WRITE):
                raise
            inode = Inode(self._power.clock.now_ms())
            self._power.change("create", path, lambda: self._names.make(path, inode))
        else:
            if mode is not Mode.READ and self.faults.read_only:
                raise os_error(errno.EROFS, path)
            if mode is Mode.REPLACE and inode.size:
                self._power.change("truncate", path, lambda: self._empty(inode))
        self._opened += 1
        return SimFile(self._power, self._names, inode, path, mode, _FIRST_FD + self._opened)

    def _empty(self, inode: Inode) -> None:
        inode.modified_ms = self._power.clock.now_ms()
        inode.truncate(0)

    def list(self, path: str) -> builtins.list[Entry]:
        self._power.observe("list", path)
        entries = self._names.directory(path).entries
        return sorted(Entry(name, isinstance(node, Directory)) for name, node in entries.items())

    def exists(self, path: str) -> bool:
        self._power.observe("stat", path)
        try:
            self._names.find(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def size(self, path: str) -> int:
        self._power.observe("stat", path)
        node = self._names.find(path)
        return node.size if isinstance(node, Inode) else PAGE_BYTES

    def modified_ms(self, path: str) -> int:
        self._power.observe("stat", path)
        return self._names.find(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._power.change("set_time", path, lambda: setattr(self._names.file(path), "modified_ms", modified_ms))

    def make_dir(self, path: str) -> None:
        self._power.observe("stat", path)
        try:
            found = self._names.find(path)
        except FileNotFoundError:
            directory = Directory(self._power.clock.now_ms())
            self._power.change("make_dir", path, lambda: self._names.make(path, directory))
            return
        if not isinstance(found, Directory):
            raise os_error(errno.EEXIST, path)

    def rename(self, source: str, target: str) -> None:
        now_ms = self._power.clock.now_ms()
        self._power.change("rename", source, lambda: self._names.rename(source, target, now_ms), target=target)

    def unlink(self, path: str) -> None:
        now_ms = self._power.clock.now_ms()
        self._power.change("unlink", path, lambda: self._names.unlink(path, now_ms))

    def remove_dir(self, path: str) -> None:
        now_ms = self._power.clock.now_ms()
        self._power.change("remove_dir", path, lambda: self._names.remove_dir(path, now_ms))

    def sync_dir(self, path: str) -> None:
        self._power.change("sync_dir", path, lambda: self._names.sync(self._names.directory(path)))

    def lock(self, path: str) -> SimLock:
        file = self.open(path, Mode.CREATE)
        inode = self._names.file(path)
        holder = self._locks.get(inode)
        if holder is not None and holder.is_held:
            raise os_error(errno.EAGAIN, path)
        lock = self._locks[inode] = SimLock(file)
        return lock

    def canonical(self, path: str) -> str:
        self._power.observe("stat", path)
        self._names.find(path)
        return "/" + "/".join(name for name in path.split("/") if name not in ("", "."))

    def space(self, path: str) -> Space:
        """Without a limit the disk is as large as a file can be."""
        self._power.observe("stat", path)
        self._names.find(path)
        limit = self.faults.capacity_bytes
        total_bytes = _LARGEST_DISK_BYTES if limit is None else limit
        return Space(total_bytes, max(total_bytes - self.allocated_bytes(), 0))
