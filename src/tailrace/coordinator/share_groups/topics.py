"""Which partitions of a share group have a state at the share coordinator.

    initializing   it was asked for, and the answer is not noted yet
    initialized    it is there: the partition may be assigned
    deleting       it is being taken away

A partition is in one of them, or in none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tailrace.coordinator.consumer.partitions import Partitions
from tailrace.metadata.image import MetadataImage
from tailrace.protocol.records.share_groups import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)

UNKNOWN_TOPIC: Final = "<UNKNOWN>"


class SharedTopic(NamedTuple):
    """`since_ms` is when this coordinator heard of it: no record says that."""

    name: str
    partitions: frozenset[int]
    since_ms: int = 0


Topics = Mapping[bytes, SharedTopic]
NO_TOPICS: Final[Topics] = {}
NO_NAMES: Final[Mapping[bytes, str]] = {}


class SharedTopics(NamedTuple):
    initializing: Topics = NO_TOPICS
    initialized: Topics = NO_TOPICS
    deleting: Mapping[bytes, str] = NO_NAMES

    # What should happen

    def missing(
        self, names: Iterable[str], image: MetadataImage, now_ms: int, retry_ms: int
    ) -> dict[bytes, SharedTopic]:
        """Partitions of these topics that have no state, and none that was asked for in the last `retry_ms`."""
        asked = {topic_id: topic for topic_id, topic in self.initializing.items() if now_ms - topic.since_ms < retry_ms}
        have = united(self.initialized, asked)
        found: dict[bytes, SharedTopic] = {}
        for name in names:
            topic = image.topics.get(name)
            if topic is None:
                continue
            known = have.get(topic.id)
            lacking = frozenset(topic.partitions) - (known.partitions if known is not None else frozenset())
            if lacking:
                found[topic.id] = SharedTopic(name, lacking, now_ms)
        return found

    def assignable(self) -> dict[bytes, frozenset[int]]:
        return {topic_id: topic.partitions for topic_id, topic in self.initialized.items()}

    def all_known(self) -> Topics:
        return united(self.initialized, self.initializing)

    # What becomes of it

    def initialize(self, topics: Topics) -> SharedTopics:
        deleting = {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topics}
        return self._replace(initializing=united(self.initializing, topics), deleting=deleting)

    def initialization_ended(self, partitions: Partitions, image: MetadataImage, now_ms: int) -> SharedTopics:
        done = {
            topic_id: SharedTopic(_name(topic_id, image), indexes, now_ms) for topic_id, indexes in partitions.items()
        }
        return self._replace(
            initializing=_without(self.initializing, partitions), initialized=united(self.initialized, done)
        )

    def initialization_failed(self, partitions: Partitions) -> SharedTopics:
        return self._replace(initializing=_without(self.initializing, partitions))

    def begin_deletion(self, topics: Mapping[bytes, str]) -> SharedTopics:
        return self._replace(
            initialized={topic_id: each for topic_id, each in self.initialized.items() if topic_id not in topics},
            deleting={**self.deleting, **topics},
        )

    def all_in_deletion(self) -> SharedTopics:
        names = {topic_id: topic.name for topic_id, topic in self.all_known().items()}
        return SharedTopics(deleting={**self.deleting, **names})

    def deletion_ended(self, topic_ids: Iterable[bytes]) -> SharedTopics:
        gone = set(topic_ids)
        return self._replace(deleting={each: name for each, name in self.deleting.items() if each not in gone})

    def forget(self, topic_ids: set[bytes]) -> SharedTopics:
        """The topics do not exist any more."""
        return SharedTopics(
            {each: topic for each, topic in self.initializing.items() if each not in topic_ids},
            {each: topic for each, topic in self.initialized.items() if each not in topic_ids},
            {each: name for each, name in self.deleting.items() if each not in topic_ids},
        )

    # As a record

    def value(self) -> ShareGroupStatePartitionMetadataValue:
        return ShareGroupStatePartitionMetadataValue(
            initializing_topics=_infos(self.initializing),
            initialized_topics=_infos(self.initialized),
            deleting_topics=[TopicInfo(topic_id=each, topic_name=name) for each, name in sorted(self.deleting.items())],
        )

    @classmethod
    def of(cls, value: ShareGroupStatePartitionMetadataValue, now_ms: int) -> SharedTopics:
        return cls(
            _topics(value.initializing_topics, now_ms),
            _topics(value.initialized_topics, now_ms),
            {each.topic_id: each.topic_name for each in value.deleting_topics},
        )


def united(first: Topics, second: Topics) -> dict[bytes, SharedTopic]:
    together = dict(first)
    for topic_id, topic in second.items():
        known = together.get(topic_id)
        together[topic_id] = topic if known is None else topic._replace(partitions=known.partitions | topic.partitions)
    return together


def _without(topics: Topics, partitions: Partitions) -> dict[bytes, SharedTopic]:
    left = {
        topic_id: topic._replace(partitions=topic.partitions - partitions.get(topic_id, frozenset()))
        for topic_id, topic in topics.items()
    }
    return {topic_id: topic for topic_id, topic in left.items() if topic.partitions}


def _name(topic_id: bytes, image: MetadataImage) -> str:
    topic = image.topic_by_id(topic_id)
    return UNKNOWN_TOPIC if topic is None else topic.name


def _infos(topics: Topics) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions))
        for topic_id, topic in sorted(topics.items())
    ]


def _topics(infos: list[TopicPartitionsInfo], now_ms: int) -> dict[bytes, SharedTopic]:
    return {each.topic_id: SharedTopic(each.topic_name, frozenset(each.partitions), now_ms) for each in infos}
