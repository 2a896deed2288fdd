"""An image that is replaced in place has the new contents, and the delta is the difference."""

from __future__ import annotations

import copy
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.metadata.histories import History, contents
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.partition_registration import PartitionRegistration
from tailrace.metadata.replacement import (
    adopt_image,
    apply_difference,
    copied,
    image_of,
    replace_image,
    snapshot_delta,
)
from tailrace.metadata.topic_image import TopicImage
from tailrace.model.errors import InconsistentMetadataError
from tailrace.model.ids import TopicId
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.topics import PartitionRecord, TopicRecord

T = TopicId(b"t" * 16)


def two_histories(seed: int) -> tuple[History, History]:
    """Independent ones, one that extends the other in either direction, or two with the same beginning."""
    dice = random.Random(seed)
    one = History(dice).grow(dice.randint(0, 40))
    relation = dice.randrange(4)
    if relation == 0:
        return one, History(dice).grow(dice.randint(0, 40))
    other = one.fork()
    if relation in (1, 3):
        other.grow(dice.randint(0, 20))
    if relation in (2, 3):
        one.grow(dice.randint(0, 20))
    return one, other


def snapshot_of(history: History) -> MetadataImage:
    image = image_of(history.image.records())
    image.offset, image.epoch, image.timestamp_ms = history.image.offset, 5, 99
    return image


def partitions_of(image: MetadataImage) -> dict[tuple[bytes, int], PartitionRegistration]:
    return {(topic.id, index): each for topic in image.topics.values() for index, each in topic.partitions.items()}


@given(st.integers(0, 1 << 32))
@settings(max_examples=examples(200))
def test_replacing_an_image_by_a_snapshot_equals_the_history_of_the_snapshot(seed: int) -> None:
    one, other = two_histories(seed)
    image, snapshot = one.image, snapshot_of(other)
    dictionaries = {name: value for name, value in contents(image).items() if isinstance(value, dict)}
    kept_topics = {topic.id: topic for topic in image.topics.values() if topic.id in snapshot.topics_by_id}
    before, expected = copy.deepcopy(image), copy.deepcopy(snapshot)

    delta = replace_image(image, snapshot)

    assert contents(image) == contents(expected)
    assert contents(snapshot) == contents(expected)
    assert list(image.records()) == list(expected.records())
    assert all(getattr(image, name) is value for name, value in dictionaries.items())
    assert all(image.topics[topic.name] is topic for topic in kept_topics.values())
    check_difference(delta, before, expected)
    # Nothing is shared: a later change of one image does not show in the other.
    one.image.offset = len(one.records)
    History.grow(_continued(image), 10)
    assert contents(snapshot) == contents(expected)


def _continued(image: MetadataImage) -> History:
    history = History(random.Random(1))
    history.image = image
    return history


def check_difference(delta: MetadataDelta, before: MetadataImage, after: MetadataImage) -> None:
    old_ids, new_ids = set(before.topics_by_id), set(after.topics_by_id)
    assert {topic.id for topic in delta.deleted_topics} == old_ids - new_ids
    assert all(topic.partitions == before.topics_by_id[topic.id].partitions for topic in delta.deleted_topics)
    assert {topic.id for topic in delta.created_topics.values()} == new_ids - old_ids
    old, new = partitions_of(before), partitions_of(after)
    changed = {(after.topics[name].id, index): each for (name, index), each in delta.changed_partitions.items()}
    assert changed == {key: each for key, each in new.items() if old.get(key) != each}
    removed = {(topic.id, index) for topic, index in delta.removed_partitions}
    assert removed == {key for key in old if key not in new and key[0] in new_ids}
    for field, changed_keys in (("configs", delta.changed_configs), ("brokers", delta.changed_brokers)):
        one, other = getattr(before, field), getattr(after, field)
        assert changed_keys == {key for key in {*one, *other} if one.get(key) != other.get(key)}
    assert delta.features_changed == (before.features != after.features)


@given(st.integers(0, 1 << 32))
@settings(max_examples=examples(50))
def test_the_difference_is_within_what_a_replay_of_the_same_records_notes(seed: int) -> None:
    dice = random.Random(seed)
    history = History(dice).grow(dice.randint(0, 30))
    longer = history.fork().grow(dice.randint(0, 15))
    image = image_of(history.image.records())
    replayed = MetadataDelta(image)
    for record in longer.records[len(history.records) :]:
        replayed.replay(record)
    delta = replace_image(history.image, longer.image)
    assert contents(history.image) == contents(longer.image)
    assert {topic.id for topic in delta.deleted_topics} == {topic.id for topic in replayed.deleted_topics}
    assert delta.created_topics.keys() == replayed.created_topics.keys()
    assert delta.changed_partitions.items() <= replayed.changed_partitions.items()
    assert delta.changed_configs <= replayed.changed_configs
    assert delta.changed_brokers <= replayed.changed_brokers
    assert delta.removed_partitions == replayed.removed_partitions == []


def test_an_equal_image_makes_an_empty_delta() -> None:
    history = History(random.Random(3)).grow(60)
    assert replace_image(history.image, snapshot_of(history)).is_empty


