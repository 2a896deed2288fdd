"""What a log looks like on disk, byte for byte, and that each layer under it works alone."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from support.logs.builders import (
    NOW_MS,
    TOPIC_ID,
    SimLog,
    batch,
    entries_in,
    file_bytes,
    in_transaction,
    marker,
    offset_entries,
    offsets,
    place_on,
    placed,
    produced_by,
    real_log,
    sized_batch,
    with_config,
)
from tailrace.config.log import LogConfig
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.record.shallow import batches
from tailrace.sim import World
from tailrace.storage.local_log import LocalLog
from tailrace.storage.origin import Origin
from tailrace.storage.segment import LogSegment
from tailrace.storage.segments import LogSegments
from tailrace.storage.steps import run_inline


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.spec("LS-01")
def test_the_files_of_a_real_log(tmp_path: Path) -> None:
    directory = tmp_path / "orders-2"
    log = real_log(directory, topic_id=TOPIC_ID)
    log.append_as_leader([batch(3)], 4)
    log.append_as_leader([in_transaction(7, 0)], 4)
    log.append_as_leader([marker(7, commit=False)], 4, Origin.COORDINATOR)
    log.roll()
    log.append_as_leader([batch(2)], 5)
    assert names_in(directory) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000000.txnindex",
        "00000000000000000005.index",
        "00000000000000000005.log",
        "00000000000000000005.snapshot",
        "00000000000000000005.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n2\n4 0\n5 5\n"
    assert (directory / "partition.metadata").read_text() == f"version: 0\ntopic_id: {TOPIC_ID}"
    assert (directory / "00000000000000000000.txnindex").read_bytes() == struct.pack(">hqqqq", 0, 7, 3, 4, 5)
    assert offsets((directory / "00000000000000000005.log").read_bytes()) == [(5, 6)]
    log.close()
    assert "00000000000000000007.snapshot" in names_in(directory)


@pytest.mark.spec("LS-01")
def test_a_removed_segment_is_renamed_first_and_unlinked_later(tmp_path: Path) -> None:
    directory = tmp_path / "orders-2"
    log = real_log(directory)
    log.append_as_leader([batch(3)], 0)
    log.roll()
    log.local.remove([log.local.segments.first])
    assert {name for name in names_in(directory) if name.endswith(".deleted")} == {
        f"00000000000000000000.{kind}.deleted" for kind in ("index", "log", "timeindex")
    }
    jobs = log.local.place.env.jobs
    assert jobs.waiting == [("delete-file", 60_000)]  # type: ignore[attr-defined]
    jobs.run_due()  # type: ignore[attr-defined]
    assert not [name for name in names_in(directory) if name.startswith("00000000000000000000")]


class TestSparseIndexes:
    """Entries as they are in the files, for batches of known sizes."""

    def indexes_of(self, sim: SimLog) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        sim.log.close()
        return (
            entries_in(file_bytes(sim.world, "00000000000000000000.index"), ">ii"),
            entries_in(file_bytes(sim.world, "00000000000000000000.timeindex"), ">qi"),
        )

    @pytest.mark.spec("LS-07")
    def test_an_entry_when_more_than_the_interval_lies_behind_the_last_one(self) -> None:
        """4096 bytes since the last entry are not enough, 4097 are; the entry is the next batch's."""
        sim = SimLog(LogConfig())
        sizes = [4096, 100, 4000, 97, 4097, 100]
        times = [50, 10, 70, 60, 20, 30]
        for size, time in zip(sizes, times, strict=True):
            sim.append(sized_batch(size, timestamp=time))
        starts = [sum(sizes[:n]) for n in range(len(sizes))]
        # Before batch 1: 4096 bytes. Before 2: 4196, an entry. Then 4000; before 4: 4097, an entry; then 4097 again.
        by_offset, by_time = self.indexes_of(sim)
        assert by_offset == [(2, starts[2]), (4, starts[4]), (5, starts[5])]
        assert by_time == [(70, 2)]  # the largest so far did not grow: no further entry

    @pytest.mark.spec("LS-07")
    def test_the_time_entry_is_the_largest_so_far_with_its_own_offset(self) -> None:
        sim = SimLog(with_config(index_interval_bytes=100))
        for n, time in enumerate([5, 90, 10, 95, 96]):
            sim.append(batch(2, 60, timestamp=time), epoch=n)
        by_offset, by_time = self.indexes_of(sim)
        assert [relative for relative, _ in by_offset] == [3, 5, 7, 9]  # last offsets of their batches
        assert by_time == [(90, 3), (95, 7), (96, 9)]

    @pytest.mark.spec("LS-07")
    @pytest.mark.parametrize("together", [True, False])
    def test_batch_by_batch_also_when_many_come_at_once(self, together: bool) -> None:
        sim = SimLog(with_config(index_interval_bytes=1000))
        sets = [sized_batch(400, timestamp=NOW_MS + n) for n in range(20)]
        for group in [sets] if together else [[each] for each in sets]:
            sim.append(*group)
        by_offset, by_time = self.indexes_of(sim)
        assert by_offset == [(n, 400 * n) for n in (3, 6, 9, 12, 15, 18)]
        assert by_time == [(NOW_MS + n, n) for n in (3, 6, 9, 12, 15, 18, 19)]  # and the true largest at the end

    @pytest.mark.spec("LS-07")
    def test_batch_by_batch_in_a_followers_set(self) -> None:
        sim = SimLog(with_config(index_interval_bytes=0))
        sim.log.append_as_follower(b"".join(placed(sized_batch(100), 10 * n) for n in range(4)))
        assert offset_entries(sim.log.local.active) == [(10, 100), (20, 200), (30, 300)]

    @pytest.mark.spec("LS-07")
    def test_the_interval_zero_indexes_every_batch_but_the_first(self) -> None:
        sim = SimLog(with_config(index_interval_bytes=0))
        sim.fill(5)
        assert [offset for offset, _ in offset_entries(sim.log.local.active)] == [1, 2, 3, 4]

    @pytest.mark.spec("LS-07")
    def test_an_index_that_fills_up_in_one_append_is_no_error(self) -> None:
        sim = SimLog(with_config(index_interval_bytes=0, segment_index_bytes=48))
        sim.append(*(batch(1, timestamp=NOW_MS + n) for n in range(20)))
        assert len(offset_entries(sim.log.local.active)) == 3  # the time index has four slots, the last one reserved
        assert [offsets(sim.log.read(n, 1).read()) for n in range(20)] == [[(n, n)] for n in range(20)]
        sim.append(batch(1))
        assert sim.log.local.segments.base_offsets == (0, 20)


