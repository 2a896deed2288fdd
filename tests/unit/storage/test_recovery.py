"""After an unclean shutdown: what is whole stays, what is torn is cut, everything derived is made anew."""

from __future__ import annotations

import random
import struct

import pytest

from support.logs.log_files import (
    COMPACTED,
    CONFIG,
    Bench,
    append,
    append_marker,
    batch,
    busy_log,
    content,
    cut_file,
    derived,
    fill,
    index_path,
    log_path,
    marker,
    names_in,
    offsets_of,
    patch_file,
    path,
    read_file,
    reads_everywhere,
    segment_names,
    snapshot_path,
    time_index_path,
    txn_index_path,
    write_file,
)
from tailrace.config.log import LogConfig
from tailrace.model.errors import OutOfOrderSequenceError, StorageError
from tailrace.record.shallow import batches
from tailrace.sim.faults import SimulatedCrash, Survival
from tailrace.storage.fetch import Isolation
from tailrace.storage.origin import Origin
from tailrace.storage.segment_recovery import CHUNK_BYTES
from tailrace.storage.unified_log import UnifiedLog

SIZE = 485  # of each batch of `three_segments`
NOISE = random.Random(7).randbytes(4096)


def busy_bench(config: LogConfig = CONFIG) -> tuple[Bench, UnifiedLog]:
    bench = Bench(config)
    log = bench.open()
    busy_log(log)
    bench.finish_jobs()
    return bench, log


def three_segments(config: LogConfig = CONFIG) -> tuple[Bench, list[int]]:
    """Plain batches of two records, six to a segment; nothing is promised. Returns the end of each segment."""
    bench = Bench(config)
    log = bench.open()
    fill(log, [2] * 16)
    assert log.local.segments.base_offsets == (0, 12, 24)
    bench.kill()
    return bench, [12, 24, 32]


@pytest.mark.spec("LS-25")
def test_everything_derived_is_made_anew_from_the_batches() -> None:
    bench, log = busy_bench()
    before, data, reads = derived(log), content(log), reads_everywhere(log)
    bench.kill()
    for name in names_in(bench.disk):
        if not name.endswith((".log", ".metadata")):
            write_file(bench.disk, path(name), NOISE)
    found = bench.open(recovery_point=0)
    assert (derived(found), content(found), reads_everywhere(found)) == (before, data, reads)
    assert bench.findings() == []


@pytest.mark.spec("LS-25")
@pytest.mark.parametrize("recovery_point", [0, 5, 12, 13])
@pytest.mark.parametrize("kept_bytes", [0, 1, 11, 60, 61, SIZE - 1, SIZE, SIZE + 1])
def test_the_log_ends_with_the_last_whole_batch_and_later_segments_go(recovery_point: int, kept_bytes: int) -> None:
    bench, _ = three_segments()
    data = read_file(bench.disk, log_path(12))
    assert next(batches(data)).size == SIZE
    cut_file(bench.disk, log_path(12), SIZE + kept_bytes)
    log = bench.open(recovery_point=recovery_point)
    whole = 1 + kept_bytes // SIZE
    assert log.log_end_offset == 12 + 2 * whole
    assert read_file(bench.disk, log_path(12)) == data[: whole * SIZE]
    assert [name for name in segment_names(bench.disk) if name.startswith("00000000000000000024")] == []
    assert log.recovery_point == recovery_point
    assert append(log, batch(1, 100)) == log.log_end_offset - 1
    assert bench.findings() == []


@pytest.mark.spec("LS-25")
def test_segments_below_the_recovery_point_are_not_looked_at() -> None:
    bench, _ = three_segments()
    bench.disk.flip_bit(log_path(0), 8 * 100)
    damaged = read_file(bench.disk, log_path(0))
    log = bench.open(recovery_point=12)
    assert log.log_end_offset == 32
    assert read_file(bench.disk, log_path(0)) == damaged
    bench.kill()
    assert bench.open(recovery_point=11).log_end_offset == 0


