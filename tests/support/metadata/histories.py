"""Random histories of metadata: records that each are valid after those that precede them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import TOPIC_RESOURCE, MetadataImage
from tailrace.metadata.topic_image import TopicImage
from tailrace.protocol.message import Record
from tailrace.protocol.records.brokers import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from tailrace.protocol.records.ledger import NoOpRecord, ProducerIdsRecord
from tailrace.protocol.records.security import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from tailrace.protocol.records.settings import ConfigRecord, FeatureLevelRecord
from tailrace.protocol.records.topics import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord

TOPICS = ("orders", "a.b", "a_c", "clicks")
BROKERS = (1, 2, 3)


class History:
    """Grows record by record. `fork` is a second history with the same beginning."""

    def __init__(self, dice: random.Random) -> None:
        self.records: list[Record] = []
        self.image = MetadataImage()
        self._dice = dice
        self.grow(0, FeatureLevelRecord(name="metadata.version", feature_level=30))

    def fork(self) -> History:
        other = History(self._dice)
        for record in self.records[1:]:
            other._apply(record)
        return other

    def grow(self, steps: int, *first: Record) -> History:
        for record in first:
            self._apply(record)
        for _ in range(steps):
            for record in self._dice.choice(_STEPS)(self):
                self._apply(record)
        return self

    def _apply(self, record: Record) -> None:
        MetadataDelta(self.image).replay(record)
        self.records.append(record)
        self.image.offset += 1

    # Steps

    def _topic(self) -> list[Record]:
        name = self._dice.choice(TOPICS)
        if name in self.image.topics:
            return [RemoveTopicRecord(topic_id=self.image.topics[name].id)]
        topic_id = self._dice.randbytes(16)
        created: list[Record] = [TopicRecord(name=name, topic_id=topic_id)]
        return created + [self._partition(topic_id, index) for index in range(self._dice.randint(1, 3))]

    def _more_partitions(self) -> list[Record]:
        topic = self._any_topic()
        return [] if topic is None else [self._partition(topic.id, len(topic.partitions))]

    def _partition(self, topic_id: bytes, index: int) -> Record:
        replicas = self._dice.sample(BROKERS, self._dice.randint(1, 3))
        return PartitionRecord(
            topic_id=topic_id, partition_id=index, replicas=replicas, isr=replicas, leader=replicas[0]
        )

    def _partition_change(self) -> list[Record]:
        topic = self._any_topic()
        if topic is None:
            return []
        index = self._dice.choice(list(topic.partitions))
        leader = self._dice.choice((-1, *topic.partitions[index].replicas))
        return [PartitionChangeRecord(topic_id=topic.id, partition_id=index, leader=leader)]

    def _config(self) -> list[Record]:
        kind, name = self._dice.choice([(4, ""), (4, "1"), *((TOPIC_RESOURCE, each) for each in self.image.topics)])
        key, value = (
            self._dice.choice(("retention.ms", "segment.bytes")),
            self._dice.choice(("1000000", "2000000", None)),
        )
        return [ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)]

    def _broker(self) -> list[Record]:
        broker_id = self._dice.choice(BROKERS)
        broker = self.image.brokers.get(broker_id)
        if broker is None or self._dice.random() < 0.2:
            incarnation = self._dice.randbytes(16)
            epoch = len(self.records)
            return [RegisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch, incarnation_id=incarnation)]
        if self._dice.random() < 0.3:
            return [UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)]
        fenced = self._dice.choice((-1, 1))
        return [BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, fenced=fenced)]

    def _other(self) -> list[Record]:
        entry = bytes([self._dice.randint(1, 3)]) * 16
        records: list[Record] = [
            NoOpRecord(),
            FeatureLevelRecord(name="share.version", feature_level=self._dice.randint(0, 1)),
            ProducerIdsRecord(next_producer_id=max(self.image.next_producer_id, 0) + 1000),
            RegisterControllerRecord(controller_id=7, incarnation_id=self._dice.randbytes(16)),
            AccessControlEntryRecord(id=entry, resource_name="r", principal="User:u", host="*"),
            RemoveAccessControlEntryRecord(id=entry),
        ]
        return [self._dice.choice(records)]

    def _any_topic(self) -> TopicImage | None:
        return self._dice.choice(list(self.image.topics.values())) if self.image.topics else None


_STEPS: tuple[Callable[[History], list[Record]], ...] = (
    History._topic,
    History._more_partitions,
    History._partition_change,
    History._partition_change,
    History._config,
    History._broker,
    History._other,
)

IMAGE_FIELDS = tuple(name for name in vars(MetadataImage()) if name != "ids")  # not content: how values are shared


def contents(image: MetadataImage) -> dict[str, Any]:
    """Everything in an image, to compare two of them."""
    return {name: getattr(image, name) for name in IMAGE_FIELDS}
