"""Carries out a schedule of faults in a universe, ends each fault when its time is over, and heals everything.

A fault that does not apply at its time (a kill of a process that is down) has no effect. After `heal` no further
fault of the schedule begins, and every machine is on and runs its program.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from tailrace.sim.disk import SimDisk
from tailrace.sim.fault_schedule import OPERATIONS, Fault, FaultKind, FaultSchedule
from tailrace.sim.faults import Survival
from tailrace.sim.foreign_port import ForeignPort, Manners
from tailrace.sim.link import Link, LinkRules
from tailrace.sim.machine import Machine
from tailrace.sim.universe import Universe

MAX_WAIT_FOR_WRITE_MS: Final = 1_000
_SURVIVALS: Final = (Survival.ANY, Survival.ANY, Survival.NOTHING, Survival.EVERYTHING)

Undo = Callable[[], object]


class FaultInjector:
    def __init__(
        self,
        universe: Universe,
        schedule: FaultSchedule,
        port: int,
        allows: Callable[[Fault], bool] = lambda fault: True,
        *,
        operate: Callable[[Fault], Undo | None] = lambda fault: None,
        may_damage: Callable[[Fault, str], bool] = lambda fault, path: True,
    ) -> None:
        """`port` is the one that is taken where another program takes a port.

        `operate` does what an operator does (`OPERATIONS`), and returns what ends it. `may_damage` chooses the files
        that a bit flip or a truncation may hit. `allows` is asked when a fault is due: a fault that the cluster could
        not survive in its present state, such as the loss of a second disk before the first one has caught up, is left
        out.
        """
        self.schedule = schedule
        self._allows = allows
        self._operate = operate
        self._may_damage = may_damage
        self.injected = 0
        self._universe = universe
        self._port = port
        self._random = universe.random_for("faults")
        self._active: dict[int, Undo] = {}
        self._is_healed = False

    def arm(self) -> None:
        """The times of the schedule count from now."""
        for number, fault in enumerate(self.schedule.faults):
            self._universe.push(fault.at_ms * 1000, None, partial(self._inject, number, fault))

    def _inject(self, number: int, fault: Fault) -> None:
        if self._is_healed:
            return
        if not self._allows(fault):
            self._universe.log.add(fault.machine, "fault-skipped", fault.what)
            return
        self._universe.log.add(fault.machine, "fault", str(fault).partition("   ")[2])
        self.injected += 1
        undo = self._apply(fault)
        if undo is not None:
            self._active[number] = undo
            self._universe.push(fault.lasts_ms * 1000, None, partial(self._end, number, fault))

    def _end(self, number: int, fault: Fault) -> None:
        undo = self._active.pop(number, None)
        if undo is not None:
            self._universe.log.add(fault.machine, "fault-end", fault.what)
            undo()

    def heal(self) -> None:
        """End all faults, and tell the checkers."""
        self._is_healed = True
        active, self._active = self._active, {}
        for undo in active.values():
            undo()
        self._universe.network.heal()
        for machine in self._universe.machines.values():
            machine.disk.faults.heal()
            machine.disk.crash_at(None)
            machine.clock.drift(0)
            machine.clock.correct()
            machine.resume()
            machine.power_up()
        self._universe.healed()

    def _apply(self, fault: Fault) -> Undo | None:
        """Returns what ends the fault, None for one that has no duration."""
        if fault.kind is FaultKind.POWER_OF_ALL:
            return self._power_of_all()
        if fault.kind in OPERATIONS:
            return self._operate(fault)
        machine = self._universe.machines[fault.machine]
        if fault.peer or fault.kind is FaultKind.ISOLATE:
            return self._apply_to_links(fault)
        if fault.kind.value.startswith("disk") and fault.kind is not FaultKind.DISK_NEW:
            return self._apply_to_disk(fault, machine)
        return self._apply_to_machine(fault, machine)

    def _apply_to_machine(self, fault: Fault, machine: Machine) -> Undo | None:
        match fault.kind:
            case FaultKind.KILL:
                machine.kill()
                return machine.start
            case FaultKind.POWER:
                machine.lose_power()
                return partial(machine.power_up, self._survival())
            case FaultKind.POWER_IN_WRITE:
                machine.disk.crash_at(machine.disk.ops + max(fault.value, 1))
                self._universe.push(MAX_WAIT_FOR_WRITE_MS * 1000, None, partial(machine.disk.crash_at, None))
                return partial(machine.power_up, self._survival())
            case FaultKind.PAUSE:
                machine.pause()
                return machine.resume
            case FaultKind.CLOCK_JUMP:
                machine.clock.jump(fault.value)
            case FaultKind.CLOCK_DRIFT:
                machine.clock.drift(fault.value)
                return partial(machine.clock.drift, 0)
            case FaultKind.DISK_NEW:
                machine.lose_power()
                machine.replace_disk()
                return machine.power_up
            case FaultKind.PORT_TAKEN:
                return self._take_port(fault, machine)
            case FaultKind.BIT_FLIP | FaultKind.TRUNCATION:
                self._damage(fault, machine.disk, random.Random(fault.value))
        return None

    def _apply_to_disk(self, fault: Fault, machine: Machine) -> Undo | None:
        faults, times = machine.disk.faults, machine.job_times
        match fault.kind:
            case FaultKind.DISK_SLOW:
                times.slowness = float(fault.value)
                return partial(setattr, times, "slowness", 1.0)
            case FaultKind.DISK_FULL:
                faults.capacity_bytes = machine.disk.allocated_bytes() + fault.value
                return partial(setattr, faults, "capacity_bytes", None)
            case FaultKind.DISK_FAILS:
                faults.failed_sync_drops = True
                for op in ("write", "sync", "sync_dir"):
                    faults.fail_next(op, code=errno.EIO, times=None)
                return faults.heal
        return None

    def _apply_to_links(self, fault: Fault) -> Undo | None:
        network, name, peer = self._universe.network, fault.machine, fault.peer
        pair = network.between([name], [peer]) if peer else []
        match fault.kind:
            case FaultKind.CUT:
                return _with(pair, "is_cut")
            case FaultKind.CUT_ONE_WAY:
                return _with([network.link(name, peer)], "is_cut")
            case FaultKind.ISOLATE:
                return _with(network.between([name], self._universe.machines), "is_cut")
            case FaultKind.FIREWALL:
                return _with([network.link(peer, name)], "is_rejecting")
            case FaultKind.RESETS:
                network.reset_connections(name, peer)
            case FaultKind.LOSSY:
                return _with_rules(pair, network.rules, loss_probability=fault.value / 100)
            case FaultKind.SLOW_LINK:
                return _with_rules(
                    pair, network.rules, min_delay_us=fault.value * 1000, mean_extra_delay_us=fault.value * 200
                )
        return None

    def _survival(self) -> Survival:
        return self._random.choice(_SURVIVALS)

    def _power_of_all(self) -> Undo:
        machines = [machine for machine in self._universe.machines.values() if machine.disk.ops]
        for machine in machines:
            machine.lose_power("power is lost everywhere")

        def power_up() -> None:
            for machine in machines:
                machine.power_up(self._survival())

        return power_up

    def _take_port(self, fault: Fault, machine: Machine) -> Undo | None:
        machine.kill()
        if not machine.is_on or self._universe.network.is_taken(machine.name, self._port):
            return machine.start
        foreign = ForeignPort(machine, self._port, list(Manners)[fault.value % len(Manners)])

        def release() -> None:
            foreign.release()
            machine.start()

        return release

    def _damage(self, fault: Fault, disk: SimDisk, rng: random.Random) -> None:
        """A file that is not empty. Which one depends on the seed and on the files that there are."""
        files = [path for path in disk.paths() if self._may_damage(fault, path) and disk.inspect(path)]
        if not files:
            return
        path = rng.choice(files)
        size = len(disk.inspect(path))
        if fault.kind is FaultKind.BIT_FLIP:
            disk.flip_bit(path, rng.randrange(8 * size))
        else:
            disk.cut(path, rng.randrange(size))
        self._universe.log.add(fault.machine, "damage", path)


def _with(links: list[Link], flag: str) -> Undo:
    for link in links:
        setattr(link, flag, True)

    def undo() -> None:
        for link in links:
            setattr(link, flag, False)

    return undo


def _with_rules(links: list[Link], usual: LinkRules, **changes: float) -> Undo:
    """Faults of one link may overlap: the end of each restores what it changed to what is usual."""

    def change(values: Mapping[str, float]) -> None:
        for link in links:
            for name, value in values.items():
                setattr(link.rules, name, value)

    change(changes)
    return partial(change, {name: getattr(usual, name) for name in changes})
