"""When bytes become durable, what a crash may take, and what a clean end leaves behind."""

from __future__ import annotations

import errno

import pytest
from watched_files import WatchedFiles

from support.logs.log_files import (
    CONFIG,
    DIRECTORY,
    Bench,
    append,
    append_marker,
    attempt,
    batch,
    busy_log,
    content,
    derived,
    fill,
    index_path,
    log_path,
    names_in,
    read_file,
    snapshot_path,
    time_index_path,
    whole_directory,
)
from tailrace.config.log import LogConfig
from tailrace.model.errors import SegmentGoneError, StorageError
from tailrace.sim.faults import Survival
from tailrace.storage.partition_metadata import PartitionMetadata

CHECKPOINT = f"{DIRECTORY}/leader-epoch-checkpoint"
LARGE = LogConfig(segment_bytes=1 << 20, segment_index_bytes=960, index_interval_bytes=100)


# Flushing


@pytest.mark.spec("LS-23")
def test_with_the_defaults_an_append_syncs_nothing_of_the_log() -> None:
    bench = Bench(LARGE)
    watch = WatchedFiles(bench.disk)
    log = bench.open(files=watch)
    append(log, batch(1, 100))
    bench.finish_jobs()
    watch.syncs.clear()
    fill(log, [1] * 50)
    bench.finish_jobs()
    assert watch.syncs == []
    assert log.recovery_point == 0
    assert log.flush_due_ms() > 2**62


@pytest.mark.spec("LS-23")
def test_a_flush_syncs_once_and_moves_the_recovery_point_when_it_is_done() -> None:
    bench = Bench(LARGE)
    watch = WatchedFiles(bench.disk)
    log = bench.open(files=watch)
    fill(log, [2, 2])
    done: list[int] = []
    log.flush(done=lambda: done.append(log.recovery_point))
    assert (log.recovery_point, done) == (0, []), "not before the sync has returned"
    bench.finish_jobs()
    assert (log.recovery_point, done) == (4, [4])
    assert log_path(0) in watch.syncs
    assert DIRECTORY in watch.syncs
    watch.syncs.clear()
    log.flush(done=lambda: done.append(log.recovery_point))
    log.flush(3)
    bench.finish_jobs()
    assert watch.syncs == [], "everything below is durable already"
    assert done == [4, 4]


@pytest.mark.spec("LS-23")
@pytest.mark.parametrize("flush_messages", [1, 3, 10])
@pytest.mark.parametrize("survival", list(Survival))
def test_a_crash_loses_at_most_what_flush_messages_allows(flush_messages: int, survival: Survival) -> None:
    config = LogConfig(segment_bytes=3000, segment_index_bytes=960, flush_messages=flush_messages)
    for appended in range(1, 24, 3):
        bench = Bench(config, seed=appended)
        log = bench.open()
        for _ in range(appended):
            append(log, batch(1, 200))
            bench.finish_jobs()
        assert appended - log.recovery_point < flush_messages
        promised, data = log.recovery_point, content(log)
        bench.lose_power(survival)
        found = bench.open(recovery_point=promised)
        assert found.log_end_offset >= promised
        assert appended - found.log_end_offset < flush_messages
        assert data.startswith(content(found))


@pytest.mark.spec("LS-23")
def test_a_log_says_when_its_next_flush_is_due() -> None:
    bench = Bench(LogConfig(flush_ms=5000))
    log = bench.open()
    start_ms = bench.world.clock.now_ms()
    assert log.flush_due_ms() == start_ms + 5000
    append(log, batch(1, 10))
    bench.world.clock.advance(3000)
    log.flush()
    assert log.flush_due_ms() == start_ms + 5000
    bench.finish_jobs()
    assert log.flush_due_ms() == start_ms + 8000


@pytest.mark.spec("LS-23")
def test_a_flush_that_began_before_a_truncation_promises_nothing_after_it() -> None:
    bench = Bench(LARGE)
    log = bench.open()
    fill(log, [2, 2, 2])
    log.flush()
    log.truncate_to(2)
    append(log, batch(4, 100))
    bench.finish_jobs()
    assert log.recovery_point <= 2
    log.flush()
    bench.finish_jobs()
    assert log.recovery_point == 6


