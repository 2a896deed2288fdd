"""A compacted partition moves: never cleaned while it is copied, cleaned where it has come to, no deleted key back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.compaction.cleaners import COMPACT, CleanedWorld
from support.logs.builders import bytes_of
from support.logs.directory_moves import MANY_STEPS
from support.logs.managers import P0
from tailrace.model.errors import InvalidDataError, TailraceError
from tailrace.sim import SimulatedCrash
from tailrace.storage.cleaner.states import Cleaning, Paused
from tailrace.storage.unified_log import UnifiedLog

pytestmark = pytest.mark.spec("LM-28", "LM-23")


class MovedAndCleaned(CleanedWorld):
    def __init__(self, **changes: Any) -> None:
        super().__init__(directories=("/a", "/b"), **changes)
        self.moved: list[UnifiedLog] = []
        self.failed: list[TailraceError] = []
        self.dirty(P0, "/a")

    def move(self) -> None:
        self.manager.move(P0, self.manager.directories.at("/b"), self.moved.append, self.failed.append)

    def copy_some(self) -> None:
        while P0 not in self.manager.partitions(future=True):
            self.jobs.run_one()
        while not self.future().log_end_offset:
            self.jobs.run_one()

    def future(self) -> UnifiedLog:
        future = self.manager.log(P0, future=True)
        assert future is not None
        return future


def test_a_partition_that_is_being_cleaned() -> None:
    run = MovedAndCleaned()
    run.clean()
    run.put(count=60)
    run.begin(P0)
    assert run.cleaner.state_of(P0) is Cleaning.IN_PROGRESS
    before = run.cleaner.cleaner_point("/a", P0)
    assert before
    run.move()
    run.copy_some()
    assert run.cleaner.state_of(P0) == Paused(1)
    while not run.moved:
        run.cleaner.awake()
        run.jobs.tick()
        assert run.cleaner.is_idle
        run.jobs.run_one()
    assert run.cleaner.state_of(P0) is None
    assert (run.cleaner.cleaner_point("/a", P0), run.cleaner.cleaner_point("/b", P0)) == (None, before)
    assert run.cleaned == [P0]
    assert run.clean() == [P0]
    assert b"orders" not in run.checkpoint("/a")
    assert b"orders 0" in run.checkpoint("/b")
    assert len(run.keys_at()) < 30
    assert not [name for name in run.names("/b/orders-0") if name.endswith((".cleaned", ".swap"))]
    run.restart(power=True)
    assert run.log().dir == "/b/orders-0"
    assert (run.cleaner.cleaner_point("/b", P0) or 0) > before


def test_the_end_of_a_move_ends_a_clean() -> None:
    """A future log that another has filled, without pausing the cleaner before."""
    run = MovedAndCleaned()
    run.clean()
    run.put(count=60)
    run.create_future(P0, "/b")
    while run.future().log_end_offset < run.log().log_end_offset:
        run.future().append_as_follower(run.log().read(run.future().log_end_offset, 3000).read())
    run.future().flush_now()
    while not run.cleaner.is_idle or run.future().is_flushing:
        run.run()
    before = run.cleaner.cleaner_point("/a", P0)
    run.cleaner.awake()
    run.jobs.tick()
    while run.cleaner.is_idle:
        run.jobs.run_one()
        run.jobs.tick()
    assert run.manager.finish_move(P0)
    assert run.cleaner.is_idle
    assert (run.cleaner.cleaner_point("/a", P0), run.cleaner.cleaner_point("/b", P0)) == (None, before)
    run.run()
    assert run.log().dir == "/b/orders-0"
    assert b"orders" not in run.checkpoint("/a")
    assert b"orders 0" in run.checkpoint("/b")


def test_a_cancelled_move_lets_it_be_cleaned_again() -> None:
    run = MovedAndCleaned()
    run.move()
    run.copy_some()
    run.manager.cancel_move(P0, lambda errors: None)
    run.run()
    assert run.cleaner.state_of(P0) is None
    assert run.clean() == [P0]


def test_a_resumed_move_keeps_the_cleaner_off() -> None:
    run = MovedAndCleaned()
    run.move()
    run.copy_some()
    run.world.kill()
    run.new()
    run.start_only()
    assert run.cleaner.state_of(P0) == Paused(1)
    run.run()
    assert run.log().dir == "/b/orders-0"
    assert run.cleaner.state_of(P0) is None


def test_a_log_that_was_compacted_while_its_copy_was_away_is_copied_anew() -> None:
    """The first half as it was, the second one compacted: keys would be there again whose tombstones are gone."""
    run = MovedAndCleaned()
    run.move()
    run.copy_some()
    run.future().flush_now()
    run.world.kill()
    run.disk.fail_next("list", "/b", times=None)
    run.new()
    run.start()
    assert not run.manager.directories.at("/b").is_live
    run.pass_time(20_000)
    assert run.cleaned == [P0]
    run.log().flush_now()
    kept = bytes_of(run.log())
    run.disk.faults.heal()
    run.restart()
    run.pass_time(100)
    assert run.log().dir == "/b/orders-0"
    assert bytes_of(run.log()) == kept


def test_the_gaps_of_a_log_that_was_compacted_are_never_taken_for_a_loss() -> None:
    """Its policy is another one by now, so only what the cleaner has noted of it says that gaps are in order."""
    places: list[str] = []
    for op in range(1, MANY_STEPS, 3):
        run = MovedAndCleaned()
        run.clean()
        run.put(count=40, keys=100)
        run.log().flush_now()
        run.run()
        kept = bytes_of(run.log())
        run.topics["orders"] = replace(COMPACT, cleanup_policy=("delete",), retention_ms=-1)
        run.manager.update_config("orders", run.topics["orders"])
        run.disk.crash_at(run.disk.ops + op)
        try:
            run.move()
            run.run()
            run.pass_time(100)
        except SimulatedCrash:
            run.world.restart()
            run.new()
            run.start()
            assert bytes_of(run.log()) == kept
            run.pass_time(100)
            assert bytes_of(run.log()) == kept
            places.append(run.log().dir)
        else:
            break
    assert places.index("/b/orders-0") < 10 < len(places)


def test_a_log_that_is_compacted_against_the_rules_is_copied_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    run = MovedAndCleaned(replica_alter_log_dirs_io_max_bytes_per_second=1000)
    monkeypatch.setattr(run.cleaner, "pause", lambda partitions: None)
    monkeypatch.setattr(run.cleaner, "resume", lambda partitions: None)
    run.move()
    run.copy_some()
    assert run.clean() == [P0]
    kept = bytes_of(run.log())
    run.pass_time(30_000)
    assert run.moved == [run.log()]
    assert bytes_of(run.log()) == kept


def test_a_copy_that_always_differs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    run = MovedAndCleaned()
    monkeypatch.setattr("tailrace.storage.manager.log_copying.has_same_bytes", lambda *_: False)
    run.move()
    run.run()
    run.pass_time(1000)
    assert [type(error) for error in run.failed] == [InvalidDataError]
    assert run.manager.partitions(future=True) == []
    assert run.log().dir == "/a/orders-0"
    assert run.cleaner.state_of(P0) is None
