"""Appends on a disk that is full, short, failing or read-only: what the log then holds and what it then does."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from support.logs.builders import (
    CONFIG,
    DIRECTORY,
    TOPIC_ID,
    SimLog,
    bases,
    batch,
    bytes_of,
    file_bytes,
    holds,
    in_transaction,
    marker,
    offset_entries,
    produced_by,
    sized_batch,
    with_config,
)
from tailrace.model.errors import StorageError
from tailrace.storage.fetch import Isolation
from tailrace.storage.origin import Origin
from tailrace.storage.verify import verify_directory

LOG_FILE = "00000000000000000000.log"
SMALL = with_config(segment_index_bytes=480, index_interval_bytes=100)


def test_short_writes_are_completed() -> None:
    sim = SimLog(SMALL, seed=3)
    sim.disk.faults.short_write_probability = 0.7
    for n in range(60):
        sim.append(batch(1 + n % 3, 300), batch(1, 2000))
    assert len(holds(sim.log)) == 120
    assert sim.log.local.size == len(bytes_of(sim.log))
    assert list(verify_directory(sim.disk, DIRECTORY)) == []


class TestDiskFull:
    def full_after(self, sim: SimLog, pages: int) -> None:
        sim.disk.faults.capacity_bytes = sim.disk.allocated_bytes() + pages * 4096

    @pytest.mark.parametrize("free_pages", range(4))
    def test_none_of_the_sets_of_a_write_that_did_not_fit_are_in_the_log(self, free_pages: int) -> None:
        sim = SimLog(SMALL)
        sim.fill(3)
        before = bytes_of(sim.log)
        self.full_after(sim, free_pages)
        results = sim.log.append_as_leader([sized_batch(7000), sized_batch(7000), sized_batch(7000)], 0)
        for result in results:
            assert isinstance(result.error, StorageError)
            assert result.error.is_shortage
            assert result.first_offset == -1
        assert sim.log.log_end_offset == 3
        assert bytes_of(sim.log) == file_bytes(sim.world, LOG_FILE) == before
        assert list(verify_directory(sim.disk, DIRECTORY)) == []

    def test_the_log_reads_on_and_takes_appends_again_when_space_is_back(self) -> None:
        sim = SimLog(SMALL)
        sim.fill(3)
        self.full_after(sim, 0)
        [failed] = sim.log.append_as_leader([sized_batch(9000)], 0)
        assert failed.error is not None
        assert holds(sim.log) == [(0, 0), (1, 1), (2, 2)]
        sim.disk.faults.capacity_bytes = None
        sim.append(sized_batch(9000))
        sim.fill(5)
        assert holds(sim.log) == [(n, n) for n in range(9)]
        assert list(verify_directory(sim.disk, DIRECTORY)) == []
        sim.kill_and_open()
        assert holds(sim.log) == [(n, n) for n in range(9)]

    @pytest.mark.parametrize("last_bytes", [1000, 9000])
    def test_after_a_failed_write_no_later_set_of_the_call_is_taken(self, last_bytes: int) -> None:
        """The second set rolls, so the first is written before it; where that fails the third must not leave a hole."""
        sim = SimLog(SMALL)
        sim.fill(3)
        self.full_after(sim, 1)
        almost = sim.config.segment_bytes - sim.log.local.size
        results = sim.log.append_as_leader([sized_batch(almost), sized_batch(900), sized_batch(last_bytes)], 0)
        assert all(isinstance(result.error, StorageError) for result in results)
        assert (sim.log.log_end_offset, holds(sim.log)) == (3, [(0, 0), (1, 1), (2, 2)])
        sim.disk.faults.capacity_bytes = None
        sim.append(batch(2))
        assert holds(sim.log) == [(0, 0), (1, 1), (2, 2), (3, 4)]

    def test_the_stated_prefix_is_in_the_log(self) -> None:
        """The same producer twice makes two writes: the first stands, the second does not."""
        sim = SimLog(SMALL)
        sim.fill(1)
        self.full_after(sim, 2)
        sets = [produced_by(5, 0), produced_by(5, 1, value_bytes=20_000), produced_by(5, 2), produced_by(6, 0)]
        results = sim.log.append_as_leader(sets, 0)
        assert [result.error is None for result in results] == [True, False, False, False]
        assert all(isinstance(result.error, StorageError) for result in results[1:])
        assert holds(sim.log) == [(0, 0), (1, 1)]
        sim.disk.faults.capacity_bytes = None
        again = sim.append(produced_by(5, 0), produced_by(5, 1, value_bytes=20_000), produced_by(5, 2))
        assert [(each.first_offset, each.is_duplicate) for each in again] == [(1, True), (2, False), (3, False)]

    def test_a_roll_that_finds_no_space_refuses_the_append_and_leaves_no_file(self) -> None:
        sim = SimLog(SMALL)
        sim.append(sized_batch(CONFIG.segment_bytes))
        names = sim.names()
        sim.disk.fail_next("create", "*.timeindex", errno.ENOSPC)
        [result] = sim.log.append_as_leader([batch(1)], 0)
        assert isinstance(result.error, StorageError)
        assert (sim.names(), bases(sim.log)) == (names, [0])
        sim.append(batch(1))
        assert (holds(sim.log), bases(sim.log)) == ([(0, 0), (1, 1)], [0, 1])

    @pytest.mark.spec("LS-07")
    def test_an_index_that_cannot_be_written_takes_the_append_back(self) -> None:
        """Entries are written 64 at a time: the 65th entry's batch is the one that meets the full disk."""
        sim = SimLog(with_config(index_interval_bytes=0))
        sim.disk.fail_next("write", "*.index", errno.ENOSPC)
        results = [sim.log.append_as_leader([batch(1)], 0)[0] for _ in range(100)]
        failed = [n for n, result in enumerate(results) if result.error is not None]
        assert len(failed) == 1
        assert sim.log.log_end_offset == 99
        assert holds(sim.log) == [(n, n) for n in range(99)]
        entries = offset_entries(sim.log.local.active)
        assert [offset for offset, _ in entries] == sorted({offset for offset, _ in entries})
        assert list(verify_directory(sim.disk, DIRECTORY)) == []

    def test_an_append_that_can_neither_be_finished_nor_taken_back_ends_the_writing(self) -> None:
        sim = SimLog(with_config(index_interval_bytes=0))
        sim.fill(65)
        sim.disk.fail_next("write", "*.index", errno.ENOSPC)
        sim.disk.fail_next("truncate", "*.log", errno.ENOSPC)
        [result] = sim.log.append_as_leader([batch(1)], 0)
        assert isinstance(result.error, StorageError)
        with pytest.raises(StorageError):
            sim.append(batch(1))
        assert holds(sim.log) == [(n, n) for n in range(65)]
        sim.kill_and_open()
        assert holds(sim.log)[:65] == [(n, n) for n in range(65)]

    def test_a_truncation_that_fails_half_way_ends_the_writing(self) -> None:
        """Whatever the errno: files and memory may disagree now, and only a load can tell."""
        sim = SimLog(SMALL)
        for _ in range(4):
            sim.fill(3)
            sim.log.roll()
        sim.all_moved_to_end()
        sim.disk.fail_next("sync_dir", code=errno.ENOSPC)
        with pytest.raises(StorageError):
            sim.log.truncate_to(4)
        with pytest.raises(StorageError):
            sim.append(batch(1))
        sim.kill_and_open()
        found = holds(sim.log)
        assert found == [(n, n) for n in range(len(found))]


