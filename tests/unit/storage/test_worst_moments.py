"""What holds when the disk fails, or another thread looks, at the worst moment."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from support.logs.builders import (
    CONFIG,
    DIRECTORY,
    SimLog,
    bases,
    batch,
    holds,
    in_transaction,
    marker,
    offsets,
    placed,
    produced_by,
    sized_batch,
    with_config,
)
from tailrace.env import Mode
from tailrace.model.errors import SegmentGoneError, StorageError
from tailrace.sim.faults import Survival
from tailrace.storage.fetch import Isolation
from tailrace.storage.origin import Origin
from tailrace.storage.records_file import RecordsFile
from tailrace.storage.transaction_index import AbortedTxn, TransactionIndex
from tailrace.storage.warm import WarmSet

SNAPSHOTS = f"{DIRECTORY}/*.snapshot"


# Failing operations


@pytest.mark.spec("LS-23")
def test_a_full_disk_at_an_fsync_ends_the_writing_like_any_other_failure_of_it() -> None:
    sim = SimLog()
    sim.fill(2)
    sim.tape.fail_next("sync", "*.log", errno.ENOSPC)
    with pytest.raises(StorageError):
        sim.log.append_as_follower(placed(sized_batch(CONFIG.segment_bytes), 9))  # rolls behind a gap, so it syncs
    with pytest.raises(StorageError):
        sim.append(batch())


def test_a_segment_behind_a_gap_that_cannot_be_made_ends_the_writing_until_the_next_load() -> None:
    """The snapshot behind the gap is there already, and would be believed for what is then written in the gap."""
    sim = SimLog()
    sim.fill(2)
    sim.tape.fail_next("create", "*9.log", errno.ENOSPC)
    huge = sized_batch(CONFIG.segment_bytes)
    with pytest.raises(StorageError):
        sim.log.append_as_follower(placed(huge, 9))
    with pytest.raises(StorageError):
        sim.append(batch())
    assert "00000000000000000009.snapshot" in sim.names()
    sim.kill_and_open(recovery_point=2)
    assert "00000000000000000009.snapshot" not in sim.names()
    for sequence in range(5):
        sim.append(produced_by(7, sequence))
    sim.fill(5)
    sim.log.roll()
    sim.tape.fail_next("create", "*12.snapshot", errno.ENOSPC)
    sim.world.jobs.run_all()
    assert sim.log.recovery_point == 12
    sim.kill_and_open(recovery_point=12)
    assert sim.log.producers.producers[7].last_seq == 4


def test_nothing_is_written_after_a_failure_that_ends_the_writing() -> None:
    sim = SimLog()
    sim.fill(1)
    half = CONFIG.segment_bytes // 2 + 1
    sim.tape.fail_next("create", "*2.log", errno.EIO)
    first, second, third = sim.log.append_as_leader([sized_batch(half), sized_batch(half), batch()], 0)
    assert first.error is None
    assert isinstance(second.error, StorageError)
    assert isinstance(third.error, StorageError)
    assert sim.log.log_end_offset == 2


def test_a_write_is_not_repeated_when_what_follows_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = SimLog()

    def refuse() -> None:
        monkeypatch.undo()
        raise SegmentGoneError("the transaction index is closed")

    monkeypatch.setattr(sim.log._appender, "finish_transactions", refuse)
    sim.log.append_as_leader([produced_by(1, 0), produced_by(1, 1), batch()], 0)
    held = holds(sim.log)
    assert len(held) == len(set(held))


def test_watermarks_and_log_start_move_though_no_byte_can_be_read() -> None:
    """A first unstable offset out of a snapshot has no position yet; finding it is the reader's trouble."""
    sim = SimLog()
    sim.append(in_transaction(1, 0))
    sim.log.close()
    sim.open(was_clean=True)
    sim.fill(5)
    sim.tape.fail_next("read", times=None)
    assert sim.log.update_high_watermark(3) == 3
    assert sim.log.high_watermark == 3
    assert sim.log.last_stable_offset == 0
    sim.tape.heal()
    assert offsets(sim.log.read(0, 1000, Isolation.HIGH_WATERMARK).read()) == [(0, 0), (1, 1), (2, 2)]
    assert sim.log.read(0, 1000, Isolation.TXN_COMMITTED).read() == b""
    sim.tape.fail_next("read", times=None)
    assert sim.log.increment_log_start(2)
    assert (sim.log.log_start_offset, sim.log.last_stable_offset) == (2, 2)


