"""Who may read how far: followers to the end, consumers to the high watermark or the last stable offset."""

from __future__ import annotations

from dataclasses import replace

import pytest
from replicas import Led, registered

from support.logs.builders import CONFIG, batch, in_transaction, marker, offsets, placed
from tailrace.model.errors import FencedLeaderEpochError, NotLeaderOrFollowerError, OffsetOutOfRangeError
from tailrace.storage.fetch import Isolation
from tailrace.storage.origin import Origin

BIG = 1 << 20


@pytest.mark.spec("RP-37")
def test_a_follower_reads_to_the_log_end_and_learns_the_high_watermark() -> None:
    led = Led((1, 2))
    for _ in range(5):
        led.append()
    led.reported(2, 2)
    found = led.fetched(2, 2)
    assert offsets(found.data.read()) == [(2, 2), (3, 3), (4, 4)]
    assert found.high_watermark == 2


@pytest.mark.spec("RP-37")
def test_a_consumer_reads_to_the_high_watermark() -> None:
    led = Led((1, 2))
    for _ in range(5):
        led.append()
    led.reported(2, 3)
    found = led.partition.read(0, BIG)
    assert offsets(found.data.read()) == [(0, 0), (1, 1), (2, 2)]
    assert found.high_watermark == 3
    assert led.partition.read(3, BIG).data.records is None
    assert led.partition.read(5, BIG).data.records is None
    with pytest.raises(OffsetOutOfRangeError):
        led.partition.read(6, BIG)
    led.reported(2, 5)
    assert offsets(led.partition.read(3, BIG).data.read()) == [(3, 3), (4, 4)]


@pytest.mark.spec("RP-37")
def test_a_consumer_of_committed_transactions_reads_to_the_last_stable_offset() -> None:
    led = Led((1,))
    led.append()
    led.partition.append((in_transaction(7, 0),), -1)
    led.append()
    found = led.partition.read(0, BIG, Isolation.TXN_COMMITTED)
    assert offsets(found.data.read()) == [(0, 0)]
    assert (found.high_watermark, found.last_stable_offset) == (3, 1)
    assert len(offsets(led.partition.read(0, BIG).data.read())) == 3
    led.partition.append((marker(7, commit=False),), -1, Origin.COORDINATOR)
    found = led.partition.read(0, BIG, Isolation.TXN_COMMITTED)
    assert found.last_stable_offset == 4
    assert found.data.aborted


@pytest.mark.spec("RP-37")
def test_the_last_stable_offset_waits_for_the_marker_to_be_committed() -> None:
    led = Led((1, 2))
    led.partition.append((in_transaction(7, 0),), -1)
    led.partition.append((marker(7, commit=True),), -1, Origin.COORDINATOR)
    led.reported(2, 1)
    assert led.partition.read(0, BIG, Isolation.TXN_COMMITTED).last_stable_offset == 0
    led.reported(2, 2)
    assert led.partition.read(0, BIG, Isolation.TXN_COMMITTED).last_stable_offset == 2


@pytest.mark.spec("RP-37")
def test_movement_tells_fetches_that_wait() -> None:
    led = Led((1, 2))
    moves = led.moves
    led.append()
    assert led.moves == moves + 1  # a follower's fetch has something to read
    led.reported(2, 1)
    assert led.moves == moves + 2  # a consumer's has
    assert led.partition.readable_end(Isolation.HIGH_WATERMARK) == led.log.local.end
    assert led.partition.readable_end(Isolation.LOG_END) == led.log.local.end


@pytest.mark.spec("RP-37")
def test_a_consumer_may_read_from_a_follower_if_it_does_not_insist_on_the_leader() -> None:
    led = Led((1, 2))
    led.partition.make_follower(registered((1, 2), leader=2, epoch=1, version=1))
    for offset in range(3):
        led.log.append_as_follower(placed(batch(), offset, 1))
    led.log.update_high_watermark(2)
    found = led.partition.read(0, BIG, leader_only=False, current_leader_epoch=1)
    assert offsets(found.data.read()) == [(0, 0), (1, 1)]


