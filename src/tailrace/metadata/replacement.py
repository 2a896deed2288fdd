"""Replaces the contents of an image in place and returns the difference.

Two events replace an image: a snapshot that arrives while the node runs, and a controller that discards records which
were appended but not committed. In both cases other objects keep references to the image, its dictionaries and its
topics, so these objects stay the same ones and only their contents change.

The difference is the one that a replay of records would have noted: a topic that was deleted and created again under
its name is in `deleted_topics` with its old id, and in `created_topics` with its new one. Only values that differ are
listed, however many records a replay would have taken.

Large images are replaced without stopping their owner. `snapshot_delta` may run on any thread and does the work that
grows with the size of a snapshot: it decodes the records and compares them with the image that is going to be replaced.
What is left for the owner is `adopt_image` if its image is empty, and `replace_image` otherwise, which compares
partitions by identity where nothing has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import compress
from operator import is_not
from typing import TypeVar

from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.topic_image import TopicImage
from tailrace.protocol.record_frame import VersionedRecord

K = TypeVar("K")
V = TypeVar("V")


def image_of(records: Iterable[VersionedRecord]) -> MetadataImage:
    """The image that a snapshot's records make. Raises InconsistentMetadataError if they contradict each other.

    It shares nothing with other images: any thread may call this.
    """
    return snapshot_delta(records).image


def snapshot_delta(records: Iterable[VersionedRecord], known: MetadataImage | None = None) -> MetadataDelta:
    """The image of a snapshot, with everything in it as new. See `image_of`.

    Partitions and brokers that `known` has with equal values become the same objects. `known` is only looked up. It may
    change on another thread: a value that has just changed there is then not shared.
    """
    delta = MetadataDelta(MetadataImage())
    if known is not None:
        delta.image.ids = known.ids
    for each in records:
        delta.replay(each.record)
    if known is not None:
        for topic in delta.image.topics.values():
            _share_partitions(topic, known.topics.get(topic.name))
        _share(delta.image.brokers, known.brokers)
    return delta


def _share_partitions(topic: TopicImage, known: TopicImage | None) -> None:
    if known is None or known.id != topic.id:
        return
    _share(topic.partitions, known.partitions)


def _share(values: dict[K, V], known: dict[K, V]) -> None:
    for key, value in values.items():
        present = known.get(key)
        if present is not None and present == value:
            values[key] = present


def copied(image: MetadataImage) -> MetadataImage:
    """A separate image with the same immutable values. Any thread may call this while `image` does not change."""
    copy = MetadataImage()
    copy.ids = image.ids
    for topic in image.topics.values():
        own = TopicImage(topic.name, topic.id, topic.partitions.copy())
        copy.topics[topic.name] = copy.topics_by_id[topic.id] = own
    copy.brokers.update(image.brokers)
    _copy_rest(copy, image)
    return copy


def adopt_image(image: MetadataImage, delta: MetadataDelta) -> MetadataDelta:
    """Give the empty `image` the contents of the image of `delta`, which must not be used afterwards.

    Offset, epoch and timestamp are replaced as well. Returns the delta, now of `image`.
    """
    new = delta.image
    image.ids = new.ids
    image.topics.update(new.topics)
    image.topics_by_id.update(new.topics_by_id)
    image.brokers.update(new.brokers)
    _copy_rest(image, new)
    delta.image = image
    return delta


def apply_difference(image: MetadataImage, new: MetadataImage, difference: MetadataDelta) -> MetadataDelta:
    """Make `image` equal to `new`, from which it differs by no more than `difference`; see `replace_image`.

    The order of topics may be another one.
    """
    delta = MetadataDelta(image)
    for gone in difference.deleted_topics:
        topic = image.topics_by_id.pop(gone.id)
        del image.topics[topic.name]
        delta.deleted_topics.append(topic)
    for name, created in difference.created_topics.items():
        topic = TopicImage(name, created.id)
        image.topics[name] = image.topics_by_id[created.id] = delta.created_topics[name] = topic
    for (name, index), registration in difference.changed_partitions.items():
        image.topics[name].partitions[index] = registration
    for removed, index in difference.removed_partitions:
        topic = image.topics_by_id[removed.id]
        del topic.partitions[index]
        delta.removed_partitions.append((topic, index))
    for broker_id in difference.changed_brokers:
        if broker_id in new.brokers:
            image.brokers[broker_id] = new.brokers[broker_id]
        else:
            image.brokers.pop(broker_id, None)
    delta.changed_partitions = difference.changed_partitions
    delta.changed_configs, delta.changed_brokers = difference.changed_configs, difference.changed_brokers
    delta.features_changed = difference.features_changed
    _copy_rest(image, new)
    return delta


def replace_image(image: MetadataImage, new: MetadataImage) -> MetadataDelta:
    """Give `image` the contents of `new`, which is not changed and shares nothing mutable with `image` afterwards.

    Offset, epoch and timestamp are replaced as well.
    """
    delta = MetadataDelta(image)
    _replace_topics(delta, new)
    delta.changed_configs = _differing(image.configs, new.configs)
    delta.changed_brokers = _differing(image.brokers, new.brokers)
    delta.features_changed = image.features != new.features
    _refill(image.brokers, new.brokers)
    _copy_rest(image, new)
    return delta


def _copy_rest(image: MetadataImage, new: MetadataImage) -> None:
    """All but topics and brokers."""
    _refill(image.configs, {resource: dict(overrides) for resource, overrides in new.configs.items()})
    _refill(image.features, new.features)
    _refill(image.controllers, new.controllers)
    _refill(image.kept, new.kept)
    image.next_producer_id = new.next_producer_id
    image.held_back = None if new.held_back is None else list(new.held_back)
    image.offset, image.epoch, image.timestamp_ms = new.offset, new.epoch, new.timestamp_ms


def _replace_topics(delta: MetadataDelta, new: MetadataImage) -> None:
    image = delta.image
    topics: dict[str, TopicImage] = {}
    for name, replacement in new.topics.items():
        topic = image.topics.get(name)
        if topic is None or topic.id != replacement.id:
            topic = delta.created_topics[name] = TopicImage(name, replacement.id)
        topics[name] = topic
        _replace_partitions(delta, topic, replacement)
    delta.deleted_topics = [topic for topic in image.topics.values() if topics.get(topic.name) is not topic]
    by_id: dict[bytes, TopicImage] = {topic.id: topic for topic in topics.values()}
    _refill(image.topics, topics)
    _refill(image.topics_by_id, by_id)


def _replace_partitions(delta: MetadataDelta, topic: TopicImage, replacement: TopicImage) -> None:
    present, partitions = topic.partitions, replacement.partitions
    are_ordered = list(present) == list(partitions)
    if are_ordered and present == partitions:  # values that are the same object are not compared further
        return
    if are_ordered:  # pairs are compared by identity without a look-up
        differ = map(is_not, present.values(), partitions.values())
        for index, registration in list(compress(partitions.items(), differ)):
            if present[index] != registration:
                delta.changed_partitions[topic.name, index] = present[index] = registration
        return
    for index, registration in partitions.items():
        known = present.get(index)
        if known is not registration and known != registration:
            delta.changed_partitions[topic.name, index] = registration
    delta.removed_partitions += [(topic, index) for index in present if index not in partitions]
    _refill(present, partitions)


def _differing(present: dict[K, V], new: dict[K, V]) -> set[K]:
    """Keys that only one of the two has, or that have another value."""
    pairs = ((key, present.get(key), new.get(key)) for key in present.keys() | new.keys())
    return {key for key, one, other in pairs if one is not other and one != other}


def _refill(present: dict[K, V], new: Mapping[K, V]) -> None:
    """Give `present` the contents and the order of `new`."""
    present.clear()
    present.update(new)
