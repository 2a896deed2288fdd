"""Offsets by time and name, producers, and the deletion of records up to the low watermark."""

from __future__ import annotations

from dataclasses import replace

import pytest
from replicas import Led, broker, outcome_of, registered

from support.logs.builders import NOW_MS, in_transaction, produced_by
from tailrace.model.errors import (
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    PolicyViolationError,
)
from tailrace.storage.fetch import Isolation

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6


def with_records() -> Led:
    """Five records, one a second; two are committed, the fourth opens a transaction."""
    led = Led((1, 2), epoch=3)
    for number in range(3):
        led.append(timestamp=NOW_MS + number * 1000)
    led.partition.append((in_transaction(7, 0, timestamp=NOW_MS + 3000),), -1)
    led.append(timestamp=NOW_MS + 4000)
    led.reported(2, 2)
    return led


def test_the_ends_of_a_log() -> None:
    led = with_records()
    partition = led.partition
    assert partition.list_offsets(LATEST) == (-1, 2, 3)
    assert partition.list_offsets(LATEST, Isolation.LOG_END) == (-1, 5, 3)
    led.reported(2, 5)
    assert partition.list_offsets(LATEST) == (-1, 5, 3)
    assert partition.list_offsets(LATEST, Isolation.TXN_COMMITTED) == (-1, 3, 3)
    led.log.increment_log_start(1)
    assert partition.list_offsets(EARLIEST) == (-1, 1, 3)
    assert partition.list_offsets(EARLIEST_LOCAL) == (-1, 1, 3)
    assert partition.list_offsets(LATEST_TIERED) == (-1, -1, -1)
    assert partition.list_offsets(EARLIEST_PENDING_UPLOAD) == (-1, -1, -1)


def test_by_time_only_what_the_reader_may_see_is_found() -> None:
    led = with_records()
    partition = led.partition
    assert partition.list_offsets(NOW_MS + 500) == (NOW_MS + 1000, 1, 3)
    assert partition.list_offsets(NOW_MS + 1500) is None
    assert partition.list_offsets(NOW_MS + 1500, Isolation.LOG_END) == (NOW_MS + 2000, 2, 3)
    assert partition.list_offsets(MAX_TIMESTAMP) is None
    led.reported(2, 5)
    assert partition.list_offsets(MAX_TIMESTAMP) == (NOW_MS + 4000, 4, 3)
    assert partition.list_offsets(NOW_MS + 2500, Isolation.TXN_COMMITTED) is None
    assert partition.list_offsets(NOW_MS + 9000) is None


@pytest.mark.spec("RP-27")
def test_a_leader_that_does_not_know_what_is_committed_asks_to_come_again() -> None:
    led = with_records()
    led.partition.make_leader(registered((1, 2), epoch=4, version=1))
    for timestamp in (LATEST, MAX_TIMESTAMP, NOW_MS + 1500, NOW_MS + 9000):
        with pytest.raises(OffsetNotAvailableError) as refused:
            led.partition.list_offsets(timestamp)
        assert refused.value.code == 78
    assert led.partition.list_offsets(EARLIEST) == (-1, 0, 3)
    assert led.partition.list_offsets(NOW_MS + 500) == (NOW_MS + 1000, 1, 3)
    assert led.partition.list_offsets(LATEST, Isolation.LOG_END) == (-1, 5, 4)
    led.reported(2, 5)
    assert led.partition.list_offsets(LATEST) == (-1, 5, 4)


def test_active_producers_are_shown() -> None:
    led = Led((1,))
    led.partition.append((produced_by(7, 0, 3), produced_by(8, 0)), -1)
    seen = [(each.producer_id, each.last_seq) for each in led.partition.active_producers()]
    assert sorted(seen) == [(7, 2), (8, 0)]


# Deleting records


@pytest.mark.spec("RP-28")
def test_the_low_watermark_is_the_lowest_start_of_the_replicas_that_live() -> None:
    led = Led((1, 2, 3))
    led.append(10)
    led.reported(2, 10, start=0)
    led.reported(3, 10, start=0)
    answers = outcome_of(led.partition.delete_records, 6)
    assert answers == []
    led.run_jobs()
    assert answers == [6]  # the leader's log begins there; the followers' do not yet
    assert led.partition.low_watermark == 0
    led.reported(2, 10, start=6)
    assert led.partition.low_watermark == 0
    moves = led.moves
    led.reported(3, 10, start=5)
    assert led.moves == moves + 1
    assert led.partition.low_watermark == 5
    led.brokers[3] = broker(3, is_fenced=True)
    assert led.partition.low_watermark == 6


@pytest.mark.spec("RP-28")
def test_a_replica_that_never_fetched_holds_back_the_answer() -> None:
    led = Led((1, 2), isr=(1,))
    led.append(10)
    outcome_of(led.partition.delete_records, 6)
    assert led.partition.low_watermark == -1
    del led.brokers[2]
    assert led.partition.low_watermark == 6


@pytest.mark.spec("RP-28")
def test_alone_it_is_answered_when_it_is_durable() -> None:
    led = Led((1,))
    led.append(10)
    answers = outcome_of(led.partition.delete_records, 4)
    assert answers == []
    moves = led.moves
    led.run_jobs()
    assert answers == [4]
    assert led.moves == moves + 1
    assert led.partition.low_watermark == 4


@pytest.mark.spec("RP-28")
def test_minus_one_is_the_high_watermark() -> None:
    led = Led((1, 2))
    led.append(10)
    led.reported(2, 7)
    answers = outcome_of(led.partition.delete_records, -1)
    led.run_jobs()
    assert answers == [7]
    assert led.log.log_start_offset == 7


@pytest.mark.spec("RP-28")
def test_what_cannot_be_deleted_is_refused() -> None:
    led = Led((1, 2))
    led.append(10)
    led.reported(2, 7)
    for offset in (8, 11, -2):
        (error,) = outcome_of(led.partition.delete_records, offset)
        assert isinstance(error, OffsetOutOfRangeError)
    led.log.use_config(replace(led.log.config, cleanup_policy=("compact",)))
    (error,) = outcome_of(led.partition.delete_records, 3)
    assert isinstance(error, PolicyViolationError)
    assert error.code == 44
    led.log.use_config(replace(led.log.config, cleanup_policy=("compact", "delete")))
    answers = outcome_of(led.partition.delete_records, 3)
    led.run_jobs()
    assert answers == [3]
    led.partition.make_follower(registered((1, 2), leader=2, epoch=1, version=1))
    (error,) = outcome_of(led.partition.delete_records, 3)
    assert isinstance(error, NotLeaderOrFollowerError)
