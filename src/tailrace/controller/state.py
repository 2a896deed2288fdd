"""Everything that the controller's decisions are made from, and the questions that several of them ask.

The image and what follows from it change only when records are replayed (`replay`). Sessions of brokers are the
controller's own knowledge, in no record.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from tailrace.config.server import ServerConfig
from tailrace.controller.config_rules import Settings
from tailrace.controller.heartbeats import Heartbeats
from tailrace.controller.partition_change import ChangeRules, Election, PartitionChange
from tailrace.controller.partition_index import PartitionIndex, PartitionKey
from tailrace.controller.placement import UsableBroker
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.endpoint import Endpoint
from tailrace.metadata.image import CLUSTER_DEFAULT, MetadataImage
from tailrace.metadata.partition_registration import NO_LEADER, is_online_directory
from tailrace.metadata.replacement import adopt_image, apply_difference, copied, replace_image
from tailrace.metadata.topic_image import TopicImage
from tailrace.metadata.topic_names import has_collision_characters, unified_name
from tailrace.metadata.versions import ELR_VERSION
from tailrace.model.errors import StaleBrokerEpochError
from tailrace.model.ids import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from tailrace.protocol.message import Record
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.brokers import RegisterBrokerRecord


class ControllerIdentity(NamedTuple):
    """Who this controller is. `features` are the levels that it supports, first and last."""

    node_id: int
    cluster_id: str
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, tuple[int, int]]


class PreparedState(NamedTuple):
    """The parts of a state whose cost grows with the cluster, made of a snapshot on any thread."""

    image: MetadataImage
    partitions: PartitionIndex
    colliding: dict[str, dict[str, None]]

    @classmethod
    def of(cls, image: MetadataImage) -> PreparedState:
        prepared = cls(copied(image), PartitionIndex(), {})
        for topic in prepared.image.topics.values():
            if has_collision_characters(topic.name):
                prepared.colliding.setdefault(unified_name(topic.name), {})[topic.name] = None
            for index, registration in topic.partitions.items():
                prepared.partitions.put((topic.id, index), registration)
        return prepared


class ClusterState:
    def __init__(self, settings: Settings, identity: ControllerIdentity, randomness: random.Random) -> None:
        self.settings = settings
        self.identity = identity
        self.random = randomness
        self.heartbeats = Heartbeats(settings.config.broker_session_timeout_ms)
        self.image = MetadataImage()
        self.index = PartitionIndex()
        self.colliding: dict[str, dict[str, None]] = {}
        """Names of topics with `.` or `_`, by what they are in the names of metrics."""
        self.registration_offsets: dict[int, int] = {}
        """Of the records of brokers' registrations: what a broker must have read to be unfenced."""

    @property
    def config(self) -> ServerConfig:
        return self.settings.config

    # Records

    def replace(self, image: MetadataImage, registration_offsets: Mapping[int, int]) -> None:
        """Make this the state of `image`. The cost of all but the comparison depends on the difference only."""
        self._follow(replace_image(self.image, image))
        self.registration_offsets = dict(registration_offsets)

    def adopt(self, prepared: PreparedState, image: MetadataImage, registration_offsets: Mapping[int, int]) -> None:
        """Make the empty state that of `image`, the committed one, of which `prepared` was made."""
        adopt_image(self.image, MetadataDelta(prepared.image))
        self.image.offset, self.image.epoch, self.image.timestamp_ms = image.offset, image.epoch, image.timestamp_ms
        self.index, self.colliding = prepared.partitions, prepared.colliding
        self.registration_offsets = dict(registration_offsets)

    def follow(self, image: MetadataImage, delta: MetadataDelta, registration_offsets: Mapping[int, int]) -> None:
        """Make this the state of `image`, which was equal to this one's before it changed by `delta`."""
        self._follow(apply_difference(self.image, image, delta))
        self.registration_offsets = dict(registration_offsets)

    def share(self, delta: MetadataDelta) -> None:
        """Use the partitions of the committed image that has changed by `delta`, instead of equal ones."""
        for (name, index), registration in delta.changed_partitions.items():
            topic = self.image.topics.get(name)
            if topic is not None and topic.partitions.get(index) == registration:
                topic.partitions[index] = registration
                self.index.share((topic.id, index), registration)

    def replay(self, records: Iterable[Record], first_offset: int) -> None:
        """One batch; `first_offset` is that of the first record."""
        delta = MetadataDelta(self.image)
        for offset, record in enumerate(records, first_offset):
            delta.replay(record)
            if type(record) is RegisterBrokerRecord:
                self.registration_offsets[record.broker_id] = offset
        self._follow(delta)

    def _follow(self, delta: MetadataDelta) -> None:
        for topic in delta.deleted_topics:
            self._forget_topic(topic)
        for topic, partition in delta.removed_partitions:
            self.index.remove((topic.id, partition))
        for name in delta.created_topics:
            if has_collision_characters(name):
                self.colliding.setdefault(unified_name(name), {})[name] = None
        topics = self.image.topics
        for (name, partition), registration in delta.changed_partitions.items():
            self.index.put((topics[name].id, partition), registration)

    def _forget_topic(self, topic: TopicImage) -> None:
        for partition in topic.partitions:
            self.index.remove((topic.id, partition))
        names = self.colliding.get(unified_name(topic.name))
        if names is not None:
            names.pop(topic.name, None)
            if not names:
                del self.colliding[unified_name(topic.name)]

    # Brokers

    def is_active(self, broker_id: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def has_online_directory(self, broker_id: int, directory: bytes) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and is_online_directory(directory, broker.directories)

    def default_directory(self, broker_id: int) -> bytes:
        """Where a new replica on a broker goes: into its only directory that takes any, or it chooses itself."""
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            return UNASSIGNED_DIRECTORY
        if not broker.directories:
            return MIGRATING_DIRECTORY
        return broker.directories[0] if len(broker.directories) == 1 else UNASSIGNED_DIRECTORY

    def usable_brokers(self) -> list[UsableBroker]:
        """Where new replicas can go."""
        return [
            UsableBroker(broker.id, broker.rack, broker.is_fenced, broker.can_replicate)
            for broker in self.image.brokers.values()
            if not self.heartbeats.is_shutting_down(broker.id) and broker.takes_replicas
        ]

    def can_replicate(self, broker_id: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.can_replicate

    def check_broker_epoch(self, broker_id: int, epoch: int) -> None:
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            raise StaleBrokerEpochError(f"No broker registration found for broker id {broker_id}")
        if broker.epoch != epoch:
            raise StaleBrokerEpochError(f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}")

    # Settings of topics

    @property
    def has_elr(self) -> bool:
        return self.image.features.get(ELR_VERSION, 0) > 0

    def topic_setting(self, topic: str, key: str) -> str | None:
        """The topic's own, else this controller's, else that of all brokers; None where it is left to the start."""
        for overrides in (
            self.image.topic_config(topic),
            self.image.broker_config(str(self.identity.node_id)),
            self.image.broker_config(CLUSTER_DEFAULT),
        ):
            if key in overrides:
                return overrides[key]
        return None

    def min_isr(self, topic: TopicImage) -> int:
        """How many replicas must be in sync, and never more than there are."""
        text = self.topic_setting(topic.name, "min.insync.replicas")
        wanted = int(text) if text is not None and text.strip().isdecimal() else self.config.min_insync_replicas
        first = topic.partitions.get(0)
        return min(wanted, len(first.replicas)) if first is not None else wanted

    def allows_unclean(self, topic: str) -> bool:
        text = self.topic_setting(topic, "unclean.leader.election.enable")
        return self.config.unclean_leader_election_enable if text is None else text.strip().lower() == "true"

    # Changes of partitions

    def change(self, topic: TopicImage, index: int, may_lead: Callable[[int], bool] | None = None) -> PartitionChange:
        """A change of a partition that exists; `may_lead` where not all active brokers may, or others too."""
        is_up = may_lead or self.is_active

        def is_online(broker_id: int) -> bool:
            directory = change.directories.get(broker_id)
            return is_up(broker_id) and directory is not None and self.has_online_directory(broker_id, directory)

        rules = ChangeRules(
            metadata_version=self.image.metadata_version,
            may_lead=is_online,
            default_directory=self.default_directory,
            min_isr=self.min_isr(topic) if self.has_elr else 1,
            has_elr=self.has_elr,
        )
        change = PartitionChange(topic.id, index, topic.partitions[index], rules)
        return change

    def broker_changes(
        self,
        partitions: Iterable[PartitionKey],
        *,
        leaving: int = NO_LEADER,
        joining: int = NO_LEADER,
        unclean_shutdown: int = NO_LEADER,
    ) -> list[VersionedRecord]:
        """What becomes of `partitions` when a broker goes, comes, or has come back with less than it had."""

        def may_lead(broker_id: int) -> bool:
            if broker_id in (leaving, unclean_shutdown):
                return False
            return broker_id == joining or self.is_active(broker_id)

        records = []
        for topic_id, index in partitions:
            topic = self.image.topics_by_id[topic_id]
            change = self.change(topic, index, may_lead)
            if self.allows_unclean(topic.name):
                change.election = Election.UNCLEAN
            if unclean_shutdown != NO_LEADER:
                change.unclean_shutdown = frozenset({unclean_shutdown})
            change.without((leaving, unclean_shutdown))
            record = change.record()
            if record is not None:
                records.append(record)
        return records