@pytest.mark.spec("LS-23")
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("pattern", ["*.log", "*.index", "*.timeindex", "*.txnindex", "*leader-epoch*", DIRECTORY])
def test_a_failed_sync_stops_the_log_and_moves_no_recovery_point(pattern: str, code: int) -> None:
    bench = Bench(LARGE)
    log = bench.open()
    bench.disk.faults.failed_sync_drops = True
    append(log, batch(1, 100, producer=2, sequence=0, transactional=True))
    append_marker(log, 2, commit=False)
    bench.disk.fail_next("sync_dir" if pattern == DIRECTORY else "sync", pattern, code, times=None)
    log.flush()
    bench.finish_jobs()
    assert log.recovery_point == 0
    bench.disk.faults.heal()
    with pytest.raises(StorageError):
        append(log, batch(1, 10))
    with pytest.raises(StorageError):
        log.close()
    bench.lose_power(Survival.NOTHING)
    assert bench.open().log_end_offset in (0, 2)


@pytest.mark.spec("LS-15", "LS-23")
def test_a_roll_flushes_the_old_segment_in_the_background() -> None:
    bench = Bench()
    log = bench.open()
    fill(log, [2] * 7)
    assert (log.local.segments.base_offsets, log.recovery_point) == ((0, 12), 0)
    bench.finish_jobs()
    assert log.recovery_point == 12
    bench.lose_power(Survival.NOTHING)
    found = bench.open(recovery_point=12)
    assert found.log_end_offset >= 12
    assert len(read_file(bench.disk, index_path(0))) < CONFIG.segment_index_bytes


# Epochs


@pytest.mark.spec("LS-50")
def test_an_epoch_is_in_the_file_at_once_and_its_sync_is_started() -> None:
    bench = Bench(LARGE)
    watch = WatchedFiles(bench.disk)
    log = bench.open(files=watch)
    append(log, batch(1, 10), epoch=4)
    assert read_file(bench.disk, CHECKPOINT) == b"0\n1\n4 0\n"
    assert CHECKPOINT not in watch.syncs
    assert any("leader-epoch-checkpoint" in name for name in bench.world.jobs.pending)
    bench.finish_jobs()
    assert CHECKPOINT in watch.syncs
    append(log, batch(1, 10), epoch=4)
    assert bench.world.jobs.pending == []
    append(log, batch(1, 10), epoch=6)
    bench.kill()
    assert [tuple(entry) for entry in bench.open(recovery_point=3).epochs.entries] == [(4, 0), (6, 2)]


@pytest.mark.spec("LS-50")
def test_epochs_are_durable_before_the_recovery_point_moves() -> None:
    bench = Bench(LARGE)
    log = bench.open()
    append(log, batch(1, 10), batch(1, 10), epoch=4)
    append(log, batch(1, 10), epoch=6)
    bench.world.jobs.forget()
    log.flush()
    bench.finish_jobs()
    bench.lose_power(Survival.NOTHING)
    assert read_file(bench.disk, CHECKPOINT) == b"0\n2\n4 0\n6 2\n"


# Closing


@pytest.mark.spec("LS-26")
@pytest.mark.parametrize("survival", list(Survival))
@pytest.mark.parametrize("flushed", [True, False])
def test_a_closed_log_survives_lost_power_whole(survival: Survival, flushed: bool) -> None:
    bench = Bench()
    log = bench.open()
    busy_log(log)
    if flushed:
        log.flush()
    bench.finish_jobs()
    before, data = derived(log), content(log)
    bench.close(log)
    assert log.recovery_point == 24
    bench.lose_power(survival)
    files = whole_directory(bench.disk)
    assert names_in(bench.disk).count("00000000000000000024.snapshot") == 1
    found = bench.open(was_clean=True)
    assert (derived(found), content(found)) == (before, data)
    assert {name: data for name, data in whole_directory(bench.disk).items() if ".log" in name} == {
        name: data for name, data in files.items() if ".log" in name
    }
    assert bench.findings() == []


@pytest.mark.spec("LS-26", "LS-30")
@pytest.mark.parametrize("survival", list(Survival))
def test_producers_are_known_after_a_recovery_and_a_close_with_nothing_between(survival: Survival) -> None:
    bench = Bench(LARGE)
    log = bench.open()
    append(log, batch(2, 100, producer=1, sequence=0))
    bench.kill()
    log = bench.open()
    before = derived(log)
    assert before.producers
    bench.close(log)
    bench.lose_power(survival)
    assert derived(bench.open(was_clean=True)) == before


