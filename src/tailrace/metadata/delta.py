"""What a run of records changes.

`replay` applies a record to the image at once and notes what is different since the delta began, so that those who
follow the image (replicas, configuration, caches) look only at that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Final

from tailrace.metadata.broker_registration import BrokerRegistration
from tailrace.metadata.controller_registration import ControllerRegistration
from tailrace.metadata.image import TOPIC_RESOURCE, MetadataImage
from tailrace.metadata.partition_registration import PartitionRegistration
from tailrace.metadata.topic_image import TopicImage
from tailrace.model.errors import InconsistentMetadataError
from tailrace.model.ids import TopicId
from tailrace.protocol.message import Record
from tailrace.protocol.records.brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from tailrace.protocol.records.ledger import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
    ProducerIdsRecord,
    ZkMigrationStateRecord,
)
from tailrace.protocol.records.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from tailrace.protocol.records.settings import ClientQuotaRecord, ConfigRecord, FeatureLevelRecord
from tailrace.protocol.records.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)


class MetadataDelta:
    RECORDS: ClassVar[frozenset[type[Record]]]
    """The kinds of records that there are."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.deleted_topics: list[TopicImage] = []
        """Topics that were there when the delta began. One of the same name may have been created since."""
        self.changed_partitions: dict[tuple[str, int], PartitionRegistration] = {}
        """By topic and index, of topics that still exist: as they are now, new ones included."""
        self.removed_partitions: list[tuple[TopicImage, int]] = []
        """Of topics that still exist. No record removes a partition: only a replaced image can lack some."""
        self.created_topics: dict[str, TopicImage] = {}
        self.changed_configs: set[tuple[int, str]] = set()
        self.changed_brokers: set[int] = set()
        self.features_changed = False

    @classmethod
    def of_everything(cls, image: MetadataImage) -> MetadataDelta:
        """As if all of the image were new: for who begins to follow it."""
        delta = cls(image)
        delta.created_topics = dict(image.topics)
        delta.changed_partitions = {
            (topic.name, index): registration
            for topic in image.topics.values()
            for index, registration in topic.partitions.items()
        }
        delta.changed_configs = set(image.configs)
        delta.changed_brokers = set(image.brokers)
        delta.features_changed = bool(image.features)
        return delta

    @property
    def is_empty(self) -> bool:
        return not (
            self.deleted_topics
            or self.changed_partitions
            or self.removed_partitions
            or self.created_topics
            or self.changed_configs
            or self.changed_brokers
            or self.features_changed
        )

    def touched_topics(self) -> set[str]:
        """Names of topics that came, went, or have other partitions."""
        touched = {name for name, _ in self.changed_partitions}
        touched.update(topic.name for topic, _ in self.removed_partitions)
        touched.update(self.created_topics)
        touched.update(topic.name for topic in self.deleted_topics)
        return touched

    def replay(self, record: Record) -> None:
        """Raises InconsistentMetadataError for a record that contradicts those before it."""
        kind = type(record)
        control = _TRANSACTIONS.get(kind)
        if control is not None:
            control(self)
            return
        if self.image.held_back is not None:
            self.image.held_back.append(record)
            return
        action = _ACTIONS.get(kind)
        if action is None:
            raise InconsistentMetadataError(f"{kind.__name__} is no record of the metadata log")
        action(self, record)

    # Transactions

    def _begin_transaction(self) -> None:
        if self.image.held_back is not None:
            raise InconsistentMetadataError("a metadata transaction begins inside another")
        self.image.held_back = []

    def _end_transaction(self) -> None:
        held_back = self.image.held_back
        if held_back is None:
            raise InconsistentMetadataError("a metadata transaction ends that has not begun")
        self.image.held_back = None
        for record in held_back:
            self.replay(record)

    def _abort_transaction(self) -> None:
        if self.image.held_back is None:
            raise InconsistentMetadataError("a metadata transaction is aborted that has not begun")
        self.image.held_back = None

    # Topics

    def _topic(self, record: TopicRecord) -> None:
        topic = TopicImage(record.name, TopicId(record.topic_id))
        if record.name in self.image.topics:
            raise InconsistentMetadataError(f"topic {record.name} is created a second time, as {topic.id}")
        self.image.topics[record.name] = self.image.topics_by_id[record.topic_id] = topic
        self.created_topics[record.name] = topic

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self._topic_of(record.topic_id)
        del self.image.topics_by_id[record.topic_id], self.image.topics[topic.name]
        for index in topic.partitions:
            self.changed_partitions.pop((topic.name, index), None)
        if self.created_topics.pop(topic.name, None) is None:
            self.deleted_topics.append(topic)
        # There are no records for this: a topic's configuration goes with it.
        if self.image.configs.pop((TOPIC_RESOURCE, topic.name), None) is not None:
            self.changed_configs.add((TOPIC_RESOURCE, topic.name))

    def _partition(self, record: PartitionRecord) -> None:
        topic = self._topic_of(record.topic_id)
        self._place(topic, record.partition_id, PartitionRegistration.of(record, self.image.ids))

    def _partition_change(self, record: PartitionChangeRecord) -> None:
        topic = self._topic_of(record.topic_id)
        present = topic.partitions.get(record.partition_id)
        if present is None:
            raise InconsistentMetadataError(
                f"partition {topic.name}-{record.partition_id} is changed, but was never created"
            )
        self._place(topic, record.partition_id, present.merged(record, self.image.ids))

    def _clear_elr(self, record: ClearElrRecord) -> None:
        if record.topic_name:
            topic = self.image.topics.get(record.topic_name)
            if topic is None:
                raise InconsistentMetadataError(f"the ELR of topic {record.topic_name} is cleared, but there is none")
            topics = [topic]
        else:
            topics = list(self.image.topics.values())
        for topic in topics:
            for index, partition in list(topic.partitions.items()):
                if partition.elr or partition.last_known_elr:
                    change = PartitionChangeRecord(eligible_leader_replicas=[], last_known_elr=[])
                    self._place(topic, index, partition.merged(change, self.image.ids))

    def _place(self, topic: TopicImage, index: int, registration: PartitionRegistration) -> None:
        topic.partitions[index] = registration
        self.changed_partitions[topic.name, index] = registration

    def _topic_of(self, topic_id: bytes) -> TopicImage:
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None:
            raise InconsistentMetadataError(f"a record is about topic id {TopicId(topic_id)}, which does not exist")
        return topic

    # Brokers and controllers

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self._put_broker(BrokerRegistration.of(record))

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        del self.image.brokers[record.broker_id]
        self.changed_brokers.add(record.broker_id)

    def _fence_broker(self, record: FenceBrokerRecord) -> None:
        self._put_broker(replace(self._broker(record.id, record.epoch), is_fenced=True))

    def _unfence_broker(self, record: UnfenceBrokerRecord) -> None:
        self._put_broker(replace(self._broker(record.id, record.epoch), is_fenced=False))

    def _broker_registration_change(self, record: BrokerRegistrationChangeRecord) -> None:
        self._put_broker(self._broker(record.broker_id, record.broker_epoch).merged(record))

    def _put_broker(self, registration: BrokerRegistration) -> None:
        self.image.brokers[registration.id] = registration
        self.changed_brokers.add(registration.id)

    def _broker(self, broker_id: int, epoch: int) -> BrokerRegistration:
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            raise InconsistentMetadataError(f"broker {broker_id} is changed, but is not registered")
        if broker.epoch != epoch:
            raise InconsistentMetadataError(f"broker {broker_id} is changed in epoch {epoch}, not {broker.epoch}")
        return broker

    def _register_controller(self, record: RegisterControllerRecord) -> None:
        self.image.controllers[record.controller_id] = ControllerRegistration.of(record)

    # Configuration, features, producer ids

    def _config(self, record: ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        overrides = self.image.configs.setdefault(resource, {})
        if record.value is None:
            overrides.pop(record.name, None)
        else:
            overrides[record.name] = record.value
        if not overrides:
            del self.image.configs[resource]
        self.changed_configs.add(resource)

    def _feature_level(self, record: FeatureLevelRecord) -> None:
        if record.feature_level:
            self.image.features[record.name] = record.feature_level
        else:
            self.image.features.pop(record.name, None)
        self.features_changed = True

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self.image.next_producer_id = record.next_producer_id

    def _no_op(self, record: NoOpRecord) -> None:
        pass

    # What only a snapshot needs

    def _acl(self, record: AccessControlEntryRecord) -> None:
        self.image.kept[AccessControlEntryRecord, record.id] = record

    def _remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        self.image.kept.pop((AccessControlEntryRecord, record.id), None)

    def _scram(self, record: UserScramCredentialRecord) -> None:
        self.image.kept[UserScramCredentialRecord, (record.name, record.mechanism)] = record

    def _remove_scram(self, record: RemoveUserScramCredentialRecord) -> None:
        self.image.kept.pop((UserScramCredentialRecord, (record.name, record.mechanism)), None)

    def _token(self, record: DelegationTokenRecord) -> None:
        self.image.kept[DelegationTokenRecord, record.token_id] = record

    def _remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self.image.kept.pop((DelegationTokenRecord, record.token_id), None)

    def _zk_migration(self, record: ZkMigrationStateRecord) -> None:
        self.image.kept[ZkMigrationStateRecord, None] = record

    def _quota(self, record: ClientQuotaRecord) -> None:
        entity = frozenset((part.entity_type, part.entity_name) for part in record.entity)
        key = (ClientQuotaRecord, (entity, record.key))
        if record.remove:
            self.image.kept.pop(key, None)
        else:
            self.image.kept[key] = record


_TRANSACTIONS: Final[dict[type[Record], Callable[[MetadataDelta], None]]] = {
    BeginTransactionRecord: MetadataDelta._begin_transaction,
    EndTransactionRecord: MetadataDelta._end_transaction,
    AbortTransactionRecord: MetadataDelta._abort_transaction,
}

_ACTIONS: Final[dict[type[Record], Callable[[MetadataDelta, Any], None]]] = {
    TopicRecord: MetadataDelta._topic,
    RemoveTopicRecord: MetadataDelta._remove_topic,
    PartitionRecord: MetadataDelta._partition,
    PartitionChangeRecord: MetadataDelta._partition_change,
    ClearElrRecord: MetadataDelta._clear_elr,
    RegisterBrokerRecord: MetadataDelta._register_broker,
    UnregisterBrokerRecord: MetadataDelta._unregister_broker,
    FenceBrokerRecord: MetadataDelta._fence_broker,
    UnfenceBrokerRecord: MetadataDelta._unfence_broker,
    BrokerRegistrationChangeRecord: MetadataDelta._broker_registration_change,
    RegisterControllerRecord: MetadataDelta._register_controller,
    ConfigRecord: MetadataDelta._config,
    FeatureLevelRecord: MetadataDelta._feature_level,
    ProducerIdsRecord: MetadataDelta._producer_ids,
    NoOpRecord: MetadataDelta._no_op,
    AccessControlEntryRecord: MetadataDelta._acl,
    RemoveAccessControlEntryRecord: MetadataDelta._remove_acl,
    UserScramCredentialRecord: MetadataDelta._scram,
    RemoveUserScramCredentialRecord: MetadataDelta._remove_scram,
    DelegationTokenRecord: MetadataDelta._token,
    RemoveDelegationTokenRecord: MetadataDelta._remove_token,
    ClientQuotaRecord: MetadataDelta._quota,
    ZkMigrationStateRecord: MetadataDelta._zk_migration,
}
MetadataDelta.RECORDS = frozenset({*_TRANSACTIONS, *_ACTIONS})
