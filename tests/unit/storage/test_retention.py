"""Which segments go: each rule at its edges, and all of them against a model that does what the rules say literally."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from tailrace.config.log import LogConfig
from tailrace.storage.retention import Decision, Deletion, FutureTimestamp, LogFacts, Reason, SegmentFacts, decide

NOW_MS = 1_000_000
OFF = LogConfig(retention_ms=-1, retention_bytes=-1)


def log_of(*segments: tuple[int, int], ends_at: int | None = None) -> list[SegmentFacts]:
    """Segments of ten offsets each, from (bytes, age timestamp); `ends_at` is the log end."""
    facts = [
        SegmentFacts(10 * n, 10 * n + 10, size_bytes, timestamp, n == len(segments) - 1)
        for n, (size_bytes, timestamp) in enumerate(segments)
    ]
    if ends_at is not None:
        facts[-1] = facts[-1]._replace(end_offset=ends_at)
    return facts


def decided(
    segments: list[SegmentFacts], config: LogConfig, *, log_start: int = 0, high_watermark: int | None = None
) -> Decision:
    hw = segments[-1].end_offset if high_watermark is None else high_watermark
    size_bytes = sum(segment.size_bytes for segment in segments)
    return decide(segments, LogFacts(log_start, hw, size_bytes), config, NOW_MS)


def gone(decision: Decision) -> list[tuple[int, Reason]]:
    return [(deletion.base_offset, deletion.reason) for deletion in decision.deletions]


class TestLogStart:
    @pytest.mark.spec("LM-08")
    @pytest.mark.parametrize(("log_start", "expected"), [(9, []), (10, [0]), (19, [0]), (20, [0, 10]), (25, [0, 10])])
    def test_what_lies_wholly_below_it_goes(self, log_start: int, expected: list[int]) -> None:
        decision = decided(log_of((5, 0), (5, 0), (5, 0)), OFF, log_start=log_start)
        assert gone(decision) == [(base, Reason.LOG_START) for base in expected]
        assert not decision.rolls_first

    @pytest.mark.spec("LM-08")
    def test_the_last_segment_has_no_next_one_and_stays(self) -> None:
        decision = decided(log_of((5, 0), (5, 0)), OFF, log_start=20)
        assert gone(decision) == [(0, Reason.LOG_START)]

    @pytest.mark.spec("LM-08")
    def test_it_is_the_only_rule_of_a_topic_that_only_compacts(self) -> None:
        config = LogConfig(cleanup_policy=("compact",), retention_ms=0, retention_bytes=0)
        assert gone(decided(log_of((5, 0), (5, 0), (5, 0)), config)) == []
        assert gone(decided(log_of((5, 0), (5, 0), (5, 0)), config, log_start=10)) == [(0, Reason.LOG_START)]

    @pytest.mark.spec("LM-08")
    def test_a_topic_that_does_both_deletes_by_every_rule(self) -> None:
        config = LogConfig(cleanup_policy=("compact", "delete"), retention_ms=0)
        assert gone(decided(log_of((5, 0), (5, NOW_MS)), config)) == [(0, Reason.TIME)]


class TestSize:
    @pytest.mark.spec("LM-08")
    @pytest.mark.parametrize(
        ("retention_bytes", "expected"),
        [(-1, []), (600, []), (501, []), (500, [0]), (301, [0]), (300, [0, 10]), (1, [0, 10]), (0, [0, 10, 20])],
    )
    def test_a_segment_goes_while_the_rest_still_has_so_many_bytes(
        self, retention_bytes: int, expected: list[int]
    ) -> None:
        config = LogConfig(retention_ms=-1, retention_bytes=retention_bytes)
        decision = decided(log_of((100, NOW_MS), (200, NOW_MS), (300, NOW_MS)), config)
        assert gone(decision) == [(base, Reason.SIZE) for base in expected]
        assert decision.rolls_first == (len(expected) == 3)

    @pytest.mark.spec("LM-08")
    def test_a_segment_too_large_to_go_keeps_the_small_ones_behind_it(self) -> None:
        config = LogConfig(retention_ms=-1, retention_bytes=200)
        assert gone(decided(log_of((300, NOW_MS), (10, NOW_MS), (10, NOW_MS)), config)) == []

    @pytest.mark.spec("LM-08")
    def test_what_the_log_start_took_does_not_count(self) -> None:
        config = LogConfig(retention_ms=-1, retention_bytes=200)
        assert gone(decided(log_of((100, 0), (100, 0), (100, 0)), config, log_start=10)) == [(0, Reason.LOG_START)]


class TestTime:
    @pytest.mark.spec("LM-08")
    @pytest.mark.parametrize(("age_ms", "goes"), [(499, False), (500, False), (501, True)])
    def test_strictly_older(self, age_ms: int, goes: bool) -> None:
        decision = decided(log_of((5, NOW_MS - age_ms), (5, NOW_MS)), LogConfig(retention_ms=500))
        assert gone(decision) == ([(0, Reason.TIME)] if goes else [])

    @pytest.mark.spec("LM-08")
    def test_it_can_be_off(self) -> None:
        assert decided(log_of((5, 0), (5, 0)), OFF) == Decision(())

    @pytest.mark.spec("LM-08")
    def test_zero_is_not_off(self) -> None:
        assert gone(decided(log_of((5, NOW_MS - 1), (5, NOW_MS)), LogConfig(retention_ms=0))) == [(0, Reason.TIME)]

    @pytest.mark.spec("LM-08")
    def test_a_young_segment_keeps_the_old_ones_behind_it(self) -> None:
        decision = decided(log_of((5, 0), (5, NOW_MS), (5, 0)), LogConfig(retention_ms=500))
        assert gone(decision) == [(0, Reason.TIME)]

    @pytest.mark.spec("LM-09")
    def test_a_timestamp_in_the_future_blocks_and_is_reported(self) -> None:
        segments = log_of((5, 0), (5, NOW_MS + 1), (5, 0))
        decision = decided(segments, LogConfig(retention_ms=0))
        assert gone(decision) == [(0, Reason.TIME)]
        assert decision.warnings == (FutureTimestamp(10, NOW_MS + 1),)

    @pytest.mark.spec("LM-09")
    def test_the_present_is_not_the_future(self) -> None:
        assert decided(log_of((5, NOW_MS), (5, 0)), LogConfig(retention_ms=0)).warnings == ()

    @pytest.mark.spec("LM-09")
    def test_no_warning_where_time_decides_nothing(self) -> None:
        assert decided(log_of((5, NOW_MS + 1), (5, 0)), OFF).warnings == ()
        assert decided(log_of((5, NOW_MS + 1), (5, 0)), LogConfig(cleanup_policy=("compact",))).warnings == ()
        by_size = LogConfig(retention_ms=0, retention_bytes=5)
        assert decided(log_of((5, NOW_MS + 1), (5, NOW_MS)), by_size).warnings == ()


class TestEnds:
    EVERYTHING = LogConfig(retention_ms=0, retention_bytes=0)

    @pytest.mark.spec("LM-10")
    @pytest.mark.parametrize(("high_watermark", "expected"), [(0, 0), (9, 0), (10, 1), (19, 1), (29, 2), (30, 3)])
    def test_nothing_at_or_above_the_high_watermark(self, high_watermark: int, expected: int) -> None:
        decision = decided(log_of((5, 0), (5, 0), (5, 0)), self.EVERYTHING, high_watermark=high_watermark)
        assert len(decision.deletions) == expected
        assert decision.rolls_first == (expected == 3)

    @pytest.mark.spec("LM-10")
    def test_where_all_have_expired_one_is_rolled_first(self) -> None:
        decision = decided(log_of((5, 0), (7, 0)), LogConfig(retention_ms=0))
        assert decision == Decision((Deletion(0, 10, 5, Reason.TIME), Deletion(10, 20, 7, Reason.TIME)), True)

    @pytest.mark.spec("LM-10")
    @pytest.mark.parametrize("ends_at", [10, 15])
    def test_an_empty_last_segment_stays(self, ends_at: int) -> None:
        """Also where a truncation through its first batch left the log end above its base."""
        decision = decided(log_of((5, 0), (0, 0), ends_at=ends_at), self.EVERYTHING)
        assert gone(decision) == [(0, Reason.SIZE)]
        assert not decision.rolls_first

    @pytest.mark.spec("LM-10")
    def test_an_empty_segment_that_is_not_the_last_goes(self) -> None:
        decision = decided(log_of((0, 0), (5, NOW_MS)), LogConfig(retention_ms=0))
        assert gone(decision) == [(0, Reason.TIME)]

    def test_a_log_of_one_empty_segment_is_left_alone(self) -> None:
        assert decided(log_of((0, 0), ends_at=0), self.EVERYTHING) == Decision(())

    def test_no_more_facts_are_asked_for_than_needed(self) -> None:
        asked = []

        def one_by_one() -> Iterator[SegmentFacts]:
            for segment in log_of((5, 0), (5, NOW_MS), (5, NOW_MS)):
                asked.append(segment.base_offset)
                yield segment

        decide(one_by_one(), LogFacts(0, 30, 15), LogConfig(retention_ms=0), NOW_MS)
        assert asked == [0, 10]


class Case(NamedTuple):
    segments: list[SegmentFacts]
    config: LogConfig
    log_start: int
    high_watermark: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=7))
    segments, base = [], draw(st.integers(0, 5))
    first = base
    for place, size_bytes in enumerate(sizes):
        is_last = place == len(sizes) - 1
        end = base + draw(st.integers(0 if is_last and size_bytes == 0 else 1, 4))
        age_timestamp = NOW_MS + draw(st.integers(-6, 2))
        segments.append(SegmentFacts(base, end, size_bytes, age_timestamp, is_last))
        base = end
    config = LogConfig(
        cleanup_policy=draw(st.sampled_from([("delete",), ("compact",), ("compact", "delete")])),
        retention_ms=draw(st.integers(-1, 6)),
        retention_bytes=draw(st.integers(-1, 20)),
    )
    high_watermark = draw(st.integers(first, base))
    return Case(segments, config, draw(st.integers(first, high_watermark)), high_watermark)


def in_three_passes(case: Case) -> list[tuple[int, Reason]]:
    """One rule after the other over what is left, each looking at whole lists."""
    left = list(case.segments)
    removed: list[tuple[int, Reason]] = []

    def one_pass(reason: Reason, old: Callable[[SegmentFacts], bool]) -> None:
        count = 0
        while count < len(left):
            segment = left[count]
            if segment.end_offset > case.high_watermark or (segment.is_last and not segment.size_bytes):
                break
            if not old(segment):
                break
            count += 1
        removed.extend((segment.base_offset, reason) for segment in left[:count])
        del left[:count]

    one_pass(Reason.LOG_START, lambda segment: not segment.is_last and segment.end_offset <= case.log_start)
    if "delete" in case.config.cleanup_policy:
        excess = sum(segment.size_bytes for segment in left) - case.config.retention_bytes
        before = {
            segment: sum(each.size_bytes for each in left if each.base_offset <= segment.base_offset)
            for segment in left
        }
        if case.config.retention_bytes != -1 and excess >= 0:
            one_pass(Reason.SIZE, lambda segment: before[segment] <= excess)
        if case.config.retention_ms != -1:
            one_pass(Reason.TIME, lambda segment: segment.age_timestamp < NOW_MS - case.config.retention_ms)
    return removed


@pytest.mark.spec("LM-08", "LM-09", "LM-10")
@settings(max_examples=examples(500))
@given(case=cases())
def test_it_is_what_three_passes_would_do(case: Case) -> None:
    segments, config, log_start, high_watermark = case
    decision = decided(segments, config, log_start=log_start, high_watermark=high_watermark)
    assert gone(decision) == in_three_passes(case)
    assert [deletion[:3] for deletion in decision.deletions] == [
        segment[:3] for segment in segments[: len(decision.deletions)]
    ]
    assert decision.rolls_first == (len(decision.deletions) == len(segments))
    assert all(deletion.end_offset <= high_watermark for deletion in decision.deletions)
    if decision.warnings:
        kept = segments[len(decision.deletions)]
        assert decision.warnings == (FutureTimestamp(kept.base_offset, kept.age_timestamp),)
        assert kept.age_timestamp > NOW_MS
