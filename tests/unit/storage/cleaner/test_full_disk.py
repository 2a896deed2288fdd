"""A disk that is full at any operation of a clean: nothing is lost, the log goes on, and so does the cleaner later."""

from __future__ import annotations

import errno

import pytest

from support.compaction.cleaners import BACKOFF_MS, CleanedWorld
from support.logs.managers import P0
from tailrace.sim.faults import Op


def latest(run: CleanedWorld) -> dict[bytes, int]:
    return {key: offset for offset, key in run.keys_at()}


def left_behind(run: CleanedWorld) -> list[str]:
    return [name for name in run.names(run.log().dir) if name.endswith((".cleaned", ".swap"))]


@pytest.mark.spec("LM-48")
@pytest.mark.parametrize("then", ["goes on", "is killed", "loses power"])
@pytest.mark.parametrize(
    ("op", "path"),
    [("rename", "*.swap"), ("rename", "*.snapshot*"), ("sync_dir", "/a/orders-0"), ("sync", "*.cleaned")],
)
def test_a_swap_that_finds_no_room(op: Op, path: str, then: str) -> None:
    outcomes = set()
    for skip in range(6):
        run = CleanedWorld()
        run.dirty(count=100)
        run.flush()
        before = latest(run)
        run.disk.fail_next(op, path, errno.ENOSPC, skip=skip)
        run.clean()
        run.disk.faults.heal()
        refused = run.log().failure is not None
        outcomes.add(refused)
        assert not run.manager.directories.offline
        if not refused:
            assert left_behind(run) == []
            run.put(count=10)
            before = latest(run)
        if then != "goes on":
            run.flush()
            run.restart(power=then == "loses power")
        assert latest(run) == before
        assert left_behind(run) == [] or refused
        if run.log().failure is None:
            run.put(count=60)
            run.pass_time(2 * BACKOFF_MS)
            assert P0 in run.cleaned
    assert False in outcomes
