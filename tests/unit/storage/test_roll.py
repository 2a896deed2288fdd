"""When a log begins a new segment, what a roll leaves behind, and the two oddities: no room and preallocation."""

from __future__ import annotations

import errno

import pytest

from support.logs.builders import (
    CONFIG,
    DIRECTORY,
    NOW_MS,
    SimLog,
    bases,
    batch,
    bytes_of,
    file_bytes,
    holds,
    in_transaction,
    marker,
    placed,
    produced_by,
    sized_batch,
    time_entries,
    with_config,
)
from tailrace.config.log import LogConfig
from tailrace.model.errors import StorageError
from tailrace.storage import producer_snapshot
from tailrace.storage.offset_lookup import FoundOffset
from tailrace.storage.origin import Origin

LOOSE = with_config(message_timestamp_after_max_ms=1 << 50)


class TestCauses:
    """Each alone: at the edge the segment stays, one beyond it rolls."""

    @pytest.mark.spec("LS-14")
    @pytest.mark.parametrize(("spare_bytes", "rolls"), [(0, False), (-1, True)])
    def test_size(self, spare_bytes: int, rolls: bool) -> None:
        sim = SimLog()
        sim.append(sized_batch(CONFIG.segment_bytes - 1000))
        sim.append(sized_batch(1000 - spare_bytes))
        assert bases(sim.log) == ([0, 1] if rolls else [0])

    @pytest.mark.spec("LS-14")
    @pytest.mark.parametrize(("later_ms", "rolls"), [(5000, False), (5001, True)])
    def test_time_from_the_first_batchs_timestamp(self, later_ms: int, rolls: bool) -> None:
        sim = SimLog(with_config(LOOSE, segment_ms=5000))
        sim.append(batch(1, timestamp=NOW_MS - 70))
        sim.append(batch(1, timestamp=NOW_MS + 3000))  # only the first one counts
        sim.world.clock.advance(1 << 30)  # and the clock does not
        sim.append(batch(1, timestamp=NOW_MS - 70 + later_ms))
        assert bases(sim.log) == ([0, 2] if rolls else [0])

    @pytest.mark.spec("LS-14")
    @pytest.mark.parametrize(("later_ms", "rolls"), [(5000, False), (5001, True)])
    def test_time_from_creation_when_the_first_batch_has_no_timestamp(self, later_ms: int, rolls: bool) -> None:
        sim = SimLog(with_config(LOOSE, segment_ms=5000))
        sim.append(batch(1, timestamp=-1))
        sim.world.clock.advance(later_ms)
        sim.append(batch(1, timestamp=-1))
        assert bases(sim.log) == ([0, 1] if rolls else [0])

    @pytest.mark.spec("LS-14")
    def test_time_does_not_roll_an_empty_segment(self) -> None:
        sim = SimLog(with_config(LOOSE, segment_ms=5000))
        sim.world.clock.advance(1 << 30)
        sim.append(batch(1))
        assert bases(sim.log) == [0]

    @pytest.mark.spec("LS-14")
    def test_the_first_timestamp_is_read_again_after_a_restart(self) -> None:
        sim = SimLog(with_config(LOOSE, segment_ms=5000))
        sim.append(batch(1, timestamp=NOW_MS - 70))
        sim.kill_and_open()
        sim.append(batch(1, timestamp=NOW_MS - 70 + 5000))
        assert bases(sim.log) == [0]
        sim.append(batch(1, timestamp=NOW_MS - 70 + 5001))
        assert bases(sim.log) == [0, 2]

    @pytest.mark.spec("LS-14")
    def test_jitter_is_taken_off_the_time(self) -> None:
        jitters = set()
        for seed in range(20):
            sim = SimLog(with_config(LOOSE, segment_ms=5000, segment_jitter_ms=1000), seed=seed)
            jitter_ms = sim.log.local.active.roll_jitter_ms
            jitters.add(jitter_ms)
            assert 0 <= jitter_ms < 1000
            sim.append(batch(1))
            sim.append(batch(1, timestamp=NOW_MS + 5000 - jitter_ms))
            assert bases(sim.log) == [0]
            sim.append(batch(1, timestamp=NOW_MS + 5001 - jitter_ms))
            assert bases(sim.log) == [0, 2]
        assert len(jitters) > 10

    @pytest.mark.spec("LS-14")
    @pytest.mark.parametrize(
        ("index_bytes", "step_ms", "entries"),
        [(8 * 5, 0, 5), (12 * 5, 1, 4)],  # timestamps that stand still fill only the offset index
        ids=["offset index", "time index"],
    )
    def test_a_full_index(self, index_bytes: int, step_ms: int, entries: int) -> None:
        sim = SimLog(with_config(segment_index_bytes=index_bytes, index_interval_bytes=0))
        for n in range(entries + 3):
            sim.append(batch(1, timestamp=NOW_MS + n * step_ms))
        # The first batch has no entry, each later one has; the one after the last entry rolls.
        assert bases(sim.log) == [0, entries + 1]

    @pytest.mark.spec("LS-14", "LS-48")
    def test_an_offset_too_far_from_the_base(self) -> None:
        sim = SimLog()
        sim.log.append_as_follower(placed(batch(1), 0))
        sim.log.append_as_follower(placed(batch(1), 2**31 - 1))
        assert bases(sim.log) == [0]
        sim.log.append_as_follower(placed(batch(2), 2**31))
        assert bases(sim.log) == [0, 2**31]
        assert holds(sim.log) == [(0, 0), (2**31 - 1, 2**31 - 1), (2**31, 2**31 + 1)]


