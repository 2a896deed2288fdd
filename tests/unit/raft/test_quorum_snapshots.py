"""Snapshots of the quorum's state: when they are due, what they hold, what goes with them."""

from __future__ import annotations

import errno

import pytest

from support.metadata.quorum import LOG_DIRECTORY, QuorumWorld, names_of, topics
from tailrace.config.quorum import QuorumConfig
from tailrace.model.errors import CorruptMetadataError
from tailrace.model.invariant import InvariantError
from tailrace.raft.snapshot import SnapshotHead, SnapshotId, SnapshotReader
from tailrace.storage.verify import verify_directory

SMALL = {"internal_metadata_log_segment_bytes": 600}


def test_a_snapshot_is_written_and_read() -> None:
    rig = QuorumWorld(standalone=True)
    rig.start()
    rig.append("a", "b")
    rig.jobs.run_all()
    rig.world.clock.advance(50)
    finished: list[int] = []
    rig.quorum.snapshot(iter(topics(rig.memory.names)), lambda: finished.append(1))
    rig.append("c")
    rig.jobs.run_all()
    assert finished == [1]
    assert rig.files(".checkpoint") == ["00000000000000000000-0000000000.checkpoint", SnapshotId(5, 1).name]
    reader = SnapshotReader(rig.disk, f"{LOG_DIRECTORY}/{SnapshotId(5, 1).name}")
    assert reader.head() == SnapshotHead(rig.world.clock.now_ms() - 50, 1, rig.quorum.voters)
    assert names_of(reader.records()) == ["a", "b"]
    rig.world.restart()
    rig.start()
    assert rig.memory.events[0] == ("loaded", 4, 1, reader.head().timestamp_ms)
    assert rig.memory.events[1] == ("committed", 5, 1)
    assert rig.memory.names == ["a", "b", "c"]


def test_a_snapshot_of_what_is_not_committed_waits() -> None:
    rig = QuorumWorld()
    rig.start()
    last_offset = rig.append("a")
    rig.quorum.snapshot(iter(topics(["a"])), lambda: None, last_offset)
    assert not rig.quorum.snapshot_is_due(10**15)
    assert rig.jobs.pending == ["flush-log"]
    rig.jobs.run_all()
    assert rig.files(".checkpoint") == [SnapshotId(2, 1).name]
    with pytest.raises(InvariantError):
        rig.quorum.snapshot(iter(()), lambda: None, 77)


def test_the_same_snapshot_is_not_written_twice() -> None:
    rig = QuorumWorld()
    rig.start()
    finished: list[int] = []
    for _ in range(2):
        rig.quorum.snapshot(iter(()), lambda: finished.append(1))
        rig.jobs.run_all()
    assert finished == [1, 1]
    assert len(rig.files(".checkpoint")) == 1


def test_a_snapshot_is_due_by_bytes_and_by_time() -> None:
    rig = QuorumWorld(metadata_log_max_record_bytes_between_snapshots=300, metadata_log_max_snapshot_interval_ms=1000)
    quorum = rig.start()
    now_ms = rig.world.clock.now_ms()
    assert not quorum.snapshot_is_due(now_ms)
    assert quorum.snapshot_is_due(now_ms + 1000)
    rig.append("x" * 300)
    rig.jobs.run_all()
    assert quorum.snapshot_is_due(now_ms)
    rig.snapshot()
    assert not quorum.snapshot_is_due(now_ms + 5000)
    rig.jobs.run_all()
    assert not quorum.snapshot_is_due(now_ms + 5000)  # there is nothing new
    rig.append("y")
    rig.jobs.run_all()
    assert not quorum.snapshot_is_due(now_ms + 999)
    assert quorum.snapshot_is_due(now_ms + 1000)
    rig.stop()
    rig.config = QuorumConfig(metadata_log_max_snapshot_interval_ms=0)
    assert not rig.start().snapshot_is_due(now_ms + 10**12)


def test_old_snapshots_and_segments_go() -> None:
    rig = QuorumWorld(**SMALL, metadata_max_retention_bytes=2500, internal_metadata_delete_delay_millis=1000)
    rig.start()
    for n in range(60):
        rig.append(f"topic-{n}")
        rig.jobs.run_all()
        if n % 10 == 9:
            rig.snapshot()
            rig.jobs.run_all()
    snapshots, segments = rig.files(".checkpoint"), rig.files(".log")
    assert 1 <= len(snapshots) < 6
    first = int(snapshots[0][:20])
    assert rig.quorum.log_start_offset == first > 0
    assert int(segments[0][:20]) <= first
    assert len(segments) == 1 or int(segments[1][:20]) > first
    assert rig.files(".checkpoint.deleted")
    rig.world.clock.advance(1000)
    rig.jobs.tick()
    rig.jobs.run_all()
    assert rig.files(".deleted") == []
    assert list(verify_directory(rig.disk, LOG_DIRECTORY)) == []
    rig.world.kill()
    rig.start()
    assert rig.memory.names == [f"topic-{n}" for n in range(60)]


