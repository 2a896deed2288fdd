"""A voter that has lost data counts as failed until it has caught up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tailrace.sim.fault_schedule import Fault, FaultKind
from tailrace.sim.quorum_run import QuorumRun, QuorumRunParameters


def test_voter_that_cannot_read_its_disk_has_not_caught_up() -> None:
    """Also where nothing was committed before the damage: the processes that follow end without having read a batch."""
    run = QuorumRun(1, QuorumRunParameters(has_budget=False))
    member = run.members.by_name["controller-2"]
    assert run.committed.end == 0
    assert run.budget.allows(Fault(8, FaultKind.TRUNCATION, member.name))
    image = SimpleNamespace(offset=-1)
    observer: Any = SimpleNamespace(process=SimpleNamespace(is_alive=True), image=image)
    run.committed.voters = run.members.first_voters
    member.observer = observer
    assert run.budget.failed() == [member]
    image.offset = 0
    assert run.budget.failed() == []
