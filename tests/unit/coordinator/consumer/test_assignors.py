"""Every partition to one subscriber; evenly; and no more moves than that takes."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.coordinator.consumer.assignors import ASSIGNORS, configured_assignors
from tailrace.coordinator.consumer.assignors.range import assign_ranges
from tailrace.coordinator.consumer.assignors.spec import GroupSpec, MemberSpec
from tailrace.coordinator.consumer.assignors.uniform import assign_uniformly
from tailrace.coordinator.consumer.partitions import Partitions

TOPICS = tuple(bytes([number]) * 16 for number in range(1, 6))


def group_of(
    subscriptions: dict[str, frozenset[bytes]],
    counts: dict[bytes, int],
    assigned: dict[str, Partitions] | None = None,
    instances: dict[str, str] | None = None,
) -> GroupSpec:
    members = {
        member_id: MemberSpec((instances or {}).get(member_id), topics, (assigned or {}).get(member_id, {}))
        for member_id, topics in subscriptions.items()
    }
    return GroupSpec(members, counts, len(set(subscriptions.values())) <= 1)


def owners(assignment: dict[str, Partitions]) -> dict[tuple[bytes, int], str]:
    """Fails when a partition has two."""
    found: dict[tuple[bytes, int], str] = {}
    for member_id, partitions in assignment.items():
        for topic_id, indexes in partitions.items():
            assert indexes
            for index in indexes:
                assert (topic_id, index) not in found
                found[topic_id, index] = member_id
    return found


def loads(assignment: dict[str, Partitions]) -> dict[str, int]:
    return {member_id: sum(map(len, partitions.values())) for member_id, partitions in assignment.items()}


def check_complete(group: GroupSpec, assignment: dict[str, Partitions]) -> None:
    assert set(assignment) == set(group.members)
    subscribed = {topic_id for member in group.members.values() for topic_id in member.topics}
    found = owners(assignment)
    assert set(found) == {(topic_id, i) for topic_id in subscribed for i in range(group.partition_counts[topic_id])}
    assert all(topic_id in group.members[owner].topics for (topic_id, _), owner in found.items())


@st.composite
def groups(draw: st.DrawFn, *, uniform: bool | None = None) -> GroupSpec:
    """With an assignment from before, in which members, topics and partitions may be others than now."""
    counts = {topic_id: draw(st.integers(1, 12)) for topic_id in TOPICS}
    some_topics = st.frozensets(st.sampled_from(TOPICS), min_size=0 if uniform is False else 1)
    member_ids = [f"m{number}" for number in range(draw(st.integers(1, 8)))]
    if uniform:
        topics = draw(some_topics)
        subscriptions = dict.fromkeys(member_ids, topics)
    else:
        subscriptions = {member_id: draw(some_topics) for member_id in member_ids}
    before: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in member_ids}
    for topic_id in TOPICS:
        for index in range(counts[topic_id]):
            owner = draw(st.sampled_from([None, *member_ids]))
            if owner is not None:
                before[owner].setdefault(topic_id, set()).add(index)
    assigned: dict[str, Partitions] = {
        member_id: {topic_id: frozenset(indexes) for topic_id, indexes in partitions.items()}
        for member_id, partitions in before.items()
    }
    return group_of(subscriptions, counts, assigned)


@pytest.mark.spec("CO-05")
@pytest.mark.parametrize("name", ASSIGNORS)
@given(groups())
def test_every_partition_goes_to_one_subscriber(name: str, group: GroupSpec) -> None:
    check_complete(group, ASSIGNORS[name](group))


@given(groups(uniform=True))
def test_members_of_one_subscription_own_alike_and_move_as_little_as_can_be(group: GroupSpec) -> None:
    assignment = assign_uniformly(group)
    sizes = sorted(loads(assignment).values())
    assert sizes[-1] - sizes[0] <= 1

    before = {member_id: member.assigned for member_id, member in group.members.items()}
    topics = next(iter(group.members.values())).topics
    held = sorted(
        (sum(len(indexes) for topic_id, indexes in owned.items() if topic_id in topics) for owned in before.values()),
        reverse=True,
    )
    total = sum(group.partition_counts[topic_id] for topic_id in topics)
    share, larger = divmod(total, len(held))
    most_that_can_stay = sum(min(size, share + (place < larger)) for place, size in enumerate(held))
    now = owners(assignment)
    stayed = sum(
        now.get((topic_id, index)) == member_id
        for member_id, owned in before.items()
        for topic_id, indexes in owned.items()
        for index in indexes
    )
    assert stayed == most_that_can_stay


@given(groups(uniform=False))
def test_no_single_move_would_make_a_mixed_group_more_even(group: GroupSpec) -> None:
    assignment = assign_uniformly(group)
    sizes = loads(assignment)
    for (topic_id, _), owner in owners(assignment).items():
        others = [sizes[other] for other, member in group.members.items() if topic_id in member.topics]
        assert sizes[owner] - min(others) <= 1


@given(groups())
def test_an_assignment_that_is_even_stays_as_it_is(group: GroupSpec) -> None:
    once = assign_uniformly(group)
    again = GroupSpec(
        {member_id: member._replace(assigned=once[member_id]) for member_id, member in group.members.items()},
        group.partition_counts,
        group.is_uniform,
    )
    assert assign_uniformly(again) == once


def test_a_newcomer_to_a_mixed_group_takes_no_more_than_its_share() -> None:
    first, second = TOPICS[:2]
    both = frozenset((first, second))
    subscriptions = {"a": both, "b": both, "c": both, "d": frozenset()}
    before: dict[str, Partitions] = {"a": {first: frozenset(range(6))}, "b": {second: frozenset(range(6))}}
    group = group_of(subscriptions, {first: 6, second: 6}, before)
    assert loads(assign_uniformly(group)) == {"a": 4, "b": 4, "c": 4, "d": 0}
    now = owners(assign_uniformly(group))
    assert sum(now[topic_id, index] == "c" for topic_id in both for index in range(6)) == 4


def test_ranges_are_next_to_each_other_and_the_same_for_like_topics() -> None:
    subscription = frozenset(TOPICS[:2])
    group = group_of(dict.fromkeys(("b", "c", "a"), subscription), {TOPICS[0]: 7, TOPICS[1]: 7})
    assert assign_ranges(group) == {
        "a": dict.fromkeys(TOPICS[:2], frozenset({0, 1, 2})),
        "b": dict.fromkeys(TOPICS[:2], frozenset({3, 4})),
        "c": dict.fromkeys(TOPICS[:2], frozenset({5, 6})),
    }


def test_ranges_go_by_instance_ids_first() -> None:
    subscription = frozenset(TOPICS[:1])
    group = group_of(dict.fromkeys(("a", "b", "c"), subscription), {TOPICS[0]: 3}, instances={"b": "i2", "c": "i1"})
    assert assign_ranges(group) == {
        "c": {TOPICS[0]: frozenset({0})},
        "b": {TOPICS[0]: frozenset({1})},
        "a": {TOPICS[0]: frozenset({2})},
    }


def test_members_without_a_partition_are_named_all_the_same() -> None:
    group = group_of(dict.fromkeys(("a", "b"), frozenset(TOPICS[:1])), {TOPICS[0]: 1})
    for assign in ASSIGNORS.values():
        assert Counter(loads(assign(group)).values()) == {0: 1, 1: 1}


@pytest.mark.parametrize("is_mixed", [False, True])
@pytest.mark.parametrize("name", ASSIGNORS)
def test_a_thousand_members_share_ten_thousand_partitions(name: str, is_mixed: bool) -> None:
    """Takes long if anything in it takes members times partitions."""
    random = Random(7)
    counts = {number.to_bytes(16, "big"): 100 for number in range(100)}
    topics = frozenset(counts)
    subscriptions = {
        f"m{number}": frozenset(random.sample(sorted(topics), 50)) if is_mixed else topics for number in range(1_000)
    }
    group = group_of(subscriptions, counts)
    first = ASSIGNORS[name](group)
    check_complete(group, first)
    fewer = dict(list(subscriptions.items())[1:])
    second = ASSIGNORS[name](group_of(fewer, counts, first))
    check_complete(group_of(fewer, counts), second)


def test_assignors_are_configured_by_their_names_or_kafkas() -> None:
    assert configured_assignors(("uniform", "range")) == ("uniform", "range")
    theirs = "org.apache.kafka.coordinator.group.assignor.RangeAssignor"
    assert configured_assignors((theirs, "range", "com.example.Best")) == ("range",)
    assert configured_assignors(()) == ("uniform", "range")