class TestFailingDisk:
    @pytest.mark.parametrize("code", [errno.EIO, errno.EROFS, errno.EBADF])
    def test_a_failed_write_ends_the_writing_and_not_the_reading(self, code: int) -> None:
        sim = SimLog(SMALL)
        sim.fill(3)
        sim.disk.fail_next("write", "*.log", code)
        [result] = sim.log.append_as_leader([batch(1)], 0)
        assert isinstance(result.error, StorageError)
        assert (result.error.code, result.error.is_shortage, result.error.cause.errno) == (56, False, code)
        for _ in range(2):  # the disk is well again, but what it holds is not known
            with pytest.raises(StorageError):
                sim.log.append_as_leader([batch(1)], 0)
            with pytest.raises(StorageError):
                sim.log.append_as_follower(batch(1, base_offset=3))
            with pytest.raises(StorageError):
                sim.log.truncate_to(1)
        assert holds(sim.log) == [(0, 0), (1, 1), (2, 2)]
        sim.kill_and_open()
        sim.append(batch(1))
        assert sim.log.log_end_offset == 4

    def test_a_follower_gets_the_error_raised(self) -> None:
        sim = SimLog(SMALL)
        sim.disk.fail_next("write", "*.log", errno.ENOSPC)
        with pytest.raises(StorageError) as caught:
            sim.log.append_as_follower(batch(1))
        assert caught.value.is_shortage
        sim.log.append_as_follower(batch(1))
        assert holds(sim.log) == [(0, 0)]

    def test_a_read_only_disk_still_serves_reads(self) -> None:
        sim = SimLog(SMALL)
        sim.append(batch(3), in_transaction(5, 0))
        sim.all_moved_to_end()
        sim.disk.faults.read_only = True
        [result] = sim.log.append_as_leader([batch(1)], 0)
        assert isinstance(result.error, StorageError)
        assert result.error.cause.errno == errno.EROFS
        with pytest.raises(StorageError):
            sim.log.roll()
        assert holds(sim.log) == [(0, 2), (3, 3)]
        assert sim.log.read(0, 1000, Isolation.TXN_COMMITTED).records is not None
        assert sim.log.offset_by_time(0) is not None

    def test_a_topic_id_that_cannot_be_written_keeps_data_out(self) -> None:
        sim = SimLog(SMALL, topic_id=TOPIC_ID)
        sim.disk.fail_next("write", "*partition.metadata*", errno.ENOSPC)
        with pytest.raises(StorageError):
            sim.log.append_as_leader([batch(1)], 0)
        assert file_bytes(sim.world, LOG_FILE) == b""
        sim.append(batch(1))
        assert "partition.metadata" in sim.names()

    @pytest.mark.parametrize("look", [
        lambda log: log.read(0, 100),
        lambda log: log.read(0, 100, Isolation.HIGH_WATERMARK),
        lambda log: log.read(0, 100, Isolation.TXN_COMMITTED),
        lambda log: log.offset_by_time(1),
        lambda log: log.offset_by_time(-3),
    ])  # fmt: skip
    def test_every_failed_read_is_a_storage_error(self, look: Callable[[object], object]) -> None:
        sim = SimLog(SMALL)
        sim.append(in_transaction(5, 0), marker(5, commit=False), origin=Origin.COORDINATOR)
        sim.fill(20)
        sim.log.close()
        sim.open(was_clean=True)
        sim.log.update_high_watermark(22)
        sim.disk.fail_next("read", code=errno.EIO, times=None)
        sim.disk.fail_next("open", code=errno.EIO, times=None)
        with pytest.raises(StorageError):
            look(sim.log)
        sim.disk.faults.heal()
        look(sim.log)
        sim.append(batch(1))

    def test_a_failed_background_deletion_is_left_to_the_next_load(self) -> None:
        sim = SimLog(SMALL)
        sim.fill(2)
        sim.log.roll()
        sim.log.local.remove([sim.log.local.segments.first])
        sim.disk.fail_next("unlink", "*.deleted", errno.EIO)
        sim.world.jobs.tick(sim.world.clock.now_ms() + 60_000)
        sim.world.jobs.run_all()
        assert any(name.endswith(".deleted") for name in sim.names())
        sim.append(batch(1))
        sim.kill_and_open()
        assert not any(name.endswith(".deleted") for name in sim.names())

    def test_a_flush_that_was_started_before_the_close_is_forgotten(self) -> None:
        sim = SimLog(SMALL)
        sim.fill(2)
        sim.log.flush()
        sim.log.close()
        sim.world.jobs.run_all()
        assert sim.log.recovery_point == 2


def test_a_read_that_fails_before_an_append_is_no_error_of_python() -> None:
    """The first timestamp of a log that was opened again is read when it is first asked for."""
    sim = SimLog()
    sim.fill(3)
    log = sim.kill_and_open()
    log.local.active._first_timestamp = None
    sim.disk.fail_next("read", "*.log", errno.EIO)
    results = log.append_as_leader([batch(1)], 0)
    assert all(result.error is None or isinstance(result.error, StorageError) for result in results)
    assert log.append_as_leader([], 0) == []
