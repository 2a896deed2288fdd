"""What is evidence that the leader's process is gone, and what is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from tailrace.config.voters import Address
from tailrace.env import InlineJobs
from tailrace.model.listeners import Listeners
from tailrace.peers import PeerEvent, PeerEventKind, Peers, ProbeOutcome, ProbeResult
from tailrace.raft.leader_evidence import MAX_PROBES, PROBE_GAP_MS, LeaderEvidence

LEADER, OTHER = Address("one", 9093), Address("two", 9093)


class ScriptedPeers:
    def __init__(self) -> None:
        self.on_event: Listeners[PeerEvent] = Listeners()
        self.probes: list[Callable[[ProbeResult], None]] = []

    def probe(self, address: Address, timeout_ms: int, done: Callable[[ProbeResult], None]) -> None:
        assert address == LEADER
        self.probes.append(done)


class Rig:
    def __init__(self) -> None:
        self.peers = ScriptedPeers()
        self.jobs = InlineJobs()
        self.reports: list[int] = []
        self.evidence = LeaderEvidence(cast(Peers, self.peers), self.jobs, self.reports.append)
        self.evidence.follow(1, LEADER)

    def event(self, kind: PeerEventKind, address: Address = LEADER) -> None:
        self.peers.on_event(PeerEvent(address, kind, ""))

    def answer(self, outcome: ProbeOutcome) -> None:
        self.peers.probes.pop()(ProbeResult(LEADER, outcome, ""))


@pytest.mark.parametrize("kind", [PeerEventKind.CLOSED, PeerEventKind.RESET])
def test_two_refused_probes_after_a_closed_connection(kind: PeerEventKind) -> None:
    rig = Rig()
    rig.event(kind)
    rig.event(kind)
    assert len(rig.peers.probes) == 1
    rig.answer(ProbeOutcome.REFUSED)
    assert rig.reports == []
    assert rig.jobs.waiting == [("probe-leader", PROBE_GAP_MS)]
    rig.jobs.run_due()
    rig.answer(ProbeOutcome.REFUSED)
    assert rig.reports == [1]
    rig.event(kind)
    assert len(rig.peers.probes) == 1


@pytest.mark.parametrize("refused_first", [False, True])
def test_an_unreachable_port_ends_the_search(refused_first: bool) -> None:
    rig = Rig()
    rig.event(PeerEventKind.CLOSED)
    if refused_first:
        rig.answer(ProbeOutcome.REFUSED)
        rig.jobs.run_due()
    rig.answer(ProbeOutcome.UNREACHABLE)
    rig.jobs.run_due()
    assert rig.reports == []
    assert rig.peers.probes == []


def test_the_port_of_a_process_that_ends_is_probed_again() -> None:
    """Its connections are closed first: the first probes may still be accepted."""
    rig = Rig()
    rig.event(PeerEventKind.CLOSED)
    for outcome in (ProbeOutcome.ACCEPTED, ProbeOutcome.REFUSED, ProbeOutcome.ACCEPTED, ProbeOutcome.REFUSED):
        rig.answer(outcome)
        assert rig.reports == []
        rig.jobs.run_due()
    rig.answer(ProbeOutcome.REFUSED)
    assert rig.reports == [1]


def test_a_leader_that_goes_on_is_not_probed_for_ever() -> None:
    rig = Rig()
    rig.event(PeerEventKind.CLOSED)
    for _ in range(MAX_PROBES):
        rig.answer(ProbeOutcome.ACCEPTED)
        rig.jobs.run_due()
    assert rig.peers.probes == []
    rig.event(PeerEventKind.CLOSED)
    assert len(rig.peers.probes) == 1


@pytest.mark.parametrize(
    "event",
    [
        (PeerEventKind.DROPPED, LEADER),
        (PeerEventKind.REFUSED, LEADER),
        (PeerEventKind.UNREACHABLE, LEADER),
        (PeerEventKind.CLOSED, OTHER),
    ],
)
def test_other_events_begin_no_search(event: Any) -> None:
    rig = Rig()
    rig.event(*event)
    assert rig.peers.probes == []


def test_another_leader_ends_the_search() -> None:
    rig = Rig()
    rig.event(PeerEventKind.CLOSED)
    rig.evidence.follow(1, LEADER)
    rig.answer(ProbeOutcome.REFUSED)
    rig.evidence.follow(2, OTHER)
    rig.jobs.run_due()
    assert rig.peers.probes == []
    rig.evidence.follow(-1, None)
    rig.event(PeerEventKind.CLOSED)
    assert rig.peers.probes == []
