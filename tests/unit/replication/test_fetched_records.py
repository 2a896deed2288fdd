"""Fetch responses on a follower: several partitions in one call, each with its own outcome."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest
from replicas import Led, registered

from support.logs.builders import batch, offsets
from tailrace.model.errors import (
    CorruptMessageError,
    FencedLeaderEpochError,
    LogDirUnavailableError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    StorageError,
    TailraceError,
    UnexpectedAppendOffsetError,
    UnknownLeaderEpochError,
)
from tailrace.model.ids import TopicPartition
from tailrace.record.batch import set_base_offset, set_leader_epoch
from tailrace.replication.fetched_records import FetchedRecords, Followed, FollowerAppends, LogRestarts
from tailrace.storage.manager.log_manager import LogManager
from tailrace.storage.steps import CalledOffError, JobRun

EPOCH = 1


def sent(first_offset: int, *counts: int, epoch: int = EPOCH) -> bytes:
    """Batches of these many records, as the leader has them."""
    data = bytearray()
    for count in counts:
        each = batch(count, 30)
        set_base_offset(each, 0, first_offset)
        set_leader_epoch(each, 0, epoch)
        data += each
        first_offset += count
    return bytes(data)


class Following(Led):
    """Broker 1 follows broker 2."""

    def __init__(self, **options: Any) -> None:
        super().__init__((1, 2), **options)
        self.partition.make_follower(registered((1, 2), leader=2, epoch=EPOCH, version=1))
        self.appends = FollowerAppends(self)
        self.results: list[Followed] = []

    def truncate_fully_and_start_at(
        self,
        partition: TopicPartition,
        offset: int,
        done: Callable[[dict[TopicPartition, TailraceError]], None],
        log_start: int | None = None,
        is_wanted: Callable[[TopicPartition], bool] = lambda partition: True,
    ) -> None:
        """Instead of the log manager: checkpoints first, then the steps."""

        def failed(error: Exception) -> None:
            assert isinstance(error, TailraceError)
            done({partition: error})

        def start(_: None) -> None:
            if is_wanted(partition):
                steps = self.log.restarting_at(offset, log_start)
                JobRun("truncate-log", steps, self.sim.world.jobs, lambda _: done({}), failed).start()
            else:
                failed(CalledOffError("not wanted"))

        self.sim.world.jobs.run("checkpoint", lambda: None, start)

    def fetched(self, records: bytes, offset: int | None = None, **fields: Any) -> FetchedRecords:  # type: ignore[override]
        asked = self.log.log_end_offset if offset is None else offset
        rest = {"leader_epoch": EPOCH, "high_watermark": 0, "log_start_offset": 0, **fields}
        return FetchedRecords(self.partition, fetch_offset=asked, records=records, **rest)

    def take(self, records: bytes, offset: int | None = None, **fields: Any) -> Followed:
        """The outcome, once it is there."""
        self.results.clear()
        self.appends.append([self.fetched(records, offset, **fields)], self.results.extend)
        if not self.results:
            self.run_jobs()
        (result,) = self.results
        return result

    def refused(self, records: bytes, offset: int | None = None, **fields: Any) -> TailraceError:
        end, high_watermark = self.log.log_end_offset, self.high_watermark
        error = self.take(records, offset, **fields).error
        assert error is not None
        assert (self.log.log_end_offset, self.high_watermark) == (end, high_watermark)
        return error


@pytest.mark.spec("RP-10", "LS-13")
def test_records_are_appended_and_the_next_fetch_begins_after_them() -> None:
    led = Following()
    moves = led.moves
    assert led.take(sent(0, 2, 3), high_watermark=2) == Followed(led.partition, 5)
    assert offsets(led.log.read(0, 1 << 20).read()) == [(0, 1), (2, 4)]
    assert led.moves == moves + 1
    assert led.partition in led.unsaved


@pytest.mark.spec("RP-37", "RP-04")
def test_the_high_watermark_is_the_leaders_as_far_as_the_log_reaches() -> None:
    led = Following()
    led.take(sent(0, 5), high_watermark=3)
    assert led.high_watermark == 3
    led.take(b"", high_watermark=2)
    assert led.high_watermark == 3, "it never moves back"
    led.take(sent(5, 5), high_watermark=100)
    assert led.high_watermark == 10
    assert led.log.high_watermark_metadata() == led.log.local.end
    led.take(sent(10, 5, 5), high_watermark=15)
    assert led.log.high_watermark_metadata() == led.log.local.locate(15)


@pytest.mark.spec("RP-23")
def test_the_log_start_follows_the_leaders_up_to_the_high_watermark() -> None:
    led = Following()
    led.take(sent(0, 5, 5), high_watermark=6, log_start_offset=4)
    assert led.log.log_start_offset == 4
    led.take(b"", high_watermark=6, log_start_offset=9)
    assert led.log.log_start_offset == 6
    led.take(b"", high_watermark=6, log_start_offset=2)
    assert led.log.log_start_offset == 6
    led.log.bounds.check()


def log_manager_restarts_logs(manager: LogManager) -> LogRestarts:
    """For the type checker."""
    return manager


@pytest.mark.spec("RP-23")
def test_a_first_batch_that_straddles_the_log_start_restarts_the_log_at_its_offset() -> None:
    led = Following()
    led.log.restart_at(7)
    led.appends.append([led.fetched(sent(5, 4, 2), log_start_offset=7, high_watermark=11)], led.results.extend)
    assert led.results == [], "the log starts over first"
    led.run_jobs()
    assert led.results == [Followed(led.partition, 11)]
    assert led.log.local.segments.base_offsets == (5,)
    assert (led.log.log_start_offset, led.high_watermark) == (7, 11)
    assert offsets(led.log.read(7, 1 << 20).read()) == [(5, 8), (9, 10)]


@pytest.mark.spec("RP-23")
def test_a_restart_that_fails_or_comes_too_late_is_that_partitions_error() -> None:
    led = Following()
    led.log.restart_at(7)
    led.sim.disk.fail_next("create", "*.cleaned", errno.EIO)
    assert isinstance(led.take(sent(5, 4), log_start_offset=7).error, StorageError)
    late = Following()
    late.log.restart_at(7)
    late.appends.append([late.fetched(sent(5, 4), log_start_offset=7)], late.results.extend)
    late.partition.make_follower(registered((1, 2), leader=2, epoch=EPOCH + 1, version=2))
    late.run_jobs()
    assert isinstance(late.results[0].error, CalledOffError)
    assert (late.log.log_start_offset, late.log.log_end_offset) == (7, 7), "the log is as it was"


@pytest.mark.spec("RP-23")
def test_a_batch_below_the_end_of_a_log_with_records_is_refused() -> None:
    led = Following()
    led.take(sent(0, 5))
    error = led.refused(sent(3, 4), 5)
    assert isinstance(error, UnexpectedAppendOffsetError)
    led.log.restart_at(7)
    assert isinstance(led.refused(sent(2, 3), 7), UnexpectedAppendOffsetError), "nothing of it is needed"


@pytest.mark.spec("RP-13", "RP-30")
def test_a_response_that_is_out_of_date_changes_nothing() -> None:
    led = Following()
    led.take(sent(0, 5))
    assert isinstance(led.refused(sent(3, 2), 3), OffsetOutOfRangeError)
    assert isinstance(led.refused(sent(5, 2), leader_epoch=0), FencedLeaderEpochError)
    assert isinstance(led.refused(sent(5, 2), leader_epoch=2), UnknownLeaderEpochError)
    led.partition.make_leader(registered((1, 2), leader=1, epoch=EPOCH, version=2))
    assert isinstance(led.refused(sent(5, 2)), NotLeaderOrFollowerError)
    led.partition.let_go(is_offline=True)
    result: list[Followed] = []
    led.appends.append([led.fetched(sent(5, 2), 5)], result.extend)
    assert isinstance(result[0].error, LogDirUnavailableError)


@pytest.mark.spec("RP-10")
def test_partitions_of_one_response_do_not_disturb_each_other() -> None:
    first, second, third = Following(), Following(), Following()
    damaged = bytearray(sent(0, 3))
    damaged[-1] ^= 1
    second.log.restart_at(2)
    results: list[Followed] = []
    first.appends = FollowerAppends(second)
    first.appends.append(
        [first.fetched(bytes(damaged)), second.fetched(sent(1, 3), log_start_offset=2), third.fetched(sent(0, 2, 2))],
        results.extend,
    )
    assert third.log.log_end_offset == 4
    assert results == []
    second.run_jobs()
    assert [each.log_end_offset for each in results] == [0, 4, 4]
    assert isinstance(results[0].error, CorruptMessageError)
    assert [each.error for each in results[1:]] == [None, None]
    first.appends.append([], results.append)
    assert results[-1] == []


@pytest.mark.spec("RP-10")
def test_a_deposed_leader_cannot_add_batches_of_a_later_epoch() -> None:
    led = Following()
    result = led.take(sent(0, 2, 2) + sent(4, 2, epoch=EPOCH + 1) + sent(6, 1))
    assert result == Followed(led.partition, 4)


@pytest.mark.spec("RP-33")
def test_a_follower_that_becomes_the_leader_goes_on_where_it_is() -> None:
    led = Following()
    led.take(sent(0, 4, 4), high_watermark=4)
    led.partition.make_leader(registered((1, 2), leader=1, epoch=2, version=2))
    assert led.partition.epoch_start_offset == 8
    led.append(1)
    led.reported(2, 9)
    assert led.high_watermark == 9
