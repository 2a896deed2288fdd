"""The high watermark: the lowest end of those that count, never back, not while too few are in sync."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replicas import MAX_LAG_MS, Led, broker

from suite.seeds import examples
from tailrace.model.errors import OffsetOutOfRangeError
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.replication.high_watermark import committed_end, effective_min_isr
from tailrace.replication.isr_state import Committed
from tailrace.replication.replica_state import ReplicaState

NOW_MS = 1_000_000


def ends(offsets: Mapping[int, int], *, caught_up_ms: int = NOW_MS) -> dict[int, ReplicaState]:
    return {
        replica: ReplicaState(LogOffsetMetadata(offset), 0, 0, NOW_MS, caught_up_ms, 10)
        for replica, offset in offsets.items()
    }


def high_watermark(
    leader_end: int, followers: Mapping[int, ReplicaState], isr: set[int], *, may_join: bool = True
) -> int:
    return committed_end(
        LogOffsetMetadata(leader_end), followers, frozenset(isr), lambda *_: may_join, NOW_MS, MAX_LAG_MS
    ).offset


@pytest.mark.spec("RP-04")
def test_it_is_the_lowest_end_of_the_isr() -> None:
    assert high_watermark(105, ends({2: 104, 3: 102}), {1, 2, 3}) == 102
    assert high_watermark(105, ends({2: 104, 3: 105}), {1, 2, 3}) == 104


@pytest.mark.spec("RP-04")
def test_it_waits_for_a_replica_outside_the_isr_that_is_caught_up_and_may_join() -> None:
    assert high_watermark(105, ends({2: 104, 3: 102}), {1, 2}) == 102
    assert high_watermark(105, ends({2: 104, 3: 102}), {1, 2}, may_join=False) == 104
    late = ends({2: 104}) | ends({3: 102}, caught_up_ms=NOW_MS - MAX_LAG_MS - 1)
    assert high_watermark(105, late, {1, 2}) == 104


@pytest.mark.spec("RP-04")
def test_the_figures_of_a_real_partition() -> None:
    led = Led((1, 2, 3))
    led.append(105)
    led.reported(2, 104)
    led.reported(3, 102)
    assert led.high_watermark == 102
    led.reported(3, 105)
    assert led.high_watermark == 104
    led.reported(2, 105)
    assert led.high_watermark == 105


@pytest.mark.spec("RP-04")
def test_it_never_goes_back() -> None:
    led = Led((1, 2))
    led.append(10)
    led.reported(2, 10)
    led.append(10)
    led.reported(2, 7)  # the follower has lost its disk
    assert led.high_watermark == 10


@pytest.mark.spec("RP-04")
def test_beyond_the_log_end_it_is_refused() -> None:
    led = Led((1,))
    led.append(5)
    with pytest.raises(OffsetOutOfRangeError):
        led.log.maybe_increment_high_watermark(LogOffsetMetadata(6))
    assert led.high_watermark == 5


@pytest.mark.spec("RP-04", "RP-09")
def test_it_stands_still_while_too_few_are_in_sync() -> None:
    led = Led((1, 2, 3), isr=(1, 2))
    led.set_config(min_insync_replicas=3)
    led.append(5, acks=1)
    led.reported(2, 5)
    led.reported(3, 5)
    assert led.partition.is_under_min_isr
    assert led.high_watermark == 0
    led.partition.change_isr(Committed(frozenset({1, 2, 3})))
    assert led.high_watermark == 5


@pytest.mark.spec("RP-04")
def test_a_proposed_expansion_does_not_count_towards_the_minimum() -> None:
    """The controller may refuse it: only the committed ISR decides whether the high watermark may move."""
    led = Led((1, 2, 3), isr=(1,))
    led.set_config(min_insync_replicas=2)
    led.append(5, acks=1)
    committed = Committed(frozenset({1}))
    led.partition.change_isr(committed.expanded_by(2))
    assert led.partition.is_under_min_isr
    led.reported(2, 5)
    led.reported(3, 5)
    assert led.high_watermark == 0
    led.partition.change_isr(committed)  # refused
    led.append(1, acks=1)
    assert led.high_watermark == 0
    led.partition.change_isr(committed.expanded_by(2))
    led.reported(2, 6)
    led.reported(3, 6)
    assert led.high_watermark == 0
    led.partition.change_isr(Committed(frozenset({1, 2})))
    assert led.high_watermark == 6


@pytest.mark.spec("RP-04")
def test_a_proposed_shrink_leaves_the_minimum_met() -> None:
    led = Led((1, 2, 3))
    led.set_config(min_insync_replicas=3)
    led.append(5)
    led.partition.change_isr(Committed(frozenset({1, 2, 3})).shrunk_by({3}))
    assert not led.partition.is_under_min_isr
    led.reported(2, 5)
    led.reported(3, 5)
    assert led.high_watermark == 5
    led.partition.change_isr(Committed(frozenset({1, 2})))
    led.append(1, acks=1)
    led.reported(2, 6)
    led.reported(3, 6)
    assert led.high_watermark == 5


@pytest.mark.spec("RP-09")
def test_more_replicas_than_there_are_cannot_be_asked_for() -> None:
    assert effective_min_isr(2, 3) == 2
    assert effective_min_isr(5, 3) == 3
    led = Led((1, 2))
    led.set_config(min_insync_replicas=5)
    assert led.partition.effective_min_isr == 2
    led.append(3)
    led.reported(2, 3)
    assert led.high_watermark == 3
    alone = Led((1,))
    alone.set_config(min_insync_replicas=5)
    alone.append(3)
    assert alone.high_watermark == 3


@pytest.mark.spec("RP-04")
@pytest.mark.parametrize(
    ("changes", "waits"),
    [({}, True), ({"is_fenced": True}, False), ({"in_controlled_shutdown": True}, False), ({"epoch": 11}, False)],
)
def test_only_who_may_join_the_isr_is_waited_for(changes: dict[str, int], waits: bool) -> None:
    led = Led((1, 2), isr=(1,))
    led.reported(2, 0)  # caught up, outside the ISR
    led.brokers[2] = broker(2, **changes)
    led.append(5)
    assert led.high_watermark == (0 if waits else 5)


moves = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5), st.just(0)),
        st.tuples(st.just("fetch"), st.sampled_from([2, 3, 4]), st.integers(0, 60)),
        st.tuples(st.just("isr"), st.integers(0, 7), st.just(0)),
        st.tuples(st.just("time"), st.integers(0, 40_000), st.just(0)),
    ),
    max_size=30,
)


@pytest.mark.spec("RP-04", "RP-09")
@given(moves, st.integers(1, 6))
@settings(max_examples=examples(60))
def test_every_member_of_the_isr_has_what_was_committed_under_it(
    steps: list[tuple[str, int, int]], min_insync_replicas: int
) -> None:
    led = Led((1, 2, 3, 4))
    led.set_config(min_insync_replicas=min_insync_replicas)
    known = {2: -1, 3: -1, 4: -1}
    for kind, first, second in steps:
        before = led.high_watermark
        if kind == "append":
            led.append(first, acks=1)
        elif kind == "fetch":
            known[first] = min(second, led.log.log_end_offset)
            led.reported(first, known[first])
        elif kind == "isr":
            isr = {1} | {replica for replica in known if first >> (replica - 2) & 1}
            led.partition.change_isr(Committed(frozenset(isr)))
        else:
            led.clock.advance(first)
        isr = set(led.partition.isr_state.isr)
        after = led.high_watermark
        assert before <= after <= led.log.log_end_offset
        if after > before:
            assert len(isr) >= min(min_insync_replicas, 4)
            assert after <= min((known[replica] for replica in isr - {1}), default=led.log.log_end_offset)
