"""Quorums of one to five consensus cores under random faults: nothing that is committed is lost, and they recover."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from suite.seeds import parametrized_seeds, reproducible, seeds
from support.consensus.fault_schedule import FaultSchedule
from support.consensus.sim_quorum import Network, SimQuorum
from tailrace.raft.consensus import ErrorCode
from tailrace.raft.consensus import messages as ms


@dataclass
class LateNetwork(Network):
    """Loses nothing; a message takes up to `slowest_ms`, as between busy processes."""

    slowest_ms: float = 5

    def delays(self, sender: int, receiver: int, rng: random.Random) -> list[float]:
        return [] if (sender, receiver) in self.cut else [rng.uniform(0.2, self.slowest_ms)]


@parametrized_seeds()
def test_committed_records_survive_faults_and_the_quorum_recovers(seed: int) -> None:
    schedule = FaultSchedule(seed)
    with reproducible(seed, schedule.quorum.events, __file__):
        schedule.run()


@pytest.mark.long
def test_committed_records_survive_many_faults() -> None:
    for seed in seeds(core=0, fresh=150):
        schedule = FaultSchedule(seed)
        with reproducible(seed, schedule.quorum.events, __file__):
            schedule.run(60_000)


def test_a_seed_gives_the_same_events_again() -> None:
    first, second = FaultSchedule(3), FaultSchedule(3)
    first.run(10_000)
    second.run(10_000)
    assert list(first.quorum.events) == list(second.quorum.events)


@pytest.mark.parametrize("voters", [1, 3, 5])
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_new_quorum_elects_a_leader_at_once(voters: int, is_dynamic: bool) -> None:
    for seed in range(20):
        quorum = SimQuorum(seed, voters, is_dynamic=is_dynamic)
        assert quorum.run(500, lambda quorum=quorum: bool(quorum.leaders)), f"seed {seed}"


def test_voter_may_be_added_after_the_leader_trimmed_the_start_of_its_epoch() -> None:
    quorum = SimQuorum(1, 1, observers=1)
    quorum.run(1_000)
    quorum.append(1, 5)
    quorum.run(1_000)
    leader = quorum.replicas[1]
    for _ in range(3):
        leader.take_snapshot(quorum.local_ms(1))
        quorum.settle(leader)
    assert leader.log.start == leader.log.end > 5
    quorum.ask(1, ms.AddRaftVoterRequest(quorum.replicas[2].voter, True))
    quorum.run(1_000)
    assert quorum.results == [ErrorCode.NONE]


def test_leader_that_dies_is_replaced_within_half_a_second() -> None:
    for seed in range(20):
        quorum = SimQuorum(seed, 3)
        assert quorum.run(500, lambda quorum=quorum: bool(quorum.leaders))
        quorum.run(5_000)
        quorum.crash(quorum.leaders[0])
        assert quorum.run(500, lambda quorum=quorum: bool(quorum.leaders)), f"seed {seed}"


def test_leader_that_dies_is_replaced_after_the_fetch_timeout_without_fast_election() -> None:
    for seed in range(20):
        quorum = SimQuorum(seed, 3, has_fast_election=False)
        assert quorum.run(5_000, lambda quorum=quorum: bool(quorum.leaders))
        quorum.run(5_000)
        quorum.crash(quorum.leaders[0])
        assert not quorum.run(1_000, lambda quorum=quorum: bool(quorum.leaders))
        assert quorum.run(9_000, lambda quorum=quorum: bool(quorum.leaders)), f"seed {seed}"


@pytest.mark.parametrize("slowest_ms", [5, 60])
def test_leader_that_is_paused_is_replaced_when_the_fetches_time_out(slowest_ms: int) -> None:
    """The followers lose it together. They must not split the vote, which would cost them the election timeout.

    Between the fetch timeout and the next leader lie two rounds of votes, a flush and the first commit.
    """
    for seed in range(20):
        quorum = SimQuorum(seed, 3)
        quorum.network = LateNetwork(slowest_ms=slowest_ms)
        quorum.clocks = {node_id: (offset, 1.0) for node_id, (offset, _) in quorum.clocks.items()}
        assert quorum.run(5_000, lambda quorum=quorum: bool(quorum.leaders))
        for _ in range(5):
            quorum.append(quorum.leaders[0])
            quorum.run(quorum.rng.uniform(100, 1_000))
        leader_id = quorum.leaders[0]
        quorum.append(leader_id)
        quorum.run(quorum.rng.uniform(0, 2 * slowest_ms))
        quorum.isolate([leader_id])
        limit_ms = 2_000 + 10 * slowest_ms
        is_replaced = quorum.run(limit_ms, lambda quorum=quorum, old=leader_id: {*quorum.leaders} > {old})
        assert is_replaced, f"seed {seed}"
