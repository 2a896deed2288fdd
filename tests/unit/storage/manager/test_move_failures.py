"""A move that is given up, refused, or meets a disk that fails or is full: the partition serves all the while."""

from __future__ import annotations

import errno
import random
from typing import Any

import pytest

from support.logs.directory_moves import MovingWorld
from support.logs.managers import P0, P1, offsets_in
from tailrace.model.errors import (
    CorruptMessageError,
    InvalidDataError,
    InvalidReplicaAssignmentError,
    LogDirUnavailableError,
    MoveCancelledError,
    StorageError,
)
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.sim import SimulatedCrash, Survival
from tailrace.storage.manager.log_move import COMPLETE

pytestmark = pytest.mark.spec("LM-28")

THREE = ("/a", "/b", "/c")


# Given up


@pytest.mark.parametrize("copied", [None, 0, 30])
def test_cancelled(copied: int | None) -> None:
    run = MovingWorld()
    run.move()
    if copied is not None:
        run.copy_until(copied)
    outcomes = run.cancel()
    run.run()
    assert outcomes == [{}]
    assert run.moved == []
    assert [type(error) for error in run.failed] == [MoveCancelledError]
    run.check_settled()
    assert run.log().dir == "/a/orders-0"
    run.append(count=1)
    run.restart(power=True)
    run.check_settled()
    run.move()
    run.run()
    assert len(run.moved) == 1


def test_cancelled_without_a_move() -> None:
    run = MovingWorld()
    assert run.cancel() == [{}]
    assert run.cancel(P1) == [{}]


def test_cancelled_while_the_copy_may_be_in_an_offline_directory() -> None:
    run = MovingWorld()
    run.move()
    run.copy_until(30)
    run.world.kill()
    run.disk.fail_next("list", "/b", times=None)
    run.new()
    run.start()
    (errors,) = run.cancel()
    assert isinstance(errors, dict)
    assert isinstance(errors[P0], LogDirUnavailableError)


def test_moved_to_where_it_is_means_cancelled() -> None:
    run = MovingWorld()
    run.move()
    run.copy_until(30)
    run.move(P0, "/a")
    run.run()
    assert [type(error) for error in run.failed] == [MoveCancelledError]
    assert run.moved == [run.log()]
    assert run.log().dir == "/a/orders-0"
    run.check_settled()


@pytest.mark.parametrize("copied", [None, 0, 30])
def test_another_target(copied: int | None) -> None:
    run = MovingWorld(directories=THREE)
    run.move(P0, "/b")
    if copied is not None:
        run.copy_until(copied)
    run.move(P0, "/c")
    run.move(P0, "/b")
    run.move(P0, "/c")
    run.run()
    assert [type(error) for error in run.failed] == 3 * [MoveCancelledError]
    run.failed.clear()
    assert run.moved == [run.log()]
    run.check_moved(100, directory="/c")


@pytest.mark.parametrize("seed", range(2))
def test_two_copies_are_never_found_by_a_start(seed: int) -> None:
    """Not even if the power is lost while one target takes the place of another, and only what was synced survives."""
    for op in range(1, 45):
        run = MovingWorld(20, directories=THREE)
        run.move(P0, "/b")
        run.copy_until(10)
        run.order = random.Random(seed)
        run.move(P0, "/c")
        run.disk.crash_at(run.disk.ops + op)
        with pytest.raises(SimulatedCrash):
            run.run()
        run.world.restart(Survival.NOTHING)
        run.new()
        run.start()
        assert run.manager.partitions() == [P0]
        assert offsets_in(run.log()) == list(range(20))


@pytest.mark.parametrize("copied", [None, 0, 30])
def test_deleted_while_it_moves(copied: int | None) -> None:
    run = MovingWorld()
    run.move()
    if copied is not None:
        run.copy_until(copied)
    assert run.delete(P0) == {}
    assert [type(error) for error in run.failed] == [MoveCancelledError]
    assert run.manager.partitions() == []
    run.check_settled()
    run.create(P0, "/a", topic_id=TopicId(bytes(16 * [9])))
    run.append(count=3)
    run.move()
    run.run()
    run.failed.clear()
    run.check_moved(3)