class TestWhatARollDoes:
    @pytest.mark.spec("LS-15", "LS-01")
    def test_a_producer_snapshot_stands_at_the_new_base(self) -> None:
        sim = SimLog()
        sim.append(produced_by(7, 0, count=4), in_transaction(8, 0))
        sim.log.roll()
        sim.world.jobs.run_all()
        assert "00000000000000000005.snapshot" in sim.names()
        entries = producer_snapshot.read(sim.disk, f"{DIRECTORY}/00000000000000000005.snapshot")
        assert [(each.producer_id, each.last_seq, each.txn_first_offset) for each in entries] == [
            (7, 3, None),
            (8, 0, 4),
        ]

    def test_a_snapshot_that_finds_no_space_is_written_after_the_next_flush(self) -> None:
        sim = SimLog()
        sim.append(produced_by(7, 0))
        sim.disk.fail_next("write", "*.snapshot", errno.ENOSPC)
        sim.log.roll()
        sim.world.jobs.run_all()
        sim.append(produced_by(7, 1))
        sim.log.flush()
        sim.world.jobs.run_all()
        entries = producer_snapshot.read(sim.disk, f"{DIRECTORY}/00000000000000000001.snapshot")
        assert [(each.producer_id, each.last_seq) for each in entries] == [(7, 0)]

    @pytest.mark.spec("LS-15")
    def test_the_old_indexes_are_finished_and_trimmed(self) -> None:
        sim = SimLog(with_config(index_interval_bytes=200))
        times = [NOW_MS + n for n in (0, 1, 2, 9, 3)]
        for timestamp in times:
            sim.append(sized_batch(200, timestamp=timestamp))
        old = sim.log.local.active
        assert sim.disk.size(old.offset_index.path) == 4096
        sim.log.roll()
        assert sim.disk.size(old.offset_index.path) == 2 * 8  # before the third batch and the fifth
        assert time_entries(old) == [(NOW_MS + 2, 2), (NOW_MS + 9, 3)]
        assert sim.disk.size(old.time_index.path) == 2 * 12
        sim.append(batch(1, timestamp=NOW_MS))
        sim.append(sized_batch(200, timestamp=NOW_MS + 50))
        sim.log.roll()
        newer = sim.log.local.segments.lower(sim.log.log_end_offset)
        assert newer is not None
        assert time_entries(newer) == [(NOW_MS + 50, 6)]  # no interval was full: only the true largest, at the end

    @pytest.mark.spec("LS-04")
    @pytest.mark.parametrize("is_leader", [True, False])
    @pytest.mark.parametrize("largest", [5, 7], ids=["followed by older batches", "at the end"])
    def test_the_reserved_slot_of_a_full_time_index_takes_the_largest_timestamp(
        self, is_leader: bool, largest: int
    ) -> None:
        """Batches that are appended together stay in one segment, beyond the index entry of the fourth."""
        sim = SimLog(with_config(segment_index_bytes=12 * 5, index_interval_bytes=0))
        times = [NOW_MS + n for n in range(8)]
        times[largest] = NOW_MS + 100
        sets = [batch(1, timestamp=timestamp) for timestamp in times]
        if is_leader:
            sim.append(*sets)
        else:
            sim.log.append_as_follower(b"".join(placed(each, n) for n, each in enumerate(sets)))
        full = sim.log.local.active
        assert full.time_index.is_full
        indexed = [(NOW_MS + n, n) for n in range(1, 5)]
        assert time_entries(full) == indexed
        sim.append(batch(1, timestamp=NOW_MS))
        assert bases(sim.log) == [0, 8]
        assert time_entries(full) == [*indexed, (NOW_MS + 100, largest)]
        assert sim.disk.size(full.time_index.path) == 12 * 5
        sim.kill_and_open()
        rebuilt = sim.log.local.segments.lower(8)
        assert rebuilt is not None
        assert time_entries(rebuilt) == [*indexed, (NOW_MS + 100, largest)]
        assert sim.log.offset_by_time(NOW_MS + 50) == FoundOffset(NOW_MS + 100, largest, 0)

    @pytest.mark.spec("LS-15", "LS-23")
    def test_the_old_segment_is_flushed_in_the_background(self) -> None:
        sim = SimLog()
        sim.append(in_transaction(7, 0), marker(7, commit=False), origin=Origin.COORDINATOR)
        sim.world.jobs.run_all()
        sim.tape.rewind()
        sim.log.roll()
        sim.append(batch(3))
        assert sim.tape.of("sync") == []
        assert sim.log.recovery_point == 0
        sim.world.jobs.run_all()
        synced = {path.rpartition("/")[2] for path in sim.tape.of("sync")}
        assert {f"00000000000000000000.{kind}" for kind in ("log", "index", "timeindex", "txnindex")} <= synced
        assert sim.tape.of("sync_dir") == [DIRECTORY]
        assert sim.log.recovery_point == 2  # the old segment, and no more

    @pytest.mark.spec("LS-15")
    def test_a_roll_that_fails_leaves_the_log_as_it_was(self) -> None:
        sim = SimLog()
        sim.fill(2)
        for path in ("*2.log", "*2.index", "*2.timeindex"):
            sim.disk.fail_next("create", path, errno.ENOSPC)
            with pytest.raises(StorageError):
                sim.log.roll()
            assert bases(sim.log) == [0]
        sim.log.roll()
        sim.fill(1)
        assert (bases(sim.log), holds(sim.log)) == ([0, 2], [(0, 0), (1, 1), (2, 2)])


