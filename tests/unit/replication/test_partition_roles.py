"""A partition becomes leader and follower as the controller says, and refuses what is not for it."""

from __future__ import annotations

import pytest
from replicas import Led, registered

from support.logs.builders import batch
from tailrace.metadata.partition_registration import NO_LEADER
from tailrace.model.errors import (
    FencedLeaderEpochError,
    LogDirUnavailableError,
    NotLeaderOrFollowerError,
    StorageError,
    UnknownLeaderEpochError,
)
from tailrace.model.invariant import InvariantError
from tailrace.replication.replica_state import ReplicaState


@pytest.mark.spec("RP-30")
def test_a_leader_begins_its_epoch_at_the_log_end() -> None:
    led = Led((1, 2), epoch=3)
    led.append(4)
    assert led.partition.make_leader(registered((1, 2), epoch=5, version=1)) is False  # it led before
    assert led.log.epochs.entries == ((3, 0), (5, 4))
    assert (led.partition.leader_epoch, led.partition.epoch_start_offset) == (5, 4)
    assert (led.partition.leader_id, led.partition.partition_epoch, led.partition.is_leader) == (1, 1, True)


@pytest.mark.spec("RP-30")
def test_a_new_leader_epoch_makes_the_followers_state_new() -> None:
    led = Led((1, 2, 3), isr=(1, 2))
    led.append(4)
    led.reported(2, 4)
    led.reported(3, 2)
    led.clock.advance(100_000)
    led.partition.make_leader(registered((1, 2, 3), (1, 2), epoch=1, version=1))
    now_ms = led.clock.monotonic_ms()
    second, third = led.partition.followers[2], led.partition.followers[3]
    assert (second.end.offset, second.leader_end_at_last_fetch, second.last_caught_up_ms) == (4, 4, now_ms)
    assert third.end.offset == 2
    assert not third.is_caught_up(4, now_ms, 30_000)


@pytest.mark.spec("RP-30")
def test_within_a_leader_epoch_only_assignment_and_isr_change() -> None:
    led = Led((1, 2, 3), isr=(1, 2))
    led.append(4)
    led.reported(2, 3)
    before = led.partition.followers[2]
    led.partition.make_leader(registered((1, 2, 4), (1, 2, 4), epoch=0, version=1))
    assert led.partition.followers == {2: before, 4: ReplicaState()}
    assert led.partition.isr_state.isr == {1, 2, 4}
    assert led.partition.partition_epoch == 1
    assert led.log.epochs.entries == ((0, 0),)
    assert led.partition.epoch_start_offset == 0


@pytest.mark.spec("RP-30")
def test_an_older_partition_epoch_is_ignored() -> None:
    led = Led((1, 2), epoch=3, version=7)
    assert led.partition.make_leader(registered((1, 2, 3), epoch=4, version=6)) is False
    assert led.partition.make_follower(registered((1, 2), leader=2, epoch=4, version=6)) is False
    partition = led.partition
    assert (partition.leader_epoch, partition.partition_epoch, set(partition.followers)) == (3, 7, {2})
    assert partition.is_leader


@pytest.mark.spec("RP-30")
def test_it_always_ends_with_an_attempt_at_the_high_watermark() -> None:
    led = Led((1, 2))
    led.append(4)
    assert led.high_watermark == 0
    moves = led.moves
    led.partition.make_leader(registered((1, 2), (1,), version=1))  # the other one has left the ISR
    assert led.high_watermark == 4
    assert led.moves > moves


@pytest.mark.spec("RP-30")
def test_a_disk_that_takes_no_epoch_leaves_the_role_as_it_was() -> None:
    led = Led((1, 2))
    led.sim.disk.fail_next("write", "*leader-epoch-checkpoint*")
    with pytest.raises(StorageError):
        led.partition.make_leader(registered((1, 2), epoch=1, version=1))
    assert (led.partition.leader_epoch, led.partition.partition_epoch) == (0, 0)


def test_a_follower_knows_no_isr_and_tells_whether_the_epoch_is_new() -> None:
    led = Led((1, 2), epoch=3)
    led.append(4)
    moves = led.moves
    assert led.partition.make_follower(registered((1, 2), leader=2, epoch=4, version=1))
    assert not led.partition.make_follower(registered((1, 2), leader=2, epoch=4, version=2))
    partition = led.partition
    assert (partition.leader_id, partition.is_leader, partition.epoch_start_offset) == (2, False, None)
    assert not partition.isr_state.isr
    assert not partition.followers
    assert led.moves > moves


