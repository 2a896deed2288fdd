"""Where new replicas go, across racks and brokers that may be fenced."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.controller.placement import UsableBroker, place
from tailrace.model.errors import InvalidReplicationFactorError


def brokers(racks: dict[str | None, int], fenced: set[int] = frozenset()) -> list[UsableBroker]:  # type: ignore[assignment]
    ids = iter(range(1000))
    return [
        UsableBroker(broker_id := next(ids), rack, broker_id in fenced)
        for rack, count in racks.items()
        for _ in range(count)
    ]


def used(usable: list[UsableBroker], factor: int) -> set[int]:
    """The brokers that hold any replica of some partitions."""
    return {broker for replicas in place(usable, 50, factor, random.Random(4)) for broker in replicas}


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[UsableBroker], int, int]:
    racks = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    found = [
        UsableBroker(rack * 10 + each, f"rack{rack}", draw(st.booleans()))
        for rack, count in enumerate(racks)
        for each in range(count)
    ]
    if all(each.is_fenced for each in found):
        found[0] = found[0]._replace(is_fenced=False)
    return found, draw(st.integers(1, 40)), draw(st.integers(1, len(found)))


@given(clusters(), st.integers())
def test_every_placement_is_sound(cluster: tuple[list[UsableBroker], int, int], seed: int) -> None:
    usable, partitions, factor = cluster
    by_id = {each.id: each for each in usable}
    racks = {each.rack for each in usable}
    placed = place(usable, partitions, factor, random.Random(seed))
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert not by_id[replicas[0]].is_fenced
        # As many racks as can be, as long as every rack has a broker for its turn.
        assert len({by_id[each].rack for each in replicas}) >= min(factor, len(racks)) - 1


def test_replicas_are_in_as_many_racks_as_there_are() -> None:
    usable = brokers({"a": 3, "b": 3, "c": 3})
    rack_of = {each.id: each.rack for each in usable}
    for replicas in place(usable, 90, 3, random.Random(1)):
        assert {rack_of[each] for each in replicas} == {"a", "b", "c"}


def test_leaders_and_replicas_are_spread_evenly() -> None:
    usable = brokers({"a": 3, "b": 3, "c": 3})
    rack_of = {each.id: each.rack for each in usable}
    placed = place(usable, 900, 3, random.Random(2))
    assert set(Counter(rack_of[replicas[0]] for replicas in placed).values()) == {300}
    assert {replicas[0] for replicas in placed} == {each.id for each in usable}
    held = Counter(each for replicas in placed for each in replicas)
    assert set(held.values()) == {300}


def test_one_round_uses_every_broker_as_leader_once() -> None:
    usable = brokers({"a": 1, "b": 1, "c": 1, "d": 1})
    assert sorted(replicas[0] for replicas in place(usable, 4, 2, random.Random(3))) == [0, 1, 2, 3]


def test_fenced_brokers_come_last_in_their_rack() -> None:
    usable = brokers({"a": 3, "b": 3}, fenced={0, 3})
    assert not {0, 3} & used(usable, 4)
    for replicas in place(usable, 50, 6, random.Random(4)):
        assert set(replicas) == set(range(6))
        assert replicas[0] not in (0, 3)


def test_brokers_without_rack_are_one_rack_together() -> None:
    placed = place(brokers({None: 3}), 9, 3, random.Random(5))
    assert all(set(replicas) == {0, 1, 2} for replicas in placed)


def test_a_single_broker_takes_everything() -> None:
    assert place([UsableBroker(7)], 5, 1, random.Random(6)) == [[7]] * 5


@pytest.mark.parametrize(
    ("usable", "factor", "message"),
    [
        ([UsableBroker(1)], 0, "must be positive"),
        ([UsableBroker(1)], 2, "only 1 broker"),
        ([UsableBroker(1, None, True)], 1, "All brokers are currently fenced"),
        ([], 1, "All brokers are currently fenced"),
    ],
)
def test_impossible_placements(usable: list[UsableBroker], factor: int, message: str) -> None:
    with pytest.raises(InvalidReplicationFactorError, match=message):
        place(usable, 1, factor, random.Random(7))


def test_several_replicas_go_to_brokers_that_can_replicate() -> None:
    mixed = [UsableBroker(each, can_replicate=each > 2) for each in range(1, 6)]
    assert used(mixed, 3) == {3, 4, 5}
    assert used(mixed, 1) == {1, 2, 3, 4, 5}
    with pytest.raises(InvalidReplicationFactorError, match="because only 3 broker"):
        used(mixed, 4)
    with pytest.raises(InvalidReplicationFactorError, match=r"\(brokers 1, 2\)\. Use replication factor 1"):
        used(mixed[:2], 2)
    with pytest.raises(InvalidReplicationFactorError, match=r"\(brokers 0, 1, 2, 3, 4, …\)"):
        used([UsableBroker(each, can_replicate=False) for each in range(9)], 2)
