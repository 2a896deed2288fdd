"""The segments of a log by base offset: navigation, and that a reader's view is one moment's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.logs.builders import place_on
from tailrace.sim import World
from tailrace.storage.segment import LogSegment
from tailrace.storage.segments import LogSegments


def made(*bases: int) -> list[LogSegment]:
    place = place_on(World())
    return [LogSegment.create(place, base) for base in bases]


@pytest.mark.spec("LS-02")
def test_an_empty_set_has_nothing_to_find() -> None:
    segments = LogSegments()
    assert (len(segments), segments.first, segments.active) == (0, None, None)
    assert (segments.floor(5), segments.higher(5), segments.lower(5)) == (None, None, None)
    assert segments.covering(0) == ()


@settings(max_examples=examples(60))
@given(bases=st.sets(st.integers(0, 40), min_size=1, max_size=8), offset=st.integers(0, 45), end=st.integers(0, 45))
@pytest.mark.spec("LS-02")
def test_navigation_is_that_of_a_sorted_list(bases: set[int], offset: int, end: int) -> None:
    segments = LogSegments(made(*bases))

    def base(segment: LogSegment | None) -> int | None:
        return None if segment is None else segment.base_offset

    assert list(segments.base_offsets) == sorted(bases)
    assert base(segments.first) == min(bases)
    assert base(segments.active) == max(bases)
    assert base(segments.floor(offset)) == max((each for each in bases if each <= offset), default=None)
    assert base(segments.higher(offset)) == min((each for each in bases if each > offset), default=None)
    assert base(segments.lower(offset)) == max((each for each in bases if each < offset), default=None)
    first = max((each for each in bases if each <= offset), default=min(bases))
    assert [base(each) for each in segments.covering(offset)] == sorted(each for each in bases if each >= first)
    assert [base(each) for each in segments.covering(offset, end)] == sorted(
        each for each in bases if first <= each < end
    )


@pytest.mark.spec("LS-02")
def test_adding_replaces_a_segment_of_the_same_base() -> None:
    old, other, new = made(0, 10, 10)
    segments = LogSegments([old, other])
    segments.add(new)
    assert (list(segments), segments.active) == ([old, new], new)


@pytest.mark.spec("LS-02", "LS-34")
def test_a_view_taken_before_a_change_stays_as_it_was() -> None:
    first, second, third, merged = made(0, 10, 20, 0)
    segments = LogSegments([first, second, third])
    before = iter(segments)
    covering = segments.covering(0)
    segments.swap([first, second], [merged])
    assert list(segments) == [merged, third]
    segments.remove([third])
    assert (list(segments), segments.active) == ([merged], merged)
    assert list(before) == list(covering) == [first, second, third]
