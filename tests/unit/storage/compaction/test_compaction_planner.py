"""What to clean: pure decisions over values."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.model.offsets import MAX_RELATIVE_OFFSET
from tailrace.storage.compaction.planner import (
    Candidate,
    FirstDirty,
    LogToClean,
    SegmentSize,
    compaction_delay_ms,
    dirtiest,
    first_dirty,
    first_uncleanable,
    group_segments,
    log_to_clean,
)


@pytest.mark.spec("LM-17")
@pytest.mark.parametrize(
    ("checkpoint", "expected"),
    [
        (None, FirstDirty(10, False)),
        (9, FirstDirty(10, True)),
        (10, FirstDirty(10, False)),
        (25, FirstDirty(25, False)),
        (30, FirstDirty(30, False)),
        (31, FirstDirty(10, True)),
    ],
)
def test_a_checkpoint_outside_the_log_is_reset(checkpoint: int | None, expected: FirstDirty) -> None:
    assert first_dirty(checkpoint, log_start=10, log_end=30) == expected


@pytest.mark.spec("LM-16")
def test_the_least_of_three_bounds_ends_what_can_be_cleaned() -> None:
    ages = [(0, 100), (10, 900), (20, 300)]
    assert first_uncleanable(0, 25, 30, ages, 1000, 0) == 25
    assert first_uncleanable(0, 35, 30, ages, 1000, 0) == 30
    assert first_uncleanable(0, 35, 30, ages, 1000, 99) == 30
    assert first_uncleanable(0, 35, 30, ages, 1000, 100) == 30  # exactly as old as the lag is old enough
    assert first_uncleanable(0, 35, 30, ages, 1000, 101) == 10
    assert first_uncleanable(0, 35, 30, ages, 1000, 901) == 0
    assert first_uncleanable(0, 5, 30, ages, 1000, 101) == 5
    assert first_uncleanable(12, 5, 30, ages, 1000, 0) == 12


def test_ages_are_not_read_without_need() -> None:
    read = []

    def ages() -> Iterator[tuple[int, int]]:
        for base in (0, 10, 20):
            read.append(base)
            yield base, 1000

    first_uncleanable(0, 35, 30, ages(), 1000, 0)
    assert read == []
    first_uncleanable(0, 35, 30, ages(), 1000, 1)
    assert read == [0]


@pytest.mark.spec("LM-15")
def test_the_delay_counts_from_the_earliest_dirty_timestamp() -> None:
    assert compaction_delay_ms([500, 300, 400], 1000, 600) == 100
    assert compaction_delay_ms([500, 300, 400], 1000, 700) == 0
    assert compaction_delay_ms([0, -1], 1000, 1) == 0
    assert compaction_delay_ms([], 1000, 1) == 0
    assert compaction_delay_ms(iter([5]), 1000, 2**63 - 1) == 0


SIZES = [SegmentSize(0, 100), SegmentSize(10, 200), SegmentSize(20, 400), SegmentSize(30, 800)]


@pytest.mark.parametrize(
    ("dirty", "uncleanable", "expected"),
    [
        (0, 30, (30, 0, 700)),
        (0, 29, (20, 0, 300)),
        (0, 99, (30, 0, 700)),
        (10, 30, (30, 100, 600)),
        (15, 30, (30, 300, 600)),  # the segment in which the dirty part begins counts twice
        (30, 30, (30, 700, 0)),
        (35, 35, (30, 1500, 0)),
        (0, 5, (0, 0, 0)),
    ],
)
def test_bytes_are_counted_by_whole_segments(dirty: int, uncleanable: int, expected: tuple[int, int, int]) -> None:
    found = log_to_clean(dirty, uncleanable, SIZES)
    assert (found.first_uncleanable_offset, found.clean_bytes, found.cleanable_bytes) == expected


def candidate(
    clean: int, cleanable: int, *, must: bool = False, ratio: float = 0.5, excluded: bool = False
) -> Candidate:
    return Candidate(LogToClean(0, 10, clean, cleanable, must), ratio, excluded)


@pytest.mark.spec("LM-15")
def test_the_dirtiest_log_that_is_worth_it_is_chosen() -> None:
    logs = {
        "half": candidate(50, 50),
        "dirty": candidate(40, 60),
        "dirtier": candidate(10, 90),
        "busy": candidate(0, 100, excluded=True),
        "empty": candidate(0, 0, must=True, ratio=-1.0),
    }
    assert dirtiest(logs.items()) == "dirtier"
    del logs["dirtier"]
    assert dirtiest(logs.items()) == "dirty"
    del logs["dirty"]
    assert dirtiest(logs.items()) is None  # exactly the ratio is not enough


@pytest.mark.spec("LM-15")
def test_an_overdue_log_is_cleaned_below_the_ratio_if_there_is_something_to_clean() -> None:
    assert dirtiest([("late", candidate(99, 1, must=True))]) == "late"
    assert dirtiest([("late", candidate(99, 0, must=True))]) is None
    assert dirtiest([("late", candidate(99, 1, must=True)), ("dirty", candidate(1, 99))]) == "dirty"


def grouped(segments: list[SegmentSize], end: int, log_bytes: int = 1000, index_bytes: int = 100) -> list[list[int]]:
    return [
        [segments[place].base_offset for place in group]
        for group in group_segments(segments, log_bytes, index_bytes, end)
    ]


@pytest.mark.spec("LM-18")
def test_neighbours_are_grouped_as_long_as_they_fit_one_segment() -> None:
    sizes = [SegmentSize(base, 400, 10, 10) for base in (0, 10, 20, 30, 40)]
    assert grouped(sizes, 50) == [[0, 10], [20, 30], [40]]
    assert grouped(sizes, 50, log_bytes=1200) == [[0, 10, 20], [30, 40]]
    assert grouped(sizes, 50, log_bytes=100) == [[0], [10], [20], [30], [40]]
    assert grouped(sizes, 50, log_bytes=9999, index_bytes=29) == [[0, 10], [20, 30], [40]]
    by_time = [size._replace(offset_index_bytes=0) for size in sizes]
    assert grouped(by_time, 50, log_bytes=9999, index_bytes=20) == [[0, 10], [20, 30], [40]]
    assert grouped([], 0) == []


@pytest.mark.spec("LM-18")
def test_the_offsets_of_a_group_fit_an_int32() -> None:
    far = MAX_RELATIVE_OFFSET
    sizes = [SegmentSize(0, 1), SegmentSize(10, 1), SegmentSize(far + 1, 1)]
    assert grouped(sizes, far + 2) == [[0, 10], [far + 1]]
    assert grouped(sizes[:2], far + 1) == [[0, 10]]
    assert grouped(sizes[:2], far + 2) == [[0], [10]]
    empty = [SegmentSize(0, 1), SegmentSize(10, 0), SegmentSize(2 * far, 1)]
    assert grouped(empty, 3 * far) == [[0, 10], [2 * far]]


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 60), st.integers(0, 60)), max_size=20),
    st.integers(1, 1000),
    st.integers(1, 100),
)
@pytest.mark.spec("LM-18")
def test_groups_cover_all_segments_in_order(
    shapes: list[tuple[int, int, int]], log_bytes: int, index_bytes: int
) -> None:
    sizes = [SegmentSize(10 * place, *shape) for place, shape in enumerate(shapes)]
    groups = group_segments(sizes, log_bytes, index_bytes, 10 * len(sizes))
    assert [place for group in groups for place in group] == list(range(len(sizes)))
    for group in groups:
        if len(group) > 1:
            members = [sizes[place] for place in group]
            assert sum(each.log_bytes for each in members) <= log_bytes
            assert sum(each.offset_index_bytes for each in members) <= index_bytes
            assert sum(each.time_index_bytes for each in members) <= index_bytes