def test_a_large_segment_ends_where_a_snapshot_is_taken() -> None:
    """Everything before needs no recovery; a small one goes on."""
    rig = QuorumWorld(internal_metadata_log_segment_bytes=4000)
    rig.start()
    rig.append("a")
    rig.jobs.run_all()
    rig.snapshot()
    rig.jobs.run_all()
    assert len(rig.files(".log")) == 1
    for n in range(12):
        rig.append(f"t{n}")
    rig.jobs.run_all()
    rig.snapshot()
    rig.jobs.run_all()
    (_, snapshot), (_, segment) = rig.files(".checkpoint"), rig.files(".log")
    assert snapshot[:20] == segment[:20] == f"{14:020d}"
    rig.append("last")
    rig.jobs.run_all()
    rig.world.restart()
    rig.start()
    assert rig.memory.names == rig.appended


def test_snapshots_go_by_age_but_never_the_newest() -> None:
    rig = QuorumWorld(metadata_max_retention_ms=1000)
    rig.start()
    for n in range(3):
        rig.append(f"t{n}")
        rig.jobs.run_all()
        rig.snapshot()
        rig.jobs.run_all()
        rig.world.clock.advance(900)
    assert [name[:20] for name in rig.files(".checkpoint")] == [f"{offset:020d}" for offset in (3, 4)]
    rig.world.clock.advance(10**9)
    rig.append("last")
    rig.jobs.run_all()
    rig.snapshot()
    rig.jobs.run_all()
    assert rig.files(".checkpoint") == [SnapshotId(5, 1).name]


def test_a_failed_snapshot_is_no_failure_of_the_quorum() -> None:
    rig = QuorumWorld()
    rig.start()
    rig.append("a")
    rig.jobs.run_all()
    rig.disk.faults.fail_next("write", "*.part", errno.ENOSPC)
    finished: list[int] = []
    rig.quorum.snapshot(iter(topics(["a"])), lambda: finished.append(1))
    rig.jobs.run_all()
    assert finished == [1]
    assert rig.files(".part") == []
    rig.append("b")
    rig.jobs.run_all()
    assert rig.memory.failures == []
    rig.snapshot()
    rig.jobs.run_all()
    assert len(rig.files(".checkpoint")) == 1


def test_what_is_left_of_snapshots_is_removed_at_the_start() -> None:
    rig = QuorumWorld()
    rig.start()
    rig.stop()
    rig.write(f"{LOG_DIRECTORY}/{SnapshotId(9, 1)}-123.checkpoint.part", b"half")
    rig.write(f"{LOG_DIRECTORY}/{SnapshotId(1, 1)}.checkpoint.deleted", b"gone")
    rig.start()
    assert rig.is_ready
    assert rig.files(".part") + rig.files(".deleted") == []


def test_a_log_behind_the_newest_snapshot_restarts_there() -> None:
    rig = QuorumWorld()
    rig.start()
    rig.append("a", "b")
    rig.jobs.run_all()
    rig.snapshot()
    rig.jobs.run_all()
    rig.stop()
    for name in rig.files():
        if not name.endswith((".checkpoint", "quorum-state")):
            rig.disk.unlink(f"{LOG_DIRECTORY}/{name}")
    quorum = rig.start()
    assert rig.memory.names == ["a", "b"]
    assert (quorum.epoch, quorum.log_start_offset, quorum.log_end_offset) == (2, 3, 4)


def with_three_snapshots_and_no_log() -> tuple[QuorumWorld, str]:
    """And the name of the newest snapshot."""
    rig = QuorumWorld(standalone=True)
    rig.start()
    for name in ("a", "b"):
        rig.append(name)
        rig.jobs.run_all()
        rig.snapshot()
        rig.jobs.run_all()
    rig.stop()
    assert len(rig.files(".checkpoint")) == 3
    for name in rig.files():
        if not name.endswith((".checkpoint", "quorum-state")):
            rig.disk.unlink(f"{LOG_DIRECTORY}/{name}")
    return rig, rig.files(".checkpoint")[-1]


def test_a_log_that_restarts_at_the_newest_snapshot_keeps_no_older_one() -> None:
    """As after a crash while a snapshot of the leader replaces the log. The log starts at its oldest snapshot."""
    rig, newest = with_three_snapshots_and_no_log()
    quorum = rig.start()
    assert rig.memory.names == ["a", "b"]
    assert quorum.log_start_offset == int(newest[:20])
    assert rig.files(".checkpoint") == [newest]


def test_nothing_is_deleted_in_favor_of_a_damaged_snapshot() -> None:
    rig, newest = with_three_snapshots_and_no_log()
    snapshots = rig.files(".checkpoint")
    rig.write(f"{LOG_DIRECTORY}/{newest}", rig.read(newest)[:-1])
    rig.start()
    assert isinstance(rig.memory.failures[0], CorruptMetadataError)
    assert rig.files(".checkpoint") == snapshots