class TestNoRoomInAnEmptySegment:
    """With `segment.index.bytes` below two time entries an index is full before anything was written."""

    TINY = LogConfig(segment_bytes=1 << 20, segment_index_bytes=20)

    @pytest.mark.spec("LS-16")
    def test_it_is_made_anew_in_place(self) -> None:
        sim = SimLog(self.TINY)
        first = sim.log.local.active
        assert first.time_index.is_full
        sim.append(batch(2))
        assert bases(sim.log) == [0]
        assert sim.log.local.active is not first
        sim.append(batch(1))
        sim.append(batch(1))
        assert bases(sim.log) == [0, 2, 3]
        assert holds(sim.log) == [(0, 1), (2, 2), (3, 3)]
        sim.kill_and_open()
        assert holds(sim.log) == [(0, 1), (2, 2), (3, 3)]

    @pytest.mark.spec("LS-16")
    def test_an_explicit_roll_of_an_empty_segment_is_no_error(self) -> None:
        sim = SimLog()
        for _ in range(3):
            sim.log.roll()
        sim.append(batch(1))
        assert bases(sim.log) == [0]

    def test_a_full_disk_meanwhile_is_survived(self) -> None:
        sim = SimLog(self.TINY)
        for path in ("*.index", "*.timeindex"):
            sim.disk.fail_next("create", path, errno.ENOSPC)
            [result] = sim.log.append_as_leader([batch(1)], 0)
            assert isinstance(result.error, StorageError)
            assert bytes_of(sim.log) == b""
        sim.append(batch(1))
        assert holds(sim.log) == [(0, 0)]

    def test_a_flush_begun_before_is_not_disturbed(self) -> None:
        sim = SimLog(self.TINY)
        sim.log.flush(1)
        sim.append(batch(2))
        sim.world.jobs.run_all()
        assert holds(sim.log) == [(0, 1)]
        sim.log.flush()
        sim.world.jobs.run_all()
        assert sim.log.recovery_point == 2


class TestPreallocation:
    @pytest.mark.spec("LS-35")
    def test_a_new_file_has_its_full_length_and_loses_the_rest_in_the_end(self) -> None:
        sim = SimLog(with_config(preallocate=True))
        path = f"{DIRECTORY}/00000000000000000000.log"
        assert sim.disk.size(path) == CONFIG.segment_bytes
        sim.append(sized_batch(1000))
        assert sim.disk.size(path) == CONFIG.segment_bytes
        assert len(bytes_of(sim.log)) == 1000
        sim.log.roll()
        assert sim.disk.size(path) == 1000
        sim.append(sized_batch(500))
        sim.log.close()
        assert sim.disk.size(f"{DIRECTORY}/00000000000000000001.log") == 500

    @pytest.mark.spec("LS-35")
    def test_without_it_a_file_grows_with_its_data(self) -> None:
        sim = SimLog()
        assert file_bytes(sim.world, "00000000000000000000.log") == b""
        sim.append(sized_batch(1000))
        assert sim.disk.size(f"{DIRECTORY}/00000000000000000000.log") == 1000

    def test_zeros_behind_the_data_are_no_data_after_a_crash(self) -> None:
        sim = SimLog(with_config(preallocate=True))
        sim.fill(3)
        sim.kill_and_open()
        assert (sim.log.log_end_offset, sim.log.local.size) == (3, len(bytes_of(sim.log)))
