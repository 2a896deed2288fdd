"""Two accounts of the same records become one."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tailrace.coordinator.share_state.batches import StateBatch, combined


def test_the_later_account_wins() -> None:
    old, new = StateBatch(0, 9, 0, 1), StateBatch(3, 5, 2, 2)
    expected = (StateBatch(0, 2, 0, 1), StateBatch(3, 5, 2, 2), StateBatch(6, 9, 0, 1))
    assert combined([old], [new], -1) == expected
    assert combined([new], [old], -1) == expected


def test_what_is_below_the_start_is_forgotten() -> None:
    batches = [StateBatch(0, 4, 2, 1), StateBatch(5, 9, 0, 1), StateBatch(10, 12, 2, 1)]
    assert combined(batches, [], 7) == (StateBatch(7, 9, 0, 1), StateBatch(10, 12, 2, 1))
    assert combined(batches, [], 20) == ()


def test_neighbours_that_say_the_same_are_one() -> None:
    assert combined([StateBatch(0, 4, 2, 1)], [StateBatch(5, 9, 2, 1)], 0) == (StateBatch(0, 9, 2, 1),)
    assert len(combined([StateBatch(0, 4, 2, 1)], [StateBatch(6, 9, 2, 1)], 0)) == 2


BATCHES = st.lists(
    st.builds(
        lambda first, size, state, count: StateBatch(first, first + size, state, count),
        st.integers(0, 30),
        st.integers(0, 8),
        st.sampled_from([0, 2, 4]),
        st.integers(0, 4),
    ),
    max_size=8,
)


@given(BATCHES, BATCHES, st.integers(-1, 20))
def test_of_each_record_the_highest_account_is_kept(
    first: list[StateBatch], second: list[StateBatch], start: int
) -> None:
    def of(batches: list[StateBatch]) -> dict[int, tuple[int, int]]:
        found: dict[int, tuple[int, int]] = {}
        for batch in batches:
            for offset in range(batch.first, batch.last + 1):
                found[offset] = max(found.get(offset, (-1, -1)), batch.rank)
        return {offset: rank for offset, rank in found.items() if offset >= start}

    result = combined(combined((), first, -1), second, start)
    assert of(list(result)) == of(first + second)
    for before, after in itertools.pairwise(result):
        assert before.last < after.first
        assert before.last + 1 < after.first or before.rank != after.rank
