"""The index of partitions equals a scan of the image, after any sequence of changes and however it was made."""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.metadata.histories import BROKERS, History
from tailrace.controller.partition_index import PartitionIndex, PartitionKey
from tailrace.controller.state import PreparedState
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.partition_registration import NO_LEADER, PartitionRegistration

REPLICAS = st.lists(st.sampled_from(BROKERS), unique=True, max_size=3).map(tuple)
DIRECTORIES = (b"a" * 16, b"b" * 16)
REGISTRATIONS = st.builds(
    PartitionRegistration,
    replicas=REPLICAS,
    isr=REPLICAS,
    leader=st.sampled_from((NO_LEADER, *BROKERS)),
    directories=st.lists(st.sampled_from(DIRECTORIES), max_size=3).map(tuple),
    adding_replicas=REPLICAS,
    elr=REPLICAS,
)
KEYS = st.tuples(st.sampled_from((b"t" * 16, b"u" * 16)), st.integers(0, 2))
CHANGES = st.lists(st.tuples(KEYS, st.none() | REGISTRATIONS), max_size=30)


@given(CHANGES)
@settings(max_examples=examples(200))
def test_the_index_equals_a_scan_after_any_changes(
    changes: list[tuple[PartitionKey, PartitionRegistration | None]],
) -> None:
    index, known = PartitionIndex(), dict[PartitionKey, PartitionRegistration]()
    for key, registration in changes:
        if registration is None:
            index.remove(key)
            known.pop(key, None)
        else:
            index.put(key, registration)
            known[key] = registration
        check_index(index, known)


def test_a_change_of_the_isr_leaves_the_brokers_that_stay_in_it_alone() -> None:
    index, first, second = PartitionIndex(), (b"t" * 16, 0), (b"t" * 16, 1)
    for key in (first, second):
        index.put(key, PartitionRegistration(replicas=(1, 2, 3), isr=(1, 2), leader=1))
    index.put(first, PartitionRegistration(replicas=(1, 2, 3), isr=(1, 3), leader=1))
    assert index.in_sync(1) == [first, second]  # in their order: the entry of the first was not written again
    assert (index.in_sync(2), index.in_sync(3)) == ([second], [first])


@given(st.integers(0, 1 << 32))
@settings(max_examples=examples(50))
def test_a_prepared_state_has_the_index_of_its_image(seed: int) -> None:
    image = History(random.Random(seed)).grow(40).image
    prepared = PreparedState.of(image)
    check_index(prepared.partitions, partitions_of(image))
    assert prepared.image.topics == image.topics
    assert not any(topic is image.topics[name] for name, topic in prepared.image.topics.items())


def check_index(index: PartitionIndex, known: dict[PartitionKey, PartitionRegistration]) -> None:
    def scan(is_listed: Callable[[PartitionRegistration], bool]) -> set[PartitionKey]:
        return {key for key, each in known.items() if is_listed(each)}

    for broker_id in BROKERS:
        assert set(index.in_sync(broker_id)) == scan(lambda each: broker_id in each.isr)  # noqa: B023
        assert set(index.eligible(broker_id)) == scan(lambda each: broker_id in each.elr)  # noqa: B023
        assert index.leads(broker_id) == bool(scan(lambda each: each.leader == broker_id))  # noqa: B023
    for directory in DIRECTORIES:
        assert set(index.in_directory(directory)) == scan(lambda each: directory in each.directories)  # noqa: B023
    assert set(index.leaderless()) == scan(lambda each: not each.has_leader)
    assert set(index.not_preferred()) == scan(lambda each: each.leader != each.preferred_leader)
    assert set(index.reassigning()) == scan(lambda each: each.is_reassigning)
    counts = index.partition_count, index.leaderless_count, index.not_preferred_count
    assert counts == (len(known), len(index.leaderless()), len(index.not_preferred()))


def partitions_of(image: MetadataImage) -> dict[PartitionKey, PartitionRegistration]:
    return {(topic.id, index): each for topic in image.topics.values() for index, each in topic.partitions.items()}
