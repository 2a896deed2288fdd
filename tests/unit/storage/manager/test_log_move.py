"""A partition moves to another directory: built beside, caught up, swapped; and every way in which that breaks off."""

from __future__ import annotations

import errno

import pytest

from support.logs.builders import bytes_of
from support.logs.managers import P0, P1, TOPIC_ID, ManagedWorld, offsets_in
from tailrace.model.errors import InvalidDataError, LogDirUnavailableError, StorageError
from tailrace.sim import SimulatedCrash
from tailrace.storage.unified_log import UnifiedLog


def copy(run: ManagedWorld) -> UnifiedLog:
    """What a fetcher does: the current log's batches into the future one."""
    current, future = run.log(P0), run.manager.log(P0, future=True)
    assert future is not None
    while future.log_end_offset < current.log_end_offset:
        future.append_as_follower(bytearray(current.read(future.log_end_offset, 1000).read()))
    return future


def moving(seed: int = 0) -> ManagedWorld:
    """P0 in /a, flushed, with records deleted below 10; its copy in /b complete."""
    run = ManagedWorld(seed=seed)
    run.start()
    run.create(P0, "/a")
    run.append(count=60)
    run.flush()
    run.log().update_high_watermark(60)
    run.create_future(P0, "/b")
    copy(run)
    run.manager.increment_log_start(P0, 10, lambda: None, pytest.fail)
    run.run()
    return run


def finish(run: ManagedWorld) -> None:
    for _ in range(3):
        if run.manager.finish_move(P0):
            run.run()
            return
        run.run()
    pytest.fail("the move does not end")


@pytest.mark.spec("LM-28")
def test_built_caught_up_swapped() -> None:
    run = moving()
    before = bytes_of(run.log())
    finish(run)
    log = run.log()
    assert log.dir == "/b/orders-0"
    assert bytes_of(log) == before
    assert (log.log_start_offset, log.high_watermark, log.topic_id) == (10, 60, TOPIC_ID)
    assert run.manager.partitions(future=True) == []
    assert run.names("/b")[1:] == [
        "log-start-offset-checkpoint",
        "meta.properties",
        "orders-0",
        "recovery-point-offset-checkpoint",
    ]
    (doomed,) = run.manager.waiting_for_removal
    assert doomed.startswith("/a/orders-0.")
    assert b"orders" not in run.read("/a/recovery-point-offset-checkpoint")
    # It lives on under its new name: appends, rolls, cold reads, flushes, restarts.
    run.append(count=60)
    run.flush()
    assert offsets_in(log) == list(range(10, 120))
    run.pass_time(100_000)
    run.restart(power=True)
    assert run.log().dir == "/b/orders-0"
    assert offsets_in(run.log()) == list(range(10, 120))


@pytest.mark.spec("LM-28")
def test_not_before_it_has_caught_up() -> None:
    run = moving()
    run.append(count=1)
    assert run.manager.finish_move(P0) is False
    run.run()
    assert run.manager.finish_move(P0) is False
    assert run.log().dir == "/a/orders-0"
    copy(run)
    finish(run)
    assert offsets_in(run.log()) == list(range(10, 61))


@pytest.mark.spec("LM-28")
def test_not_before_it_is_durable() -> None:
    run = moving()
    assert run.manager.finish_move(P0) is False  # it begins to flush
    assert run.log().dir == "/a/orders-0"
    run.jobs.run_one()
    assert run.manager.finish_move(P0) is False  # the flush is still on its way
    finish(run)


def test_moves_that_cannot_begin_or_end() -> None:
    run = ManagedWorld()
    run.start()
    with pytest.raises(LogDirUnavailableError):
        run.create_future(P0, "/b")
    run.create(P0, "/a")
    with pytest.raises(InvalidDataError):
        run.create_future(P0, "/a")
    with pytest.raises(LogDirUnavailableError, match="future"):
        run.manager.finish_move(P0)
    with pytest.raises(LogDirUnavailableError, match="current"):
        run.manager.finish_move(P1)


def test_a_move_given_up() -> None:
    run = moving()
    run.manager.delete_future(P0, lambda errors: None)
    run.run()
    assert run.manager.partitions(future=True) == []
    assert run.log().dir == "/a/orders-0"
    run.restart(power=True)
    assert run.manager.partitions(future=True) == []


def test_deleted_while_it_moves() -> None:
    run = moving()
    assert run.delete(P0) == {}
    assert run.manager.partitions() == run.manager.partitions(future=True) == []
    run.restart(power=True)
    assert run.manager.partitions() == run.manager.partitions(future=True) == []


@pytest.mark.spec("LM-28")
@pytest.mark.parametrize(("op", "path"), [("rename", "/b/orders-0*"), ("sync_dir", "/b"), ("rename", "/a/orders-0")])
def test_a_failing_disk_leaves_the_partition_where_it_is(op: str, path: str) -> None:
    run = moving()
    run.manager.finish_move(P0)
    run.run()
    skip = 2 if op == "sync_dir" else 0  # the checkpoints come before
    run.disk.fail_next(op, path, skip=skip)  # type: ignore[arg-type]
    with pytest.raises(StorageError):
        run.manager.finish_move(P0)
    run.run()
    if path.startswith("/b"):
        assert run.log().dir == "/a/orders-0"
        run.append(count=1)
        assert offsets_in(run.log()) == list(range(10, 61))
    run.disk.faults.heal()
    run.restart(power=True)
    assert offsets_in(run.log())[:50] == list(range(10, 60))


@pytest.mark.spec("LM-28")
def test_a_crash_at_every_step_of_the_swap() -> None:
    """One log at the next start, in one of the two places, with everything that was flushed and nothing deleted."""
    places = set()
    for seed in range(3):
        for op in range(1, 200):
            run = moving(seed)
            run.manager.finish_move(P0)  # begins to flush
            run.run()
            run.disk.crash_at(run.disk.ops + op)
            try:
                finish(run)
                run.disk.crash_at(None)
                break
            except SimulatedCrash:
                pass
            run.world.restart()
            run.new()
            run.start_only()
            assert run.manager.partitions() == [P0]
            assert offsets_in(run.log()) == list(range(10, 60))
            places.add(run.log().dir)
            run.run()
            run.append(count=1)
            run.restart()
            assert offsets_in(run.log()) == list(range(10, 61))
        assert op > 8
    assert places == {"/a/orders-0", "/b/orders-0"}


def test_a_lone_future_log_waits_while_a_directory_is_offline() -> None:
    run = moving()
    run.world.kill()
    run.new()
    run.disk.fail_next("list", "/a", times=None)
    run.start()
    assert run.manager.partitions() == []
    assert run.manager.partitions(future=True) == [P0]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_lone_future_log_that_cannot_get_its_name_waits_for_the_next_start(code: int) -> None:
    run, ops = moving(), 1
    while "orders-0" in run.names("/a"):  # until the crash falls between the two renames
        run = moving()
        run.disk.crash_at(run.disk.ops + ops)
        with pytest.raises(SimulatedCrash):
            finish(run)
        run.world.kill()
        ops += 1
    run.new()
    run.disk.fail_next("rename", "/b/*-future", code)
    run.start()
    assert run.has_started
    assert run.manager.partitions() == run.manager.partitions(future=True) == []
    with pytest.raises(StorageError):
        run.create(P0, "/a", is_new=True)
    run.shutdown()
    run.new()
    run.start()
    assert run.log().dir == "/b/orders-0"
    assert offsets_in(run.log()) == list(range(10, 60))
