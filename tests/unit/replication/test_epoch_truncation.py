"""Where a follower's log ends to be its leader's, as leader epochs tell."""

from __future__ import annotations

import pytest
from replicas import Led, registered

from support.logs.builders import DIRECTORY, batch, placed
from tailrace.model.errors import FencedLeaderEpochError, NotLeaderOrFollowerError, UnknownLeaderEpochError
from tailrace.replication.epoch_truncation import EpochEnd, Truncation, truncation_for
from tailrace.storage.epoch_cache import LeaderEpochCache

UNKNOWN = EpochEnd(-1, -1)


def leader() -> Led:
    """Epochs {5 → 100, 7 → 130}, up to 150."""
    led = Led((1, 2), epoch=5)
    led.log.restart_at(100)
    led.log.append_as_follower(placed(batch(30), 100, 5))
    led.partition.make_leader(registered((1, 2), epoch=7, version=1))
    led.append(20)
    return led


@pytest.mark.spec("RP-11")
@pytest.mark.parametrize(("epoch", "answer"), [(5, (5, 130)), (6, (5, 130)), (7, (7, 150)), (8, (-1, -1))])
def test_a_leader_says_where_an_epoch_ended(epoch: int, answer: tuple[int, int]) -> None:
    assert leader().partition.end_offset_for_epoch(7, epoch) == answer


@pytest.mark.spec("RP-11", "RP-13")
def test_it_says_so_only_in_the_epoch_that_the_asker_knows_of() -> None:
    led = leader()
    with pytest.raises(FencedLeaderEpochError):
        led.partition.end_offset_for_epoch(6, 5)
    with pytest.raises(UnknownLeaderEpochError):
        led.partition.end_offset_for_epoch(8, 5)
    led.partition.make_follower(registered((1, 2), leader=2, epoch=8, version=2))
    with pytest.raises(NotLeaderOrFollowerError):
        led.partition.end_offset_for_epoch(8, 5)


def epochs(*entries: tuple[int, int]) -> LeaderEpochCache:
    """Of a follower."""
    led = Led((1,))
    cache = LeaderEpochCache(led.sim.disk, led.sim.world.jobs, DIRECTORY)
    for entry in entries:
        cache.assign(*entry)
    return cache


def truncation(answer: EpochEnd, cache: LeaderEpochCache, end: int, high_watermark: int = 0) -> Truncation:
    return truncation_for(answer, lambda epoch: EpochEnd(*cache.end_offset_for(epoch, end)), end, high_watermark)


@pytest.mark.spec("RP-11")
def test_a_follower_drops_what_its_epoch_wrote_beyond_the_leaders_end_of_it() -> None:
    answer = leader().partition.end_offset_for_epoch(7, 5)
    assert truncation(answer, epochs((5, 100)), 142) == Truncation(130, True)


@pytest.mark.spec("RP-11")
def test_a_follower_that_is_behind_drops_nothing() -> None:
    assert truncation(EpochEnd(5, 130), epochs((5, 100)), 120) == Truncation(120, True)


@pytest.mark.spec("RP-11")
def test_a_follower_with_an_epoch_that_the_leader_never_had_asks_again_below_it() -> None:
    follower = epochs((4, 80), (6, 110))
    first = truncation(EpochEnd(5, 130), follower, 142)
    assert first == Truncation(110, False)
    follower.truncate_from_end(first.offset)
    assert truncation(EpochEnd(4, 100), follower, 110) == Truncation(100, True)


def test_without_an_answer_what_is_committed_stays() -> None:
    assert truncation(UNKNOWN, epochs((5, 100)), 142, high_watermark=120) == Truncation(120, True)
    assert truncation(EpochEnd(-1, 130), epochs((5, 100)), 142) == Truncation(130, True)
    assert truncation(EpochEnd(3, 90), epochs((5, 100)), 142) == Truncation(90, True)
    assert truncation(EpochEnd(5, 130), epochs(), 142) == Truncation(130, True)


@pytest.mark.spec("RP-11")
def test_a_fetch_with_a_diverging_epoch_gets_the_answer_and_no_records() -> None:
    led = leader()
    found = led.fetched(2, 142, start=100, current_leader_epoch=7, last_fetched_epoch=5)
    assert found.diverging == (5, 130)
    assert found.data.records is None
    assert led.partition.followers[2].end.offset == -1  # nothing is known of where its log ends
    found = led.fetched(2, 130, start=100, current_leader_epoch=7, last_fetched_epoch=5)
    assert found.diverging is None
    assert found.data.records is not None
    assert led.partition.followers[2].end.offset == 130
