"""Opening a log directory that nothing is wrong with, or only what any directory may have."""

from __future__ import annotations

import random
from typing import Any

import pytest
from watched_files import WatchedFiles

from support.logs.log_files import (
    DIRECTORY,
    OTHER_TOPIC_ID,
    TOPIC_ID,
    Bench,
    append,
    append_marker,
    batch,
    busy_log,
    content,
    derived,
    fill,
    log_path,
    names_in,
    offsets_of,
    path,
    read_file,
    snapshot_path,
    whole_directory,
    write_file,
)
from tailrace.env import Files
from tailrace.model.errors import CorruptCheckpointError, InconsistentTopicIdError, OffsetOutOfRangeError
from tailrace.record.legacy import plain_message
from tailrace.sim.faults import Survival
from tailrace.storage.epoch_cache import EpochEntry
from tailrace.storage.partition_metadata import PartitionMetadata
from tailrace.storage.unified_log import UnifiedLog

NOISE = random.Random(3).randbytes(4096)


def closed_log(bench: Bench | None = None) -> tuple[Bench, UnifiedLog, bytes]:
    """A busy log that was shut down cleanly; the closed log still tells its state, and the bytes are its content."""
    bench = bench or Bench()
    log = bench.open()
    busy_log(log)
    data = content(log)
    bench.finish_jobs()
    bench.close(log)
    return bench, log, data


def reopened(bench: Bench, **options: Any) -> UnifiedLog:
    return bench.open(was_clean=True, **options)


def test_a_missing_directory_is_made_and_empty() -> None:
    bench = Bench()
    log = bench.open()
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (0, 0, 0)
    bench.lose_power(Survival.NOTHING)
    assert bench.disk.exists(DIRECTORY)


@pytest.mark.spec("LS-26")
def test_a_clean_log_is_not_recovered() -> None:
    bench, _, data = closed_log()
    bench.disk.flip_bit(log_path(0), 8 * 100)
    damaged = read_file(bench.disk, log_path(0))
    watch = WatchedFiles(bench.disk)
    log = reopened(bench, files=watch, recovery_point=0)
    assert read_file(bench.disk, log_path(0)) == damaged
    assert log.log_end_offset == 24
    assert log.recovery_point == 24
    assert [name for name, _ in watch.opens if name == log_path(0)] == []
    assert len(content(log)) == len(data)
    log.abandon()
    assert bench.open(recovery_point=0).log_end_offset == 0, "without the word of a clean shutdown the damage is found"


class ReadCount:
    """Counts the bytes that are read from some files."""

    def __init__(self, files: Files, paths: list[str]) -> None:
        self._files = files
        self._paths = paths
        self.read_bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def open(self, file_path: str, mode: Any) -> Any:
        file = self._files.open(file_path, mode)
        return _CountedFile(self, file) if file_path in self._paths else file


class _CountedFile:
    def __init__(self, count: ReadCount, file: Any) -> None:
        self._count = count
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read_at(self, size: int, position: int) -> bytes:
        data: bytes = self._file.read_at(size, position)
        self._count.read_bytes += len(data)
        return data

    def read_into(self, buffer: memoryview, position: int) -> int:
        count: int = self._file.read_into(buffer, position)
        self._count.read_bytes += count
        return count


@pytest.mark.spec("LS-38")
def test_a_clean_log_without_snapshots_gets_one_at_its_end_and_is_not_read() -> None:
    bench, _, _ = closed_log()
    for name in names_in(bench.disk):
        if name.endswith(".snapshot"):
            bench.disk.unlink(path(name))
    count = ReadCount(bench.disk, [log_path(0), log_path(10)])
    log = reopened(bench, files=count)
    assert count.read_bytes == 0, "at most the last segment is looked at, for its end"
    assert bench.disk.exists(snapshot_path(log.log_end_offset))
    assert log.producers.producers == {}
    log.abandon()
    count.read_bytes = 0
    bench.open(files=count)
    assert count.read_bytes > 4000, "that of an unclean shutdown is"


@pytest.mark.spec("LS-38")
@pytest.mark.parametrize("clean", [True, False])
def test_snapshots_that_belong_to_no_segment_go(clean: bool) -> None:
    bench, _, _ = closed_log()
    before = derived_of(bench, was_clean=True)
    good = read_file(bench.disk, snapshot_path(10))
    for offset in (3, 11, 20, 500):
        write_file(bench.disk, snapshot_path(offset), good)
    found = bench.open(was_clean=clean, recovery_point=24)
    bench.finish_jobs()
    left = {int(name[:20]) for name in names_in(bench.disk) if name.endswith(".snapshot")}
    assert left <= {10, 19, 24}
    assert derived(found) == before


def derived_of(bench: Bench, **options: Any) -> Any:
    log = bench.open(**options)
    found = derived(log)
    bench.close(log)
    return found


@pytest.mark.spec("LS-38")
def test_a_batch_of_an_old_format_clears_the_epochs() -> None:
    bench = Bench()
    log = bench.open()
    fill(log, [2], epoch=4)
    assert log.epochs.latest_epoch == 4
    log.append_as_follower(plain_message(2, 0, b"key", b"value", magic=1))
    assert log.epochs.entries == ()
    bench.finish_jobs()
    assert read_file(bench.disk, path("leader-epoch-checkpoint")) == b"0\n0\n"


