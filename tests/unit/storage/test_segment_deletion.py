"""Deleting old segments of a log: what goes, in which order things become durable, and what a crash leaves."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable

import pytest

from support.logs.builders import (
    DIRECTORY,
    NOW_MS,
    SimLog,
    bases,
    batch,
    bytes_of,
    holds,
    in_transaction,
    produced_by,
    with_config,
)
from tailrace.config.log import LogConfig
from tailrace.model.errors import OffsetOutOfRangeError, StorageError
from tailrace.model.ids import TopicPartition
from tailrace.sim.faults import SimulatedCrash, Survival
from tailrace.storage import names
from tailrace.storage.checkpoint import OffsetCheckpoint
from tailrace.storage.retention import Deletion, Reason

DAY_MS = 86_400_000
KEEP_ALL = with_config(retention_ms=-1)
PARTITION = TopicPartition("orders", 2)


class Retained(SimLog):
    """Segments at 0, 4, 8, …, the last one active, each a day younger than the one before, all flushed; with a
    log-start checkpoint that is written as a broker would."""

    def __init__(self, segments: int = 3, config: LogConfig = KEEP_ALL) -> None:
        super().__init__(config)
        self.starts = OffsetCheckpoint(self.disk, "/data/log-start-offset-checkpoint")
        for n in range(segments):
            if n:
                self.log.roll()
            when = NOW_MS - (segments - 1 - n) * DAY_MS
            self.append(batch(2, timestamp=when), produced_by(7, 2 * n, 2, timestamp=when), epoch=n)
        self.log.flush()
        self.world.jobs.run_all()
        self.all_moved_to_end()

    def checkpoint(self, log_start: int) -> None:
        self.starts.write({PARTITION: log_start})

    def keep(self, **retention: int) -> None:
        self.log.use_config(with_config(self.config, **retention))

    def delete(self) -> list[Deletion]:
        return self.log.delete_old_segments(self.checkpoint)

    def checkpointed(self) -> int:
        return self.starts.read().get(PARTITION, 0)

    def segment_bytes(self) -> int:
        return self.log.local.segments.first.size  # type: ignore[union-attr]

    def pass_delete_delay(self) -> None:
        self.world.jobs.tick(self.world.clock.now_ms() + self.config.file_delete_delay_ms)
        self.world.jobs.run_all()


def named(listed: list[str], *suffixes: str) -> list[str]:
    return [name for name in listed if name.endswith(suffixes)]


class TestWhatGoes:
    @pytest.mark.spec("LM-08", "LM-35")
    def test_by_time(self) -> None:
        sim = Retained()
        size = sim.segment_bytes()
        sim.keep(retention_ms=DAY_MS)
        assert sim.delete() == [Deletion(0, 4, size, Reason.TIME)]
        assert bases(sim.log) == [4, 8]
        assert (sim.log.log_start_offset, sim.log.local_log_start_offset) == (4, 4)
        assert sim.log.epochs.earliest_entry == (1, 4)
        with pytest.raises(OffsetOutOfRangeError):
            sim.log.read(3, 100)
        assert holds(sim.log) == [(4, 5), (6, 7), (8, 9), (10, 11)]
        assert sim.delete() == []

    @pytest.mark.spec("LM-08")
    def test_by_size(self) -> None:
        sim = Retained()
        size = sim.segment_bytes()
        sim.keep(retention_ms=-1, retention_bytes=size)
        assert sim.delete() == [Deletion(0, 4, size, Reason.SIZE), Deletion(4, 8, size, Reason.SIZE)]
        assert bases(sim.log) == [8]

    @pytest.mark.spec("LM-08", "LM-36")
    def test_by_log_start_also_where_the_topic_only_compacts(self) -> None:
        sim = Retained(config=with_config(cleanup_policy=("compact",), retention_ms=0, retention_bytes=0))
        assert sim.delete() == []
        sim.log.increment_log_start(6)
        assert [deletion.reason for deletion in sim.delete()] == [Reason.LOG_START]
        assert bases(sim.log) == [4, 8]
        assert sim.log.log_start_offset == sim.checkpointed() == 6

    @pytest.mark.spec("LM-09")
    def test_without_timestamps_the_file_tells_the_age(self) -> None:
        sim = SimLog(with_config(retention_ms=1000))
        sim.append(batch(2, timestamp=-1))
        sim.log.roll()
        sim.append(batch(2, timestamp=NOW_MS + 1000))
        sim.all_moved_to_end()
        sim.world.clock.advance(1000)
        assert sim.log.delete_old_segments(lambda _: None) == []
        sim.world.clock.advance(1)
        assert [deletion[:2] for deletion in sim.log.delete_old_segments(lambda _: None)] == [(0, 2)]

    @pytest.mark.spec("LM-09")
    def test_a_timestamp_in_the_future_is_warned_about(self, caplog: pytest.LogCaptureFixture) -> None:
        sim = SimLog(with_config(retention_ms=0))
        sim.append(batch(1, timestamp=NOW_MS + 5))
        sim.log.roll()
        sim.append(batch(1, timestamp=NOW_MS - 5))
        sim.all_moved_to_end()
        with caplog.at_level(logging.WARNING):
            assert sim.log.delete_old_segments(lambda _: None) == []
        assert f"segment 0 cannot expire before its timestamp {NOW_MS + 5}" in caplog.text

    @pytest.mark.spec("LM-10")
    def test_nothing_above_the_high_watermark(self) -> None:
        sim = Retained()
        sim.open()  # which knows no high watermark
        sim.keep(retention_ms=0, retention_bytes=0)
        assert sim.delete() == []
        sim.log.update_high_watermark(7)
        assert [deletion.base_offset for deletion in sim.delete()] == [0]
        assert sim.log.log_start_offset <= sim.log.high_watermark

    @pytest.mark.spec("LM-10")
    def test_where_all_has_expired_the_log_goes_on_empty_in_a_fresh_segment(self) -> None:
        sim = Retained()
        sim.keep(retention_ms=0)
        sim.world.clock.advance(1)
        assert [deletion.base_offset for deletion in sim.delete()] == [0, 4, 8]
        log = sim.log
        assert bases(log) == [12]
        assert log.log_start_offset == log.high_watermark == log.log_end_offset == sim.checkpointed() == 12
        assert bytes_of(log) == b""
        assert sim.delete() == []  # the empty one is not made anew each time
        assert sim.append(produced_by(7, 6))[0].first_offset == 12

    @pytest.mark.spec("LM-10")
    def test_an_open_transaction_does_not_hold_back_what_is_replicated(self) -> None:
        sim = SimLog(with_config(retention_ms=0))
        sim.append(in_transaction(1, 0, timestamp=NOW_MS - 1))
        sim.all_moved_to_end()
        assert len(sim.log.delete_old_segments(lambda _: None)) == 1
        assert sim.log.log_start_offset == sim.log.last_stable_offset == 1

    def test_a_failed_log_deletes_nothing(self) -> None:
        sim = Retained()
        sim.keep(retention_ms=DAY_MS)
        sim.tape.fail_next("write", "*.log", errno.EIO)
        with pytest.raises(StorageError):
            sim.append(batch())
        with pytest.raises(StorageError):
            sim.delete()
        assert bases(sim.log) == [0, 4, 8]


class TestOrder:
    @pytest.mark.spec("LM-35", "LM-36")
    def test_the_log_start_has_moved_and_is_checkpointed_before_a_file_is_renamed(self) -> None:
        sim = Retained()
        sim.keep(retention_ms=DAY_MS)
        seen: list[tuple[int, int, list[int], list[str]]] = []

        def look(log_start: int) -> None:
            log = sim.log
            seen.append(
                (log_start, log.log_start_offset, bases(log), named(sim.names(), names.DELETED_SUFFIX)),
            )

        sim.log.delete_old_segments(look)
        assert seen == [(4, 4, [0, 4, 8], [])]
        assert named(sim.names(), names.DELETED_SUFFIX)

    @pytest.mark.spec("LM-10", "LM-36")
    def test_where_all_goes_the_fresh_segment_and_its_snapshot_are_durable_before(self) -> None:
        sim = Retained()
        sim.append(produced_by(7, 6, timestamp=NOW_MS))  # not flushed
        sim.all_moved_to_end()
        sim.keep(retention_ms=0)
        sim.world.clock.advance(1)

        def lose_power(_: int) -> None:
            sim.world.restart(Survival.NOTHING)
            raise SimulatedCrash

        with pytest.raises(SimulatedCrash):
            sim.log.delete_old_segments(lose_power)
        assert {names.log_name(13), names.snapshot_name(13)} <= set(sim.names())

    @pytest.mark.spec("LM-36")
    @pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
    def test_without_the_checkpoint_nothing_is_removed(self, code: int) -> None:
        sim = Retained()
        sim.keep(retention_ms=DAY_MS)
        sim.tape.fail_next("write", "/data/log-start*", code)
        with pytest.raises(StorageError) as refused:
            sim.delete()
        assert refused.value.is_shortage == (code == errno.ENOSPC)
        assert bases(sim.log) == [0, 4, 8]
        assert not named(sim.names(), names.DELETED_SUFFIX)
        if code == errno.ENOSPC:  # the log lives, and the next time they go as what lies below the log start
            assert [deletion.reason for deletion in sim.delete()] == [Reason.LOG_START]
            assert sim.checkpointed() == 4
        else:
            with pytest.raises(StorageError):
                sim.append(batch())

    def test_a_segment_that_cannot_be_flushed_is_not_deleted(self) -> None:
        sim = Retained()
        sim.append(batch(1, timestamp=NOW_MS - 1))
        sim.all_moved_to_end()
        sim.keep(retention_ms=0)
        sim.world.clock.advance(1)
        sim.tape.fail_next("sync", "*.log", errno.ENOSPC)
        with pytest.raises(StorageError):
            sim.delete()
        assert bases(sim.log) == [0, 4, 8, 13]
        with pytest.raises(StorageError):  # a failed fsync is the end, a full disk or not
            sim.append(batch())


class TestTwoPhases:
    @pytest.mark.spec("LM-11", "LM-35")
    def test_renamed_at_once_and_unlinked_after_the_delay(self) -> None:
        sim = Retained()
        sim.keep(retention_ms=DAY_MS - 1)
        before = sim.names()
        doomed = [name for name in before if (names.parse_offset(name) or 0) < 8 and name[0].isdigit()]
        assert names.snapshot_name(4) in doomed
        sim.delete()
        assert set(named(sim.names(), names.DELETED_SUFFIX)) == {name + names.DELETED_SUFFIX for name in doomed}
        assert names.snapshot_name(8) in sim.names()
        assert sim.log.producers.oldest_snapshot_offset == 8
        sim.world.jobs.tick(sim.world.clock.now_ms() + 59_999)
        sim.world.jobs.run_all()
        assert len(named(sim.names(), names.DELETED_SUFFIX)) == len(doomed)
        sim.world.jobs.tick(sim.world.clock.now_ms() + 1)
        sim.world.jobs.run_all()
        assert sorted(sim.names()) == sorted(set(before) - set(doomed))

    @pytest.mark.spec("LM-11")
    def test_a_read_opened_before_completes(self) -> None:
        sim = Retained()
        found = sim.log.read(0, 1 << 20)
        expected = found.read()
        assert expected
        sim.keep(retention_ms=DAY_MS)
        sim.delete()
        assert found.read() == expected
        sim.pass_delete_delay()
        assert not named(sim.names(), names.DELETED_SUFFIX)
        assert found.read() == expected

    @pytest.mark.spec("LM-11")
    def test_leftovers_are_removed_on_start(self) -> None:
        sim = Retained()
        sim.keep(retention_ms=DAY_MS)
        sim.delete()
        sim.kill_and_open(log_start_offset=sim.checkpointed())
        assert not named(sim.names(), names.DELETED_SUFFIX)
        assert bases(sim.log) == [4, 8]

    @pytest.mark.spec("LM-11")
    def test_files_that_cannot_be_unlinked_stay_until_the_next_start(self, caplog: pytest.LogCaptureFixture) -> None:
        sim = Retained()
        sim.keep(retention_ms=DAY_MS - 1)
        sim.delete()
        sim.tape.fail_next("unlink", "*.log.deleted", errno.EIO)
        sim.tape.fail_next("unlink", "*.snapshot.deleted", errno.EIO)
        sim.pass_delete_delay()
        assert caplog.text.count("until the next load") == 2
        assert named(sim.names(), names.DELETED_SUFFIX)
        sim.append(produced_by(7, 6))


def everything_has_expired(sim: Retained) -> None:
    sim.keep(retention_ms=0)
    sim.world.clock.advance(1)


def two_have_expired(sim: Retained) -> None:
    sim.keep(retention_ms=DAY_MS - 1)


class TestCrash:
    @pytest.mark.spec("LM-36")
    @pytest.mark.parametrize("expire", [two_have_expired, everything_has_expired])
    @pytest.mark.parametrize("is_power_lost", [False, True])
    @pytest.mark.parametrize("recovery_point", [0, 12])
    def test_at_any_file_operation(
        self, expire: Callable[[Retained], None], is_power_lost: bool, recovery_point: int
    ) -> None:
        """With an old checkpoint of the recovery point too, as after a crash between two of its writes."""
        whole = Retained()
        expire(whole)
        before = whole.disk.ops
        whole.delete()
        start = whole.log.log_start_offset
        content = [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11)]
        for number in range(before + 1, whole.disk.ops + 1):
            sim = Retained()
            expire(sim)
            sim.disk.crash_at(number)
            with pytest.raises(SimulatedCrash):
                sim.delete()
            if is_power_lost:
                sim.world.restart()
            else:
                sim.world.kill()
            checkpointed = sim.checkpointed()
            log = sim.open(recovery_point=recovery_point, log_start_offset=checkpointed)
            assert log.log_start_offset == checkpointed  # nothing goes before it is written
            assert checkpointed in (0, start)
            assert log.log_end_offset == 12
            assert holds(log) == [each for each in content if each[0] >= checkpointed]
            assert log.producers.producers[7].last_seq == 5
            assert log.local.segments.first.base_offset == checkpointed  # type: ignore[union-attr]

    @pytest.mark.spec("LM-36")
    def test_a_deletion_cut_short_costs_nothing_above_the_log_start(self) -> None:
        """One of the doomed segments is left, with a hole behind it: no reason to drop what follows."""
        sim = Retained()
        for name in sim.names():
            offset = names.parse_offset(name)
            if offset == 4 or name.endswith(names.SNAPSHOT_SUFFIX):
                sim.disk.unlink(f"{DIRECTORY}/{name}")
        log = sim.kill_and_open(log_start_offset=8)
        assert holds(log) == [(8, 9), (10, 11)]
        assert bases(log) == [8]
        assert not [name for name in sim.names() if names.parse_offset(name) == 0]
        assert log.producers.producers[7].last_seq == 5
