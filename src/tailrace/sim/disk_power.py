"""The power supply of a simulated disk: counts operations, injects crashes and failures.

`SimDisk` and every handle it gave out share one. `life` grows with each restart or kill; a handle of an earlier life
is dead.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from tailrace.env.clock import Clock
from tailrace.model.invariant import invariant
from tailrace.sim.faults import CrashPoint, Faults, Op, SimulatedCrash, os_error

T = TypeVar("T")

WriteListener = Callable[[str, bytes, int], object]
"""Gets the path of a file, the bytes that were written, and their position."""


class DiskPower:
    __slots__ = ("_crash_at", "_crash_point", "clock", "down", "faults", "life", "on_write", "ops", "random")

    def __init__(self, rng: random.Random, clock: Clock, faults: Faults) -> None:
        self.random = rng
        self.clock = clock
        self.faults = faults
        self.ops = 0
        self.life = 1
        self.down = False
        self.on_write: WriteListener | None = None
        """Notified of what a program writes; not copied by `clone`."""
        self._crash_at: int | None = None
        self._crash_point: CrashPoint | None = None

    def crash_at(self, op_number: int | None, point: CrashPoint | None) -> None:
        invariant(op_number is None or op_number > self.ops, f"operation {op_number} is past; {self.ops} are done")
        self._crash_at = op_number
        self._crash_point = point

    def power_up(self) -> None:
        """Begin a new life; a crash that was planned and did not come is called off."""
        self.down = False
        self.life += 1
        self._crash_at = self._crash_point = None

    def observe(self, op: Op, path: str) -> None:
        """Stand before every call that changes nothing."""
        if self.down:
            raise SimulatedCrash
        if self.faults.count_reads:
            self.ops += 1
            if self.ops == self._crash_at:
                self._stop()
        self.faults.check(op, path)

    def change(
        self,
        op: Op,
        path: str,
        act: Callable[[], T],
        *,
        target: str | None = None,
        act_partly: Callable[[], object] | None = None,
    ) -> T:
        """Run `act`, an operation that changes something, unless a crash or failure is due."""
        if self.down:
            raise SimulatedCrash
        self.ops += 1
        if self.ops == self._crash_at:
            point = self._crash_point or self.random.choice(list(CrashPoint))
            # An error of the operation has no caller left that could see it.
            with suppress(OSError):
                if point is CrashPoint.AFTER:
                    act()
                elif point is CrashPoint.DURING and act_partly is not None:
                    act_partly()
            self._stop()
        self.faults.check(op, path, target)
        if self.faults.read_only and op not in ("sync", "sync_dir"):
            raise os_error(errno.EROFS, path)
        return act()

    def _stop(self) -> None:
        self.down = True
        raise SimulatedCrash(f"at operation {self.ops}")

    def clone(self, seed: int | None) -> DiskPower:
        """The same state under the same generator, or under a fresh one from `seed`."""
        rng = random.Random(seed)
        if seed is None:
            rng.setstate(self.random.getstate())
        copy = DiskPower(rng, self.clock, self.faults.copy())
        copy.ops = self.ops
        copy.life = self.life
        copy.down = self.down
        copy._crash_at = self._crash_at
        copy._crash_point = self._crash_point
        return copy
