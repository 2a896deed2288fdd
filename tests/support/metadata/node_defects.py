"""Injected defects of whole nodes in a cluster, with the run and the seed that find each.

    PYTHONPATH=tests python -m support.metadata.node_defects --seeds 2000 [NAME…]

prints a seed for each defect that its own seed no longer finds. The runs are those of `tailrace sim run quorum`:
controllers, brokers, administrators and an operator, with all kinds of faults. A defect that needs something rare has a
run in which it is frequent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from support.metadata import controller_defects, driver_defects, image_defects
from support.metadata.defect_search import Patch, search
from tailrace.model.errors import TailraceError
from tailrace.model.invariant import InvariantError
from tailrace.sim.event_log import Violation
from tailrace.sim.fault_schedule import Fault, FaultKind, FaultRules, FaultSchedule
from tailrace.sim.quorum_members import FIRST_BROKER_ID
from tailrace.sim.quorum_run import QuorumRun, QuorumRunParameters
from tailrace.sim.run import Goal

FAULTS_MS = 8_000
OTHER_ERRORS = (AssertionError, TailraceError, InvariantError)
"""Of the code with the defect: only what a checker of the run reports counts as found."""

BUSY_MS = 4_000
BUSY_FAULTS = {
    FaultKind.KILL: 8,
    FaultKind.PAUSE: 8,
    FaultKind.ISOLATE: 12,
    FaultKind.CUT: 4,
    FaultKind.RESTART: 6,
    FaultKind.UNREGISTER: 8,
    FaultKind.DISK_NEW: 6,
}
BUSY_SETTINGS = {
    "broker.heartbeat.interval.ms": "300",
    "broker.session.timeout.ms": "1500",
    "metadata.log.max.record.bytes.between.snapshots": "1000",
    "metadata.max.retention.bytes": "2000",
    "internal.metadata.log.segment.bytes": "2000",
}
CUT_OFF_FROM_MS = 2_000
CUT_OFF_MS = 4_000
"""A leader resigns when no majority has fetched for 3 s."""
UNREGISTERED_AT_MS = 3_000
REGISTERED_WITHIN_MS = 10_000


def run_seed(seed: int) -> None:
    QuorumRun(seed, QuorumRunParameters(faulty_ms=FAULTS_MS)).run()


def run_busy(seed: int) -> None:
    """Many commands, short sessions and small snapshots, with faults that change the leader or take a broker away."""
    rules = FaultRules(BUSY_FAULTS, mean_gap_ms=600, max_lasts_ms=4_000, max_unavailable=2)
    parameters = QuorumRunParameters(faulty_ms=BUSY_MS, faults=rules, mean_pause_ms=150, settings=BUSY_SETTINGS)
    QuorumRun(seed, parameters).run()


def run_cut_off(seed: int) -> None:
    """Each controller in turn reaches no other one, while brokers and administrators still reach it."""
    names = [member.name for member in QuorumRun(seed).members.controllers]
    faults = [
        Fault(CUT_OFF_FROM_MS + number * CUT_OFF_MS, FaultKind.CUT, name, other, CUT_OFF_MS)
        for number, name in enumerate(names)
        for other in names
        if other != name
    ]
    faulty_ms = CUT_OFF_FROM_MS + len(names) * CUT_OFF_MS
    schedule = FaultSchedule(tuple(faults))
    QuorumRun(seed, QuorumRunParameters(faulty_ms=faulty_ms, schedule=schedule, mean_pause_ms=400)).run()


class UnregisteredBroker(QuorumRun):
    """The operator unregisters a broker that is alive: it must register again."""

    def build(self) -> None:
        super().build()
        unregistered = self.wishes.unregistered
        self.universe.push(UNREGISTERED_AT_MS * 1000, None, lambda: unregistered.update({FIRST_BROKER_ID: None}))

    def goals(self) -> Iterator[Goal]:
        brokers = self.members.brokers
        yield Goal("every broker is unfenced again", lambda: self._are_unfenced(brokers), REGISTERED_WITHIN_MS)
        yield from super().goals()


def run_unregistered(seed: int) -> None:
    faulty_ms = UNREGISTERED_AT_MS + 2_000
    UnregisteredBroker(seed, QuorumRunParameters(faulty_ms=faulty_ms, schedule=FaultSchedule(()))).run()


class NodeDefect(NamedTuple):
    inject: Patch
    seed: int
    run: Callable[[int], None] = run_seed

    def __str__(self) -> str:
        return self.inject.__name__


def found_by(defect: NodeDefect, seed: int) -> Violation | None:
    with pytest.MonkeyPatch.context() as patch:
        defect.inject(patch)
        try:
            defect.run(seed)
        except Violation as error:
            return error
        except OTHER_ERRORS:
            return None
    return None


DEFECTS = (
    NodeDefect(controller_defects.acknowledges_what_is_appended, 0),
    NodeDefect(controller_defects.acknowledges_forwarded_commands_early, 0),
    NodeDefect(controller_defects.acknowledges_at_resignation, 0, run_cut_off),
    NodeDefect(controller_defects.keeps_its_state_after_resignation, 0, run_cut_off),
    NodeDefect(controller_defects.returns_to_the_offset_only, 0, run_cut_off),
    NodeDefect(controller_defects.standby_reads_nothing, 0),
    NodeDefect(controller_defects.keeps_its_state_below_a_snapshot, 1, run_busy),
    NodeDefect(controller_defects.registers_once, 0, run_unregistered),
    NodeDefect(controller_defects.reuses_broker_epochs, 1, run_busy),
    NodeDefect(controller_defects.counts_fenced_brokers, 1, run_busy),
    NodeDefect(controller_defects.previous_incarnation_leads, 6),
    NodeDefect(controller_defects.unregistered_brokers_lead, 1, run_unregistered),
    NodeDefect(controller_defects.unfences_at_once, 3),
    NodeDefect(controller_defects.forgets_where_brokers_registered, 3),
    NodeDefect(controller_defects.grows_from_the_first_partition, 0),
    NodeDefect(image_defects.skips_config_changes, 0),
    NodeDefect(image_defects.snapshots_keep_deleted_topics, 0, run_busy),
    NodeDefect(image_defects.snapshots_without_configs, 0, run_busy),
    NodeDefect(image_defects.snapshots_without_partition_epochs, 2, run_busy),
    NodeDefect(image_defects.snapshots_of_what_is_appended, 6, run_busy),
    NodeDefect(image_defects.snapshots_are_added_to_the_image, 3, run_busy),
    NodeDefect(image_defects.snapshots_are_not_installed, 1, run_busy),
    NodeDefect(driver_defects.no_fsync, 6),
    NodeDefect(driver_defects.loses_its_timer, 0, run_unregistered),
    NodeDefect(driver_defects.snapshots_without_voters, 0, run_busy),
    NodeDefect(driver_defects.keeps_lost_appends, 0, run_cut_off),
)


if __name__ == "__main__":
    search(DEFECTS, found_by)
