"""Opening what is on the disks: in parallel, past strays and leftovers, with one bad log or disk among good ones."""

from __future__ import annotations

import random
import shutil
import threading
from pathlib import Path

import pytest

from golden.corpus import LOG_DIRS, Golden, cases
from support.logs.golden_logs import settings
from support.logs.managers import IDENTITY, P0, P1, TOPIC_ID, ManagedWorld, broker_config, offsets_in
from tailrace.config.log import MAX_LONG
from tailrace.env import Env
from tailrace.env.real import RealClock, RealFiles, ThreadJobs, real_env
from tailrace.model.errors import CorruptCheckpointError, DuplicateLogError, StorageError
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.storage import loader
from tailrace.storage.loader import LoadOptions
from tailrace.storage.manager.log_directories import NodeIdentity
from tailrace.storage.manager.log_manager import LogManager
from tailrace.storage.warm import WarmSet

STRAY = "orders-0.0a2b4c6d8e0f4a1b8c3d5e7f9a0b1c2d-stray"
DELETED = "orders-0.0a2b4c6d8e0f4a1b8c3d5e7f9a0b1c2d-delete"


def filled(directories: tuple[str, ...] = ("/a", "/b"), count: int = 8, **changes: object) -> ManagedWorld:
    """Killed, with `count` partitions of three segments each."""
    run = ManagedWorld(directories, **changes)
    run.start()
    for n in range(count):
        partition = TopicPartition("t", n)
        run.create(partition)
        run.append(partition, count=40)
    run.world.kill()
    run.new()
    return run


def gauge(run: ManagedWorld, name: str) -> dict[tuple[str, ...], float]:
    return {tuple(value for _, value in each.tags): each.value for each in run.manager.gauges() if each.name == name}


# -- in parallel -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("LM-04")
def test_so_many_logs_of_a_directory_at_a_time() -> None:
    run = filled(num_recovery_threads_per_data_dir=3)
    run.start(run=False)
    assert sorted(run.jobs.pending) == [f"log-recovery-{path}-{n}" for path in ("/a", "/b") for n in range(3)]
    run.run()
    assert len(run.manager.partitions()) == 8


@pytest.mark.spec("LM-04")
def test_two_at_a_time_unless_told_otherwise() -> None:
    run = filled(("/a",))
    run.start(run=False)
    assert run.jobs.pending == ["log-recovery-/a-0", "log-recovery-/a-1"]


@pytest.mark.spec("LM-04", "LM-29")
def test_progress_in_logs() -> None:
    run = filled(count=6)
    run.start(run=False)
    seen = [gauge(run, "remainingLogsToRecover")]
    order = random.Random(3)
    while run.jobs.run_one(order):
        seen.append(gauge(run, "remainingLogsToRecover"))
    assert seen[0] == {("/a",): 3, ("/b",): 3}
    totals = [sum(each.values()) for each in seen if each]
    assert totals == sorted(totals, reverse=True)
    assert set(totals) >= set(range(1, 7))
    assert not gauge(run, "remainingLogsToRecover")  # gone after the start


@pytest.mark.spec("LM-04", "LM-29")
def test_progress_in_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    run = filled(("/a",), count=1)
    segments: list[int] = []
    prove = loader.SegmentRecovery.prove

    def watched(recovery: loader.SegmentRecovery) -> int:
        segments.append(gauge(run, "remainingSegmentsToRecover")["/a", "0"])
        return prove(recovery)

    monkeypatch.setattr(loader.SegmentRecovery, "prove", watched)
    run.start()
    assert len(segments) > 2
    assert segments == list(range(len(segments), 0, -1))


