"""Quorums of several voters over simulated disks and a simulated network, without faults and with single ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.metadata.quorum_cluster import LOG_DIRECTORY, QuorumCluster, directory_id
from tailrace.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from tailrace.raft.consensus import ErrorCode
from tailrace.sim.faults import Survival


@pytest.mark.spec("RP-21")
@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("voters", [1, 3, 5])
def test_a_new_quorum_elects_a_leader_and_commits(voters: int, is_dynamic: bool) -> None:
    cluster = QuorumCluster(voters, voters, is_dynamic=is_dynamic)
    cluster.start()
    cluster.elected(3_000)
    cluster.run_for(5_000)
    assert len(cluster.ledger.acked) > 20
    cluster.finish()


def time_to_new_leader(cluster: QuorumCluster) -> int:
    """Kill the leader; the milliseconds until another node leads."""
    leader = cluster.elected()
    cluster.run_for(2_000)
    began_us = cluster.universe.time.now_us
    cluster.machine(leader.node_id).kill()
    cluster.until(lambda: cluster.leader is not None, "another leader", 20_000)
    return (cluster.universe.time.now_us - began_us) // 1000


@pytest.mark.spec("RP-21")
@pytest.mark.parametrize("seed", range(3))
def test_a_killed_leader_is_replaced_at_once(seed: int) -> None:
    cluster = QuorumCluster(seed)
    cluster.start()
    assert time_to_new_leader(cluster) < 600
    cluster.finish()


def test_without_fast_elections_voters_wait_for_the_fetch_timeout() -> None:
    cluster = QuorumCluster(1, controller_quorum_fast_election_enable=False)
    cluster.start()
    assert 1_000 < time_to_new_leader(cluster) < 6_000
    cluster.finish()


def test_a_port_that_accepts_connections_is_no_evidence() -> None:
    """A paused leader closes nothing, and a leader whose connections are reset is still there."""
    cluster = QuorumCluster(2)
    cluster.start()
    leader = cluster.elected()
    epoch = leader.quorum.epoch
    for node_id in cluster.ids:
        if node_id != leader.node_id:
            cluster.universe.network.reset_connections(f"node-{leader.node_id}", f"node-{node_id}")
    cluster.run_for(3_000)
    assert leader.is_leading
    assert leader.quorum.epoch == epoch
    cluster.finish()


def test_a_leader_without_a_majority_resigns_and_loses_what_it_appended() -> None:
    cluster = QuorumCluster(3)
    cluster.start()
    old = cluster.elected()
    name = f"node-{old.node_id}"
    others = [f"node-{node_id}" for node_id in cluster.ids if node_id != old.node_id]
    cluster.run_for(1_000)
    for link in cluster.universe.network.between([name], others):
        link.is_cut = True
    old.append()
    cluster.until(lambda: not old.is_leading, "the leader resigns", 5_000)
    cluster.until(lambda: cluster.leader is not None and cluster.leader is not old, "another leader", 10_000)
    cluster.run_for(2_000)
    cluster.finish()
    assert old.names == cluster.ledger.names


def test_a_leader_that_appends_after_a_pause_resigns_after_the_append() -> None:
    cluster = QuorumCluster(9)
    cluster.start()
    old = cluster.elected()
    cluster.run_for(1_000)
    machine = cluster.machine(old.node_id)
    machine.pause()
    cluster.run_for(10_000)
    old.append()  # before all events that waited, so that the core learns here how much time has passed
    assert old.is_leading
    machine.resume()
    cluster.run_for(100)
    assert not old.is_leading
    cluster.finish()
    assert old.names == cluster.ledger.names


def test_a_stopped_leader_hands_over() -> None:
    cluster = QuorumCluster(4)
    cluster.start()
    leader = cluster.elected()
    cluster.run_for(2_000)
    closed: list[bool] = []
    began_us = cluster.universe.time.now_us
    leader.append()
    leader.quorum.shutdown(lambda: closed.append(True))
    cluster.until(lambda: cluster.leader is not None and cluster.leader is not leader, "a successor", 5_000)
    assert (cluster.universe.time.now_us - began_us) // 1000 < 500
    cluster.until(lambda: bool(closed), "the quorum is closed", 5_000)
    cluster.machine(leader.node_id).kill()
    cluster.finish()


def test_what_a_restarted_voter_has_in_its_page_cache_is_no_promise() -> None:
    """A follower is killed between a write and its fsync. After the restart it fetches; then its power fails."""
    cluster = QuorumCluster(1)
    cluster.start()
    leader = cluster.elected()
    cluster.run_for(2_000)
    follower, lonely = (node_id for node_id in cluster.ids if node_id != leader.node_id)
    others = [f"node-{node_id}" for node_id in cluster.ids if node_id != lonely]
    for link in cluster.universe.network.between([f"node-{lonely}"], others):
        link.is_cut = True
    cluster.load = 0.0
    cluster.run_for(400)
    program = cluster.program(follower)
    assert program is not None
    cluster.machine(follower).job_times.slowness = 50.0
    leader.append()
    end = leader.quorum.log_end_offset
    cluster.until(lambda: program.quorum.log_end_offset >= end, "the follower has written the append", 1_000)
    assert leader.quorum.high_watermark < end
    cluster.machine(follower).kill()
    cluster.machine(follower).job_times.slowness = 1.0
    cluster.machine(follower).start()
    cluster.until(lambda: leader.quorum.high_watermark >= end, "the append is committed", 2_000)
    cluster.machine(follower).lose_power()
    cluster.machine(leader.node_id).lose_power()
    cluster.universe.network.heal()
    cluster.machine(follower).power_up(Survival.NOTHING)
    cluster.load = 0.7
    cluster.finish()


@pytest.mark.spec("RP-21")
def test_a_voter_that_was_away_installs_a_snapshot() -> None:
    cluster = QuorumCluster(5, is_dynamic=True)
    cluster.start()
    leader = cluster.elected()
    away = next(node_id for node_id in cluster.ids if node_id != leader.node_id)
    cluster.run_for(1_000)
    cluster.machine(away).kill()
    cluster.until(lambda: leader.quorum.log_start_offset > 100, "the log is trimmed", 120_000)
    cluster.machine(away).start()
    cluster.finish()
    assert cluster.ledger.installed > 0


def test_a_voter_with_small_segments_takes_large_responses() -> None:
    """More than fits one of its segments: the settings of nodes may differ."""
    unlimited = {"metadata_log_max_record_bytes_between_snapshots": 10**7, "metadata_max_retention_bytes": 10**8}
    cluster = QuorumCluster(5, internal_metadata_log_segment_bytes=10**6, **unlimited)
    cluster.start()
    leader = cluster.elected()
    away = next(node_id for node_id in cluster.ids if node_id != leader.node_id)
    cluster.machine(away).kill()
    cluster.run_for(5_000)
    cluster.config = replace(cluster.config, internal_metadata_log_segment_bytes=1_000)
    cluster.machine(away).start()
    cluster.finish()


def test_a_large_snapshot_is_fetched_in_chunks() -> None:
    cluster = QuorumCluster(6, controller_quorum_fetch_snapshot_max_bytes=500)
    cluster.start()
    leader = cluster.elected()
    away = next(node_id for node_id in cluster.ids if node_id != leader.node_id)
    cluster.machine(away).lose_power()
    cluster.until(lambda: leader.quorum.log_start_offset > 100, "the log is trimmed", 120_000)
    cluster.machine(away).power_up()
    cluster.finish()
    assert cluster.ledger.installed > 0


def test_an_observer_follows_and_becomes_a_voter() -> None:
    cluster = QuorumCluster(7, 3, 1, is_dynamic=True)
    cluster.start()
    cluster.elected()
    cluster.run_for(3_000)
    cluster.persist_until_done(lambda reply: cluster.add_voter(4, reply), "node 4 is a voter")
    leader = cluster.elected()
    assert [voter.node_id for voter in leader.quorum.voters] == [1, 2, 3, 4]
    described = leader.quorum.describe(leader.process.env.clock.now_ms())
    assert [state.node_id for state in described.voters] == [1, 2, 3, 4]
    assert described.observers == ()
    now_ms = leader.process.env.clock.now_ms()
    for state in described.voters:
        assert state.log_end_offset >= described.high_watermark - 5
        assert now_ms - 5_000 < state.last_fetch_timestamp <= now_ms
    node_id = leader.node_id
    cluster.persist_until_done(lambda reply: cluster.remove_voter(node_id, 0, reply), "the leader is removed")
    cluster.until(lambda: cluster.leader is not None and cluster.leader.node_id != node_id, "another leader")
    cluster.finish()


def test_a_wiped_voter_comes_back_with_another_directory() -> None:
    cluster = QuorumCluster(8, is_dynamic=True)
    cluster.start()
    leader = cluster.elected()
    wiped = next(node_id for node_id in cluster.ids if node_id != leader.node_id)
    cluster.run_for(5_000)
    cluster.wipe(wiped)
    cluster.machine(wiped).start()
    cluster.run_for(2_000)
    cluster.persist_until_done(lambda reply: cluster.remove_voter(wiped, 0, reply), "the old replica is removed")
    cluster.persist_until_done(lambda reply: cluster.add_voter(wiped, reply), "the new replica is a voter")
    assert directory_id(wiped, 1) in [voter.directory_id for voter in cluster.elected().quorum.voters]
    cluster.finish()


def test_a_wiped_voter_joins_alone_if_it_may() -> None:
    cluster = QuorumCluster(9, is_dynamic=True, controller_quorum_auto_join_enable=True)
    cluster.start()
    leader = cluster.elected()
    wiped = next(node_id for node_id in cluster.ids if node_id != leader.node_id)
    cluster.run_for(3_000)
    cluster.wipe(wiped)
    cluster.machine(wiped).start()

    def has_joined() -> bool:
        leader = cluster.leader
        joined = directory_id(wiped, 1)
        return leader is not None and joined in [voter.directory_id for voter in leader.quorum.voters]

    cluster.until(has_joined, "the wiped voter has joined")
    cluster.finish()


@pytest.mark.parametrize("seed", range(5))
def test_an_observer_does_not_wait_for_a_silent_leader(seed: int) -> None:
    """The old leader accepts connections and never responds, also as a bootstrap server."""
    cluster = QuorumCluster(seed, observers=1, is_dynamic=True)
    cluster.start()
    silent = cluster.elected()
    observer = cluster.program(cluster.ids[-1])
    assert observer is not None
    cluster.until(lambda: observer.quorum.leader_id == silent.node_id, "the observer follows", 5_000)
    cluster.run_for(1_000)
    cluster.machine(silent.node_id).pause()

    def new_leader() -> int | None:
        return next((each.node_id for each in cluster.programs if each.is_leading and each is not silent), None)

    cluster.until(lambda: new_leader() is not None, "another leader", 10_000)
    cluster.until(lambda: observer.quorum.leader_id == new_leader(), "the observer follows it", 500)
    cluster.machine(silent.node_id).resume()
    cluster.finish()


def test_static_voters_become_records_of_the_log() -> None:
    cluster = QuorumCluster(10)
    cluster.start()
    cluster.elected()
    cluster.run_for(5_000)
    leader = cluster.elected()
    assert leader.quorum.upgrade_kraft_version() == ErrorCode.NONE
    cluster.run_for(2_000)
    for program in cluster.programs:
        assert program.quorum.kraft_version == 1
        assert [voter.directory_id for voter in program.quorum.voters] == [directory_id(n) for n in (1, 2, 3)]
    for node_id in cluster.ids:
        cluster.machine(node_id).lose_power()
    cluster.heal()
    assert cluster.elected().quorum.kraft_version == 1
    cluster.finish()
    assert b'"data_version":1' in cluster.read(1, f"{LOG_DIRECTORY}/quorum-state")


def test_requests_of_another_cluster_are_refused() -> None:
    cluster = QuorumCluster(11, is_dynamic=True)
    cluster.start()
    cluster.elected()
    answers: list[Any] = []
    cluster.ask(RemoveRaftVoterRequest(cluster_id="another", voter_id=1), answers.append)
    assert [answer.error_code for answer in answers] == [104]
    cluster.finish()


def test_damaged_records_of_a_leader_are_never_appended(caplog: pytest.LogCaptureFixture) -> None:
    """A bit of the leader's disk flips: its followers refuse the batch, and go on when it leads no longer."""
    cluster = QuorumCluster(12)
    cluster.start()
    leader = cluster.elected()
    cluster.run_for(1_000)
    lagging = next(node_id for node_id in cluster.ids if node_id != leader.node_id)
    cluster.machine(lagging).kill()
    offset = leader.quorum.log_end_offset
    cluster.run_for(300)
    assert leader.quorum.log_end_offset > offset
    name = max(entry.name for entry in leader.process.env.files.list(LOG_DIRECTORY) if entry.name.endswith(".log"))
    path = f"{LOG_DIRECTORY}/{name}"
    cluster.machine(leader.node_id).disk.flip_bit(path, 8 * (leader.process.env.files.size(path) - 20))
    cluster.machine(lagging).start()
    cluster.run_for(3_000)
    assert "is refused" in caplog.text
    program = cluster.program(lagging)
    assert program is not None
    assert program.names == cluster.ledger.names[: len(program.names)]
    assert cluster.failures == []
