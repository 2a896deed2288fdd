"""Directories that nobody should have, and disks that fail: a clear error or a right log, never anything else."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.logs.log_files import (
    DIRECTORY,
    Bench,
    append,
    attempt,
    batch,
    batches_of,
    busy_log,
    content,
    cut_file,
    derived,
    index_path,
    log_path,
    names_in,
    offsets_of,
    patch_file,
    path,
    read_file,
    snapshot_path,
    time_index_path,
    txn_index_path,
    whole_directory,
    write_file,
)
from tailrace.config.log import LogConfig
from tailrace.model.errors import OffsetOutOfRangeError, StorageError, TailraceError
from tailrace.record.legacy import plain_message
from tailrace.sim.faults import SimulatedCrash
from tailrace.storage.unified_log import UnifiedLog

NOISE = random.Random(11).randbytes(8192)


def busy(close: bool = True) -> tuple[Bench, Any, bytes]:
    """A log with everything in it, durable; closed cleanly, or killed."""
    bench = Bench()
    log = bench.open()
    busy_log(log)
    log.flush()
    bench.finish_jobs()
    before, data = derived(log), content(log)
    if close:
        bench.close(log)
    else:
        bench.kill()
    bench.disk.sync_all()
    return bench, before, data


def use(log: UnifiedLog) -> None:
    """Everything a broker would do with it; only typed errors may come of it."""
    try:
        content(log)
        derived(log)
        log.offset_by_time(0)
        log.append_as_leader([batch(1, 50)], 9)
        log.update_high_watermark(log.log_end_offset)
        log.close()
    except TailraceError:
        pass


# Wrong kinds of files


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata"])
def test_a_directory_in_the_place_of_a_file_is_refused(name: str, clean: bool) -> None:
    bench, _, _ = busy()
    bench.disk.unlink(path(name))
    bench.disk.make_dir(path(name))
    with pytest.raises(StorageError, match=DIRECTORY):
        bench.open(was_clean=clean)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("make", [log_path, index_path, time_index_path, txn_index_path])
def test_a_directory_in_the_place_of_a_segments_file_is_refused_or_passed_over(
    make: Callable[[int], str], clean: bool
) -> None:
    for base in (0, 10, 19):
        bench, _, data = busy()
        if bench.disk.exists(make(base)):
            bench.disk.unlink(make(base))
        bench.disk.make_dir(make(base))
        log, error = attempt(lambda: bench.open(was_clean=clean, recovery_point=24))  # noqa: B023
        if log is None:
            assert isinstance(error, StorageError)
            assert error.cause.errno == errno.EISDIR
        else:
            assert all(log.read(offset, 1).read() in data for offset in range(log.log_start_offset, log.log_end_offset))
            use(log)


def test_a_file_in_the_place_of_the_directory_is_refused() -> None:
    bench = Bench()
    write_file(bench.disk, DIRECTORY, b"not a directory")
    with pytest.raises(StorageError, match="Not a directory"):
        bench.open()


def test_a_parent_that_does_not_exist_is_refused() -> None:
    bench = Bench()
    bench.disk.remove_dir("/data")
    with pytest.raises(StorageError, match="No such file"):
        bench.open()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("pattern", ["*.log", "*.txnindex", "*leader-epoch*", "*.metadata", "*00024.snapshot"])
def test_files_that_may_not_be_read_are_refused(pattern: str, clean: bool) -> None:
    bench, before, data = busy()
    bench.disk.fail_next("open", pattern, errno.EACCES, times=None)
    with pytest.raises(StorageError, match="Permission denied"):
        bench.open(was_clean=clean, recovery_point=24)
    bench.disk.faults.heal()
    log = bench.open(recovery_point=24)
    assert (derived(log), content(log)) == (before, data)


# Files of the wrong length


@pytest.mark.spec("LS-25")
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kept_bytes", [0, 1, 60, 500, 1500])
def test_the_last_data_file_cut_short_ends_the_log_there_and_takes_appends(kept_bytes: int, clean: bool) -> None:
    """Even where a clean shutdown was promised: what is appended must stand where readers can reach it."""
    bench, _, data = busy()
    cut_file(bench.disk, log_path(19), kept_bytes)
    log = bench.open(was_clean=clean, recovery_point=24)
    end = log.log_end_offset
    assert data.startswith(content(log))
    assert append(log, batch(1, 50), epoch=9) == end
    assert offsets_of(log)[-1] == (end, end)
    bench.close(log)
    assert offsets_of(bench.open(was_clean=True))[-1] == (end, end)


@pytest.mark.spec("LS-25")
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("tail", [bytes(300), NOISE[:300], b"\0" * 11])
def test_the_last_data_file_with_nonsense_behind_it_loses_the_nonsense(tail: bytes, clean: bool) -> None:
    bench, before, data = busy()
    patch_file(bench.disk, log_path(19), tail, len(read_file(bench.disk, log_path(19))))
    bench.disk.unlink(index_path(19))
    log = bench.open(was_clean=clean, recovery_point=24)
    assert (content(log), derived(log)) == (data, before)
    assert append(log, batch(1, 50), epoch=9) == 24


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("base", [0, 10])
@pytest.mark.parametrize("kept_bytes", [0, 1, 61, 500, 1500])
def test_an_earlier_data_file_cut_short_is_served_as_far_as_it_goes(base: int, kept_bytes: int, clean: bool) -> None:
    bench, _, data = busy()
    cut_file(bench.disk, log_path(base), kept_bytes)
    log = bench.open(was_clean=clean, recovery_point=24)
    assert log.log_end_offset == 24
    assert {each.base_offset for each in batches_of(log)} >= {19, 20, 22}
    for offset in range(24):
        found = log.read(offset, 1).read()
        assert found in data
    assert append(log, batch(1, 50), epoch=9) == 24


@pytest.mark.parametrize("clean", [True, False])
def test_every_file_empty_is_an_empty_log(clean: bool) -> None:
    bench, _, _ = busy()
    for name in names_in(bench.disk):
        if name != "partition.metadata":
            cut_file(bench.disk, path(name), 0)
    log = bench.open(was_clean=clean)
    assert content(log) == b""
    assert log.epochs.entries == ()
    use(log)


# Hostile bytes


@settings(max_examples=examples(150))
@given(data=st.data())
def test_any_bytes_in_any_file_give_a_typed_error_or_a_log(data: st.DataObject) -> None:
    bench, _, _ = busy()
    names = names_in(bench.disk)
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from(names))
        size = len(read_file(bench.disk, path(name)))
        position = data.draw(st.integers(0, size))
        junk = data.draw(st.binary(min_size=1, max_size=64) | st.sampled_from([bytes(700), b"\xff" * 64, NOISE]))
        patch_file(bench.disk, path(name), junk, position)
    clean = data.draw(st.booleans())
    recovery_point = data.draw(st.sampled_from([0, 10, 24, 2**62]))
    try:
        log = bench.open(was_clean=clean, recovery_point=recovery_point, log_start_offset=data.draw(st.integers(0, 30)))
    except TailraceError:
        return
    log.bounds.check()
    use(log)


@settings(max_examples=examples(60))
@given(field=st.sampled_from([0, 4, 8, 12, 16, 21, 23, 43, 51, 53, 57]), value=st.binary(min_size=4, max_size=4))
def test_any_field_of_a_header_may_lie(field: int, value: bytes) -> None:
    for options in ({"was_clean": True}, {"recovery_point": 0}, {"recovery_point": 24}):
        bench, _, _ = busy()
        for base in (0, 10, 19):
            patch_file(bench.disk, log_path(base), value, field)
        try:
            log = bench.open(**options)
        except TailraceError:
            continue
        use(log)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 48, 10**6, 2**31 - 1])
def test_a_length_that_lies_neither_loops_nor_fills_memory(length: int) -> None:
    bench, _, _ = busy()
    patch_file(bench.disk, log_path(19), length.to_bytes(4, "big", signed=True), 8)
    log, error = attempt(lambda: bench.open(was_clean=True))
    if log is None:
        assert str(length) in str(error)
    else:
        use(log)
    bench, _, _ = busy()
    patch_file(bench.disk, log_path(19), length.to_bytes(4, "big", signed=True), 8)
    log = bench.open(recovery_point=24)
    assert log.log_end_offset == 19
    assert append(log, batch(1, 50), epoch=9) == 19


def test_an_index_that_is_smaller_now_than_the_segment_needs_is_filled_and_left_at_that() -> None:
    bench, before, data = busy(close=False)
    small = LogConfig(segment_bytes=3000, segment_index_bytes=24, index_interval_bytes=0)
    log = bench.open(config=small, recovery_point=0)
    assert (content(log), derived(log)) == (data, before)
    sets = [batch(1, 50) for _ in range(6)]
    assert [result.error for result in log.append_as_leader(sets, 9)] == [None] * 6
    assert log.log_end_offset == 30
    bench.kill()
    assert bench.open(config=small, recovery_point=0).log_end_offset == 30


def test_messages_of_every_format_one_behind_the_other_are_recovered() -> None:
    bench = Bench()
    parts = [
        plain_message(0, 0, b"key", b"value", magic=0),
        plain_message(1, 5, b"key", b"value", magic=1),
        batch(2, 100, base_offset=2, epoch=0),
        plain_message(4, 5, None, None, magic=1),
    ]
    data = bench.write_segment(0, parts)
    log = bench.open()
    assert content(log) == data
    assert log.log_end_offset == 5


# Disks that fail


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EACCES])
def test_any_call_of_a_load_may_fail(code: int, clean: bool) -> None:
    """One failing call, every one of them in turn. After it is healed, everything that was flushed is there."""
    original, before, data = busy(close=clean)
    original.disk.unlink(index_path(10))
    write_file(original.disk, log_path(3) + ".cleaned", b"")
    original.disk.sync_all()
    skip, failed = 0, 0
    while True:
        bench = original.clone(skip)
        bench.disk.fail_next(code=code, skip=skip)
        log, error = attempt(lambda: bench.open(was_clean=clean, recovery_point=24))  # noqa: B023
        if log is None:
            failed += 1
            assert isinstance(error, StorageError)
            assert error.is_shortage == (code == errno.ENOSPC)
            assert DIRECTORY in str(error)
        else:
            all_passed = bool(bench.disk.faults._rules)  # the failure was not reached
            bench.disk.faults.heal()
            assert (derived(log), content(log)) == (before, data)
            if all_passed:
                break
        bench.disk.faults.heal()
        bench.lose_power()
        log = bench.open(recovery_point=24)
        assert (derived(log), content(log)) == (before, data)
        skip += 1
    assert failed > 20


@pytest.mark.parametrize("clean", [True, False])
def test_lost_power_at_any_operation_of_a_load_loses_nothing_that_was_flushed(clean: bool) -> None:
    original, before, data = busy(close=clean)
    original.disk.unlink(index_path(10))
    original.disk.sync_all()
    counted = original.clone(0)
    start = counted.disk.ops
    counted.open(was_clean=clean, recovery_point=24)
    for crash_at in range(start + 1, counted.disk.ops + 1):
        bench = original.clone(crash_at)
        bench.disk.crash_at(crash_at)
        with pytest.raises(SimulatedCrash):
            bench.open(was_clean=clean, recovery_point=24)
        bench.lose_power()
        log = bench.open(recovery_point=24)
        assert (derived(log), content(log)) == (before, data)
        assert bench.findings() == []


@pytest.mark.parametrize("clean", [True, False])
def test_a_disk_that_takes_no_writes_gives_a_clear_error_and_stays_as_it_is(clean: bool) -> None:
    bench, before, data = busy(close=clean)
    files = whole_directory(bench.disk)
    bench.disk.faults.read_only = True
    with pytest.raises(StorageError, match="Read-only file system"):
        bench.open(was_clean=clean, recovery_point=24)
    bench.disk.faults.read_only = False
    assert whole_directory(bench.disk) == files
    log = bench.open(was_clean=clean, recovery_point=24)
    assert (derived(log), content(log)) == (before, data)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("free_pages", range(4))
def test_a_full_disk_gives_a_clear_error_or_a_log(free_pages: int, clean: bool) -> None:
    bench, before, data = busy(close=clean)
    for base in (0, 10, 19):
        bench.disk.unlink(index_path(base))
    bench.disk.faults.capacity_bytes = bench.disk.allocated_bytes() + free_pages * 4096
    log, error = attempt(lambda: bench.open(was_clean=clean, recovery_point=24))
    if log is None:
        assert isinstance(error, StorageError)
        assert error.is_shortage
        assert "free space" in error.hint
    else:
        assert (derived(log), content(log)) == (before, data)
    bench.disk.faults.capacity_bytes = None
    bench.kill()
    log = bench.open(recovery_point=24)
    assert (derived(log), content(log)) == (before, data)


def test_reads_below_a_log_start_that_was_never_checkpointed_are_right() -> None:
    """The log start is lost with the power; the epochs below it were trimmed already."""
    bench, before, data = busy(close=False)
    log = bench.open(recovery_point=24)
    log.update_high_watermark(24)
    log.increment_log_start(12)
    bench.finish_jobs()
    with pytest.raises(OffsetOutOfRangeError):
        log.read(11, 1)
    bench.kill()
    log = bench.open(recovery_point=24)
    assert (derived(log), content(log)) == (before, data)


def test_snapshots_with_any_content_are_discarded() -> None:
    bench, before, _ = busy(close=False)
    for offset in (10, 19, 24):
        write_file(bench.disk, snapshot_path(offset), NOISE[: 10 + 46 * 2])
    assert derived(bench.open(recovery_point=19)) == before
