"""A run of a cluster with faults: a quorum of three or five controllers, brokers, administrators and an operator.

Administrators change topics, configs and features while machines are killed, cut off, lose power or data, and while the
operator changes voters. After healing the voters must be those that are wanted, the brokers must be registered, every
administrator must get acknowledgements, and all nodes must have the same image.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from tailrace.sim.admin_client import AdminClient
from tailrace.sim.committed_log import CommittedLog
from tailrace.sim.damage_budget import DamageBudget
from tailrace.sim.event_log import Checker
from tailrace.sim.fault_injector import Undo
from tailrace.sim.fault_schedule import DAMAGE, Fault, FaultKind, FaultRules, FaultSchedule
from tailrace.sim.machine import Machine
from tailrace.sim.metadata_rules import MetadataRules
from tailrace.sim.node_program import NodeProgram
from tailrace.sim.quorum_checker import (
    Acknowledgements,
    CommittedState,
    ControllerState,
    Elections,
    LogMatching,
    UnchangedBatches,
    UnlessReported,
)
from tailrace.sim.quorum_members import MOVED_PORT, PORT, Member, QuorumMembers
from tailrace.sim.quorum_observer import QuorumObserver
from tailrace.sim.quorum_operator import QuorumOperator, Wishes
from tailrace.sim.record_checker import LivingSenders
from tailrace.sim.run import SURVIVABLE, Goal, Run, RunParameters
from tailrace.sim.universe import Universe

MAX_SKEW_MS: Final = 5_000
RESTART_MS: Final = 500
LONGER_QUORUM: Final = 0.35
"""The share of seeds with five controllers."""


QUORUM_FAULTS: Final[Mapping[FaultKind, int]] = {
    **SURVIVABLE,
    FaultKind.DISK_NEW: 4,
    FaultKind.BIT_FLIP: 4,
    FaultKind.TRUNCATION: 4,
    FaultKind.RESTART: 5,
    FaultKind.MOVE: 4,
    FaultKind.REMOVE_VOTER: 5,
    FaultKind.UNREGISTER: 2,
}


@dataclass(frozen=True, slots=True)
class QuorumRunParameters(RunParameters):
    faults: FaultRules = field(
        default_factory=lambda: FaultRules(QUORUM_FAULTS, mean_gap_ms=3_000, max_lasts_ms=15_000, max_unavailable=2)
    )
    brokers: int = 3
    administrators: int = 3
    mean_pause_ms: int = 1_000
    """Between two operations of an administrator."""
    settings: Mapping[str, str] = field(default_factory=dict)
    has_budget: bool = True
    """False: any data may be lost at any time. Nodes may stop for ever then, but must not serve what is damaged."""


class QuorumRun(Run):
    def __init__(self, seed: int, parameters: QuorumRunParameters | None = None) -> None:
        self.parameters = parameters or QuorumRunParameters()
        super().__init__(seed, self.parameters, PORT)

    def build(self) -> None:
        universe, parameters = self.universe, self.parameters
        chance = universe.random_for("build")
        controllers = 5 if chance.random() < LONGER_QUORUM else 3
        settings = dict(parameters.settings)
        is_dynamic = chance.random() < 0.6
        if is_dynamic and chance.random() < 0.3:
            settings["controller.quorum.auto.join.enable"] = "true"
        self.members = QuorumMembers(controllers, parameters.brokers, is_dynamic=is_dynamic, settings=settings)
        self.committed = CommittedLog(self.members.first_voters)
        self.logs = LogMatching()
        self.elections = Elections(self.committed)
        self.state = CommittedState(self.committed, self.logs)
        self.acknowledgements = Acknowledgements(self.committed)
        for checker in self._checkers():
            universe.add_checker(checker)
        for member in self.members.by_name.values():
            skew_ms = chance.randint(-MAX_SKEW_MS, MAX_SKEW_MS)
            machine = universe.add_machine(member.name, self.members.boot(member), skew_ms=skew_ms)
            machine.restart_delay_ms = RESTART_MS
        self.wishes = Wishes(self.members)
        self.budget = DamageBudget(
            self.members, universe.machines, self.committed, self.logs, self.wishes, is_limited=parameters.has_budget
        )
        self._clients = [
            universe.add_machine(
                f"admin-{number}",
                partial(
                    AdminClient,
                    nodes=self.members.addresses,
                    committed=self.committed,
                    mean_pause_ms=parameters.mean_pause_ms,
                ),
            )
            for number in range(1, parameters.administrators + 1)
        ]
        boot = partial(QuorumOperator, nodes=self.members.addresses, committed=self.committed, wishes=self.wishes)
        self._operator = universe.add_machine("operator", boot)

    def _checkers(self) -> list[Checker]:
        rules = MetadataRules(self.committed)
        needed: list[Checker] = [self.elections, self.state, rules, ControllerState(), self.acknowledgements]
        if not self.parameters.has_budget:
            needed = [UnchangedBatches(self.logs), *map(UnlessReported, needed)]
        return [self.logs, *needed, LivingSenders()]

    def draw(self, universe: Universe, rules: FaultRules, length_ms: int) -> FaultSchedule:
        controllers = [member.name for member in self.members.controllers]
        names = [*controllers, *self.members.by_name]  # twice as many faults for a controller as for a broker
        return FaultSchedule.draw(universe.random_for("schedule"), rules, names, length_ms)

    # Faults

    def allows(self, fault: Fault) -> bool:
        if fault.kind in DAMAGE:
            return self.budget.allows(fault)
        member = self.members.by_name.get(fault.machine)
        has_failed = any(each.is_controller for each in self.budget.failed())
        if fault.kind is FaultKind.REMOVE_VOTER:
            is_possible = member is not None and member.is_controller and self.members.is_dynamic
            return is_possible and not has_failed and not self.wishes.removed
        if fault.kind is FaultKind.UNREGISTER:
            return member is not None and not member.is_controller
        if fault.kind is FaultKind.MOVE:
            is_controller = member is None or member.is_controller
            return not is_controller or (self.members.is_dynamic and not has_failed)
        return True

    def may_damage(self, fault: Fault, path: str) -> bool:
        return self.budget.may_damage(fault, path)

    def operate(self, fault: Fault) -> Undo | None:
        machine, member = self.universe.machines[fault.machine], self.members.by_name[fault.machine]
        match fault.kind:
            case FaultKind.RESTART:
                _stop(machine)
            case FaultKind.MOVE:
                member.port = MOVED_PORT if member.port == PORT else PORT
                if fault.value:
                    machine.kill()
                    self.universe.push(RESTART_MS * 1000, None, machine.start)
                else:
                    _stop(machine)
            case FaultKind.REMOVE_VOTER:
                self.wishes.removed[member.node_id] = None
                return partial(self.wishes.removed.pop, member.node_id, None)
            case FaultKind.UNREGISTER:
                machine.kill()
                self.wishes.unregistered[member.node_id] = None
                return machine.start
        return None

    def _replace_damaged_disks(self) -> None:
        """What has not caught up until healing gets an empty disk from the operator, if that is safe."""
        for member in self.budget.failed():
            machine = self.universe.machines[member.name]
            is_new = member.directory_id is None or (member.is_controller and not self.members.is_dynamic)
            if not is_new:
                machine.kill()
                machine.replace_disk()
                self.budget.replaced(member)
                machine.start()

    # Goals

    def goals(self) -> Iterator[Goal]:
        if not self.parameters.has_budget:
            return
        self._replace_damaged_disks()
        self.wishes.removed.clear()
        self.wishes.unregistered.clear()
        yield Goal("every controller is a voter", lambda: self.wishes.are_fulfilled(self.committed))
        brokers = self.committed.image.brokers
        yield Goal("every broker is registered and unfenced", lambda: self._are_unfenced(self.members.brokers))
        clients = [self._client(machine) for machine in self._clients]
        before = {client: client.acked for client in clients}
        yield Goal(
            "every administrator gets an acknowledgement after healing",
            lambda: all(client.acked > before[client] for client in clients),
        )
        assert len(brokers) >= len(self.members.brokers)
        for client in clients:
            client.is_working = False
        end = self.committed.end
        yield Goal("every node has all that is committed", lambda: self._have(end))
        for member in self._observers():
            self.state.check_image(member)
            if member.image.offset == self.committed.end - 1:
                self.state.check_voters(member)

    def _are_unfenced(self, brokers: list[Member]) -> bool:
        found = self.committed.image.brokers
        return all(each.node_id in found and found[each.node_id].is_active for each in brokers)

    def _observers(self) -> list[QuorumObserver]:
        return [member.observer for member in self.members.by_name.values() if member.observer is not None]

    def _have(self, end: int) -> bool:
        return all(
            member.observer is not None and member.observer.process.is_alive and member.observer.image.offset >= end - 1
            for member in self.members.by_name.values()
        )

    def _client(self, machine: Machine) -> AdminClient:
        assert machine.process is not None
        assert isinstance(machine.process.program, AdminClient)
        return machine.process.program

    def counts(self) -> Mapping[str, int]:
        return {
            "operations": sum(self._client(machine).operations for machine in self._clients if machine.process),
            "acknowledged": self.acknowledgements.count,
            "committed batches": len(self.committed.batches),
            "elections": self.elections.elections,
            "compared images": self.state.compared_images,
            "voter changes": self.committed.voter_changes,
            "disks damaged or replaced": self.budget.granted,
        }

    def in_columns(self) -> list[str]:
        return [*self.members.by_name, *(machine.name for machine in self._clients), self._operator.name]


def _stop(machine: Machine) -> None:
    """Cleanly, as on SIGTERM; a supervisor starts it again."""
    process = machine.process
    program = process.program if process is not None else None
    if process is not None and isinstance(program, NodeProgram):
        process.after(0, program.shutdown)