@pytest.mark.parametrize(
    "look",
    [
        lambda log: log.read(0, 1000).read(),
        lambda log: log.read(0, 1000, Isolation.TXN_COMMITTED),
        lambda log: log.aborted_transactions(0, 3),
        lambda log: log.offset_by_time(5),
    ],
)
def test_a_reader_is_told_of_a_failing_disk_by_a_typed_error(look: Callable[[Any], object]) -> None:
    sim = SimLog(CONFIG)
    sim.append(in_transaction(1, 0))
    sim.append(marker(1, commit=False), origin=Origin.COORDINATOR)
    sim.all_moved_to_end()
    sim.tape.fail_next("read", times=None)
    with pytest.raises(StorageError):
        look(sim.log)


def test_a_slice_tells_of_a_failing_disk_by_a_typed_error() -> None:
    sim = SimLog()
    sim.fill(1)
    found = sim.log.read(0, 1000)
    sim.tape.fail_next("read", "*.log")
    with pytest.raises(StorageError):
        found.read()


def test_a_failed_log_makes_no_new_segment() -> None:
    sim = SimLog()
    sim.fill(1)
    sim.tape.fail_next("write", "*.log")
    with pytest.raises(StorageError):
        sim.fill(1)
    with pytest.raises(StorageError):
        sim.log.roll()
    assert bases(sim.log) == [0]


# Flushing


def test_no_flush_promises_what_is_not_written_yet() -> None:
    sim = SimLog()
    sim.fill(1)
    sim.log.flush(10)
    sim.world.jobs.run_all()
    assert sim.log.recovery_point == 1


def test_a_flush_that_is_done_covers_what_was_asked_though_a_transaction_holds_the_recovery_point_back() -> None:
    sim = SimLog()
    sim.append(in_transaction(1, 0))
    sim.tape.fail_next("create", "*.txnindex", errno.ENOSPC, times=None)
    sim.append(marker(1, commit=False), origin=Origin.COORDINATOR)
    sim.fill(1)
    sim.log.flush()
    sim.world.jobs.run_all()
    assert sim.log.recovery_point == 1
    sim.fill(1)
    done: list[bool] = []
    sim.log.flush(done=lambda: done.append(True))
    sim.world.jobs.run_all()
    assert done
    assert sim.log.recovery_point == 1
    sim.world.restart(Survival.NOTHING)
    sim.tape.heal()
    assert holds(sim.open(recovery_point=1)) == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_a_snapshot_that_a_truncation_takes_away_during_its_sync_is_no_failure() -> None:
    sim = SimLog()
    sim.fill(1)
    sim.log.roll()
    sim.world.jobs.run_all()  # the snapshot is written, and synced with the next flush
    sim.fill(1)
    sim.tape.fail_next("open", SNAPSHOTS, errno.ENOENT)
    sim.log.flush()
    sim.world.jobs.run_all()
    sim.fill(1)
    assert sim.log.recovery_point == 2


def test_a_flush_that_ends_after_its_log_was_abandoned_writes_nothing() -> None:
    sim = SimLog()
    sim.fill(1)
    sim.log.roll()
    while "flush-log: done" not in sim.world.jobs.pending:
        sim.world.jobs.run_one()
    before = sim.names()
    sim.log.abandon()
    sim.world.jobs.run_all()
    assert sim.names() == before


def test_the_epochs_of_an_abandoned_log_do_not_overwrite_those_of_the_next() -> None:
    sim = SimLog()
    sim.fill(3)
    sim.append(batch(), epoch=1)
    sim.all_moved_to_end()
    sim.world.jobs.run_all()
    sim.log.increment_log_start(2)  # a job will write it
    sim.log.abandon()
    sim.open()
    sim.append(batch(), epoch=2)
    sim.world.jobs.run_all()
    known = sim.log.epochs.entries
    assert known[-1] == (2, 4)
    sim.world.kill()
    assert sim.open(recovery_point=5, was_clean=True).epochs.entries[-1] == (2, 4)