@pytest.mark.spec("LM-04")
def test_on_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two loads of one directory meet at a barrier: alone, one of them would wait in vain."""
    paths = (str(tmp_path / "a"), str(tmp_path / "b"))
    first = OnThreads(paths)
    made: list[object] = []
    for n in range(6):
        first.manager.create(TopicPartition("t", n), TOPIC_ID, made.append, made.append)
    first.jobs.run_until(lambda: len(made) == 6)
    first.end()
    meeting = threading.Barrier(2, timeout=30)
    load = loader.load
    met: list[str] = []

    def met_load(*arguments: object, **options: object) -> object:
        meeting.wait()
        met.append(threading.current_thread().name)
        return load(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(loader, "load", met_load)
    second = OnThreads(paths)
    assert len(second.manager.partitions()) == 6
    assert {name.rpartition("-")[0] for name in met} == {f"log-recovery-{path}" for path in paths}
    second.end()


class OnThreads:
    def __init__(self, paths: tuple[str, ...]) -> None:
        self.jobs = ThreadJobs(RealClock(), workers=2 * len(paths))
        env = Env(RealFiles(), RealClock(), self.jobs, random.Random(1))
        self.manager = LogManager(env, broker_config(paths), IDENTITY, WarmSet(50))
        self.manager.start(lambda: None)
        self.jobs.run_until(lambda: self.manager.is_started)

    def end(self) -> None:
        self.manager.shutdown(lambda: None, 3)
        self.jobs.run_until(lambda: self.manager.is_closed)
        self.jobs.close()


# -- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("LM-07")
def test_other_directories_are_left_alone() -> None:
    run = filled(("/a",), count=1)
    others = ("remote-log-index-cache", "__cluster_metadata-0", "lost+found", "nodash", "bad-delete")
    for name in others:
        run.disk.make_dir(f"/a/{name}")
    run.start()
    assert run.manager.partitions() == [TopicPartition("t", 0)]
    assert set(others) <= set(run.names("/a"))
    assert run.manager.waiting_for_removal == []
    assert not run.manager.unloadable


def test_a_copy_beside_the_log_it_is_of_is_set_aside() -> None:
    run = filled(("/a",), count=1)
    run.disk.make_dir(f"/a/t-0.{'0' * 32}-future")
    run.start()
    assert run.manager.partitions() == [TopicPartition("t", 0)]
    assert run.manager.partitions(future=True) == []
    assert [path.rpartition("-")[2] for path in run.manager.strays] == ["stray"]


@pytest.mark.spec("LM-07", "LM-12")
def test_a_deleted_directory_is_removed_after_the_delay() -> None:
    run = filled(("/a",), count=1)
    run.disk.rename("/a/t-0", f"/a/{DELETED}")
    run.start()
    assert run.manager.partitions() == []
    assert run.manager.waiting_for_removal == [f"/a/{DELETED}"]
    run.pass_time(59_000)
    assert DELETED in run.names("/a")
    run.pass_time(32_000)
    assert DELETED not in run.names("/a")


@pytest.mark.spec("LM-07", "LM-39")
def test_a_stray_directory_is_named_and_not_served(caplog: pytest.LogCaptureFixture) -> None:
    run = filled(("/a",), count=1)
    run.disk.rename("/a/t-0", f"/a/{STRAY}")
    before = [entry.name for entry in run.disk.list(f"/a/{STRAY}")]
    run.start()
    assert run.manager.partitions() == []
    assert run.manager.strays == [f"/a/{STRAY}"]
    assert STRAY in caplog.text
    run.pass_time(200_000)
    assert [entry.name for entry in run.disk.list(f"/a/{STRAY}")] == before


def test_stray_directories_are_counted_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    run = filled(count=1)
    names = [f"orders-{number}{STRAY.removeprefix('orders-0')}" for number in range(20)]
    for directory in ("/a", "/b"):
        for name in names:
            run.disk.make_dir(f"{directory}/{name}")
    run.start()
    assert len(run.manager.strays) == 40
    lines = [record.getMessage() for record in caplog.records if "stray" in record.getMessage()]
    assert [line.partition(" are")[0] for line in lines] == ["/a: 20 stray logs", "/b: 20 stray logs"]
    assert names[0] in lines[0]


@pytest.mark.spec("LM-39")
def test_a_replica_that_the_metadata_does_not_place_here_becomes_stray() -> None:
    run = filled(("/a",), count=2)
    asked: list[tuple[TopicPartition, TopicId | None]] = []

    def is_stray(partition: TopicPartition, topic_id: TopicId | None) -> bool:
        asked.append((partition, topic_id))
        return partition.partition == 0

    run.start(is_stray=is_stray)
    assert sorted(asked) == [(TopicPartition("t", 0), TOPIC_ID), (TopicPartition("t", 1), TOPIC_ID)]
    assert run.manager.partitions() == [TopicPartition("t", 1)]
    (stray,) = run.manager.strays
    assert stray.startswith("/a/t-0.")
    assert stray.endswith("-stray")
    assert "t-0" not in run.names("/a")
    run.restart(power=True)
    assert run.manager.strays == [stray]


@pytest.mark.spec("LM-07")
def test_a_future_log_beside_its_current_one() -> None:
    run = ManagedWorld()
    run.start()
    run.create(P0, "/a")
    run.append()
    run.create_future(P0, "/b")
    run.world.kill()
    run.new()
    run.start_only()
    assert run.manager.partitions() == run.manager.partitions(future=True) == [P0]
    future = run.manager.log(P0, future=True)
    assert future is not None
    assert future.dir.startswith("/b/orders-0.")
    assert future.topic_id == TOPIC_ID


@pytest.mark.spec("LM-07")
def test_one_partition_twice_is_fatal_and_changes_nothing() -> None:
    run = ManagedWorld()
    run.start()
    run.create(P0, "/a")
    run.append()
    run.shutdown()
    copy_directory(run, "/a/orders-0", "/b/orders-0")
    run.new()
    with pytest.raises(DuplicateLogError, match="/a/orders-0 and /b/orders-0"):
        run.start()
    assert ".kafka_cleanshutdown" in run.names("/a")
    run.disk.rename("/b/orders-0", "/b/orders-0.x-stray")
    run.new()
    run.start()  # nothing was left locked
    assert run.manager.partitions() == [P0]


def copy_directory(run: ManagedWorld, source: str, target: str) -> None:
    run.disk.make_dir(target)
    for entry in run.disk.list(source):
        run.write(f"{target}/{entry.name}", run.read(f"{source}/{entry.name}"))


def test_of_two_an_older_topics_is_stray() -> None:
    run = ManagedWorld()
    run.start()
    run.create(P0, "/a")
    run.append()
    run.shutdown()
    copy_directory(run, "/a/orders-0", "/b/orders-0")
    other = TopicId(bytes(16 * [9]))
    run.write("/b/orders-0/partition.metadata", f"version: 0\ntopic_id: {other}".encode())
    run.new()
    run.start(is_stray=lambda _, topic_id: topic_id == other)
    assert run.log().dir == "/a/orders-0"
    assert len(run.manager.strays) == 1


def test_of_two_an_unfinished_creation_goes() -> None:
    run = ManagedWorld()
    run.start()
    run.create(P0, "/b")
    run.append()
    run.world.kill()
    run.disk.make_dir("/a/orders-0")
    run.write("/a/orders-0/00000000000000000000.log", b"")
    run.new()
    run.start()
    assert run.log().dir == "/b/orders-0"
    assert [path[:12] for path in run.manager.waiting_for_removal] == ["/a/orders-0."]


# -- trouble ---------------------------------------------------------------------------------------------------------


def test_one_log_with_a_damaged_topic_id_does_not_stop_the_others() -> None:
    run = filled(("/a",), count=3)
    run.write("/a/t-1/partition.metadata", b"nonsense")
    run.start()
    bad = TopicPartition("t", 1)
    assert [each.partition for each in run.manager.partitions()] == [0, 2]
    assert isinstance(run.manager.unloadable[bad], CorruptCheckpointError)
    with pytest.raises(CorruptCheckpointError):
        run.create(bad, is_new=True)
    run.shutdown()
    assert ".kafka_cleanshutdown" not in run.names("/a")  # it was not proven


@pytest.mark.spec("LM-27", "LM-32")
def test_a_disk_that_fails_while_loading_takes_its_logs_offline() -> None:
    run = filled(count=6)
    run.disk.fail_next("read", "/a/t-2/*", times=None)
    offline: list[str] = []
    run.manager.on_directory_offline.add(lambda directory, partitions: offline.append(directory.path))
    run.start()
    assert run.has_started
    assert offline == ["/a"]
    assert {each.partition for each in run.manager.partitions()} == {1, 3, 5}


@pytest.mark.spec("LM-27")
def test_a_full_disk_while_loading_does_not_take_it_offline() -> None:
    run = filled(("/a",), count=3)
    run.disk.fail_next("truncate", "/a/t-1/*", 28, times=None)
    run.start()
    assert not run.manager.directories.offline
    error = run.manager.unloadable[TopicPartition("t", 1)]
    assert isinstance(error, StorageError)
    assert error.is_shortage


@pytest.mark.parametrize("op", ["list", "unlink", "read"])
def test_a_disk_that_fails_before_loading(op: str) -> None:
    run = ManagedWorld()
    run.start()
    run.create(P0, "/a")
    run.create(P1, "/b")
    run.shutdown()
    run.new()
    skip = 1 if op == "list" else 0  # the first is the validation
    pattern = {"list": "/a", "unlink": "/a/.kafka*", "read": "/a/recovery*"}[op]
    run.disk.fail_next(op, pattern, skip=skip)  # type: ignore[arg-type]
    run.start()
    assert [directory.path for directory in run.manager.directories.live] == ["/b"]
    assert run.manager.partitions() == [P1]


# -- Kafka's ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("LM-03", "LM-05", "LM-07", "LM-38")
@pytest.mark.parametrize("ending", ["clean", "killed"])
def test_a_directory_that_kafka_wrote(ending: str, tmp_path: Path) -> None:
    wanted = [golden for golden in cases() if golden.was_killed == (ending == "killed")]
    folder = tmp_path / "logs"
    shutil.copytree(LOG_DIRS / ending, folder)
    for golden in wanted:
        golden.copy_to(folder)
    meta = dict(line.split("=", 1) for line in (folder / "meta.properties").read_text().splitlines() if "=" in line)
    run = manager_of_kafkas(folder, meta["cluster.id"], wanted)
    directory = run.directories.at(str(folder))
    assert str(directory.id) == meta["directory.id"]
    assert directory.was_clean == (ending == "clean")
    assert run.previous_broker_epoch == (105 if ending == "clean" else None)
    assert {partition.topic for partition in run.partitions()} == {golden.name for golden in wanted}
    for golden in wanted:
        log = run.log(TopicPartition(golden.name, 0))
        assert log is not None
        assert log.log_end_offset == golden.expected["answers"]["latest"][0]
        assert log.log_start_offset == golden.expected["answers"]["earliest"][0]
    run.shutdown(lambda: None, 106)
    assert (folder / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":106}'


def manager_of_kafkas(folder: Path, cluster_id: str, wanted: list[Golden]) -> LogManager:
    options = LoadOptions(producer_expiration_ms=MAX_LONG)
    manager = LogManager(real_env(0), broker_config((str(folder),)), NodeIdentity(cluster_id, 1), WarmSet(50), options)
    manager.start(lambda: None, {golden.name: settings(golden) for golden in wanted})
    assert manager.is_started
    return manager


@pytest.mark.spec("LM-29")
def test_gauges_of_directories() -> None:
    run = ManagedWorld()
    run.disk.fail_next("make_dir", "/a")
    run.start()
    assert gauge(run, "OfflineLogDirectoryCount") == {(): 1}
    assert gauge(run, "LogDirectoryOffline") == {("/a",): 1, ("/b",): 0}


def test_logs_load_in_any_order() -> None:
    for seed in range(5):
        run = filled(count=5)
        run.order = random.Random(seed)
        run.start()
        for n in range(5):
            assert offsets_in(run.log(TopicPartition("t", n))) == list(range(40))