@pytest.mark.spec("LS-27")
@pytest.mark.parametrize("clean", [True, False])
def test_a_log_start_beyond_the_end_empties_the_log(clean: bool) -> None:
    bench, _, _ = closed_log()
    log = bench.open(was_clean=clean, log_start_offset=1000, recovery_point=24)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (1000, 1000, 1000)
    assert log.local.segments.base_offsets == (1000,)
    assert log.epochs.entries == ()
    assert log.producers.producers == {}
    with pytest.raises(OffsetOutOfRangeError):
        log.read(23, 1)
    bench.lose_power(Survival.NOTHING)
    log = bench.open(log_start_offset=1000)
    assert append(log, batch(1, 10), epoch=9) == 1000
    assert [name for name in names_in(bench.disk) if name.endswith(".log")] == ["00000000000000001000.log"]
    assert bench.findings() == []


@pytest.mark.spec("LS-44")
@pytest.mark.parametrize("clean", [True, False])
def test_epochs_are_cut_to_what_the_log_holds(clean: bool) -> None:
    bench, _, _ = closed_log()
    write_file(bench.disk, path("leader-epoch-checkpoint"), b"0\n5\n0 0\n1 10\n3 19\n4 24\n7 100\n")
    log = bench.open(was_clean=clean, log_start_offset=12, recovery_point=24)
    assert log.epochs.entries == (EpochEntry(1, 12), EpochEntry(3, 19))
    assert log.log_start_offset == 12
    log.bounds.check()


@pytest.mark.spec("LS-44")
@pytest.mark.parametrize("text", [None, b"", b"0\n", b"0\n3\n0 0\n", b"1\n0\n", NOISE[:50]])
def test_lost_epochs_are_read_from_the_batches(text: bytes | None) -> None:
    bench, _, _ = closed_log()
    if text is None:
        bench.disk.unlink(path("leader-epoch-checkpoint"))
    else:
        write_file(bench.disk, path("leader-epoch-checkpoint"), text)
    log = reopened(bench)
    assert log.epochs.entries == (EpochEntry(0, 0), EpochEntry(1, 10), EpochEntry(3, 19))


@pytest.mark.spec("LS-44")
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("log_start", [11, 14, 20])
def test_a_log_start_within_a_batch_serves_the_batch_and_counts_from_there(log_start: int, clean: bool) -> None:
    bench, _, data = closed_log()
    log = bench.open(was_clean=clean, log_start_offset=log_start, recovery_point=24)
    assert log.log_start_offset == log.local_log_start_offset == log_start
    first, last = offsets_of(log)[0]
    assert first <= log_start <= last
    assert data.endswith(content(log))
    log.update_high_watermark(24)
    log.bounds.check()
    assert 6 in log.producers.producers
    with pytest.raises(OffsetOutOfRangeError):
        log.read(log_start - 1, 1)


@pytest.mark.spec("LS-43")
@pytest.mark.parametrize("log_start", [0, 3, 10, 19, 24])
def test_local_data_never_begins_before_the_log(log_start: int) -> None:
    bench, _, _ = closed_log()
    log = reopened(bench, log_start_offset=log_start)
    assert log.local_log_start_offset == log.log_start_offset == log_start
    log.update_high_watermark(24)
    assert log.increment_local_log_start(24) == (log_start < 24)
    assert (log.log_start_offset, log.local_log_start_offset) == (log_start, 24)
    assert not log.increment_local_log_start(12)
    log.bounds.check()
    log.truncate_to(20)
    assert log.log_start_offset <= log.local_log_start_offset


@pytest.mark.spec("LS-36")
@pytest.mark.parametrize("clean", [True, False])
def test_a_directory_of_another_topic_is_never_served_nor_touched(clean: bool) -> None:
    bench, _, _ = closed_log()
    disk = bench.disk
    disk.unlink(path("partition.metadata"))
    PartitionMetadata(disk, DIRECTORY).write(OTHER_TOPIC_ID)
    write_file(disk, log_path(50) + ".cleaned", b"")
    before = whole_directory(disk)
    ops = disk.ops
    with pytest.raises(InconsistentTopicIdError, match=str(OTHER_TOPIC_ID)):
        bench.open(was_clean=clean)
    assert (whole_directory(disk), disk.ops) == (before, ops)


@pytest.mark.spec("LS-36")
def test_the_topic_id_is_on_disk_before_the_first_record() -> None:
    bench = Bench()
    log = bench.open()
    assert PartitionMetadata(bench.disk, DIRECTORY).read() is None
    append(log, batch(1, 10))
    bench.lose_power(Survival.NOTHING)
    assert PartitionMetadata(bench.disk, DIRECTORY).read() == TOPIC_ID
    with pytest.raises(InconsistentTopicIdError):
        bench.open().assign_topic_id(OTHER_TOPIC_ID)


def test_an_unreadable_topic_id_is_refused() -> None:
    bench, _, _ = closed_log()
    write_file(bench.disk, path("partition.metadata"), NOISE[:20])
    with pytest.raises(CorruptCheckpointError, match=r"partition\.metadata"):
        bench.open()


def test_a_second_load_finds_nothing_to_do() -> None:
    bench, _, _ = closed_log()
    bench.close(reopened(bench))
    before = whole_directory(bench.disk)
    bench.close(reopened(bench))
    assert whole_directory(bench.disk) == before


@pytest.mark.spec("LS-49")
def test_a_clean_load_with_a_snapshot_at_the_end_reads_no_batches_for_producers() -> None:
    bench, _, _ = closed_log()
    before = derived_of(bench, was_clean=True)
    count = ReadCount(bench.disk, [log_path(0), log_path(10)])
    log = reopened(bench, files=count)
    assert count.read_bytes == 0
    assert derived(log) == before
    append_marker(log, 6, commit=True, epoch=3)
