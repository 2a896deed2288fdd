"""Everything that the records of the metadata log say, as far as it has been read.

One mutable object for the life of a node, changed only by `MetadataDelta.replay` and `replace_image`. The cost of
replaying a record does not depend on the size of the image. What this release has no use for (access control, quotas,
credentials, tokens) is kept as the record it came in, so that a snapshot loses nothing.

Records between a BeginTransactionRecord and its end are held back in `held_back`: they count when the transaction
ends, and never if it is aborted or its writer died.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from tailrace.metadata.broker_registration import BrokerRegistration
from tailrace.metadata.controller_registration import ControllerRegistration
from tailrace.metadata.partition_registration import IdTable, PartitionRegistration
from tailrace.metadata.topic_image import TopicImage
from tailrace.metadata.versions import METADATA_VERSION, MINIMUM_METADATA_VERSION, has_controller_registrations
from tailrace.protocol.message import Record
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.ledger import ProducerIdsRecord, ZkMigrationStateRecord
from tailrace.protocol.records.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    UserScramCredentialRecord,
)
from tailrace.protocol.records.settings import ClientQuotaRecord, ConfigRecord, FeatureLevelRecord
from tailrace.protocol.records.topics import TopicRecord

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
CLUSTER_DEFAULT: Final = ""
"""Name of the broker resource that holds for all brokers."""

KeptKey = tuple[type[Record], object]


class MetadataImage:
    def __init__(self) -> None:
        self.offset = -1
        """Of the last record applied, like `epoch` and `timestamp_ms`; set by who applies committed batches."""
        self.epoch = -1
        self.timestamp_ms = -1
        self.features: dict[str, int] = {}
        """Finalised levels; those at level 0 are not listed."""
        self.brokers: dict[int, BrokerRegistration] = {}
        self.controllers: dict[int, ControllerRegistration] = {}
        self.topics: dict[str, TopicImage] = {}
        self.topics_by_id: dict[bytes, TopicImage] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        """(resource type, name) → overrides."""
        self.next_producer_id = -1
        """-1 as long as no block has been given out."""
        self.kept: dict[KeptKey, Record] = {}
        """Records that only a snapshot needs, by what identifies them."""
        self.ids = IdTable()
        """Of brokers and directories, for the partitions."""
        self.held_back: list[Record] | None = None
        """Records of a transaction that has begun and not ended."""

    @property
    def is_new(self) -> bool:
        """No record was ever applied."""
        return self.offset < 0

    @property
    def metadata_version(self) -> int:
        return self.features.get(METADATA_VERSION, MINIMUM_METADATA_VERSION)

    def topic_by_id(self, raw: bytes) -> TopicImage | None:
        return self.topics_by_id.get(raw)

    def topic_config(self, name: str) -> dict[str, str]:
        """The topic's own overrides."""
        return self.configs.get((TOPIC_RESOURCE, name), {})

    def broker_config(self, name: str) -> dict[str, str]:
        """The overrides of one broker, or of all of them for CLUSTER_DEFAULT."""
        return self.configs.get((BROKER_RESOURCE, name), {})

    def records(self) -> Iterator[VersionedRecord]:
        """All of it as a snapshot's records, in Kafka's order. What it yields is fixed now, whatever changes later."""
        level = self.metadata_version
        return chain(
            self._feature_records(),
            self._kept_records(ZkMigrationStateRecord),
            _broker_records(list(self.brokers.values()), level),
            self._controller_records(level),
            _topic_records([(topic, topic.partitions.copy()) for topic in self.topics.values()], level),
            _config_records([(resource, dict(overrides)) for resource, overrides in self.configs.items()]),
            self._kept_records(ClientQuotaRecord),
            self._producer_id_records(),
            self._kept_records(AccessControlEntryRecord),
            self._kept_records(UserScramCredentialRecord),
            self._kept_records(DelegationTokenRecord),
        )

    def _feature_records(self) -> list[VersionedRecord]:
        # metadata.version is first: it decides how the records behind it are read.
        names = sorted(self.features, key=lambda name: (name != METADATA_VERSION, name))
        return [VersionedRecord(FeatureLevelRecord(name=name, feature_level=self.features[name]), 0) for name in names]

    def _controller_records(self, level: int) -> list[VersionedRecord]:
        if not has_controller_registrations(level):
            return []
        return [controller.to_record() for controller in self.controllers.values()]

    def _producer_id_records(self) -> list[VersionedRecord]:
        if self.next_producer_id < 0:
            return []
        record = ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id)
        return [VersionedRecord(record, 0)]

    def _kept_records(self, kind: type[Record]) -> list[VersionedRecord]:
        return [VersionedRecord(record, 0) for record in self.kept.values() if type(record) is kind]


def _broker_records(brokers: list[BrokerRegistration], level: int) -> Iterator[VersionedRecord]:
    return (broker.to_record(level) for broker in brokers)


def _topic_records(
    topics: list[tuple[TopicImage, dict[int, PartitionRegistration]]], level: int
) -> Iterator[VersionedRecord]:
    for topic, partitions in topics:
        yield VersionedRecord(TopicRecord(name=topic.name, topic_id=topic.id), 0)
        for index, registration in partitions.items():
            yield registration.to_record(topic.id, index, level)


def _config_records(configs: list[tuple[tuple[int, str], dict[str, str]]]) -> Iterator[VersionedRecord]:
    for (resource_type, resource_name), overrides in configs:
        for name, value in overrides.items():
            record = ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
            yield VersionedRecord(record, 0)
