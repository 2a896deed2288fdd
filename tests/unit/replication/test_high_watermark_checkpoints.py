"""High watermarks on disk: now and then and at shutdown, a lower bound after a crash, none that outlives its log."""

from __future__ import annotations

import pytest
from replica_world import CHECKPOINT_MS, ReplicaWorld, change, removal, topic

from tailrace.model.errors import LogDirUnavailableError


def led_with_follower(run: ReplicaWorld, count: int, replicated: int) -> None:
    """Broker 2 is in sync up to `replicated`."""
    run.apply(*topic("t", replicas=(1, 2)))
    run.put("t", count)
    partition = run.replicas.partition("t", 0)
    partition.read_as_follower(2, replicated, 1 << 20, log_start_offset=0)


@pytest.mark.spec("RP-17")
def test_they_are_written_from_time_to_time() -> None:
    run = ReplicaWorld(("/a",))
    led_with_follower(run, 5, 3)
    assert run.stored("/a") == {}
    run.pass_time(CHECKPOINT_MS)
    assert run.stored("/a") == {"t-0": 3}
    run.replicas.partition("t", 0).read_as_follower(2, 5, 1 << 20, log_start_offset=0)
    run.pass_time(CHECKPOINT_MS - 1)
    assert run.stored("/a") == {"t-0": 3}
    run.pass_time(1)
    assert run.stored("/a") == {"t-0": 5}


@pytest.mark.spec("RP-17")
def test_they_are_written_at_shutdown_and_read_at_start() -> None:
    run = ReplicaWorld(("/a", "/b"))
    led_with_follower(run, 5, 3)
    run.apply(*topic("u", 2))
    run.put("u", 2)
    run.end()
    assert (run.stored("/a"), run.stored("/b")) == ({"t-0": 3}, {"u-0": 2})
    run.begin_again()
    log = run.replicas.partition("t", 0).log
    assert log is not None
    assert (log.high_watermark, log.log_end_offset) == (3, 5)


@pytest.mark.spec("RP-17")
def test_after_a_kill_what_is_on_disk_is_a_lower_bound_and_derived_anew() -> None:
    run = ReplicaWorld(("/a",))
    led_with_follower(run, 5, 3)
    run.pass_time(CHECKPOINT_MS)
    partition = run.replicas.partition("t", 0)
    partition.read_as_follower(2, 5, 1 << 20, log_start_offset=0)
    assert partition.is_committed(4)
    assert run.stored("/a") == {"t-0": 3}
    run.begin_again()
    partition = run.replicas.partition("t", 0)
    assert partition.log is not None
    assert partition.log.high_watermark == 3
    partition.read_as_follower(2, 5, 1 << 20, log_start_offset=0)
    assert partition.log.high_watermark == 5


@pytest.mark.spec("RP-17")
def test_alone_it_is_derived_from_the_log() -> None:
    run = ReplicaWorld(("/a",))
    run.apply(*topic("t"))
    run.put("t", 4)
    run.begin_again()
    assert run.stored("/a") == {}
    assert run.replicas.partition("t", 0).is_committed(3)


@pytest.mark.spec("RP-17")
def test_one_beyond_the_log_end_is_cut() -> None:
    run = ReplicaWorld(("/a",))
    led_with_follower(run, 5, 5)
    run.pass_time(CHECKPOINT_MS)
    run.begin_again(power=True)  # nothing of the log was flushed
    log = run.replicas.partition("t", 0).log
    assert log is not None
    assert log.high_watermark <= log.log_end_offset <= 5


def test_nothing_is_written_while_nothing_moves() -> None:
    run = ReplicaWorld(("/a",))
    run.apply(*topic("t", 1, 50))
    run.put("t")
    run.pass_time(CHECKPOINT_MS)
    run.tape.rewind()
    run.pass_time(CHECKPOINT_MS * 5)
    assert not [path for _, path in run.tape.calls if "replication-offset-checkpoint" in path]
    assert run.replicas._checkpoints.unsaved == []


def test_every_partition_here_is_in_the_file_even_an_empty_one() -> None:
    run = ReplicaWorld(("/a",))
    run.apply(*topic("t", 1, 3), *topic("f", 2, replicas=(1, 2), leader=2))
    run.put("t", 2, index=1)
    run.pass_time(CHECKPOINT_MS)
    assert run.stored("/a") == {"t-0": 0, "t-1": 2, "t-2": 0, "f-0": 0}


