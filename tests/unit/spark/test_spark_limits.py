"""What a micro-batch takes: never more than there is, about as much as is allowed, something of everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tailrace.model.ids import TopicPartition
from tailrace.spark.source.limits import admit, within

A, B, C = (TopicPartition("t", number) for number in range(3))


def test_without_limits_everything_is_taken() -> None:
    assert admit({A: 0, B: 5}, {A: 10, B: 5}) == {A: 10, B: 5}


def test_the_most_is_shared_by_what_is_waiting() -> None:
    assert admit({A: 0, B: 100}, {A: 300, B: 200}, max_offsets=40) == {A: 30, B: 110}


def test_all_is_taken_where_it_is_not_more_than_allowed() -> None:
    assert admit({A: 0, B: 0}, {A: 7, B: 3}, max_offsets=10) == {A: 7, B: 3}


def test_small_partitions_are_not_left_out() -> None:
    assert admit({A: 0, B: 0, C: 9}, {A: 1_000_000, B: 1, C: 9}, max_offsets=10) == {A: 9, B: 1, C: 9}


def test_offsets_near_the_largest_are_no_trouble() -> None:
    most = (1 << 63) - 1
    assert admit({A: 5, B: 0}, {A: most, B: most}, max_offsets=most) == {
        A: 5 + most * (most - 5) // (2 * most - 5),
        B: most * most // (2 * most - 5),
    }


def test_a_log_that_was_cut_ends_where_it_ends() -> None:
    assert admit({A: 100, B: 0}, {A: 50, B: 10}, max_offsets=4) == {A: 50, B: 4}


def test_a_batch_waits_for_the_least_but_not_for_ever() -> None:
    def after(delayed_ms: int | None, end: int = 9) -> dict[TopicPartition, int] | None:
        return admit({A: 0}, {A: end}, min_offsets=10, max_offsets=20, delayed_ms=delayed_ms, max_delay_ms=1_000)

    assert after(0) is None
    assert after(999) is None
    assert after(1_000) == {A: 9}
    assert after(0, end=10) == {A: 10}
    assert after(0, end=100) == {A: 20}


def test_the_first_batch_of_a_run_does_not_wait() -> None:
    assert admit({A: 0}, {A: 1}, min_offsets=10, delayed_ms=None, max_delay_ms=1_000) == {A: 1}


def test_a_query_with_a_target_does_not_pass_it() -> None:
    assert within({A: 10, B: 4, C: 7}, {A: 8, B: 5}) == {A: 8, B: 4}


PARTITIONS = st.dictionaries(
    st.integers(0, 8).map(lambda number: TopicPartition("t", number)),
    st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 20) | st.integers(0, 3)),
    max_size=9,
)


@given(PARTITIONS, st.integers(1, 1 << 21))
def test_shares_keep_to_the_limit_and_starve_nobody(
    partitions: dict[TopicPartition, tuple[int, int]], most: int
) -> None:
    start = {each: begin for each, (begin, _) in partitions.items()}
    latest = {each: begin + size for each, (begin, size) in partitions.items()}
    admitted = admit(start, latest, max_offsets=most)
    assert admitted is not None
    assert admitted.keys() == latest.keys()
    taken = {each: admitted[each] - start[each] for each in start}
    assert all(start[each] <= admitted[each] <= latest[each] for each in start)
    assert all(taken[each] > 0 for each, (_, size) in partitions.items() if size)
    assert sum(taken.values()) <= most + len(partitions)
    waiting = sum(size for _, size in partitions.values())
    assert sum(taken.values()) == waiting or sum(taken.values()) > min(most, waiting) - len(partitions)


@given(PARTITIONS, st.integers(1, 1 << 21))
def test_repeated_batches_come_to_the_end(partitions: dict[TopicPartition, tuple[int, int]], most: int) -> None:
    at = {each: begin for each, (begin, _) in partitions.items()}
    latest = {each: begin + min(size, 200) for each, (begin, size) in partitions.items()}
    for _ in range(2_000):
        if at == latest:
            return
        following = admit(at, latest, max_offsets=most)
        assert following is not None
        assert following != at
        at = following
    raise AssertionError("it never ends")


@given(PARTITIONS, st.integers(1, 1 << 21), st.integers(0, 2_000))
def test_waiting_depends_on_the_least_and_on_time_only(
    partitions: dict[TopicPartition, tuple[int, int]], least: int, delayed_ms: int
) -> None:
    start = {each: begin for each, (begin, _) in partitions.items()}
    latest = {each: begin + size for each, (begin, size) in partitions.items()}
    admitted = admit(start, latest, min_offsets=least, delayed_ms=delayed_ms, max_delay_ms=1_000)
    waits = sum(size for _, size in partitions.values()) < least and delayed_ms < 1_000
    assert (admitted is None) == waits
