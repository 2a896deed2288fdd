"""Recovery in runs: the same in every respect as one batch at a time, whatever stands in the segment."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.logs.log_files import (
    DIRECTORY,
    Bench,
    batch,
    content,
    derived,
    log_path,
    marker,
    patch_file,
    whole_directory,
)
from tailrace.config.log import LogConfig
from tailrace.record.batch import crc_of
from tailrace.record.batch_run import BatchRun
from tailrace.storage import segment_recovery
from tailrace.storage.epoch_cache import LeaderEpochCache

TIMESTAMP = 1_700_000_000_000


@contextmanager
def without_runs() -> Iterator[None]:
    """Every batch is looked at alone."""

    def nothing(run: BatchRun, *place: object) -> None:
        run.count = 0

    with patch.object(BatchRun, "walk", nothing):
        yield


@contextmanager
def in_pieces(chunk_bytes: int, run_batches: int) -> Iterator[None]:
    with (
        patch.object(segment_recovery, "CHUNK_BYTES", chunk_bytes),
        patch.object(segment_recovery, "RUN_BATCHES", run_batches),
    ):
        yield


def outcome(config: LogConfig, parts: list[bytearray], damage: list[tuple[int, int]]) -> tuple[Any, ...]:
    """Everything that a recovery leaves in memory and on disk."""
    bench = Bench(config)
    data = bench.write_segment(0, parts)
    for position, byte in damage:
        patch_file(bench.disk, log_path(0), bytes([byte]), position % len(data))
    log = bench.open()
    segment = log.local.active
    indexes = (segment.offset_index, segment.time_index)
    entries = [[index.entry(n) for n in range(index.entries)] for index in indexes]
    known = (derived(log), log.producers.producers, segment.largest, entries, content(log))
    bench.close(log)
    return (*known, whole_directory(bench.disk))


@st.composite
def segments(draw: st.DrawFn) -> list[bytearray]:
    """Batches with gaps, new and old leader epochs, producers, transactions and their ends."""
    parts: list[bytearray] = []
    offset, sequence = 0, 0
    kinds = st.sampled_from(["plain", "plain", "plain", "producer", "transaction", "abort", "commit"])
    stretches = draw(st.lists(st.tuples(kinds, st.sampled_from([1, 1, 2, 9])), min_size=1, max_size=6))
    for kind in [kind for kind, count in stretches for _ in range(count)]:
        offset += draw(st.sampled_from([0, 0, 0, 3]))
        epoch = draw(st.sampled_from([-1, 0, 0, 1, 4]))
        if kind in ("abort", "commit"):
            parts.append(marker(7, commit=kind == "commit", base_offset=offset, epoch=epoch))
            offset += 1
            continue
        count = draw(st.integers(1, 3))
        timestamp = TIMESTAMP + draw(st.integers(-3, 3))
        producer = draw(st.sampled_from([7, 7, 7, 8]))
        fields = {"producer": producer, "sequence": sequence, "transactional": kind == "transaction"}
        if kind == "plain":
            fields = {}
        size = draw(st.sampled_from([30, 100, 400]))
        parts.append(batch(count, size, base_offset=offset, epoch=epoch, timestamp=timestamp, **fields))
        sequence += count if fields else 0
        offset += count
    return parts


@given(
    parts=segments(),
    damage=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=2),
    interval_bytes=st.sampled_from([0, 100, 400, 4096]),
    index_bytes=st.sampled_from([24, 48, 960]),
    chunk_bytes=st.sampled_from([150, 700, 1 << 20]),
    run_batches=st.sampled_from([1, 3, 4096]),
)
@settings(max_examples=examples(150))
@pytest.mark.spec("LS-25")
def test_runs_make_no_difference(
    parts: list[bytearray],
    damage: list[tuple[int, int]],
    interval_bytes: int,
    index_bytes: int,
    chunk_bytes: int,
    run_batches: int,
) -> None:
    config = LogConfig(segment_bytes=1 << 20, segment_index_bytes=index_bytes, index_interval_bytes=interval_bytes)
    with without_runs():
        expected = outcome(config, parts, damage)
    with in_pieces(chunk_bytes, run_batches):
        assert outcome(config, parts, damage) == expected


def unplayable(base_offset: int, epoch: int = 0) -> bytearray:
    """A control batch with a right CRC and no key to tell what it is."""
    made = batch(1, 50, base_offset=base_offset, epoch=epoch, producer=7, sequence=0)
    made[22] |= 0x20
    made[17:21] = crc_of(made, 0, len(made)).to_bytes(4, "big")
    return made


@pytest.mark.spec("LS-25")
@pytest.mark.parametrize("before", [0, 1, 5, 7, 20])
@pytest.mark.parametrize("behind", [0, 3, 20])
def test_a_control_batch_that_cannot_be_played_ends_the_log_before_it(before: int, behind: int) -> None:
    """Another producer's batches before it count, whatever that producer has behind it."""
    config = LogConfig(segment_bytes=1 << 20, index_interval_bytes=0)
    parts = [batch(1, 20, base_offset=n, epoch=0, producer=8, sequence=n) for n in range(before)]
    good = b"".join(parts)
    parts.append(unplayable(before))
    parts += [batch(1, 20, base_offset=n + 1, epoch=0, producer=8, sequence=n) for n in range(before, before + behind)]
    with without_runs():
        expected = outcome(config, parts, [])
    assert outcome(config, parts, []) == expected
    assert expected[-2] == good