@pytest.mark.spec("RP-17")
def test_a_new_log_does_not_inherit_the_high_watermark_of_one_of_its_name() -> None:
    run = ReplicaWorld(("/a",))
    led_with_follower(run, 5, 5)
    run.pass_time(CHECKPOINT_MS)
    assert run.stored("/a") == {"t-0": 5}
    run.apply(removal(1), *topic("t", 2, replicas=(1, 2)))
    assert run.stored("/a") == {}  # before the new log was there
    run.put("t", 8)
    run.begin_again()
    log = run.replicas.partition("t", 0).log
    assert log is not None
    assert log.high_watermark == 0


@pytest.mark.parametrize("steps", range(1, 12))
@pytest.mark.spec("RP-17")
def test_nor_when_the_power_is_lost_at_any_moment_of_its_making(steps: int) -> None:
    run = ReplicaWorld(("/a",))
    led_with_follower(run, 5, 5)
    run.pass_time(CHECKPOINT_MS)
    run.apply(removal(1), *topic("t", 2, replicas=(1, 2)), run=False)
    for _ in range(steps):
        run.jobs.run_one()
    run.begin_again(power=True)
    log = run.replicas.partition("t", 0).log
    assert log is not None
    if log.topic_id is not None and log.topic_id == bytes([2]) * 16:
        assert run.stored("/a") == {}


def test_a_deleted_partition_leaves_the_file() -> None:
    run = ReplicaWorld(("/a",))
    run.apply(*topic("t", 1), *topic("u", 2))
    run.pass_time(CHECKPOINT_MS)
    run.apply(removal(1))
    run.pass_time(CHECKPOINT_MS)
    assert run.stored("/a") == {"u-0": 0}


def test_what_a_start_finds_of_partitions_that_are_gone_is_dropped() -> None:
    run = ReplicaWorld(("/a",))
    run.apply(*topic("t"))
    run.put("t", 2)
    run.end()
    run.write("/a/replication-offset-checkpoint", b"0\n2\nt 0 2\ngone 3 77\n")
    run.begin_again()
    run.pass_time(CHECKPOINT_MS)
    assert run.stored("/a") == {"t-0": 2}


def test_a_damaged_file_counts_as_empty() -> None:
    run = ReplicaWorld(("/a",))
    led_with_follower(run, 5, 3)
    run.end()
    run.write("/a/replication-offset-checkpoint", b"0\n9\nt 0\n")
    run.begin_again()
    log = run.replicas.partition("t", 0).log
    assert log is not None
    assert log.high_watermark == 0


def test_a_file_that_cannot_be_read_counts_as_empty() -> None:
    run = ReplicaWorld(("/a",))
    led_with_follower(run, 5, 3)
    run.end()
    run.new()
    run.start()
    run.disk.fail_next("open", "/a/replication-offset-checkpoint")
    run.begin()
    run.apply(*run.applied)
    assert not run.replicas.partition("t", 0).is_committed(0)


@pytest.mark.spec("RP-17")
def test_a_failed_directory_is_written_no_more() -> None:
    run = ReplicaWorld(("/a", "/b"))
    run.apply(*topic("t", 1, 2))
    run.put("t", 2, index=0)
    run.put("t", 3, index=1)
    run.pass_time(CHECKPOINT_MS)
    run.put("t", 1, index=0)
    run.put("t", 1, index=1)
    run.disk.fail_next("write", "/a/replication-offset-checkpoint*")
    run.pass_time(CHECKPOINT_MS)
    run.run()
    with pytest.raises(LogDirUnavailableError):
        run.replicas.partition("t", 0)
    run.tape.rewind()
    run.put("t", 1, index=1)
    run.pass_time(CHECKPOINT_MS)
    assert (run.stored("/a"), run.stored("/b")) == ({"t-0": 2}, {"t-1": 5})
    run.tape.rewind()
    run.apply(change(index=0, leader=1))
    run.pass_time(CHECKPOINT_MS)
    assert not [path for _, path in run.tape.calls if path.startswith("/a/")]
    assert list(run.replicas._checkpoints._offsets) == ["/b"]