def test_refused_while_logs_are_still_opened() -> None:
    run = MovingWorld()
    run.world.kill()
    run.new()
    run.start(run=False)
    run.move()
    assert [type(error) for error in run.failed] == [LogDirUnavailableError]
    run.run()
    run.check_settled()


def test_refused() -> None:
    run = MovingWorld(directories=THREE, cordoned_log_dirs=("/b",))
    run.move(P0, "/b")
    run.move(P1, "/c")
    assert [type(error) for error in run.failed] == [InvalidReplicaAssignmentError, LogDirUnavailableError]
    long = TopicPartition("t" * 240, 0)
    run.create(long, "/a")
    run.move(long, "/c")
    run.run()
    assert isinstance(run.failed[2], InvalidDataError)
    run.disk.fail_next("create", "/b/*")
    with pytest.raises(StorageError):
        run.create(P1, "/b")
    run.run()
    run.move(P0, "/b")
    run.move(P0, "/c")
    assert [type(error) for error in run.failed[3:]] == 2 * [LogDirUnavailableError]
    assert run.manager.partitions(future=True) == []
    run.shutdown()
    run.move(P0, "/c")
    assert len(run.failed) == 6


def test_a_refusal_leaves_an_earlier_move_alone() -> None:
    run = MovingWorld(directories=(*THREE, "/d"), replica_alter_log_dirs_io_max_bytes_per_second=10_000)
    run.move(P0, "/b")
    run.disk.fail_next("create", "/c/*")
    with pytest.raises(StorageError):
        run.create(P1, "/c")
    run.move(P0, "/d")
    run.pass_time(3000)
    run.run()
    assert [type(error) for error in run.failed] == [LogDirUnavailableError]
    run.failed.clear()
    run.check_moved(100)


# Disks


@pytest.mark.parametrize(("op", "path"), [("write", "/b/*.log"), ("sync", "/b/*.log"), ("create", "/b/*-future/*")])
def test_the_target_fails(op: Any, path: str) -> None:
    run = MovingWorld()
    run.disk.fail_next(op, path)
    run.move()
    run.run()
    run.pass_time(5000)
    assert [type(error) for error in run.failed] == [StorageError]
    assert not run.manager.directories.at("/b").is_live
    assert dict(run.manager.moves) == {}
    assert run.log().dir == "/a/orders-0"
    run.append(count=10)
    assert offsets_in(run.log()) == list(range(110))
    run.flush()
    run.failed.clear()
    run.disk.faults.heal()
    run.restart(power=True)  # with the disk repaired
    if op != "create":
        run.check_moved(110)


def test_the_target_fails_for_another_reason_while_the_copy_is_flushed() -> None:
    run = MovingWorld()
    run.create(P1, "/b")
    run.move()
    run.copy_until(100)
    run.disk.fail_next("write", "/b/orders-1/*")
    with pytest.raises(StorageError):
        run.append(P1)
    run.jobs.tick()  # the logs there are let go of, and nobody will hear of the flush
    run.run()
    run.pass_time(2000)
    assert [type(error) for error in run.failed] == [StorageError]
    assert run.log().dir == "/a/orders-0"


@pytest.mark.parametrize("copied", [0, 30, 100])
def test_the_source_fails(copied: int) -> None:
    run = MovingWorld()
    run.move()
    run.copy_until(copied)
    run.disk.fail_next("write", "/a/orders-0/*")
    with pytest.raises(StorageError):
        run.append()
    run.run()
    run.pass_time(2000)
    assert [type(error) for error in run.failed] == [StorageError]
    assert dict(run.manager.moves) == {}
    assert run.manager.log(P0) is None
    run.failed.clear()
    run.disk.faults.heal()
    run.restart(power=True)
    run.check_moved(100)


