"""Quorums of one to five consensus cores under random faults: nothing that is committed is lost, and they recover."""

from __future__ import annotations

import pytest

from suite.seeds import parametrized_seeds, reproducible, seeds
from support.consensus.fault_schedule import FaultSchedule
from support.consensus.sim_quorum import SimQuorum


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
