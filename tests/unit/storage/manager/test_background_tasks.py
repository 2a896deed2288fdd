"""The five tasks: when they run, and what they do."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from support.logs.builders import NOW_MS
from support.logs.managers import LOG_CONFIG, P0, P1, ManagedWorld, offsets_in
from tailrace.config.broker import BrokerConfig
from tailrace.config.cleaner import CleanerConfig
from tailrace.model.errors import NoLiveLogDirError, StorageError
from tailrace.model.ids import TopicPartition
from tailrace.sim import SimJobs, World
from tailrace.storage.manager.background_tasks import BackgroundTasks
from tailrace.storage.manager.cleaning import NoCleaning
from tailrace.storage.retention import Deletion

NAMES = (
    "kafka-log-retention",
    "kafka-log-flusher",
    "kafka-recovery-point-checkpoint",
    "kafka-log-start-offset-checkpoint",
    "kafka-delete-logs",
)


@pytest.mark.spec("LM-06")
def test_five_tasks_after_half_a_minute_then_at_their_intervals() -> None:
    run = ManagedWorld(cleaner=CleanerConfig(log_cleaner_enable=False))
    run.start()
    assert [(name, left) for name, left in run.jobs.waiting] == [(name, 30_000) for name in NAMES]
    run.pass_time(30_000)
    waiting = dict(run.jobs.waiting)
    assert waiting["kafka-log-retention"] == 300_000
    assert waiting["kafka-log-flusher"] == 2**63 - 1
    assert waiting["kafka-recovery-point-checkpoint"] == 60_000
    assert waiting["kafka-log-start-offset-checkpoint"] == 60_000
    assert waiting["kafka-delete-logs"] == 60_000


@pytest.mark.spec("LM-06")
def test_intervals_from_the_configuration() -> None:
    run = ManagedWorld(
        log_initial_task_delay_ms=5,
        log_retention_check_interval_ms=100,
        log_flush_scheduler_interval_ms=200,
        log_flush_offset_checkpoint_interval_ms=300,
        log_flush_start_offset_checkpoint_interval_ms=0,
        cleaner=CleanerConfig(log_cleaner_enable=False),
    )
    run.start()
    assert {left for _, left in run.jobs.waiting} == {5}
    run.pass_time(5)
    waiting = dict(run.jobs.waiting)
    assert [waiting[name] for name in NAMES[:4]] == [100, 200, 300, 1]  # none at all would be for ever


@pytest.mark.spec("LM-06")
def test_the_flusher_asks_each_log_for_its_time() -> None:
    run = ManagedWorld(log_flush_scheduler_interval_ms=1000)
    run.start()
    run.create(P0)
    run.create(TopicPartition("eager", 0))
    run.manager.update_config("eager", LOG_CONFIG.__class__(flush_ms=5000))
    run.pass_time(29_000)
    run.append(P0, 3)
    run.append(TopicPartition("eager", 0), 3)
    run.pass_time(1000)
    assert run.log(TopicPartition("eager", 0)).recovery_point == 3
    assert run.log(P0).recovery_point == 0
    run.append(TopicPartition("eager", 0), 1)
    run.pass_time(4000)
    assert run.log(TopicPartition("eager", 0)).recovery_point == 3
    run.pass_time(1000)
    assert run.log(TopicPartition("eager", 0)).recovery_point == 4


@pytest.mark.spec("LM-06")
def test_checkpoints_come_by_themselves() -> None:
    run = ManagedWorld(("/a",))
    run.start()
    run.create(P0)
    run.append(count=20)
    run.flush()
    run.log().update_high_watermark(20)
    run.log().increment_log_start(4)
    run.pass_time(30_000)
    assert run.read("/a/recovery-point-offset-checkpoint") == b"0\n1\norders 0 20\n"
    assert run.read("/a/log-start-offset-checkpoint") == b"0\n1\norders 0 4\n"
    run.append(count=1)
    run.flush()
    run.pass_time(59_999)
    assert run.read("/a/recovery-point-offset-checkpoint") == b"0\n1\norders 0 20\n"
    run.pass_time(1)
    assert run.read("/a/recovery-point-offset-checkpoint") == b"0\n1\norders 0 21\n"


class Cleaner(NoCleaning):
    def __init__(self) -> None:
        self.calls: list[tuple[str, list[TopicPartition]]] = []

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self.calls.append(("pause", list(partitions)))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self.calls.append(("resume", list(partitions)))


COMPACTED = TopicPartition("compacted", 0)


def with_old_data(directories: tuple[str, ...] = ("/a", "/b")) -> ManagedWorld:
    run = ManagedWorld(directories)
    run.manager.update_config("compacted", LOG_CONFIG.__class__(cleanup_policy=("compact",), segment_bytes=3000))
    run.manager.update_config("orders", LOG_CONFIG.__class__(retention_ms=1000, segment_bytes=3000))
    run.start()
    for partition in (P0, COMPACTED):
        run.create(partition, "/a")
        run.append(partition, 60, timestamp=NOW_MS)
        run.log(partition).update_high_watermark(60)
    run.world.clock.advance(5000)
    return run


@pytest.mark.spec("LM-06", "LM-33")
def test_retention_of_logs_that_are_not_compacted_and_of_their_copies() -> None:
    run = with_old_data()
    future = run.create_future(P0, "/b")
    while future.log_end_offset < 60:
        future.append_as_follower(bytearray(run.log().read(future.log_end_offset, 1400).read()))
    future.update_high_watermark(60)
    cleaner = Cleaner()
    run.manager.use_cleaning(cleaner)
    run.pass_time(30_000)
    assert run.log(P0).log_start_offset == 60
    assert future.log_start_offset == 60
    assert offsets_in(run.log(COMPACTED)) == list(range(60))
    assert cleaner.calls == [("pause", [P0]), ("resume", [P0])]


@pytest.mark.spec("LM-33")
def test_a_deletion_that_fails_stops_neither_the_others_nor_the_cleaner() -> None:
    run = with_old_data()
    run.create(P1, "/b")
    run.append(P1, 60, timestamp=NOW_MS)
    run.log(P1).update_high_watermark(60)
    run.world.clock.advance(50_000)
    cleaner = Cleaner()
    run.manager.use_cleaning(cleaner)
    run.disk.fail_next("sync_dir", "/a")
    assert run.manager.delete_old_segments() > 0
    assert run.log(P1).log_start_offset == 60
    assert cleaner.calls == [("pause", [P0, P1]), ("resume", [P0, P1])]


@pytest.mark.spec("LM-33")
def test_the_cleaner_is_resumed_even_where_a_deletion_throws_what_nobody_expects() -> None:
    run = with_old_data()
    cleaner = Cleaner()
    run.manager.use_cleaning(cleaner)

    def throws(checkpoint: object) -> list[Deletion]:
        raise RuntimeError("a bug")

    run.log(P0).delete_old_segments = throws  # type: ignore[method-assign,assignment]
    with pytest.raises(RuntimeError):
        run.manager.delete_old_segments()
    assert cleaner.calls == [("pause", [P0]), ("resume", [P0])]


@pytest.mark.spec("LM-36")
@pytest.mark.parametrize("power", [False, True])
def test_what_retention_deleted_is_not_shown_again(power: bool) -> None:
    run = with_old_data()
    run.flush()
    assert run.manager.delete_old_segments() > 0
    run.restart(power=power)
    assert run.log(P0).log_start_offset == 60
    assert offsets_in(run.log(P0)) == []


def test_a_failing_task_comes_again_and_the_end_of_all_disks_passes_through() -> None:
    world = World()
    outcomes: list[Exception | None] = [StorageError("x", OSError(5, "x")), None, NoLiveLogDirError("gone")]
    runs: list[int] = []

    def task() -> None:
        runs.append(world.clock.monotonic_ms())
        error = outcomes.pop(0)
        if error is not None:
            raise error

    tasks = started(world.jobs, task)
    with pytest.raises(NoLiveLogDirError):
        world.jobs.tick(world.clock.now_ms() + 1_000_000)
    assert runs == [30_000, 330_000, 630_000]
    tasks.stop()


def test_stopped_tasks_do_nothing() -> None:
    world = World()
    runs: list[int] = []
    tasks = started(world.jobs, lambda: runs.append(1))
    tasks.stop()
    world.jobs.tick(world.clock.now_ms() + 10_000_000)
    assert runs == []
    assert world.jobs.waiting == []


def started(jobs: SimJobs, retention: object) -> BackgroundTasks:
    tasks = BackgroundTasks(jobs, BrokerConfig())

    def nothing() -> None:
        pass

    tasks.start(
        retention=retention,  # type: ignore[arg-type]
        flusher=nothing,
        recovery_points=nothing,
        log_starts=nothing,
        delete_logs=lambda: 60_000,
    )
    return tasks
