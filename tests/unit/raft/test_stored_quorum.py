"""What a node reads at its start is durable before the node acts on it, whatever the process before left unsynced."""

from __future__ import annotations

import pytest

from support.metadata.quorum import DIRECTORY, LOG_DIRECTORY
from tailrace.config.quorum import QuorumConfig
from tailrace.protocol.records.control import LeaderChangeMessage
from tailrace.raft.control_batch import control_batch
from tailrace.raft.quorum_state import QUORUM_STATE_FILE, QuorumState
from tailrace.raft.stored_quorum import StoredQuorum
from tailrace.sim import World
from tailrace.sim.faults import Survival

STATE_PATH = f"{LOG_DIRECTORY}/{QUORUM_STATE_FILE}"
VOTE = QuorumState(5, voted_id=2, voters=(1, 2, 3))


def killed_in_the_middle() -> World:
    """A process that was killed after it wrote a batch and renamed a new election state, before it synced either."""
    world = World(1)
    opened = StoredQuorum.load(world.env, DIRECTORY, QuorumConfig())
    QuorumState(4, voters=(1, 2, 3)).write(world.disk, STATE_PATH, 0)
    batch = control_batch([LeaderChangeMessage(version=0, leader_id=2)], 0, 4, 0)
    opened.log.log.append_from_raft_leader(batch, 4)
    world.disk.sync_dir = lambda path: None  # type: ignore[method-assign]
    VOTE.write(world.disk, STATE_PATH, 0)
    del world.disk.sync_dir
    world.kill()
    return world


def power_loss(world: World) -> None:
    world.disk.crash()
    world.restart(Survival.NOTHING)


def test_loss_of_power_takes_back_what_was_not_synced() -> None:
    world = killed_in_the_middle()
    power_loss(world)
    found = StoredQuorum.load(world.env, DIRECTORY, QuorumConfig())
    assert (found.state, found.stored_log.end_offset) == (QuorumState(4, voters=(1, 2, 3)), 0)


def test_loss_of_power_keeps_what_a_start_has_read() -> None:
    world = killed_in_the_middle()
    assert StoredQuorum.load(world.env, DIRECTORY, QuorumConfig()).state == VOTE
    power_loss(world)
    found = StoredQuorum.load(world.env, DIRECTORY, QuorumConfig())
    assert (found.state, found.stored_log.end_offset, found.stored_log.epochs) == (VOTE, 1, ((4, 0),))


def test_a_disk_that_cannot_sync_ends_the_start() -> None:
    world = killed_in_the_middle()
    world.disk.faults.fail_next("sync", "*.log")
    with pytest.raises(OSError, match=r"\.log"):
        StoredQuorum.load(world.env, DIRECTORY, QuorumConfig())
