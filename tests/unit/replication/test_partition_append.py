"""Appends by acks: what is refused before it is written, and when an append can be acknowledged."""

from __future__ import annotations

import errno

import pytest
from replicas import MAX_LAG_MS, PLACE, Led, registered

from support.logs.builders import CONFIG, TOPIC_ID, batch, produced_by
from tailrace.config.log import LogConfig
from tailrace.model.errors import (
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    StorageError,
)
from tailrace.replication.isr_state import Committed
from tailrace.replication.known_brokers import KnownBrokers
from tailrace.replication.partition import Partition

DONE = (True, None)
WAIT = (False, None)


@pytest.mark.spec("RP-08")
def test_alone_every_append_is_committed_at_once() -> None:
    led = Led((1,))
    for acks in (0, 1, -1):
        result = led.append(3, acks)
        assert led.partition.acknowledgement(result.last_offset, acks) == DONE
        assert led.partition.is_committed(result.last_offset)
        assert led.high_watermark == led.log.log_end_offset


@pytest.mark.spec("RP-08")
def test_acks_all_waits_until_the_high_watermark_has_passed_it() -> None:
    led = Led((1, 2, 3))
    first, second = led.append(3), led.append(2)
    assert (first.last_offset, second.last_offset) == (2, 4)
    assert led.partition.acknowledgement(2, -1) == WAIT
    led.reported(2, 5)
    assert led.partition.acknowledgement(2, -1) == WAIT
    moves = led.moves
    led.reported(3, 2)  # the last record of the first is still missing
    assert led.partition.acknowledgement(2, -1) == WAIT
    led.reported(3, 3)
    assert led.moves == moves + 2  # whoever waits was told of each movement
    assert led.partition.acknowledgement(2, -1) == DONE
    assert led.partition.acknowledgement(4, -1) == WAIT
    led.reported(3, 5)
    assert led.partition.acknowledgement(4, -1) == DONE


@pytest.mark.spec("RP-08")
def test_a_fetch_that_moves_nothing_tells_nobody() -> None:
    led = Led((1, 2, 3))
    led.append(3)
    led.reported(2, 0)
    moves = led.moves
    led.reported(2, 0)
    led.reported(2, 3)  # the third one is behind
    assert led.moves == moves


@pytest.mark.spec("RP-08")
def test_acks_one_waits_for_nobody_even_under_min_isr() -> None:
    led = Led((1, 2, 3), isr=(1,))
    led.set_config(min_insync_replicas=2)
    for acks in (0, 1):
        result = led.append(2, acks)
        assert led.partition.acknowledgement(result.last_offset, acks) == DONE
    assert led.log.log_end_offset == 4


@pytest.mark.spec("RP-08")
def test_acks_all_is_refused_before_anything_is_written_while_too_few_are_in_sync() -> None:
    led = Led((1, 2, 3), isr=(1,))
    led.set_config(min_insync_replicas=2)
    with pytest.raises(NotEnoughReplicasError, match=r"1 replicas in sync, .* asks for 2") as refused:
        led.append(2)
    assert refused.value.code == 19
    assert led.log.log_end_offset == 0
    led.partition.change_isr(Committed(frozenset({1, 3})))
    led.append(2)
    assert led.log.log_end_offset == 2


@pytest.mark.spec("RP-08")
def test_an_append_whose_isr_shrinks_meanwhile_is_kept_and_says_so() -> None:
    led = Led((1, 2, 3))
    led.set_config(min_insync_replicas=2)
    result = led.append(2)
    led.reported(2, 2)
    led.reported(3, 2)
    led.partition.change_isr(Committed(frozenset({1})))
    done, error = led.partition.acknowledgement(result.last_offset, -1)
    assert done
    assert isinstance(error, NotEnoughReplicasAfterAppendError)
    assert error.code == 20
    assert led.log.log_end_offset == led.high_watermark == 2


@pytest.mark.spec("RP-08")
def test_a_pending_shrink_is_not_held_against_an_append() -> None:
    led = Led((1, 2))
    led.set_config(min_insync_replicas=2)
    led.append(2)
    committed = led.partition.isr_state
    assert isinstance(committed, Committed)
    led.partition.change_isr(committed.shrunk_by([2]))
    led.reported(2, 2)
    assert led.partition.acknowledgement(1, -1) == DONE


@pytest.mark.spec("RP-08")
def test_who_waits_when_the_leader_is_deposed_is_refused() -> None:
    led = Led((1, 2))
    led.append(2)
    moves = led.moves
    led.partition.make_follower(registered((1, 2), leader=2, epoch=1, version=1))
    assert led.moves > moves
    done, error = led.partition.acknowledgement(1, -1)
    assert done
    assert isinstance(error, NotLeaderOrFollowerError)