@pytest.mark.spec("LS-04", "LS-06")
def test_closing_cuts_the_indexes_and_enters_the_largest_timestamp() -> None:
    bench = Bench(LARGE)
    log = bench.open()
    fill(log, [2] * 5)
    append(log, batch(1, 10, timestamp=1_700_000_000_777))
    assert len(read_file(bench.disk, time_index_path(0))) == 960
    bench.close(log)
    entries = read_file(bench.disk, time_index_path(0))
    assert entries[-12:] == (1_700_000_000_777).to_bytes(8, "big") + (10).to_bytes(4, "big")
    assert len(read_file(bench.disk, index_path(0))) % 8 == 0
    assert len(read_file(bench.disk, index_path(0))) < 960


@pytest.mark.spec("LS-35")
def test_closing_gives_preallocated_space_back() -> None:
    config = LogConfig(segment_bytes=5000, segment_index_bytes=960, preallocate=True)
    bench = Bench(config)
    log = bench.open()
    append(log, batch(1, 100))
    size = log.local.active.size
    assert len(read_file(bench.disk, log_path(0))) == 5000
    data = content(log)
    bench.kill()
    log = bench.open()
    assert (content(log), len(read_file(bench.disk, log_path(0)))) == (data, size)
    bench.close(log)
    assert len(read_file(bench.disk, log_path(0))) == size


@pytest.mark.spec("LS-47")
def test_no_mapping_outlives_its_log() -> None:
    bench = Bench()
    watch = WatchedFiles(bench.disk)
    log = bench.open(files=watch)
    busy_log(log)
    bench.finish_jobs()
    for offset in range(24):
        log.read(offset, 1)
    assert watch.open_mappings
    bench.close(log)
    assert watch.open_mappings == set()
    with pytest.raises(SegmentGoneError):
        log.read(3, 1)
    log = bench.open(files=watch, was_clean=True)
    for offset in range(24):
        log.read(offset, 1)
    assert watch.open_mappings
    log.abandon()
    assert watch.open_mappings == set()


@pytest.mark.spec("LS-47")
def test_a_slice_taken_before_the_close_can_be_read_to_its_end() -> None:
    bench = Bench()
    log = bench.open()
    busy_log(log)
    found = log.read(3, 5000)
    data = found.read()
    bench.close(log)
    assert found.read() == data


def test_jobs_that_outlive_their_log_do_no_harm() -> None:
    bench = Bench()
    log = bench.open()
    busy_log(log)
    log.truncate_to(12)
    append(log, batch(1, 100), epoch=3)
    log.flush()
    log.close()
    bench.world.jobs.tick(bench.world.clock.now_ms() + 10_000)
    bench.finish_jobs()
    before = whole_directory(bench.disk)
    assert bench.open(was_clean=True).log_end_offset == 13
    assert before["00000000000000000010.log"]


def test_closing_a_log_that_never_got_a_record_leaves_a_directory_that_opens() -> None:
    bench = Bench()
    log = bench.open()
    bench.close(log)
    bench.lose_power(Survival.NOTHING)
    assert PartitionMetadata(bench.disk, DIRECTORY).read() is not None
    found = bench.open(was_clean=True)
    assert (found.log_start_offset, found.log_end_offset) == (0, 0)
    assert append(found, batch(1, 10)) == 0


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_close_that_the_disk_refuses_says_so_and_loses_nothing_that_was_flushed(code: int) -> None:
    skip = 0
    while True:
        bench = Bench(seed=skip)
        log = bench.open()
        busy_log(log)
        log.flush()
        bench.finish_jobs()
        append(log, batch(1, 100), epoch=3)
        before, data = derived(log), content(log)
        bench.disk.fail_next(code=code, skip=skip)
        _, error = attempt(log.close)
        bench.disk.faults.heal()
        if error is None:
            break
        assert isinstance(error, StorageError)
        assert error.is_shortage == (code == errno.ENOSPC)
        bench.kill()
        found = bench.open(recovery_point=24)
        assert (derived(found), content(found)) == (before, data)
        skip += 1
    assert skip > 10


def test_letting_go_twice_is_fine() -> None:
    bench = Bench()
    log = bench.open()
    append(log, batch(1, 10, producer=1, sequence=0))
    log.close()
    log.abandon()
    assert bench.disk.exists(snapshot_path(1))