@pytest.mark.spec("LS-25")
@pytest.mark.parametrize("bit", [8 * 17, 8 * 21, 8 * 25, 8 * 43, 8 * 57, 8 * 61, 8 * 300, 8 * SIZE - 1])
def test_a_flipped_bit_ends_the_log_before_its_batch(bit: int) -> None:
    bench, _ = three_segments()
    bench.disk.flip_bit(log_path(12), 8 * SIZE * 2 + bit)
    assert bench.open(recovery_point=12).log_end_offset == 16


@pytest.mark.spec("LS-25")
def test_offsets_that_go_backwards_end_the_log() -> None:
    bench = Bench()
    parts = [batch(2, 100, base_offset=0), batch(2, 100, base_offset=2), batch(2, 100, base_offset=3)]
    data = bench.write_segment(0, parts)
    log = bench.open()
    assert log.log_end_offset == 4
    assert content(log) == data[: -len(parts[-1])]


TAILS = {
    "zeros": bytes(600),
    "a page of zeros": bytes(4096),
    "noise": NOISE,
    "ones": b"\xff" * 512,
    "a little": b"\0\0\0",
    "a length that is negative": struct.pack(">qii", 32, -1, 0) + bytes(60),
    "a length without end": struct.pack(">qiib", 32, 2**31 - 1, 0, 2) + bytes(600),
    "a length that is too small": struct.pack(">qiib", 32, 3, 0, 2) + bytes(600),
    "a magic of the future": struct.pack(">qiib", 32, 100, 0, 3) + bytes(600),
    "an old magic": struct.pack(">qiib", 32, 100, 0, 1) + bytes(600),
}


@pytest.mark.spec("LS-52", "LS-25")
@pytest.mark.parametrize("kind", TAILS)
def test_nonsense_behind_the_last_batch_is_cut_off(kind: str) -> None:
    bench, _ = three_segments()
    data = read_file(bench.disk, log_path(24))
    patch_file(bench.disk, log_path(24), TAILS[kind], len(data))
    log = bench.open(recovery_point=24)
    assert log.log_end_offset == 32
    assert read_file(bench.disk, log_path(24)) == data
    assert append(log, batch(1, 100)) == 32
    assert offsets_of(log)[-1] == (32, 32)


