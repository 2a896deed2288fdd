"""The partitions of a broker follow the metadata: logs are made, led, followed and deleted, in a fixed order."""

from __future__ import annotations

import errno

import pytest
from replica_world import ReplicaWorld, change, removal, topic, topic_id

from tailrace.model.errors import (
    LogDirUnavailableError,
    NotLeaderOrFollowerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from tailrace.model.ids import TopicPartition
from tailrace.replication.partition import Partition
from tailrace.storage.manager.log_directory import LogDirectory


@pytest.fixture
def run() -> ReplicaWorld:
    return ReplicaWorld()


def watched(*partitions: Partition) -> list[Partition]:
    """The partitions that move from now on, in the order of their moves."""
    moved: list[Partition] = []
    for partition in partitions:
        partition.on_moved.add(moved.append)
    return moved


def test_a_new_topic_gets_logs_and_is_led(run: ReplicaWorld) -> None:
    run.apply(*topic("t", 1, 4))
    for index in range(4):
        partition = run.replicas.partition("t", index)
        assert partition.is_leader
        assert partition is run.replicas.partition_by_id(topic_id(1), index)
        assert partition.log is run.manager.log(TopicPartition("t", index))
        assert partition.log is not None
        assert partition.log.topic_id is not None
        assert partition.log.topic_id == topic_id(1)
    assert len(list(run.replicas.partitions())) == 4
    run.put("t", 3, index=2)
    assert run.replicas.partition("t", 2).is_committed(2)


def test_until_its_log_is_there_a_partition_is_led_by_nobody(run: ReplicaWorld) -> None:
    run.apply(*topic("t"), run=False)
    partition = run.replicas.partition("t", 0)
    assert partition.log is None
    moved = watched(partition)
    with pytest.raises(NotLeaderOrFollowerError):
        run.put("t")
    run.apply(change(isr=[1]), run=False)  # heard of while it is being made
    run.run()
    assert partition.is_leader
    assert partition.partition_epoch == 1
    assert moved[-1] is partition


def test_what_is_not_here_is_refused_by_what_is_known_of_it(run: ReplicaWorld) -> None:
    run.apply(*topic("here", 1), *topic("elsewhere", 2, replicas=(2, 3), leader=2))
    with pytest.raises(UnknownTopicOrPartitionError) as unknown:
        run.replicas.partition("nowhere", 0)
    with pytest.raises(UnknownTopicOrPartitionError):
        run.replicas.partition("here", 1)
    with pytest.raises(UnknownTopicIdError) as unknown_id:
        run.replicas.partition_by_id(topic_id(9), 0)
    with pytest.raises(NotLeaderOrFollowerError):
        run.replicas.partition("elsewhere", 0)
    with pytest.raises(NotLeaderOrFollowerError):
        run.replicas.partition_by_id(topic_id(2), 0)
    assert (unknown.value.code, unknown_id.value.code) == (3, 100)


def test_a_log_is_made_in_the_directory_that_the_metadata_names(run: ReplicaWorld) -> None:
    told: list[tuple[Partition, LogDirectory]] = []
    run.replicas.on_directory_differs.add(lambda partition, directory: told.append((partition, directory)))
    run.apply(*topic("t", 1, 3, directory=run.directory_id("/b")))
    assert [run.directory("t", index) for index in range(3)] == ["/b", "/b", "/b"]
    assert told == []
    run.apply(*topic("u", 2))
    assert [(partition.topic, directory.path) for partition, directory in told] == [("u", "/a")]


def test_roles_change(run: ReplicaWorld) -> None:
    run.apply(*topic("t", replicas=(1, 2), leader=2))
    partition = run.replicas.partition("t", 0)
    assert (partition.is_leader, partition.leader_id) == (False, 2)
    run.apply(change(leader=1))
    assert (partition.is_leader, partition.leader_epoch) == (True, 1)
    run.apply(change(leader=-1))
    assert (partition.is_leader, partition.leader_id) == (False, -1)
    run.apply(change(leader=1, replicas=[1], isr=[1], directories=[run.directory_id("/a")]))
    assert (partition.is_leader, partition.replication_factor, partition.leader_epoch) == (True, 1, 3)


def test_a_replica_that_is_taken_away_is_deleted(run: ReplicaWorld) -> None:
    run.apply(*topic("t", replicas=(1, 2), leader=2))
    run.apply(change(replicas=[2], isr=[2], directories=[run.directory_id("/a")]))
    with pytest.raises(NotLeaderOrFollowerError):
        run.replicas.partition("t", 0)
    assert run.manager.log(TopicPartition("t", 0)) is None


@pytest.mark.spec("RP-29")
def test_a_deleted_topic_is_gone_at_once(run: ReplicaWorld) -> None:
    run.apply(*topic("t", 1, 2))
    partition = run.replicas.partition("t", 0)
    run.put("t")
    moved = watched(partition)
    run.apply(removal())
    with pytest.raises(UnknownTopicOrPartitionError):
        run.replicas.partition("t", 0)
    with pytest.raises(UnknownTopicIdError):
        run.replicas.partition_by_id(topic_id(1), 0)
    assert run.manager.partitions() == []
    assert partition.acknowledgement(0, -1)[0]  # who waited is refused
    assert moved == [partition]
    assert partition.log is None


@pytest.mark.spec("RP-29")
def test_a_topic_deleted_and_made_again_in_one_delta_keeps_the_new_log(run: ReplicaWorld) -> None:
    run.apply(*topic("t", 1))
    run.put("t", 5)
    run.apply(removal(1), *topic("t", 2))
    partition = run.replicas.partition("t", 0)
    assert partition.is_leader
    assert partition.log is run.manager.log(TopicPartition("t", 0))
    assert partition.log is not None
    assert (partition.log.log_end_offset, partition.log.topic_id) == (0, partition.topic_id)
    assert partition.topic_id == topic_id(2)
    run.begin_again()
    assert run.replicas.partition("t", 0).topic_id == topic_id(2)


@pytest.mark.spec("RP-29")
@pytest.mark.parametrize("steps", range(8))
def test_a_topic_deleted_and_made_again_while_its_log_is_being_made(steps: int) -> None:
    run = ReplicaWorld()
    run.apply(*topic("t", 1), run=False)
    for _ in range(steps):
        run.jobs.run_one()
    run.apply(removal(1), run=False)
    run.apply(*topic("t", 2), run=False)
    run.run()
    partition = run.replicas.partition("t", 0)
    assert partition.is_leader
    assert partition.log is not None
    assert partition.log.topic_id is not None
    assert partition.log.topic_id == topic_id(2)
    assert run.replicas._making == {}


def test_a_topic_deleted_while_its_log_is_being_made_leaves_nothing(run: ReplicaWorld) -> None:
    run.apply(*topic("t", 1))
    run.pass_time(6000)
    run.apply(removal(1))
    run.apply(*topic("t", 2), run=False)  # the high watermark of the first is forgotten first
    run.apply(removal(2), run=False)
    run.run()
    assert run.manager.partitions() == []
    assert run.replicas._making == {}


@pytest.mark.spec("RP-29")
def test_deletions_come_first_then_leaders_then_followers(run: ReplicaWorld) -> None:
    run.apply(
        *topic("old", 1), *topic("follow", 2, replicas=(1, 2), leader=1), *topic("lead", 3, replicas=(1, 2), leader=2)
    )
    moved = watched(*run.replicas.partitions())
    run.apply(change(2, leader=2), removal(1), change(3, leader=1), run=False)
    assert [partition.topic for partition in moved] == ["old", "lead", "follow"]


def test_a_topic_of_another_id_takes_the_place_of_one_whose_deletion_was_missed(run: ReplicaWorld) -> None:
    run.apply(*topic("t", 1))
    run.image.topics.pop("t")
    run.apply(*topic("t", 2))
    assert run.replicas.partition("t", 0).topic_id == topic_id(2)
    assert run.replicas.partition("t", 0).is_leader


# Failing disks


def failing(run: ReplicaWorld) -> tuple[Partition, Partition]:
    """Partition 0 is in /a, partition 1 in /b; then /a fails."""
    run.apply(*topic("t", 1, 2))
    first, second = run.replicas.partition("t", 0), run.replicas.partition("t", 1)
    assert [run.directory("t", index) for index in (0, 1)] == ["/a", "/b"]
    run.put("t", 3)
    run.disk.fail_next("write", "/a/*")
    with pytest.raises(AssertionError):
        run.put("t")
    return first, second


def test_a_failed_directory_takes_its_partitions_offline() -> None:
    run = ReplicaWorld()
    failed: list[str] = []
    run.replicas.on_directory_failed.add(lambda directory: failed.append(directory.path))
    first, second = failing(run)
    moved = watched(first, second)
    run.run()
    assert failed == ["/a"]
    for ask in (lambda: run.replicas.partition("t", 0), lambda: run.replicas.partition_by_id(topic_id(1), 0)):
        with pytest.raises(LogDirUnavailableError) as refused:
            ask()
        assert refused.value.code == 56
    assert moved == [first]
    assert first.is_offline
    assert second.is_leader
    assert list(run.replicas.offline_partitions()) == [first]
    run.apply(change(leader=1))
    assert first.is_offline  # for the rest of the run
    run.put("t", 1, index=1)


def test_a_new_topic_of_the_name_of_an_offline_one_is_made_elsewhere() -> None:
    run = ReplicaWorld()
    failing(run)
    run.run()
    run.apply(removal(1), *topic("t", 2))
    assert run.replicas.partition("t", 0).is_leader
    assert run.directory("t") == "/b"
    assert list(run.replicas.offline_partitions()) == []


def test_a_partition_that_may_be_on_an_offline_disk_is_not_made_again() -> None:
    run = ReplicaWorld()
    lost = run.directory_id("/a")
    failing(run)
    run.run()
    run.apply(*topic("u", 2, directory=lost))
    with pytest.raises(LogDirUnavailableError):
        run.replicas.partition("u", 0)


def test_a_full_disk_is_tried_again() -> None:
    run = ReplicaWorld(("/a",))
    run.disk.fail_next("make_dir", "/a/t-0", errno.ENOSPC)
    run.apply(*topic("t"))
    with pytest.raises(LogDirUnavailableError):
        run.replicas.partition("t", 0)
    run.pass_time(6000)
    assert run.replicas.partition("t", 0).is_leader
    assert run.replicas.partition_by_id(topic_id(1), 0).is_leader
    assert list(run.replicas.offline_partitions()) == []


def test_a_log_that_moves_to_another_directory_is_led_there() -> None:
    run = ReplicaWorld()
    run.apply(*topic("t", directory=run.directory_id("/a")))
    run.put("t", 3)
    told: list[str] = []
    run.replicas.on_directory_differs.add(lambda partition, directory: told.append(directory.path))
    moved: list[object] = []
    run.manager.move(TopicPartition("t", 0), run.manager.directories.at("/b"), moved.append, moved.append)
    run.pass_time(3000)
    assert moved == [run.manager.log(TopicPartition("t", 0))]
    partition = run.replicas.partition("t", 0)
    assert partition.log is moved[0]
    assert told == ["/b"]
    run.put("t", 2)
    assert partition.is_committed(4)
    run.pass_time(6000)
    assert (run.stored("/a"), run.stored("/b")) == ({}, {"t-0": 5})
