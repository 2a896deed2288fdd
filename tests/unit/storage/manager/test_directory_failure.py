"""A disk that fails takes its directory offline, once; a full one does not; the last one stops the broker."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from support.logs.managers import P0, P1, TOPIC_ID, ManagedWorld, offsets_in
from tailrace.model.errors import LogDirUnavailableError, NoLiveLogDirError, StorageError
from tailrace.model.ids import TopicPartition
from tailrace.storage.manager.log_directory import LogDirectory


class Watched(ManagedWorld):
    """P0 in /a, P1 in /b; notes what goes offline."""

    def __init__(self) -> None:
        super().__init__()
        self.offline: list[tuple[str, list[TopicPartition]]] = []
        self.manager.on_directory_offline.add(self.note)
        self.start()
        self.create(P0, "/a")
        self.create(P1, "/b")
        self.append(P0, 20)
        self.flush(P0)

    def note(self, directory: LogDirectory, partitions: list[TopicPartition]) -> None:
        self.offline.append((directory.path, partitions))


@pytest.fixture
def run() -> Watched:
    return Watched()


def failing_append(run: Watched) -> None:
    run.disk.fail_next("write", "/a/orders-0/*")
    with pytest.raises(StorageError) as refused:
        run.append(P0)
    assert refused.value.code == 56


def failing_flush(run: Watched) -> None:
    run.append(P0)
    run.disk.fail_next("sync", "/a/orders-0/*")
    run.log(P0).flush()


def failing_roll(run: Watched) -> None:
    run.disk.fail_next("create", "/a/orders-0/*")
    with pytest.raises(StorageError):
        run.log(P0).roll()


def failing_truncation(run: Watched) -> None:
    run.disk.fail_next("truncate", "/a/orders-0/*.log")
    with pytest.raises(StorageError):
        run.truncate_to({P0: 5})


def failing_checkpoint(run: Watched) -> None:
    run.disk.fail_next("rename", "/a/recovery-point*")
    run.append(P0)
    run.manager.checkpoint_recovery_points()


def failing_write_ahead(run: Watched) -> None:
    run.disk.fail_next("create", "/a/recovery-point*")
    with pytest.raises(StorageError):
        run.truncate_to({P0: 5})
    assert run.log(P0).log_end_offset == 20  # nothing was cut


def failing_log_start(run: Watched) -> None:
    run.log(P0).update_high_watermark(20)
    failures: list[StorageError] = []
    run.disk.fail_next("sync", "/a/log-start*")
    run.manager.increment_log_start(P0, 5, pytest.fail, failures.append)
    run.jobs.run_all()
    assert failures[0].code == 56


def failing_deletion(run: Watched) -> None:
    run.disk.fail_next("rename", "/a/orders-0")
    assert isinstance(run.delete(P0)[P0], StorageError)


def failing_creation(run: Watched) -> None:
    run.disk.fail_next("make_dir", "/a/*")
    with pytest.raises(StorageError):
        run.create(TopicPartition("new", 0), "/a")


def failing_retention(run: Watched) -> None:
    run.append(P0, 40)
    run.log(P0).update_high_watermark(60)
    run.log(P0).increment_log_start(50)
    run.disk.fail_next("sync_dir", "/a")
    assert run.manager.delete_old_segments() == 0


CASES: list[Callable[[Watched], None]] = [
    failing_append,
    failing_flush,
    failing_roll,
    failing_truncation,
    failing_checkpoint,
    failing_write_ahead,
    failing_log_start,
    failing_deletion,
    failing_creation,
    failing_retention,
]


@pytest.mark.spec("LM-27", "LM-48")
@pytest.mark.parametrize("fail", CASES, ids=lambda case: case.__name__)
def test_an_io_error_takes_the_directory_offline(run: Watched, fail: Callable[[Watched], None]) -> None:
    fail(run)
    run.run()
    assert run.offline == [("/a", [P0])]
    assert run.manager.log(P0) is None
    assert [directory.path for directory in run.manager.directories.live] == ["/b"]
    # The others go on.
    run.append(P1, 3)
    run.manager.checkpoint_recovery_points()
    run.manager.checkpoint_log_starts()
    run.run()
    assert run.create(TopicPartition("new", 1), is_new=True).dir == "/b/new-1"
    # What may be there is neither made anew nor deleted.
    with pytest.raises(LogDirUnavailableError) as refused:
        run.create(P0)
    assert refused.value.code == 56
    assert isinstance(run.delete(P0)[P0], LogDirUnavailableError)
    # Until the next start, when all of it is back.
    run.disk.faults.heal()
    run.restart()
    start = 50 if fail is failing_retention else 0
    assert offsets_in(run.log(P0))[:5] == list(range(start, start + 5))
    assert run.manager.log(P1) is not None


@pytest.mark.spec("LM-27")
def test_a_directory_fails_once(run: Watched) -> None:
    run.create(TopicPartition("third", 0), "/a")
    failing_append(run)
    run.disk.fail_next("write", "/a/third-0/*")
    with pytest.raises(StorageError):
        run.append(TopicPartition("third", 0))
    run.run()
    assert [path for path, _ in run.offline] == ["/a"]


@pytest.mark.spec("LM-27")
def test_an_offline_directory_is_unlocked_and_left_alone(run: Watched) -> None:
    failing_append(run)
    run.run()
    other = run.disk.lock("/a/.lock")  # another may look after it
    other.release()
    run.tape.rewind()
    run.pass_time(400_000)
    run.shutdown()
    assert not [path for op, path in run.tape.calls if path.startswith("/a") and op not in ("stat",)]
    assert ".kafka_cleanshutdown" not in run.names("/a")
    assert ".kafka_cleanshutdown" in run.names("/b")


@pytest.mark.spec("LM-27")
def test_the_last_directory_stops_the_broker(run: Watched) -> None:
    failing_append(run)
    run.run()
    run.disk.fail_next("write", "/b/*")
    with pytest.raises(StorageError):
        run.append(P1)
    with pytest.raises(NoLiveLogDirError, match=r"/a.*/b"):
        run.run()


@pytest.mark.spec("LM-27", "LM-48")
@pytest.mark.parametrize("shortage", [errno.ENOSPC, errno.EMFILE])
def test_a_shortage_never_takes_a_directory_offline(run: Watched, shortage: int) -> None:
    """Every call that can find no space, or no descriptor, on a log that goes on when there is some again."""
    for op in ("write", "create"):
        run.disk.fail_next(op, "/a/*", shortage, times=None)  # type: ignore[arg-type]
    with pytest.raises(StorageError) as refused:
        run.append(P0)
    assert (refused.value.code, refused.value.is_shortage) == (56, True)
    with pytest.raises(StorageError):
        run.truncate_to({P0: 5})
    run.manager.checkpoint_recovery_points()
    with pytest.raises(StorageError):
        run.create(TopicPartition("new", 0), "/a")
    run.run()
    run.disk.faults.heal()
    assert run.offline == []
    assert offsets_in(run.log(P0)) == list(range(20))
    run.truncate_to({P0: 10})
    assert run.create(TopicPartition("new", 0), "/a").dir == "/a/new-0"
    run.create(TopicPartition("new", 1), "/b")


@pytest.mark.spec("LM-27")
def test_a_creation_under_way_in_a_failing_directory_is_refused(run: Watched) -> None:
    outcomes: list[object] = []
    a = run.manager.directories.at("/a")
    run.manager.create(TopicPartition("new", 0), TOPIC_ID, outcomes.append, outcomes.append, directory=a)
    run.jobs.run_one()
    failing_append(run)
    run.run()
    assert isinstance(outcomes[0], LogDirUnavailableError)
    assert run.manager.log(TopicPartition("new", 0)) is None


@pytest.mark.spec("LM-27")
def test_future_logs_go_offline_too(run: Watched) -> None:
    run.create_future(P1, "/a")
    failing_append(run)
    run.run()
    assert run.manager.partitions(future=True) == []
    assert run.manager.partitions() == [P1]
    assert run.offline == [("/a", [P0, P1])]


def test_other_listeners_of_a_log_are_notified_beside_the_manager(run: Watched) -> None:
    failures: list[StorageError] = []
    log = run.log(P0)
    log.on_failure.add(failures.append)
    failing_append(run)
    run.run()
    assert len(failures) == 1
    assert run.offline == [("/a", [P0])]
    assert log.on_failure.listeners == (failures.append,)  # the manager's is gone, with the log


def test_nothing_listens_to_a_log_that_another_thread_closes(run: Watched) -> None:
    failures: list[StorageError] = []
    log = run.log(P0)
    log.on_failure.add(failures.append)
    log.on_flush_ended.add(lambda: None)
    run.append(P0)
    run.disk.fail_next("sync", "/a/orders-0/*")
    run.shutdown()
    assert failures == []
    assert log.on_failure.listeners == log.on_flush_ended.listeners == ()
