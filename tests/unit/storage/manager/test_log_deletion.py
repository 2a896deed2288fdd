"""Partitions that go: renamed at once, removed later, never seen again."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from support.logs.managers import LOG_CONFIG, P0, P1, TOPIC_ID, ManagedWorld, offsets_in
from tailrace.model.errors import LogDirUnavailableError
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.storage.manager.cleaning import NoCleaning


class Cleaner(NoCleaning):
    """Notes what it is asked, and what stood on the disk then."""

    def __init__(self, run: ManagedWorld) -> None:
        self.run = run
        self.calls: list[tuple[object, ...]] = []

    def abort(self, partition: TopicPartition) -> None:
        self.calls.append(("abort", partition, f"{partition}" in self.run.names("/a")))

    def removed(self, directory: str, partitions: Iterable[TopicPartition]) -> None:
        self.calls.append(("removed", directory, list(partitions), self.run.manager.waiting_for_removal))


@pytest.fixture
def run() -> ManagedWorld:
    world = ManagedWorld(("/a",))
    world.start()
    world.create(P0)
    world.append(count=20)
    return world


@pytest.mark.spec("LM-12")
def test_renamed_at_once_and_removed_after_the_delay(run: ManagedWorld) -> None:
    assert run.delete(P0) == {}
    assert run.manager.log(P0) is None
    (path,) = run.manager.waiting_for_removal
    assert path.startswith("/a/orders-0.")
    assert path.endswith("-delete")
    run.pass_time(60_000 - 1)
    assert run.disk.exists(path)
    run.pass_time(1)
    assert not run.disk.exists(path)
    run.restart(power=True)
    assert run.names("/a") == [
        ".lock",
        "log-start-offset-checkpoint",
        "meta.properties",
        "recovery-point-offset-checkpoint",
    ]


@pytest.mark.spec("LM-12")
def test_a_reader_that_holds_a_slice_finishes(run: ManagedWorld) -> None:
    held = run.log().read(3, 1000)
    wanted = run.log().read(3, 1000).read()
    run.delete(P0)
    run.pass_time(70_000)
    assert held.read() == wanted


@pytest.mark.spec("LM-40")
def test_cleaning_is_aborted_and_checkpoints_are_written_before_anything_is_unlinked(run: ManagedWorld) -> None:
    run.create(P1)
    run.flush()
    run.manager.checkpoint_recovery_points()
    run.run()
    assert b"orders 0 20" in run.read("/a/recovery-point-offset-checkpoint")
    cleaner = Cleaner(run)
    run.manager.use_cleaning(cleaner)
    run.delete(P0)
    assert cleaner.calls == [("abort", P0, True), ("removed", "/a", [P0], [])]
    assert run.read("/a/recovery-point-offset-checkpoint") == b"0\n1\norders 1 0\n"


@pytest.mark.spec("LM-40")
def test_the_task_comes_back_when_the_next_one_is_due(run: ManagedWorld) -> None:
    run.create(P1)
    run.pass_time(31_000)  # the task has run once and found nothing
    assert dict(run.jobs.waiting)["kafka-delete-logs"] == 59_000
    run.delete(P0)
    run.pass_time(20_000)
    run.delete(P1)
    run.pass_time(39_000)
    assert dict(run.jobs.waiting)["kafka-delete-logs"] == 1_000  # it came for the first, 1 s early
    run.pass_time(1_000)
    assert len(run.manager.waiting_for_removal) == 1
    assert dict(run.jobs.waiting)["kafka-delete-logs"] == 20_000
    run.pass_time(20_000)
    assert run.manager.waiting_for_removal == []
    assert dict(run.jobs.waiting)["kafka-delete-logs"] == 60_000


def test_set_aside_as_stray(run: ManagedWorld) -> None:
    run.delete(P0, as_stray=True)
    assert run.manager.waiting_for_removal == []
    assert any(name.startswith("orders-0.") and name.endswith("-stray") for name in run.names("/a"))
    run.restart()
    assert run.manager.partitions() == []
    assert len(run.manager.strays) == 1


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_a_new_topic_of_the_same_name_inherits_nothing(run: ManagedWorld, is_checkpointed: bool) -> None:
    """A recovery point or log start of the old log would hide or believe what the new one has."""
    run.flush()
    run.log().update_high_watermark(20)
    run.manager.increment_log_start(P0, 15, lambda: None, pytest.fail)
    run.manager.checkpoint_recovery_points()
    run.run()
    new = TopicId(bytes(16 * [3]))
    run.manager.delete([P0], lambda errors: None)
    if is_checkpointed:
        run.run()
    else:
        run.jobs.run_all()  # all but what comes after the deletion's own jobs
    run.create(P0, topic_id=new)
    assert b"orders" not in run.read("/a/log-start-offset-checkpoint")
    assert b"orders 0 20" not in run.read("/a/recovery-point-offset-checkpoint")
    run.append(count=3)
    run.flush()
    run.restart(power=True)
    assert offsets_in(run.log()) == [0, 1, 2]
    assert run.log().topic_id == new


def test_checkpoints_on_their_way_do_not_come_after_a_recreation(run: ManagedWorld) -> None:
    """The jobs of deletion and creation in any order: the files never speak of the old log at the end."""
    for seed in range(8):
        world = ManagedWorld(("/a",), seed)
        world.start()
        world.create(P0)
        world.append(count=20)
        world.flush()
        world.manager.checkpoint_recovery_points()
        world.manager.delete([P0], lambda errors: None)
        made: list[object] = []
        world.manager.create(P0, TOPIC_ID, made.append, pytest.fail)
        world.order = world.world.random
        while not made:
            world.jobs.run_one(world.order)
        assert b"orders 0 20" not in world.read("/a/recovery-point-offset-checkpoint")
        world.run()
        assert b"orders 0 20" not in world.read("/a/recovery-point-offset-checkpoint")


def test_deleted_while_it_is_made() -> None:
    run = ManagedWorld(("/a",))
    run.start()
    outcomes: list[object] = []
    run.manager.create(P0, TOPIC_ID, outcomes.append, outcomes.append)
    run.manager.delete([P0], lambda errors: None)
    run.run()
    assert isinstance(outcomes[0], LogDirUnavailableError)
    assert run.manager.log(P0) is None
    assert len(run.manager.waiting_for_removal) == 1


def test_a_flush_on_its_way_harms_nobody(run: ManagedWorld) -> None:
    run.append(count=40)  # rolls, with snapshots that wait for the flush
    run.log().flush()
    run.manager.delete([P0], lambda errors: None)
    run.run()
    assert not run.manager.directories.offline
    log = run.create(P0)
    assert log.log_end_offset == 0
    assert sorted(entry.name for entry in run.disk.list(log.dir)) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "partition.metadata",
    ]


def test_without_a_delay() -> None:
    run = ManagedWorld(("/a",), topic_defaults=LOG_CONFIG.__class__(file_delete_delay_ms=0))
    run.start()
    run.create(P0)
    run.delete(P0)
    run.pass_time(30_001)
    assert run.manager.waiting_for_removal == []
    assert dict(run.jobs.waiting)["kafka-delete-logs"] == 1


def test_what_another_removed_is_fine(run: ManagedWorld) -> None:
    run.delete(P0)
    (path,) = run.manager.waiting_for_removal
    run.disk.make_dir(f"{path}/inner")
    run.write(f"{path}/inner/file", b"x")
    run.pass_time(70_000)
    assert not run.disk.exists(path)
    run.create(P0)
    run.delete(P0)
    (path,) = run.manager.waiting_for_removal
    for entry in run.disk.list(path):
        run.disk.unlink(f"{path}/{entry.name}")
    run.disk.remove_dir(path)
    run.pass_time(70_000)
    assert not run.manager.directories.offline
