"""Operations of an administrator as values: a request, and what an acknowledgement of it promises.

An operation is drawn by its client, which keeps to its own topics, so that nothing but the operation can write the
records that its acknowledgement promises.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tailrace.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from tailrace.metadata.versions import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION, TRANSACTION_VERSION
from tailrace.protocol.message import Record, Request
from tailrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tailrace.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tailrace.protocol.records.settings import ConfigRecord, FeatureLevelRecord
from tailrace.protocol.records.topics import PartitionRecord, RemoveTopicRecord, TopicRecord
from tailrace.sim.committed_log import CommittedLog

MAX_TOPICS: Final = 6
"""Of one client."""
MAX_PARTITIONS: Final = 4
TIMEOUT_MS: Final = 4_000
_NONE, _UNKNOWN_TOPIC, _TOPIC_EXISTS = 0, 3, 36
_UPGRADE, _SAFE_DOWNGRADE = 1, 2
_FEATURES: Final = {GROUP_VERSION: 1, SHARE_VERSION: 1, STREAMS_VERSION: 1, TRANSACTION_VERSION: 2}

Promise = Callable[[Record], bool]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """`promise` must be true of a record that was committed after `batches` batches."""

    promise: Promise
    batches: int

    def is_committed(self, committed: CommittedLog) -> bool:
        return any(self.promise(record) for record in committed.records_since(self.batches))


@dataclass(frozen=True, slots=True)
class AdminOperation:
    name: str
    request: Request
    version: int
    done: Callable[[Any], Promise | None]
    """Gets the response. None if the operation was refused, or promises nothing."""


class TopicOwner:
    """Draws the operations of one client, and knows which topics it has, as far as responses said so."""

    def __init__(self, name: str, rng: random.Random) -> None:
        self._name = name
        self._random = rng
        self._created = 0
        self._topics: dict[str, bytes] = {}
        """Name → id."""
        self._partitions: dict[str, int] = {}

    def draw(self) -> AdminOperation:
        roll = self._random.random()
        if not self._topics or (roll < 0.3 and len(self._topics) < MAX_TOPICS):
            return self._create()
        if roll < 0.45:
            return self._delete()
        if roll < 0.6:
            return self._grow()
        if roll < 0.85:
            return self._configure(TOPIC_RESOURCE, self._any_topic(), "retention.ms", 1_000_000)
        if roll < 0.95:
            return self._configure(BROKER_RESOURCE, "", "log.retention.ms", 1_000_000)
        return self._set_feature()

    def _any_topic(self) -> str:
        return self._random.choice(list(self._topics))

    def _create(self) -> AdminOperation:
        self._created += 1
        name, partitions = f"{self._name}-{self._created}", self._random.randint(1, 2)
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)

        def done(response: Any) -> Promise | None:
            result = response.topics[0]
            if result.error_code != _NONE:
                return None
            topic_id = bytes(result.topic_id)
            self._topics[name], self._partitions[name] = topic_id, partitions
            return lambda record: (
                isinstance(record, TopicRecord) and record.name == name and bytes(record.topic_id) == topic_id
            )

        return AdminOperation(f"create topic {name}", request, 7, done)

    def _delete(self) -> AdminOperation:
        name = self._any_topic()
        topic_id = self._topics[name]
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=TIMEOUT_MS)

        def done(response: Any) -> Promise | None:
            code = response.responses[0].error_code
            if code in (_NONE, _UNKNOWN_TOPIC):  # an earlier request, whose response was lost, has deleted it
                self._topics.pop(name, None)
                self._partitions.pop(name, None)
            if code != _NONE:
                return None
            return lambda record: isinstance(record, RemoveTopicRecord) and bytes(record.topic_id) == topic_id

        return AdminOperation(f"delete topic {name}", request, 6, done)

    def _grow(self) -> AdminOperation:
        name = self._any_topic()
        topic_id, count = self._topics[name], self._partitions[name] + 1
        if count > MAX_PARTITIONS:
            return self._delete()
        topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)

        def done(response: Any) -> Promise | None:
            if response.results[0].error_code != _NONE:
                self._partitions[name] = count  # most likely an earlier request has added it
                return None
            self._partitions[name] = count
            return lambda record: (
                isinstance(record, PartitionRecord)
                and bytes(record.topic_id) == topic_id
                and record.partition_id == count - 1
            )

        return AdminOperation(f"grow topic {name} to {count}", request, 3, done)

    def _configure(self, kind: int, name: str, key: str, least: int) -> AdminOperation:
        value = str(least + self._random.randrange(10**9))
        change = AlterableConfig(name=key, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
        request = IncrementalAlterConfigsRequest(resources=[resource])

        def done(response: Any) -> Promise | None:
            if response.responses[0].error_code != _NONE:
                if response.responses[0].error_code == _UNKNOWN_TOPIC:
                    self._topics.pop(name, None)
                return None
            return lambda record: (
                isinstance(record, ConfigRecord)
                and (record.resource_type, record.resource_name, record.name, record.value) == (kind, name, key, value)
            )

        return AdminOperation(f"set {key}={value} of {name or 'all brokers'}", request, 1, done)

    def _set_feature(self) -> AdminOperation:
        name = self._random.choice(list(_FEATURES))
        level = self._random.randint(0, _FEATURES[name])
        kind = self._random.choice((_UPGRADE, _SAFE_DOWNGRADE))
        update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        request = UpdateFeaturesRequest(timeout_ms=TIMEOUT_MS, feature_updates=[update])

        def done(response: Any) -> Promise | None:
            if response.error_code != _NONE:
                return None
            return lambda record: (
                isinstance(record, FeatureLevelRecord) and (record.name, record.feature_level) == (name, level)
            )

        return AdminOperation(f"set feature {name} to level {level}", request, 2, done)
