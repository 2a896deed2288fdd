"""Clusters of three or five controllers and brokers under faults, with administrators and an operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from suite.seeds import parametrized_seeds
from support.stress.fault_schedule import assert_found
from tailrace.controller.controller import Controller
from tailrace.model.errors import TailraceError
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.raft.consensus import effects as fx
from tailrace.raft.core_driver import CoreDriver
from tailrace.raft.metadata_loader import MetadataLoader
from tailrace.sim.event_log import Violation
from tailrace.sim.fault_schedule import FaultKind, FaultRules
from tailrace.sim.quorum_run import QuorumRun, QuorumRunParameters

Patch = Callable[[pytest.MonkeyPatch], None]

DAMAGE = {FaultKind.BIT_FLIP: 30, FaultKind.KILL: 10, FaultKind.POWER: 5, FaultKind.RESTART: 5}


@parametrized_seeds(core=4, fresh=4)
def test_acknowledged_commands_survive_faults(seed: int) -> None:
    report = QuorumRun(seed, QuorumRunParameters(faulty_ms=20_000)).run()
    print(report)
    assert report.counts["acknowledged"] > 10
    assert report.counts["operations"] > report.simulated_s
    assert report.counts["compared images"] > 5


@pytest.mark.long
@parametrized_seeds(core=6, fresh=14)
def test_acknowledged_commands_survive_many_faults(seed: int) -> None:
    QuorumRun(seed, QuorumRunParameters(faulty_ms=60_000)).run()


def test_the_same_seed_gives_the_same_events() -> None:
    first, second = (QuorumRun(5, QuorumRunParameters(faulty_ms=5_000)) for _ in range(2))
    assert first.run().hash == second.run().hash


@parametrized_seeds(core=2, fresh=2)
def test_damage_beyond_the_budget_is_never_served(seed: int) -> None:
    """Bits flip on the disks of any number of voters: nodes may stop, and report no batch that differs."""
    rules = FaultRules(DAMAGE, mean_gap_ms=1_500, max_lasts_ms=3_000, max_unavailable=5)
    run = QuorumRun(seed, QuorumRunParameters(faulty_ms=15_000, faults=rules, has_budget=False))
    report = run.run()
    assert report.counts["disks damaged or replaced"] > 0


def no_fsync(patch: pytest.MonkeyPatch) -> None:
    """An append counts as durable without an fsync."""
    change = CoreDriver._change_log

    def changed(driver: CoreDriver, effect: Any) -> None:
        if isinstance(effect, fx.FlushLog):
            driver._persisted(effect.number)
        else:
            change(driver, effect)

    patch.setattr(CoreDriver, "_change_log", changed)


def responds_early(patch: pytest.MonkeyPatch) -> None:
    """A command is acknowledged when it is appended."""
    patch.setattr(Controller, "_respond", lambda controller, request, version, response, done: done(response))


def skips_a_record(patch: pytest.MonkeyPatch) -> None:
    """A node leaves the last record of a large batch out of its image."""
    committed = MetadataLoader.committed

    def short(loader: MetadataLoader, records: Sequence[VersionedRecord], *position: int) -> None:
        committed(loader, list(records[:-1] if len(records) > 2 else records), *position)

    patch.setattr(MetadataLoader, "committed", short)


@pytest.mark.long
@pytest.mark.parametrize("defect", [no_fsync, responds_early, skips_a_record], ids=lambda defect: defect.__name__)
def test_a_defect_is_found(defect: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    defect(monkeypatch)

    def run(seed: int) -> None:
        QuorumRun(seed, QuorumRunParameters(faulty_ms=20_000)).run()

    assert_found(run, 40, (AssertionError, TailraceError, Violation))