def test_a_partition_that_the_new_image_lacks_is_removed() -> None:
    one = History(random.Random(3))
    one.grow(0, TopicRecord(name="t", topic_id=b"t" * 16), partition(0))
    other = one.fork()
    one.grow(0, partition(1))
    delta = replace_image(one.image, other.image)
    assert delta.removed_partitions == [(one.image.topics["t"], 1)]
    assert delta.touched_topics() == {"t"}
    assert not delta.is_empty
    assert set(one.image.topics["t"].partitions) == {0}


def test_a_replacement_does_not_compare_the_values_of_shared_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    image = MetadataImage()
    topic = image.topics["t"] = image.topics_by_id[T] = TopicImage("t", T)
    for index in range(10):
        topic.partitions[index] = PartitionRegistration(replicas=(1, 2), isr=(1, 2), leader=1)
    new = copied(image)
    changed = PartitionRegistration(replicas=(1, 2), isr=(1,), leader=1)
    new.topics["t"].partitions[4] = changed
    compared: list[PartitionRegistration] = []

    def compare(one: PartitionRegistration, other: PartitionRegistration) -> bool:
        compared.append(other)
        return one is other

    monkeypatch.setattr(PartitionRegistration, "__eq__", compare)
    assert list(replace_image(image, new).changed_partitions) == [("t", 4)]
    assert all(each is changed for each in compared)
    assert topic.partitions[4] is changed


def test_partitions_in_another_order_are_replaced_with_the_order() -> None:
    one, other = History(random.Random(3)), History(random.Random(3))
    for history, indexes in ((one, (0, 1, 2)), (other, (2, 0, 3))):
        history.grow(0, TopicRecord(name="t", topic_id=T), *map(partition, indexes))
    delta = replace_image(one.image, other.image)
    assert list(delta.changed_partitions) == [("t", 3)]
    assert delta.removed_partitions == [(one.image.topics["t"], 1)]
    assert list(one.image.topics["t"].partitions) == [2, 0, 3]


def test_records_of_an_open_transaction_are_copied() -> None:
    image, other = MetadataImage(), MetadataImage()
    other.held_back = [partition(0)]
    assert replace_image(image, other).is_empty
    other.held_back.append(partition(1))
    assert image.held_back == [partition(0)]


def test_a_snapshot_that_contradicts_itself_leaves_the_image_as_it_was() -> None:
    with pytest.raises(InconsistentMetadataError):
        image_of([VersionedRecord(partition(0), 0)])


def partition(index: int) -> PartitionRecord:
    return PartitionRecord(topic_id=b"t" * 16, partition_id=index, replicas=[1], isr=[1], leader=1)


@given(st.integers(0, 1 << 32))
@settings(max_examples=examples(100))
def test_a_difference_makes_a_second_image_equal(seed: int) -> None:
    one, other = two_histories(seed)
    mirror, snapshot = copied(one.image), snapshot_of(other)
    before = copy.deepcopy(mirror)
    kept_topics = {topic.id: topic for topic in mirror.topics.values() if topic.id in snapshot.topics_by_id}

    delta = apply_difference(mirror, one.image, replace_image(one.image, snapshot))

    assert contents(mirror) == contents(one.image)
    assert all(mirror.topics[topic.name] is topic for topic in kept_topics.values())
    assert all(delta.created_topics[name] is mirror.topics[name] for name in delta.created_topics)
    assert not any(topic is one.image.topics[name] for name, topic in delta.created_topics.items())
    check_difference(delta, before, mirror)
    # Only values are shared: a later change of one image does not show in the other.
    History.grow(_continued(mirror), 10)
    assert contents(one.image) == contents(snapshot)


@given(st.integers(0, 1 << 32))
@settings(max_examples=examples(50))
def test_an_empty_image_adopts_a_snapshot(seed: int) -> None:
    history = History(random.Random(seed)).grow(30)
    image, expected = MetadataImage(), snapshot_of(history)
    dictionaries = {name: value for name, value in contents(image).items() if isinstance(value, dict)}
    prepared = snapshot_delta(history.image.records())
    prepared.image.offset, prepared.image.epoch, prepared.image.timestamp_ms = expected.offset, 5, 99

    delta = adopt_image(image, prepared)

    assert contents(image) == contents(expected)
    assert list(image.records()) == list(expected.records())
    assert all(getattr(image, name) is value for name, value in dictionaries.items())
    check_difference(delta, MetadataImage(), image)
    assert delta.image is image


@given(st.integers(0, 1 << 32))
@settings(max_examples=examples(50))
def test_a_snapshot_shares_the_partitions_and_brokers_that_have_not_changed(seed: int) -> None:
    one, other = two_histories(seed)
    known, image = partitions_of(one.image), snapshot_delta(other.image.records(), one.image).image
    for key, registration in partitions_of(image).items():
        assert (registration is known.get(key)) == (registration == known.get(key))
    for broker_id, broker in image.brokers.items():
        assert (broker is one.image.brokers.get(broker_id)) == (broker == one.image.brokers.get(broker_id))
