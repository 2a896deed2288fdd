"""Who reads what in a share group."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tailrace.coordinator.share_groups.assignor import MemberNeeds, assign

A, B = b"a" * 16, b"b" * 16


def needs(*topics: bytes, has: dict[bytes, frozenset[int]] | None = None) -> MemberNeeds:
    return MemberNeeds(frozenset(topics), has or {})


def test_nobody_gets_nothing() -> None:
    assert assign({}, {A: frozenset({0})}) == {}
    assert assign({"m": needs(A)}, {}) == {"m": {}}


def test_partitions_are_shared_out() -> None:
    given_out = assign({"m": needs(A), "n": needs(A)}, {A: frozenset(range(5))})
    assert sorted(len(given_out[name][A]) for name in "mn") == [2, 3]
    assert given_out["m"][A] | given_out["n"][A] == set(range(5))


def test_more_members_than_partitions_read_together() -> None:
    given_out = assign({name: needs(A) for name in "mnopq"}, {A: frozenset({0, 1})})
    readers = Counter(index for each in given_out.values() for index in each[A])
    assert set(readers) == {0, 1}
    assert all(each[A] for each in given_out.values())


def test_a_member_keeps_what_it_has() -> None:
    before = assign({"m": needs(A)}, {A: frozenset(range(4))})
    after = assign({"m": needs(A, has=dict(before["m"])), "n": needs(A)}, {A: frozenset(range(4))})
    assert after["m"][A] < before["m"][A]
    assert len(after["m"][A]) == len(after["n"][A]) == 2


def test_members_with_different_topics_get_only_their_own() -> None:
    given_out = assign({"m": needs(A), "n": needs(A, B)}, {A: frozenset({0, 1}), B: frozenset({0})})
    assert given_out["m"].keys() == {A}
    assert given_out["n"][B] == {0}
    assert given_out["m"][A] | given_out["n"].get(A, frozenset()) == {0, 1}


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 9), st.data())
def test_everything_is_read_and_nobody_reads_much_more_than_another(
    members: int, partitions: int, left: int, data: st.DataObject
) -> None:
    """Also when members leave and come, and keep what they have."""
    assignable = {A: frozenset(range(partitions))}
    names = [f"m{each}" for each in range(members)]
    first = assign({name: needs(A) for name in names}, assignable)
    stay = data.draw(st.lists(st.sampled_from(names), unique=True))
    new = [f"n{each}" for each in range(left)]
    again = {name: needs(A, has=dict(first[name])) for name in stay} | {name: needs(A) for name in new}
    for given_out in (first, assign(again, assignable)):
        if not given_out:
            continue
        sizes = [len(each.get(A, ())) for each in given_out.values()]
        readers = Counter(index for each in given_out.values() for index in each.get(A, ()))
        assert set(readers) == set(range(partitions))
        assert max(sizes) - min(sizes) <= 1
        assert sum(sizes) == -(-len(given_out) // partitions) * partitions