@pytest.mark.spec("LS-35")
def test_what_preallocation_left_behind_a_rolled_segment_is_never_served() -> None:
    """The roll cut it off, but the power failed before that was synced, and nothing above it was to be proven."""
    for seed in range(20):
        sim = SimLog(with_config(preallocate=True), seed=seed)
        sim.fill(3)
        sim.log.flush()
        sim.world.jobs.run_all()
        assert sim.log.recovery_point == 3
        sim.log.roll()
        sim.world.disk.sync_dir(DIRECTORY)
        sim.world.restart(Survival.NOTHING)
        sim.open(recovery_point=3)
        assert offsets(sim.log.read(0, 1 << 22).read()) == [(0, 0), (1, 1), (2, 2)]
        assert len(sim.log.read(0, 1 << 22).read()) == sum(
            segment.size for segment in sim.log.local.segments if segment.base_offset == 0
        )
        assert sim.log.local.segments.first is not None
        assert sim.log.local.segments.first.size < 1000


# Other threads


@pytest.mark.spec("LS-34")
def test_a_reader_never_sees_a_batch_that_is_then_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = SimLog()
    sim.fill(1)
    segment = sim.log.local.active
    index = segment.index
    seen: list[list[tuple[int, int]]] = []

    def look_and_fail(*arguments: Any) -> None:
        seen.append(offsets(sim.log.read(0, 1000).read()))
        monkeypatch.undo()
        index(*arguments)
        raise OSError(errno.ENOSPC, "the index found no room")

    monkeypatch.setattr(type(segment), "index", lambda _, *arguments: look_and_fail(*arguments))
    with pytest.raises(StorageError):
        sim.fill(1)
    assert seen == [[(0, 0)]]
    assert holds(sim.log) == [(0, 0)]


@pytest.mark.spec("LS-34")
def test_a_file_that_took_the_name_while_it_was_opened_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = SimLog()
    disk = sim.disk
    for name, data in (("a.log", b"old"), ("a.log.swap", b"new")):
        disk.open(f"/data/{name}", Mode.CREATE).write_at((data,), 0)
    records = RecordsFile(disk, "/data/a.log", WarmSet(1), size=3)
    swapped_in = RecordsFile(disk, "/data/a.log.swap", WarmSet(1), size=3)
    opened = disk.open

    def open_late(path: str, mode: Mode) -> Any:
        monkeypatch.undo()
        records.change_suffix("", ".deleted")
        swapped_in.change_suffix(".swap", "")
        return opened(path, mode)

    monkeypatch.setattr(disk, "open", open_late)
    assert records.read(0, 3) == b"old"


@pytest.mark.spec("LS-34")
def test_a_transaction_index_that_took_the_name_while_it_was_opened_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SimLog().disk
    old = TransactionIndex(disk, "/data/a.txnindex", 0)
    new = TransactionIndex(disk, "/data/a.txnindex.swap", 0)
    old.append(AbortedTxn(1, 0, 5, 6))
    new.append(AbortedTxn(2, 1, 7, 8))
    opened = disk.open

    def open_late(path: str, mode: Mode) -> Any:
        monkeypatch.undo()
        old.rename_to("/data/a.txnindex.deleted")
        new.rename_to("/data/a.txnindex")
        return opened(path, mode)

    monkeypatch.setattr(disk, "open", open_late)
    with pytest.raises(SegmentGoneError):
        old.all()


@pytest.mark.spec("LS-19", "LS-28")
@pytest.mark.parametrize("position", [0, 2**31 - 1, 2**32 - 1])
def test_a_damaged_offset_index_hides_no_aborted_transaction(position: int) -> None:
    sim = SimLog(with_config(index_interval_bytes=0))
    sim.fill(4)
    sim.append(in_transaction(1, 0))
    sim.append(marker(1, commit=False), origin=Origin.COORDINATOR)
    sim.fill(20)
    sim.log.roll()
    sim.all_moved_to_end()
    expected = (AbortedTxn(1, 4, 5, 6),)
    size = len(sim.log.read(0, 1 << 20).read()) // 2
    assert sim.log.read(0, size, Isolation.TXN_COMMITTED).aborted == expected
    sim.log.close()
    path = f"{DIRECTORY}/00000000000000000000.index"
    file = sim.disk.open(path, Mode.WRITE)
    for slot in range(9, 16):
        file.write_at(((1).to_bytes(4, "big") + position.to_bytes(4, "big"),), slot * 8)
    sim.open(was_clean=True)
    sim.all_moved_to_end()
    for wanted in range(100, size, 97):
        found = sim.log.read(0, wanted, Isolation.TXN_COMMITTED)
        if any(first <= 4 <= last for first, last in offsets(found.read())):
            assert found.aborted == expected