@pytest.mark.spec("LS-25")
@pytest.mark.parametrize("epoch", [0, 1])
def test_what_cannot_be_played_is_not_believed_in_any_other_way(epoch: int) -> None:
    """Neither its offset nor the leader epoch that it begins, which keeps it out of a run."""
    bench = Bench(LogConfig(segment_bytes=1 << 20))
    bench.write_segment(0, [batch(1, 20, base_offset=0, epoch=0), unplayable(1, epoch)])
    log = bench.open()
    segment, epochs = log.local.active, LeaderEpochCache(bench.disk, bench.world.jobs, DIRECTORY)
    recovery = segment_recovery.SegmentRecovery(segment, log.producers, epochs)
    patch_file(bench.disk, log_path(0), unplayable(1, epoch), segment.size)
    segment.records.size += len(unplayable(1, epoch))
    assert recovery.prove() == len(unplayable(1, epoch))
    assert recovery.next_offset == 1
    assert [each.epoch for each in epochs.entries] == [0]


@pytest.mark.spec("LS-25")
def test_most_batches_are_taken_in_runs() -> None:
    """Also those of producers: one at a time they would cost ten times as much."""
    parts = [batch(1, 50, base_offset=n, epoch=0, producer=n % 3 - 1, sequence=n) for n in range(50)]
    bench = Bench(LogConfig(segment_bytes=1 << 20))
    bench.write_segment(0, parts)
    alone: list[int] = []

    def prove(self: segment_recovery.SegmentRecovery, chunk: memoryview, each: Any) -> None:
        alone.append(each.base_offset)
        proven(self, chunk, each)

    proven = segment_recovery.SegmentRecovery._prove_batch
    with patch.object(segment_recovery.SegmentRecovery, "_prove_batch", prove):
        assert bench.open().log_end_offset == 50
    assert alone == [0]  # which begins a leader epoch


def test_positions_that_no_index_can_hold_are_left_to_the_slow_way() -> None:
    parts = [batch(1, 50, base_offset=n) for n in range(20)]
    size = len(parts[0])
    config = LogConfig(segment_bytes=1 << 20, index_interval_bytes=0)
    with patch.object(segment_recovery, "GREATEST_POSITION", 10 * size), in_pieces(4 * size, 4096):
        found = outcome(config, parts, [])
    with without_runs():
        assert found == outcome(config, parts, [])


def test_a_long_segment() -> None:
    """Long enough to write to its indexes many times."""
    order = random.Random(5)
    parts = [
        batch(1, order.choice([20, 200]), base_offset=n, epoch=0, timestamp=TIMESTAMP + order.randrange(3000))
        for n in range(3000)
    ]
    config = LogConfig(segment_bytes=8 << 20, segment_index_bytes=1 << 20, index_interval_bytes=0)
    with without_runs():
        expected = outcome(config, parts, [])
    assert outcome(config, parts, []) == expected
    with in_pieces(10_000, 77):
        assert outcome(config, parts, []) == expected
