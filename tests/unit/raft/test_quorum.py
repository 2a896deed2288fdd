"""A quorum of one voter: start, commit by fsync, failures and the end."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from support.metadata.quorum import DIRECTORY, ENDPOINTS, LOG_DIRECTORY, Memory, QuorumWorld, names_of, topics
from tailrace.config.quorum import QuorumConfig
from tailrace.env import Env, InlineJobs, Mode
from tailrace.env.real import RealClock, RealFiles, ThreadJobs
from tailrace.model.errors import (
    CorruptCheckpointError,
    CorruptMetadataError,
    InconsistentVoterSetError,
    MessageTooLargeError,
    NotControllerError,
    StorageError,
    UnsupportedVersionError,
)
from tailrace.model.ids import DirectoryId
from tailrace.model.invariant import InvariantError
from tailrace.protocol.records.control import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from tailrace.raft import metadata_log
from tailrace.raft.control_batch import control_batch
from tailrace.raft.format import format_directories
from tailrace.raft.quorum import Quorum, QuorumEndpoint, QuorumNode
from tailrace.raft.quorum_state import QuorumState
from tailrace.raft.snapshot import SnapshotId, SnapshotReader
from tailrace.raft.voters import Voter, voters_record
from tailrace.storage.verify import verify_directory

SMALL = {"internal_metadata_log_segment_bytes": 600}


def controls(rig: QuorumWorld) -> list[object]:
    log = metadata_log.load(rig.world.env, DIRECTORY, rig.config)
    found = [record for batch in log.batches(0, log.log.log_end_offset) for _, record in batch.controls]
    log.log.abandon()
    return found


# -- starting


@pytest.mark.spec("LS-51")
def test_a_new_quorum_leads_epoch_1() -> None:
    rig = QuorumWorld()
    quorum = rig.start()
    assert rig.is_ready
    assert rig.memory.events == [("committed", 0, 1), ("leader", 1)]
    assert (quorum.leader_id, quorum.epoch, quorum.high_watermark, quorum.log_end_offset) == (1, 1, 1, 1)
    assert quorum.kraft_version == 0
    state = QuorumState.read(rig.disk, f"{LOG_DIRECTORY}/quorum-state")
    assert state == QuorumState(1, leader_id=1, voters=(1,))
    files = ["00000000000000000000.index", "00000000000000000000.log", "00000000000000000000.timeindex"]
    assert [name for name in rig.files() if name.startswith("0")] == files
    assert b"topic_id: AAAAAAAAAAAAAAAAAAAAAQ" in rig.read("partition.metadata")
    (change,) = controls(rig)
    assert isinstance(change, LeaderChangeMessage)
    assert change.leader_id == 1
    assert [voter.voter_id for voter in change.voters] == [voter.voter_id for voter in change.granting_voters] == [1]


@pytest.mark.spec("LS-51")
def test_the_metadata_log_is_a_log_like_any_other() -> None:
    rig = QuorumWorld(**SMALL)
    rig.start()
    for n in range(30):
        rig.append(f"t{n}", f"u{n}")
        rig.jobs.run_all()
    assert len(rig.files(".log")) > 3
    assert list(verify_directory(rig.disk, LOG_DIRECTORY)) == []


def test_epochs_go_on_and_records_come_back() -> None:
    rig = QuorumWorld()
    for epoch in range(1, 5):
        quorum = rig.start()
        assert quorum.epoch == epoch
        assert rig.memory.names == rig.appended
        rig.append(f"a{epoch}", f"b{epoch}")
        rig.jobs.run_all()
        if epoch % 2:
            assert rig.stop()
        else:
            rig.world.kill()
    rig.start()
    assert rig.memory.names == rig.appended
    assert rig.memory.events[-1] == ("leader", 5)
    assert [epoch for _, epoch in rig.memory.places] == [1, 1, 2, 2, 3, 3, 4, 4, 5]


def test_the_epoch_is_above_that_of_every_file() -> None:
    rig = QuorumWorld()
    rig.start()
    rig.stop()
    QuorumState(7, leader_id=3).write(rig.disk, f"{LOG_DIRECTORY}/quorum-state", 0)
    assert rig.start().epoch == 8
    rig.stop()
    rig.disk.unlink(f"{LOG_DIRECTORY}/quorum-state")
    assert rig.start().epoch == 9


def test_what_was_not_committed_is_committed_by_the_next_leader_only() -> None:
    rig = QuorumWorld()
    rig.start()
    rig.append("a")
    rig.world.kill()
    assert rig.done == []
    quorum = rig.open()
    quorum.start(rig.ready)
    is_flushed = False
    while rig.jobs.run_one():
        if not is_flushed:
            assert rig.memory.names == []
        is_flushed = rig.jobs.pending == ["flush-log: done"]
    assert is_flushed or rig.is_ready
    assert rig.memory.names == ["a"]
    assert rig.memory.events == [("committed", 0, 1), ("committed", 1, 1), ("committed", 2, 2), ("leader", 2)]


def test_a_leader_writes_nothing_before_its_epoch_is_durable() -> None:
    rig = QuorumWorld()
    quorum = rig.open()
    rig.disk.faults.fail_next("sync", "*quorum-state*", errno.EIO)
    quorum.start(rig.ready)
    rig.jobs.run_all()
    assert not rig.is_ready
    (error,) = rig.memory.failures
    assert isinstance(error, StorageError)
    assert quorum.log_end_offset == 0


def test_a_torn_tail_is_cut() -> None:
    rig = QuorumWorld()
    rig.start()
    rig.append("a")
    rig.jobs.run_all()
    rig.world.kill()
    data = rig.read("00000000000000000000.log")
    rig.write(f"{LOG_DIRECTORY}/00000000000000000000.log", data + data[-40:])
    rig.start()
    assert rig.memory.names == ["a"]
    assert rig.quorum.epoch == 2


@pytest.mark.parametrize("text", [b"{", b"", b'{"leaderEpoch":2147483647,"leaderId":-1,"votedId":-1,"data_version":0}'])
def test_a_bad_quorum_state_stops_the_start(text: bytes) -> None:
    rig = QuorumWorld()
    rig.start()
    rig.stop()
    rig.write(f"{LOG_DIRECTORY}/quorum-state", text)
    rig.start()
    assert not rig.is_ready
    (error,) = rig.memory.failures
    assert isinstance(error, CorruptCheckpointError | InconsistentVoterSetError)
    assert rig.stop()


# -- voters


def test_a_standalone_quorum_writes_its_voter_down_once() -> None:
    rig = QuorumWorld(standalone=True)
    quorum = rig.start()
    assert quorum.kraft_version == 1
    assert [type(each) for each in controls(rig)] == [LeaderChangeMessage, KRaftVersionRecord, VotersRecord]
    assert quorum.log_end_offset == 3
    rig.stop()
    state = rig.read("quorum-state")
    assert b'"data_version":1' in state
    quorum = rig.start()
    assert quorum.epoch == 2
    assert len(controls(rig)) == 4
    rig.stop()
    moved = QuorumEndpoint("CONTROLLER", "elsewhere", 9093)
    quorum = rig.start(endpoints=(moved,))
    found = controls(rig)
    assert [type(each) for each in found[4:]] == [LeaderChangeMessage, VotersRecord]
    assert isinstance(found[-1], VotersRecord)
    assert found[-1].voters[0].endpoints[0].host == "elsewhere"
    assert quorum.voters[0].endpoints == (moved,)


def test_another_voter_is_refused() -> None:
    rig = QuorumWorld(standalone=True)
    rig.start()
    rig.stop()
    rig.start(directory_id=DirectoryId(bytes(15) + b"\x09"))
    (error,) = rig.memory.failures
    assert isinstance(error, InconsistentVoterSetError)
    assert "AAAAAAAAAAAAAAAAAAAACQ" in str(error)


def grown(rig: QuorumWorld, record: VotersRecord | KRaftVersionRecord) -> None:
    """Another release has written a control record to the log."""
    log = metadata_log.load(rig.world.env, DIRECTORY, rig.config).log
    epoch = log.epochs.latest_epoch or 0
    log.append_from_raft_leader(control_batch([record], log.log_end_offset, epoch, 0), epoch)
    log.close()


def test_more_voters_or_a_later_quorum_are_refused() -> None:
    rig = QuorumWorld(standalone=True)
    me = rig.start().voters[0]
    rig.stop()
    grown(rig, voters_record((me, Voter(2, endpoints=ENDPOINTS))))
    rig.start()
    assert isinstance(rig.memory.failures[0], InconsistentVoterSetError)
    grown(rig, KRaftVersionRecord(version=0, kraft_version=2))
    rig.start()
    assert isinstance(rig.memory.failures[0], UnsupportedVersionError)


def test_describe() -> None:
    rig = QuorumWorld()
    quorum = rig.start()
    rig.append("a")
    described = quorum.describe(99)
    assert described[:3] == (1, 1, 1)
    assert described.voters == ((1, bytes(16), 2, 99, 99),)
    assert described.observers == ()
    assert described.endpoints == {1: ENDPOINTS}
    rig = QuorumWorld(standalone=True)
    assert rig.start().describe(99).voters[0].directory_id == rig.format().directory_id


# -- appending


def test_an_append_is_committed_by_its_fsync_in_order() -> None:
    rig = QuorumWorld()
    quorum = rig.start()
    events = rig.memory.events
    events.clear()
    for n in range(3):
        offset = quorum.append(topics([f"a{n}", f"b{n}"]), lambda last: events.append(("done", last)))
        assert offset == 2 * n + 2
    assert events == []
    assert quorum.high_watermark == 1
    rig.jobs.run_all()
    assert events == [
        ("committed", 2, 1),
        ("done", 2),
        ("committed", 4, 1),
        ("done", 4),
        ("committed", 6, 1),
        ("done", 6),
    ]
    assert quorum.high_watermark == quorum.log_end_offset == 7


def test_appends_share_an_fsync() -> None:
    rig = QuorumWorld()
    rig.start()
    for n in range(10):
        rig.append(f"a{n}")
    flushes = 0
    while rig.jobs.pending:
        flushes += rig.jobs.pending[0] == "flush-log"
        rig.jobs.run_one()
    assert flushes == 2  # the first append's, and one for those that came while it was on its way
    assert len(rig.done) == 10


def test_a_listener_may_append() -> None:
    rig = QuorumWorld()
    quorum = rig.start()
    order: list[object] = []

    def again(last: int) -> None:
        order.append(last)
        if last < 5:
            quorum.append(topics(["x"]), again)

    quorum.append(topics(["x"]), again)
    rig.jobs.run_all()
    assert order == [1, 2, 3, 4, 5]


def test_with_jobs_that_run_at_once_order_holds(tmp_path: Path) -> None:
    env = Env(files=RealFiles(), clock=RealClock(), jobs=InlineJobs(), random=random.Random(1))
    found = format_directories(env, [str(tmp_path)], str(tmp_path), 1)
    order: list[str] = []

    class Eager(Memory):
        def committed(self, records: list, last_offset: int, epoch: int, timestamp_ms: int) -> None:  # type: ignore[type-arg]
            order.append(f"told {last_offset}")
            if records and last_offset < 3:
                quorum.append(topics(["x"]), lambda last: order.append(f"done {last}"))

    quorum = Quorum(env, str(tmp_path), QuorumNode(1, found.cluster_id, found.directory_id), QuorumConfig(), Eager())
    quorum.start(lambda: None)
    quorum.append(topics(["a"]), lambda last: order.append(f"done {last}"))
    assert order == ["told 0", "told 1", "done 1", "told 2", "done 2", "told 3", "done 3"]
    quorum.shutdown(lambda: order.append("closed"))
    assert order[-1] == "closed"


def test_a_batch_that_is_too_large_is_refused() -> None:
    rig = QuorumWorld(internal_metadata_max_batch_size_in_bytes=500)
    rig.start()
    with pytest.raises(MessageTooLargeError, match="500"):
        rig.append("x" * 600)
    rig.append("y")
    rig.jobs.run_all()
    assert rig.memory.names == ["y"]
    with pytest.raises(InvariantError):
        rig.append()


def test_only_a_leader_appends() -> None:
    rig = QuorumWorld()
    rig.open()
    with pytest.raises(NotControllerError):
        rig.append("x")
    rig.start()
    rig.stop()
    with pytest.raises(NotControllerError):
        rig.append("x")


# -- failures


def test_a_full_disk_is_the_appenders_to_bear() -> None:
    rig = QuorumWorld()
    rig.start()
    rig.disk.faults.fail_next("write", "*.log", errno.ENOSPC)
    with pytest.raises(StorageError) as raised:
        rig.append("lost")
    assert raised.value.is_shortage
    assert rig.memory.failures == []
    rig.append("kept")
    rig.jobs.run_all()
    assert rig.memory.names == ["kept"]


@pytest.mark.parametrize("op", ["write", "sync"])
def test_a_failing_disk_ends_the_quorum(op: str) -> None:
    rig = QuorumWorld()
    quorum = rig.start()
    rig.append("a")
    rig.jobs.run_all()
    rig.disk.faults.fail_next(op, "*.log", errno.EIO)  # type: ignore[arg-type]
    if op == "write":
        with pytest.raises(StorageError):
            rig.append("b")
    else:
        rig.append("b")
    rig.jobs.run_all()
    (error,) = rig.memory.failures
    assert isinstance(error, StorageError)
    assert rig.done == ["a"]
    assert quorum.leader_id == -1
    with pytest.raises(StorageError):
        rig.append("c")
    assert not quorum.snapshot_is_due(10**15)
    assert rig.stop()


def test_a_snapshot_that_cannot_be_read_stops_the_start() -> None:
    rig = QuorumWorld()
    rig.start()
    rig.append("a", "b")
    rig.jobs.run_all()
    rig.snapshot()
    rig.jobs.run_all()
    (name,) = rig.files(".checkpoint")
    rig.stop()
    data = rig.read(name)
    for damaged in (data[:-10], b"", data[:100] + b"\x00" + data[101:]):
        rig.write(f"{LOG_DIRECTORY}/{name}", damaged)
        rig.start()
        (error,) = rig.memory.failures
        assert isinstance(error, CorruptMetadataError)
        assert not rig.is_ready


def test_a_log_whose_start_is_in_no_snapshot_is_refused() -> None:
    rig = QuorumWorld(**SMALL)
    rig.start()
    for n in range(20):
        rig.append(f"t{n}")
        rig.jobs.run_all()
    rig.stop()
    rig.disk.unlink(f"{LOG_DIRECTORY}/00000000000000000000.log")
    rig.start()
    (error,) = rig.memory.failures
    assert isinstance(error, CorruptMetadataError)
    assert "no snapshot" in str(error)


@pytest.mark.parametrize("method", ["loaded", "committed", "became_leader"])
def test_a_listener_that_cannot_live_with_the_log_stops_the_start(method: str) -> None:
    rig = QuorumWorld()
    rig.start()
    rig.append("a")
    rig.jobs.run_all()
    rig.snapshot()
    rig.jobs.run_all()
    rig.stop()
    quorum = rig.open()

    def refuse(*_: object) -> None:
        raise UnsupportedVersionError("of the future")

    setattr(rig.memory, method, refuse)
    quorum.start(rig.ready)
    rig.jobs.run_all()
    assert not rig.is_ready
    assert not quorum.is_leader
    assert [str(error) for error in rig.memory.failures] == ["of the future"]
    assert rig.stop()


# -- the end


def test_shutdown_commits_what_was_appended() -> None:
    rig = QuorumWorld()
    rig.start()
    rig.append("a")
    rig.quorum.snapshot(iter(()), lambda: None)
    rig.append("b")
    assert rig.stop()
    assert rig.done == ["a", "b"]
    assert rig.files(".part") == []
    assert rig.start().epoch == 2
    assert rig.memory.names == ["a", "b"]


@pytest.mark.parametrize("steps", range(9))
def test_shutdown_in_the_middle_of_a_start(steps: int) -> None:
    rig = QuorumWorld()
    rig.start()
    rig.append("a")
    rig.jobs.run_all()
    rig.stop()
    quorum = rig.open()
    quorum.start(rig.ready)
    for _ in range(steps):
        rig.jobs.run_one()
    assert rig.stop()
    rig.start()
    assert rig.memory.names == ["a"]


def test_shutdown_before_a_start() -> None:
    rig = QuorumWorld()
    rig.open()
    assert rig.stop()


def test_a_log_that_cannot_be_closed_is_recovered() -> None:
    rig = QuorumWorld()
    rig.start()
    rig.append("a")
    rig.jobs.run_all()
    rig.disk.faults.fail_next("sync", "*.log", errno.EIO)
    assert rig.stop()
    rig.start()
    assert rig.memory.names == ["a"]


def test_on_threads(tmp_path: Path) -> None:
    clock = RealClock()
    jobs = ThreadJobs(clock, workers=2)
    env = Env(files=RealFiles(), clock=clock, jobs=jobs, random=random.Random(1))
    found = format_directories(env, [str(tmp_path)], str(tmp_path), 1)
    memory = Memory()
    quorum = Quorum(env, str(tmp_path), QuorumNode(1, found.cluster_id, found.directory_id), QuorumConfig(), memory)
    states: list[str] = []
    quorum.start(lambda: states.append("ready"))
    jobs.run_until(lambda: bool(states))
    for n in range(100):
        quorum.append(topics([f"t{n}"]), lambda last: None)
    jobs.run_until(lambda: len(memory.names) == 100)
    quorum.snapshot(iter(topics(list(memory.names))), lambda: states.append("snapshot"))
    jobs.run_until(lambda: len(states) == 2)
    quorum.shutdown(lambda: states.append("closed"))
    jobs.run_until(lambda: len(states) == 3)
    jobs.close()
    name = tmp_path / "__cluster_metadata-0" / SnapshotId(101, 1).name
    assert names_of(SnapshotReader(RealFiles(), str(name)).records()) == memory.names
    assert RealFiles().open(str(name), Mode.READ).size() > 0