def test_the_log_start_comes_with_a_read() -> None:
    led = Led((1,))
    for _ in range(3):
        led.append()
    led.log.increment_log_start(2)
    assert led.partition.read(2, BIG).log_start_offset == 2
    with pytest.raises(OffsetOutOfRangeError):
        led.partition.read(1, BIG)


def test_a_fetched_epoch_that_nobody_knows_is_out_of_range() -> None:
    led = Led((1,), epoch=3)
    led.append(3)
    with pytest.raises(OffsetOutOfRangeError):
        led.partition.read(1, BIG, last_fetched_epoch=4)
    led.log.increment_log_start(2)
    with pytest.raises(OffsetOutOfRangeError):
        led.partition.read(1, BIG, last_fetched_epoch=3)
    assert led.partition.read(3, BIG, last_fetched_epoch=3).diverging is None


@pytest.mark.spec("RP-33")
def test_offsets_come_with_their_place_in_a_segment() -> None:
    led = Led((1, 2))
    led.append()
    size = led.log.local.end.position
    led.append()
    led.fetched(2, 1)
    assert led.log.local.end == (2, 0, 2 * size)
    assert led.log.high_watermark_metadata() == (1, 0, size)
    assert led.partition.followers[2].end == (1, 0, size)
    assert led.partition.readable_end(Isolation.TXN_COMMITTED) == (1, 0, size)
    led.fetched(2, 2)
    assert led.partition.followers[2].end == led.log.local.end


@pytest.mark.spec("RP-33")
def test_the_stable_offset_has_its_place_too() -> None:
    led = Led((1,))
    led.append()
    size = led.log.local.end.position
    led.partition.append((in_transaction(7, 0),), -1)
    assert led.partition.readable_end(Isolation.TXN_COMMITTED) == (1, 0, size)


@pytest.mark.spec("RP-33")
@pytest.mark.parametrize("replicas", [(1,), (1, 2)])
def test_the_high_watermark_goes_into_a_new_segment_at_the_same_offset(replicas: tuple[int, ...]) -> None:
    led = Led(replicas, config=replace(CONFIG, segment_bytes=300))
    led.append()
    if 2 in replicas:
        led.fetched(2, 1)
    assert led.log.high_watermark_metadata().segment_base == 0
    led.log.roll()
    if 2 in replicas:
        led.fetched(2, 1)
    assert led.log.high_watermark_metadata() == (1, 1, 0)


@pytest.mark.spec("RP-33")
def test_only_the_segment_moves_the_high_watermarks_place() -> None:
    led = Led((1, 2))
    led.append()
    led.fetched(2, 1)
    old = led.log.high_watermark_metadata()
    assert not led.log.maybe_increment_high_watermark(old)
    assert led.log.maybe_increment_high_watermark(old._replace(segment_base=1, position=0))
    assert led.log.bounds.high_watermark == (1, 1, 0)


@pytest.mark.spec("RP-03")
def test_a_look_for_a_follower_changes_nothing() -> None:
    led = Led((1, 2))
    led.append(3)
    led.fetched(2, 0)
    led.clock.advance(1000)
    before, moves = led.partition.followers[2], led.moves
    found = led.partition.look_as_follower(2, 3, BIG)
    assert (found.high_watermark, led.high_watermark) == (0, 0)
    assert offsets(led.partition.look_as_follower(2, 0, BIG).data.read()) == [(0, 2)]
    assert led.partition.followers[2] == before
    assert led.moves == moves
    with pytest.raises(NotLeaderOrFollowerError, match="9"):
        led.partition.look_as_follower(9, 3, BIG)
    with pytest.raises(FencedLeaderEpochError):
        Led((1, 2), epoch=4).partition.look_as_follower(2, 0, BIG, current_leader_epoch=3)