@pytest.mark.spec("LS-52")
@pytest.mark.parametrize("filler", [bytes(512), NOISE[:512]])
@pytest.mark.parametrize("sector", range(1, 6))
def test_a_sector_that_was_lost_ends_the_log_before_it(sector: int, filler: bytes) -> None:
    bench, _ = three_segments()
    patch_file(bench.disk, log_path(12), filler, sector * 512)
    log = bench.open(recovery_point=12)
    assert log.log_end_offset == 12 + 2 * (sector * 512 // SIZE)


@pytest.mark.spec("LS-52")
@pytest.mark.parametrize("survival", list(Survival))
@pytest.mark.parametrize("seed", range(8))
def test_after_lost_power_a_log_is_a_whole_beginning_of_what_it_was(survival: Survival, seed: int) -> None:
    bench = Bench(seed=seed)
    bench.disk.faults.garbage_probability = 0.5
    log = bench.open()
    fill(log, [1, 2], size=300)
    log.flush()
    bench.finish_jobs()
    promised = content(log)
    fill(log, [1, 2, 3] * 3, size=700)
    data = content(log)
    bench.lose_power(survival)
    found = bench.open(recovery_point=3)
    assert data.startswith(content(found))
    assert content(found).startswith(promised)
    if survival is not Survival.ANY:
        assert content(found) == (promised if survival is Survival.NOTHING else data)


@pytest.mark.spec("LS-25")
@pytest.mark.parametrize("extra", [-1, 0, 1, 512, CHUNK_BYTES])
def test_batches_of_any_size_pass_the_chunks_in_which_a_segment_is_read(extra: int) -> None:
    config = LogConfig(segment_bytes=8 << 20)
    bench = Bench(config)
    small, large = batch(1, 100, epoch=0), batch(1, CHUNK_BYTES + extra - 75, base_offset=1, epoch=0)
    control = marker(2, commit=True, base_offset=2, epoch=0)
    data = bench.write_segment(0, [small, large, control, batch(1, 3 * CHUNK_BYTES, base_offset=3, epoch=0)])
    log = bench.open()
    assert log.log_end_offset == 4
    assert log.read(3, 1).read() == data[-len(log.read(3, 1).read()) :]
    bench.kill()
    patch_file(bench.disk, log_path(0), b"\xfe", len(data) - 5)
    assert bench.open().log_end_offset == 3
    patch_file(bench.disk, log_path(0), b"\xfe", len(small) + len(large) - 5)
    assert bench.open().log_end_offset == 1


@pytest.mark.spec("LS-25")
@pytest.mark.parametrize("recovery_point", [33, 1000, 2**40])
def test_a_recovery_point_beyond_the_end_still_proves_the_last_segment(recovery_point: int) -> None:
    bench, _ = three_segments()
    patch_file(bench.disk, log_path(24), NOISE, SIZE * 3)
    log = bench.open(recovery_point=recovery_point)
    assert (log.log_end_offset, log.recovery_point) == (30, 30)
    append(log, batch(1, 100))
    log.flush()
    bench.finish_jobs()
    assert log.recovery_point == 31


@pytest.mark.spec("LS-25")
@pytest.mark.parametrize("recovery_point", [0, 12])
def test_a_segment_missing_in_the_middle_ends_the_log_where_nothing_was_flushed(recovery_point: int) -> None:
    bench, _ = three_segments()
    bench.disk.unlink(log_path(12))
    log = bench.open(recovery_point=recovery_point)
    assert log.log_end_offset == 12
    assert bench.findings() == []


@pytest.mark.spec("LS-25")
def test_a_segment_missing_below_the_recovery_point_is_a_hole_that_readers_pass() -> None:
    bench, _ = three_segments()
    bench.disk.unlink(log_path(12))
    log = bench.open(recovery_point=24)
    assert [first for first, _ in offsets_of(log)] == [0, 2, 4, 6, 8, 10, 24, 26, 28, 30]
    assert log.read(14, 1).start.offset == 14


@pytest.mark.spec("LS-25", "LS-52")
def test_power_lost_while_later_segments_are_dropped_does_not_bring_them_back() -> None:
    """In a compacted log a hole tells nothing: what comes after a cut must go before the cut is made."""
    original, _ = three_segments(COMPACTED)
    patch_file(original.disk, log_path(0), NOISE[:100], SIZE * 3 + 80)
    original.disk.sync_all()
    counted = original.clone(0)
    before = counted.disk.ops
    assert counted.open().log_end_offset == 6
    for crash_at in range(before + 1, counted.disk.ops + 1):
        bench = original.clone(crash_at)
        bench.disk.crash_at(crash_at)
        with pytest.raises(SimulatedCrash):
            bench.open()
        bench.lose_power()
        assert bench.open().log_end_offset == 6


@pytest.mark.spec("LS-49")
@pytest.mark.parametrize("lost", [[], [19], [10], [10, 19]])
def test_without_a_snapshot_recovery_reads_from_further_back_and_knows_the_same(lost: list[int]) -> None:
    bench, log = busy_bench()
    before = derived(log)
    bench.kill()
    for offset in lost:
        if bench.disk.exists(snapshot_path(offset)):
            bench.disk.unlink(snapshot_path(offset))
    assert derived(bench.open(recovery_point=19)) == before


@pytest.mark.spec("LS-49", "LS-30")
def test_recovery_reads_only_what_follows_the_newest_good_snapshot() -> None:
    bench, log = busy_bench()
    before = derived(log)
    bench.close(log)
    assert bench.disk.exists(snapshot_path(19))
    first = read_file(bench.disk, log_path(0))
    write_file(bench.disk, log_path(0), NOISE[: len(first)])
    found = bench.open(recovery_point=19)
    assert derived(found).producers == before.producers
    bench.kill()
    write_file(bench.disk, log_path(0), first)
    for offset in (19, found.log_end_offset):
        write_file(bench.disk, snapshot_path(offset), NOISE[:100])
    assert derived(bench.open(recovery_point=19)).producers == before.producers


@pytest.mark.spec("LS-25", "LS-31")
def test_transactions_open_at_a_restart_stay_open() -> None:
    bench, log = busy_bench()
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == 19
    for recovery_point in (0, 19, log.log_end_offset):
        bench.kill()
        log = bench.open(recovery_point=recovery_point)
        log.update_high_watermark(log.log_end_offset)
        assert log.last_stable_offset == 19
        assert log.read(19, 1000, Isolation.TXN_COMMITTED).read() == b""
    end = append_marker(log, 6, commit=False, epoch=3)
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == end + 1
    assert log.aborted_transactions(0, end + 1)[-1].first_offset == 19


@pytest.mark.spec("LS-25", "LS-29")
def test_sequences_go_on_after_a_kill() -> None:
    bench, log = busy_bench()
    bench.kill()
    log = bench.open()
    (refused,) = log.append_as_leader([batch(1, 10, producer=1, sequence=6)], 3)
    assert isinstance(refused.error, OutOfOrderSequenceError)
    (repeated,) = log.append_as_leader([batch(3, 900, producer=1, sequence=2)], 3)
    assert repeated.is_duplicate
    append(log, batch(1, 10, producer=1, sequence=5), epoch=3)


@pytest.mark.spec("LS-46")
def test_a_marker_whose_index_entry_fails_holds_the_last_stable_offset_until_recovery_enters_it() -> None:
    bench = Bench()
    log = bench.open()
    append(log, batch(2, 200, producer=2, sequence=0, transactional=True))
    bench.disk.fail_next("write", "*.txnindex")
    (result,) = log.append_as_leader([marker(2, commit=False)], 0, Origin.COORDINATOR)
    assert result.error is None
    log.update_high_watermark(log.log_end_offset)
    assert (log.last_stable_offset, log.log_end_offset) == (0, 3)
    with pytest.raises(StorageError):
        append(log, batch(1, 10))
    bench.kill()
    log = bench.open()
    log.update_high_watermark(log.log_end_offset)
    assert (log.last_stable_offset, log.log_end_offset) == (3, 3)
    assert [tuple(each) for each in log.aborted_transactions(0, 3)] == [(2, 0, 2, 3)]


@pytest.mark.spec("LS-46")
@pytest.mark.parametrize("survival", list(Survival))
def test_lost_power_between_a_marker_and_its_index_entry_is_made_good(survival: Survival) -> None:
    counted = Bench()
    log = counted.open()
    append(log, batch(2, 200, producer=2, sequence=0, transactional=True))
    before = counted.disk.ops
    append_marker(log, 2, commit=False)
    for crash_at in range(before + 1, counted.disk.ops + 1):
        bench = Bench(seed=crash_at)
        log = bench.open()
        append(log, batch(2, 200, producer=2, sequence=0, transactional=True))
        bench.finish_jobs()
        bench.disk.crash_at(bench.disk.ops + crash_at - before)
        with pytest.raises(SimulatedCrash):
            append_marker(log, 2, commit=False)
        bench.lose_power(survival)
        log = bench.open()
        aborted = [tuple(each) for each in log.aborted_transactions(0, 9)]
        assert aborted == ([(2, 0, 2, 3)] if log.log_end_offset == 3 else [])
        assert log.producers.first_undecided_offset == (0 if log.log_end_offset == 2 else None)
        assert bench.findings() == []


@pytest.mark.spec("LS-25")
def test_indexes_of_recovered_segments_are_cut_to_their_entries() -> None:
    bench, _ = three_segments()
    for base in (0, 12):
        for made in (index_path(base), time_index_path(base)):
            patch_file(bench.disk, made, bytes(960), 0)
    bench.open()
    assert read_file(bench.disk, index_path(12)) != bytes(960)
    assert len(read_file(bench.disk, index_path(12))) % 8 == 0
    assert len(read_file(bench.disk, index_path(12))) < 960
    assert not bench.disk.exists(txn_index_path(0))
    assert bench.findings() == []