class TestLayers:
    @pytest.mark.spec("LS-02")
    def test_a_segment_alone_holds_batches_and_indexes_and_finds_by_offset(self) -> None:
        world = World()
        segment = LogSegment.create(place_on(world, with_config(index_interval_bytes=150)), 40)
        for offset in (40, 42, 50):
            data = placed(sized_batch(100, timestamp=offset), offset)
            segment.append(tuple(batches(data)), [data], len(data))
        assert (segment.size, offset_entries(segment)) == (300, [(50, 200)])
        assert segment.largest == (50, 50)
        found = segment.read(45, 1000, segment.size, True)
        assert found is not None
        assert found.start == LogOffsetMetadata(45, 40, 200)
        assert (segment.next_offset(), segment.read(51, 1, 300, True)) == (51, None)

    @pytest.mark.spec("LS-02")
    def test_the_segment_set_alone_navigates(self) -> None:
        world = World()
        place = place_on(world)
        made = [LogSegment.create(place, base) for base in (0, 10, 20)]
        segments = LogSegments(reversed(made))
        assert list(segments) == made
        assert (segments.active, segments.floor(15), segments.higher(10)) == (made[2], made[1], made[2])

    @pytest.mark.spec("LS-02")
    def test_the_local_log_alone_appends_reads_rolls_flushes_and_truncates(self) -> None:
        """Offsets and files, without producers, epochs or watermarks."""
        world = World()
        place = place_on(world)
        local = LocalLog(place, LogSegments([LogSegment.create(place, 0)]), 0, 0)
        for offset in (0, 1):
            data = placed(in_transaction(7, 99), offset)  # a sequence from nowhere is none of its business
            local.append(tuple(batches(data)), [data], len(data))
        local.roll()
        assert local.end == LogOffsetMetadata(2, 2, 0)
        found = local.read(1, 100, local.end, True)
        assert offsets(found.read()) == [(1, 1)]
        work = local.flush_work(2)
        assert work is not None
        work.run()
        local.flushed(work)
        assert (local.recovery_point, local.flush_work(2)) == (2, None)
        run_inline(local.cut_off(1))
        assert (local.end_offset, local.recovery_point, local.segments.base_offsets) == (1, 1, (0,))
        run_inline(local.start_over(70))
        assert (local.end, local.segments.base_offsets) == (LogOffsetMetadata(70, 70, 0), (70,))

    @pytest.mark.spec("LS-02")
    def test_the_unified_log_alone_knows_producers_epochs_and_watermarks(self) -> None:
        sim = SimLog()
        sim.append(produced_by(7, 0), epoch=3)
        assert sim.log.epochs.latest_epoch == 3
        assert set(sim.log.producers.producers) == {7}
        assert not [name for name in vars(sim.log.local) if "producer" in name or "epoch" in name or "water" in name]


@pytest.mark.spec("LS-07", "LS-01")
def test_real_files_and_simulated_ones_are_the_same(tmp_path: Path) -> None:
    real = real_log(tmp_path / "orders-2", with_config(index_interval_bytes=200))
    sim = SimLog(with_config(index_interval_bytes=200))
    for log in (real, sim.log):
        for n in range(30):
            log.append_as_leader([produced_by(7, n, timestamp=n), batch(2, 100, timestamp=n)], n // 10)
        log.roll()
        log.append_as_leader([batch(1)], 3)
        log.close()
    for name in names_in(tmp_path / "orders-2"):
        assert (tmp_path / "orders-2" / name).read_bytes() == file_bytes(sim.world, name), name