@pytest.mark.spec("RP-08")
def test_a_set_that_is_refused_does_not_hold_up_the_others() -> None:
    led = Led((1,))
    broken = batch(1)
    broken[-1] ^= 1
    results = led.partition.append((batch(2), broken, batch(1)), -1)
    assert [result.error is None for result in results] == [True, False, True]
    assert led.high_watermark == led.log.log_end_offset == 3


def test_only_partitions_whose_high_watermark_moved_are_noted_once() -> None:
    led = Led((1,))
    led.unsaved.clear()
    led.partition.is_unsaved = False
    for _ in range(3):
        led.append()
    assert led.unsaved == [led.partition]


# flush.messages


def flushing(replicas: tuple[int, ...] = (1,), flush_messages: int = 1) -> Led:
    return Led(replicas, config=LogConfig(**{**_fields(CONFIG), "flush_messages": flush_messages}))


def _fields(config: LogConfig) -> dict[str, object]:
    return {"segment_bytes": config.segment_bytes, "segment_index_bytes": config.segment_index_bytes}


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_with_flush_messages_an_append_waits_for_its_flush(acks: int) -> None:
    led = flushing()
    result = led.append(2, acks)
    assert led.partition.acknowledgement(result.last_offset, acks) == WAIT
    assert not led.partition.is_flushed(result.last_offset)
    assert led.high_watermark == 0  # nor do consumers see what could be lost
    moves = led.moves
    led.run_jobs()
    assert led.moves > moves
    assert led.partition.acknowledgement(result.last_offset, acks) == DONE
    assert led.partition.is_flushed(result.last_offset)
    assert led.high_watermark == 2


def test_a_flush_is_reported_once_to_a_partition_that_took_its_log_again() -> None:
    led = flushing()
    led.partition.use_log(led.log)  # as after a shortage of space
    led.append()
    moves = led.moves
    led.run_jobs()
    assert led.moves == moves + 1


def test_a_partition_that_let_go_of_its_log_no_longer_listens_to_it() -> None:
    led = flushing()
    ended: list[bool] = []
    led.log.on_flush_ended.add(lambda: ended.append(True))
    led.append()
    led.partition.let_go()
    moves = led.moves
    led.run_jobs()
    assert (led.moves, ended) == (moves, [True])


def test_appends_before_the_count_is_reached_do_not_wait() -> None:
    led = flushing(flush_messages=5)
    for last in range(4):
        led.append()
        assert led.partition.acknowledgement(last, -1) == DONE
    led.append()
    assert led.partition.acknowledgement(4, -1) == WAIT
    assert led.high_watermark == 4
    led.run_jobs()
    assert led.partition.acknowledgement(4, -1) == DONE


def test_appends_during_a_flush_share_the_next_one() -> None:
    led = flushing()
    led.append()
    syncs = [name for name in led.sim.world.jobs.pending if name == "flush-log"]
    for _ in range(10):
        led.append()
    assert [name for name in led.sim.world.jobs.pending if name == "flush-log"] == syncs
    led.sim.world.jobs.run_one()
    led.sim.world.jobs.run_one()
    led.run_jobs()
    assert led.log.recovery_point == led.high_watermark == 11
    assert led.sim.tape.of("sync").count("/data/orders-2/00000000000000000000.log") == 2


def test_a_resend_waits_for_the_flush_of_the_first() -> None:
    led = flushing()
    (first,) = led.partition.append((produced_by(7, 0),), -1)
    (again,) = led.partition.append((produced_by(7, 0),), -1)
    assert again.is_duplicate
    assert led.partition.acknowledgement(again.last_offset, -1) == WAIT
    led.run_jobs()
    assert led.partition.acknowledgement(first.last_offset, -1) == DONE


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_an_append_whose_flush_fails_is_answered_with_the_error(code: int) -> None:
    led = flushing()
    led.sim.disk.fail_next("sync", "*.log", code)
    result = led.append()
    moves = led.moves
    led.run_jobs()
    assert led.moves > moves
    done, error = led.partition.acknowledgement(result.last_offset, -1)
    assert done
    assert isinstance(error, StorageError)
    assert error.code == 56
    assert led.high_watermark == 0


def test_with_followers_the_high_watermark_waits_for_the_leaders_flush_too() -> None:
    led = flushing((1, 2))
    led.append(3)
    led.reported(2, 3)
    assert led.high_watermark == 0
    led.run_jobs()
    assert led.high_watermark == 3


def test_after_a_truncation_appends_wait_for_a_flush_of_their_own() -> None:
    led = flushing()
    led.append(3)
    led.log.truncate_to(1)
    led.append(1)
    led.run_jobs()
    assert led.log.recovery_point == led.high_watermark == 2


def test_a_partition_without_listener_appends_as_well() -> None:
    led = Led((1,))
    partition = Partition(PLACE, TOPIC_ID, 1, led.clock, KnownBrokers(), led, MAX_LAG_MS, [])
    partition.use_log(led.log)
    partition.make_leader(registered())
    assert partition.append((batch(),), -1)[0].error is None
