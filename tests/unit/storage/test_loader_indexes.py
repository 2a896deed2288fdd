"""Indexes that a load finds, misses or must not believe."""

from __future__ import annotations

import random
from typing import Any

import pytest
from watched_files import WatchedFiles

from support.logs.log_files import (
    CONFIG,
    Bench,
    append,
    batch,
    busy_log,
    content,
    derived,
    index_path,
    log_path,
    names_in,
    patch_file,
    path,
    read_file,
    reads_everywhere,
    time_index_path,
    txn_index_path,
    write_file,
)
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


def derived_of(bench: Bench, **options: Any) -> Any:
    log = bench.open(**options)
    found = derived(log)
    bench.close(log)
    return found


@pytest.mark.spec("LS-24", "LS-28")
@pytest.mark.parametrize("clean", [True, False])
def test_every_read_is_the_same_without_offset_and_time_indexes(clean: bool) -> None:
    bench, _, _ = closed_log()
    log = reopened(bench)
    before, reads = derived(log), reads_everywhere(log)
    bench.close(log)
    for name in names_in(bench.disk):
        if name.endswith((".index", ".timeindex")):
            bench.disk.unlink(path(name))
    log = bench.open(was_clean=clean, recovery_point=24)
    assert reads_everywhere(log) == reads
    assert derived(log) == before
    assert bench.findings() == []


@pytest.mark.spec("LS-28")
@pytest.mark.parametrize("recovery_point", [0, 10, 24])
def test_a_lost_transaction_index_is_rebuilt_by_recovery(recovery_point: int) -> None:
    bench, _, _ = closed_log()
    before = derived_of(bench, was_clean=True)
    assert len(before.aborted) == 2
    for base in (0, 10):
        bench.disk.unlink(txn_index_path(base))
        bench.disk.unlink(index_path(base))
    assert derived(bench.open(recovery_point=recovery_point)) == before


DAMAGED_INDEXES = {
    "cut": b"\0\0\0",
    "zeros": bytes(960),
    "zeros of one entry": bytes(12),
    "empty": b"",
    "noise": b"\xee" + NOISE[:959],
    "descending": b"\x7f\0\0\0" * 6 + bytes(24),
}


@pytest.mark.spec("LS-24", "LS-28")
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kind", DAMAGED_INDEXES)
@pytest.mark.parametrize("which", [index_path, time_index_path])
def test_damaged_indexes_are_noticed_by_the_first_read_and_made_anew(which: Any, kind: str, clean: bool) -> None:
    bench, _, _ = closed_log()
    log = reopened(bench)
    reads = reads_everywhere(log)
    bench.close(log)
    for base in (0, 10, 19):
        write_file(bench.disk, which(base), DAMAGED_INDEXES[kind])
    log = bench.open(was_clean=clean, recovery_point=24)
    assert reads_everywhere(log) == reads
    assert append(log, batch(1, 100), epoch=3) == 24
    bench.close(log)
    assert [finding for finding in bench.findings() if finding.severity == "error"] == []


@pytest.mark.spec("LS-28")
@pytest.mark.parametrize("shift", [-40, -1, 1, 3, 12, 50, 200])
@pytest.mark.parametrize("clean", [True, False])
def test_an_index_whose_entries_point_beside_the_batches_misleads_nobody(shift: int, clean: bool) -> None:
    bench, _, _ = closed_log()
    log = reopened(bench)
    reads = reads_everywhere(log)
    bench.close(log)
    for base in (0, 10, 19):
        entries = read_file(bench.disk, index_path(base))
        for at in range(4, len(entries), 8):
            position = max(0, int.from_bytes(entries[at : at + 4], "big") + shift)
            patch_file(bench.disk, index_path(base), position.to_bytes(4, "big"), at)
    log = bench.open(was_clean=clean, recovery_point=24)
    assert log.log_end_offset == 24
    assert reads_everywhere(log) == reads


@pytest.mark.spec("LS-28")
@pytest.mark.parametrize("from_end", [200, 100, 50])
def test_a_last_entry_that_points_where_no_batch_ends_does_not_end_the_log(from_end: int) -> None:
    """Bytes that read as a length beyond the end of the file: no batch, and no damage either."""
    bench, _, data = closed_log()
    position = len(read_file(bench.disk, log_path(19))) - from_end
    entries = read_file(bench.disk, index_path(19))
    patch_file(bench.disk, index_path(19), position.to_bytes(4, "big"), len(entries) - 4)
    log = reopened(bench)
    assert log.log_end_offset == 24
    assert content(log) == data


@pytest.mark.spec("LS-24", "LS-45")
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", [b"\0" * 33, bytes(34), b"\0\1" + bytes(32), NOISE[:68], NOISE[:50]])
def test_a_damaged_transaction_index_is_found_by_the_load_and_made_anew(damage: bytes, clean: bool) -> None:
    bench, _, _ = closed_log()
    before = derived_of(bench, was_clean=True)
    for base in (0, 10):
        write_file(bench.disk, txn_index_path(base), damage)
    bench.disk.sync_all()
    for seed in range(12):
        copy = bench.clone(seed)
        assert derived(copy.open(was_clean=clean, recovery_point=24)) == before
        copy.lose_power()
        assert derived(copy.open(recovery_point=24)) == before, "what was mended is durable"


@pytest.mark.spec("LS-45")
def test_a_clean_load_opens_no_index_but_that_of_the_last_segment() -> None:
    bench, _, _ = closed_log()
    watch = WatchedFiles(bench.disk)
    log = reopened(bench, files=watch)
    finished = [index_path(0), time_index_path(0), index_path(10), time_index_path(10)]
    assert [name for name, _ in watch.opens if name in finished] == []
    assert txn_index_path(0) in [name for name, _ in watch.opens], "the transaction index is checked"
    log.read(12, 1)
    assert index_path(10) in [name for name, _ in watch.opens]
    assert index_path(0) not in [name for name, _ in watch.opens]


@pytest.mark.spec("LS-45")
def test_a_time_index_made_by_the_load_has_no_length_but_its_entries() -> None:
    bench, _, _ = closed_log()
    entries = read_file(bench.disk, time_index_path(0))
    bench.disk.unlink(time_index_path(0))
    reopened(bench)
    assert read_file(bench.disk, time_index_path(0)) == entries
    assert 0 < len(entries) < CONFIG.segment_index_bytes


@pytest.mark.spec("LS-24")
def test_indexes_without_data_go() -> None:
    bench, _, data = closed_log()
    for make in (index_path, time_index_path, txn_index_path):
        write_file(bench.disk, make(7), NOISE[:24])
    log = reopened(bench)
    assert not [name for name in names_in(bench.disk) if name.startswith("00000000000000000007.")]
    assert content(log) == data
