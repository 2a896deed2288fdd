"""Whatever a crash interrupts, each group of segments is the old one or the new one, and the log works."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from support.compaction.compacted_logs import COMPACTED, CompactedLog
from support.logs.builders import DIRECTORY
from tailrace.model.errors import TailraceError
from tailrace.sim.faults import SimulatedCrash, Survival
from tailrace.storage import names
from tailrace.storage.steps import Steps
from tailrace.storage.transaction_index import AbortedTxn

View = tuple[list[tuple[int, bytes]], tuple[AbortedTxn, ...]]


def view(log: CompactedLog) -> View:
    content = [(each.base_offset, data[each.position : each.end]) for data, each in log.stored()]
    return content, log.log.aborted_transactions(0, log.log.log_end_offset)


def merging(seed: int) -> CompactedLog:
    """Small segments, aborted and committed transactions, tombstones."""
    log = CompactedLog(seed=seed)
    log.put([(b"a", b"1"), (b"b", b"1")])
    log.put([(b"a", b"2")], producer_id=1, transactional=True)
    log.roll()
    log.end(1, commit=False)
    log.put([(b"a", None), (b"c", bytes(400))], codec=1)
    log.roll()
    log.put([(b"b", b"2")], producer_id=2, transactional=True)
    log.end(2, commit=True)
    log.put([(b"c", bytes(300))], producer_id=1)
    return log


def emptied_tail(seed: int) -> CompactedLog:
    """Nothing is left of the last segments of a group, and something goes from the first."""
    log = CompactedLog(seed=seed)
    log.put([(b"a", b"1")])
    log.put([(b"b", b"1")])
    log.roll()
    log.put([(b"x", b"1")])
    log.put([(b"y", b"1")], producer_id=5, transactional=True)
    log.end(5, commit=False)
    log.roll()
    log.put([(b"x", b"2")])
    log.roll()
    log.put([(b"a", bytes(1800)), (b"x", b"3")])
    log.put([(b"z", b"")], producer_id=5)
    return log


def several_groups(seed: int) -> CompactedLog:
    log = CompactedLog(seed=seed)
    for n in range(8):
        log.put([(b"%d" % (n % 5), bytes(500)), (b"x", b"")])
    return log


def splitting(seed: int) -> CompactedLog:
    log = CompactedLog(replace(COMPACTED, segment_bytes=100_000), seed=seed)
    for n in range(7):
        log.put([(b"%d" % n, bytes(500)), (b"x", b"")])
    log.put([(b"y", b"")], producer_id=5, transactional=True)
    log.end(5, commit=False)
    log.log.use_config(COMPACTED)
    log.config = COMPACTED
    return log


LOGS = [merging, emptied_tail, several_groups, splitting]


def prepared(make: Callable[[int], CompactedLog], seed: int = 0) -> CompactedLog:
    log = make(seed)
    log.settle()
    log.log.flush()
    log.world.jobs.run_all()
    log.disk.sync_all()
    return log


def states(make: Callable[[int], CompactedLog]) -> tuple[list[View], int]:
    """What the log is before each swap and after the last, and how many operations a clean takes."""
    log = prepared(make)
    seen = [view(log)]
    replacing_segments = log.log.replacing_segments

    def watched(*arguments: object) -> Steps[None]:
        yield from replacing_segments(*arguments)
        seen.append(view(log))

    log.log.replacing_segments = watched
    before = log.disk.ops
    log.clean(io_buffer_bytes=1000)
    return seen, log.disk.ops - before


@pytest.mark.spec("LM-19")
@pytest.mark.parametrize("survival", list(Survival))
@pytest.mark.parametrize("make", LOGS)
def test_lost_power_at_any_operation_of_a_clean_leaves_old_or_new_segments(
    make: Callable[[int], CompactedLog], survival: Survival
) -> None:
    allowed, operations = states(make)
    seen = []
    for crash_at in range(1, operations + 1):
        log = prepared(make, seed=crash_at)
        table, end = log.table(), log.log.recovery_point
        log.disk.crash_at(log.disk.ops + crash_at)
        with pytest.raises(SimulatedCrash):
            log.clean(io_buffer_bytes=1000)
        log.world.restart(survival)
        log.open(recovery_point=end)
        found = view(log)
        assert found in allowed
        if found not in seen:
            seen.append(found)
        assert log.table() == table
        assert log.findings() == []
        left = [name for name in log.names() if name.endswith((".cleaned", ".swap", ".deleted"))]
        assert left == []
    assert len(seen) >= min(len(allowed), 2)


@pytest.mark.spec("LM-19")
@pytest.mark.parametrize("make", LOGS)
def test_a_clean_after_a_crash_comes_to_the_same_end(make: Callable[[int], CompactedLog]) -> None:
    _, operations = states(make)
    table = prepared(make).table()
    for crash_at in range(3, operations, 7):
        log = prepared(make, seed=crash_at)
        end = log.log.recovery_point
        log.disk.crash_at(log.disk.ops + crash_at)
        with pytest.raises(SimulatedCrash):
            log.clean(io_buffer_bytes=1000)
        log.world.restart()
        log.open(recovery_point=end)
        log.all_moved_to_end()
        log.clean()
        assert log.table() == table
        log.reopen()
        assert log.table() == table
        assert log.findings() == []


@pytest.mark.spec("LM-19")
@pytest.mark.parametrize("make", LOGS)
def test_a_failing_disk_leaves_old_or_new_segments(make: Callable[[int], CompactedLog]) -> None:
    """Every operation fails once: the log says so, or goes on as it was; what is loaded then is sound."""
    allowed, operations = states(make)
    contents = [content for content, _ in allowed]
    for nth in range(operations):
        log = prepared(make)
        end = log.log.recovery_point
        log.disk.fail_next(None, f"{DIRECTORY}*", skip=nth)
        with suppress(TailraceError):
            log.clean(io_buffer_bytes=1000)
        log.disk.faults.heal()
        log.kill_and_open(recovery_point=end)
        assert view(log)[0] in contents
        assert log.findings() == []
        assert not [name for name in log.names() if name.endswith(names.CLEANED_SUFFIX)]