def test_a_part_of_a_log_whose_disk_is_lost_is_not_taken_for_it() -> None:
    run = MovingWorld()
    run.move()
    run.copy_until(30)
    run.world.kill()
    for name in run.names("/a/orders-0"):
        run.disk.unlink(f"/a/orders-0/{name}")
    run.disk.remove_dir("/a/orders-0")
    run.new()
    run.start()
    assert run.manager.partitions() == run.manager.partitions(future=True) == []
    (left,) = [name for name in run.names("/b") if name.startswith("orders-0")]
    assert left.endswith("-stray")
    run.create(P0, "/b")
    run.append(count=2)
    run.flush()
    run.restart(power=True)
    assert offsets_in(run.log()) == [0, 1]


def test_an_unreadable_source_ends_the_move() -> None:
    run = MovingWorld()
    run.move()
    run.copy_until(30)
    run.disk.fail_next("read", "/a/orders-0/*", times=None)
    run.run()
    run.disk.faults.heal()
    assert [type(error) for error in run.failed] == [StorageError]
    run.check_settled()
    assert run.log().dir == "/a/orders-0"


def test_a_damaged_batch_ends_the_move() -> None:
    run = MovingWorld()
    path = "/a/orders-0/00000000000000000000.log"
    run.disk.flip_bit(path, 8 * (run.disk.size(path) - 5))
    run.move()
    run.run()
    assert [type(error) for error in run.failed] == [CorruptMessageError]
    run.check_settled()
    assert run.log().dir == "/a/orders-0"
    run.append()


@pytest.mark.parametrize(
    ("op", "path"), [("write", "/b/*.log"), ("create", "/b/*-future/*"), ("rename", "/b/*-future")]
)
def test_the_target_is_full_for_a_while(op: Any, path: str) -> None:
    run = MovingWorld()
    run.disk.fail_next(op, path, errno.ENOSPC, times=3)
    run.move()
    run.run()
    assert run.moved == run.failed == []
    trouble = run.progress().trouble
    assert isinstance(trouble, StorageError)
    assert trouble.is_shortage
    assert not run.progress().is_copying
    assert op == "create" or COMPLETE not in run.names(run.future().dir)
    assert offsets_in(run.log()) == list(range(100))
    run.pass_time(2900)  # pauses of 1, 2 and 4 seconds
    assert run.moved == []
    run.append(count=5)
    run.pass_time(4200)
    run.check_moved(105)


def test_a_full_target_gives_its_place_to_the_next() -> None:
    run = MovingWorld(directories=THREE, num_replica_alter_log_dirs_threads=1)
    run.create(P1, "/a")
    run.append(P1, 60)
    run.disk.fail_next("write", "/b/*.log", errno.ENOSPC, times=None)
    run.move(P0, "/b")
    run.move(P1, "/c")
    run.run()
    assert run.log(P1).dir == "/c/orders-1"
    run.pass_time(300_000)
    assert run.moved == [run.log(P1)]
    assert run.cancel() == []
    run.run()
    run.check_settled()


def test_a_flush_that_finds_no_space_makes_the_copy_anew() -> None:
    run = MovingWorld()
    run.disk.fail_next("sync", "/b/*-future/*.log", errno.ENOSPC)
    run.move()
    run.pass_time(900)
    assert isinstance(run.progress().trouble, StorageError)
    run.pass_time(3000)
    run.check_moved(100)


def test_what_is_in_the_way_in_the_target_is_no_fault_of_its_disk() -> None:
    run = MovingWorld()
    run.disk.make_dir("/b/orders-0")
    run.write("/b/orders-0/unknown", b"of a person")
    run.move()
    run.run()
    assert [type(error) for error in run.failed] == [InvalidDataError]
    assert "/b/orders-0 is in the way" in str(run.failed[0])
    assert run.manager.directories.offline == []
    assert offsets_in(run.log()) == list(range(100))
    run.check_settled()


def test_a_creation_that_failed_is_not_in_the_way_of_a_move() -> None:
    run = MovingWorld(count=1)
    target = run.manager.directories.at("/b")
    run.disk.fail_next("create", "/b/orders-1/*", errno.ENOSPC, skip=2)
    with pytest.raises(StorageError):
        run.create(P1, "/b")
    assert "orders-1" not in run.names("/b")
    run.create(P1, "/a")
    run.move(P1)
    run.run()
    assert run.failed == []
    assert run.log(P1).dir == "/b/orders-1"
    assert target.is_live