@pytest.mark.spec("RP-38")
def test_without_a_leader_the_leader_is_minus_one() -> None:
    led = Led((1, 2))
    led.partition.make_follower(registered((1, 2), (1, 2), leader=NO_LEADER, epoch=1, version=1))
    assert led.partition.leader_id == -1
    with pytest.raises(NotLeaderOrFollowerError, match="-1 does"):
        led.append()


@pytest.mark.spec("RP-38")
def test_the_first_replica_is_the_preferred_leader() -> None:
    assert registered((3, 1, 2), leader=1).preferred_leader == 3


@pytest.mark.spec("RP-13")
def test_a_request_in_another_leader_epoch_is_refused() -> None:
    led = Led((1, 2), epoch=3)
    led.append(2)
    asks = [
        lambda epoch: led.partition.read(0, 100, current_leader_epoch=epoch),
        lambda epoch: led.fetched(2, 0, current_leader_epoch=epoch),
        lambda epoch: led.partition.list_offsets(-2, current_leader_epoch=epoch),
        lambda epoch: led.partition.end_offset_for_epoch(epoch, 3),
    ]
    for ask in asks:
        ask(3)
        ask(-1)
        with pytest.raises(FencedLeaderEpochError) as fenced:
            ask(2)
        with pytest.raises(UnknownLeaderEpochError) as unknown:
            ask(4)
        assert (fenced.value.code, unknown.value.code) == (74, 75)


@pytest.mark.spec("RP-13")
def test_a_deposed_leader_refuses_everything_that_is_for_a_leader() -> None:
    led = Led((1, 2), epoch=3)
    led.append(2)
    led.partition.make_follower(registered((1, 2), leader=2, epoch=4, version=1))
    partition = led.partition
    for ask in (
        lambda: partition.append((batch(),), 1),
        lambda: partition.read(0, 100),
        lambda: partition.read(0, 100, current_leader_epoch=4),
        lambda: led.fetched(2, 0),
        lambda: led.reported(2, 0),
        lambda: partition.list_offsets(-1),
        lambda: partition.low_watermark,
    ):
        with pytest.raises(NotLeaderOrFollowerError) as refused:
            ask()
        assert refused.value.code == 6
    assert led.log.log_end_offset == 2


@pytest.mark.spec("RP-13")
def test_a_fetch_of_an_epoch_that_its_broker_has_left_changes_nothing() -> None:
    led = Led((1, 2))
    led.append(5)
    led.reported(2, 3, broker_epoch=10)
    before = led.partition.followers[2]
    led.brokers[2] = type(led.brokers[2])(2, 11, bytes(16), is_fenced=False)  # it was started again
    with pytest.raises(NotLeaderOrFollowerError):
        led.fetched(2, 5, broker_epoch=10)
    assert led.partition.followers[2] is before
    assert led.high_watermark == 3
    led.fetched(2, 4, broker_epoch=11)
    led.fetched(2, 5, broker_epoch=-1)  # who names none is believed
    assert led.high_watermark == 5


@pytest.mark.spec("RP-13")
def test_a_fetch_of_a_broker_without_a_replica_is_refused() -> None:
    led = Led((1, 2), epoch=3)
    with pytest.raises(NotLeaderOrFollowerError):
        led.fetched(9, 0)
    with pytest.raises(UnknownLeaderEpochError):
        led.fetched(9, 0, current_leader_epoch=3)


def test_without_a_log_there_is_no_role() -> None:
    led = Led((1,))
    made = led.partition = led.new()
    with pytest.raises(InvariantError):
        made.make_leader(registered())
    with pytest.raises(NotLeaderOrFollowerError):
        made.append((batch(),), 1)
    with pytest.raises(NotLeaderOrFollowerError):
        made.active_producers()
    assert not made.is_committed(0)
    assert not made.is_flushed(0)
    assert "follower" in repr(made)


def test_a_partition_that_is_offline_says_so() -> None:
    led = Led((1,))
    moves = led.moves
    led.partition.let_go(is_offline=True)
    assert led.moves > moves
    for ask in (
        lambda: led.append(),
        lambda: led.partition.read(0, 1),
        lambda: led.partition.read(0, 1, current_leader_epoch=7),
        lambda: led.partition.list_offsets(-1),
    ):
        with pytest.raises(LogDirUnavailableError) as refused:
            ask()
        assert refused.value.code == 56
    done, error = led.partition.acknowledgement(0, -1)
    assert done
    assert isinstance(error, LogDirUnavailableError)


def test_a_log_that_has_moved_is_led_on() -> None:
    led = Led((1,))
    led.append(3)
    led.log.flush_now()
    led.sim.open(recovery_point=3)
    led.log.update_high_watermark(3)
    led.partition.use_log(led.log)
    assert led.append().first_offset == 3
    assert led.partition.log is led.log
