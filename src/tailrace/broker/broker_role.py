"""The broker role of a node: logs and partitions that follow the metadata, and the broker's life in the cluster.

    open      lock log.dirs
    start     open the logs that the metadata lists, take the roles that it gives, register, be unfenced: ready
    publish   apply what a change of the metadata affects: settings, partitions, coordinators
    shutdown  hand over leadership, write checkpoints; `close` closes the logs after the metadata log

Changes of the metadata that arrive while the logs are being opened are applied when the logs are open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.broker.lifecycle import BrokerLifecycle
from tailrace.broker.metrics import BrokerState
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.endpoint import Endpoint
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.topic_image import TopicImage
from tailrace.metadata.versions import has_directories
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.model.listeners import Listeners
from tailrace.replication.partition import Partition
from tailrace.replication.replica_manager import ReplicaManager
from tailrace.storage.loader import LoadOptions
from tailrace.storage.manager.log_deletion import Errors
from tailrace.storage.manager.log_directories import NodeIdentity
from tailrace.storage.manager.log_directory import LogDirectory
from tailrace.storage.manager.log_manager import LogManager
from tailrace.storage.warm import WarmSet

if TYPE_CHECKING:
    from tailrace.broker.node import Node

_log = logging.getLogger(__name__)

WARM_SHARE: Final = 4
"""1/4 of the open-file limit is reserved for inactive segments and indexes."""


class BrokerRole:
    def __init__(self, node: Node, max_open_files: int) -> None:
        """Touches no file."""
        self.logs: LogManager
        self.replicas: ReplicaManager
        self.lifecycle: BrokerLifecycle
        self.on_left: Listeners[()] = Listeners()
        """The cluster knows that this broker is leaving: from then on clients get no responses."""
        self._node = node
        self._max_open_files = max_open_files
        self._is_publishing = False
        """The logs are open: changes of the metadata are applied at once."""
        self._is_closed = False
        self._deleted_topics: list[TopicImage] = []
        """Deleted while the logs were being opened."""
        self._changed_configs: set[tuple[int, str]] = set()
        """Changed while the logs were being opened."""

    # Start

    def open(self, identity: NodeIdentity, endpoints: tuple[Endpoint, ...], incarnation_id: bytes) -> None:
        """Raises errors of the directories. `endpoints` are what clients and other brokers connect to."""
        node, config = self._node, self._node.config
        warm = WarmSet(max(self._max_open_files // WARM_SHARE, 64))
        options = LoadOptions(
            producer_expiration_ms=config.producer_id_expiration_ms,
            max_transaction_timeout_ms=config.transaction_max_timeout_ms,
            verifies_transactions=config.transaction_partition_verification_enable,
        )
        self.logs = LogManager(node.env, config.broker, identity, warm, options, node.metrics)
        self.logs.open()
        self.replicas = ReplicaManager(node.env, self.logs, node.node_id, config, node.metrics)
        self.replicas.on_directory_differs.add(self._directory_differs)
        self.replicas.on_role_changed.add(node.coordinators.role_changed)
        self.lifecycle = BrokerLifecycle(node, endpoints, incarnation_id)

    def start(self, unfenced: Callable[[], None]) -> None:
        """The image has the committed metadata. `unfenced` is called when clients can be served."""
        node = self._node
        configs = node.live.load(node.image)
        node.counters.broker_state = BrokerState.RECOVERY
        self.logs.start(lambda: self._logs_open(unfenced), configs, self._is_stray)

    def _is_stray(self, partition: TopicPartition, topic_id: TopicId | None) -> bool:
        """Whether the metadata does not list the partition, or lists it on other brokers."""
        topic = self._node.image.topics.get(partition.topic)
        if topic is None or (topic_id is not None and topic.id != topic_id):
            return True
        registration = topic.partitions.get(partition.partition)
        return registration is None or self._node.node_id not in registration.replicas

    def _logs_open(self, unfenced: Callable[[], None]) -> None:
        if self._is_closed:
            return
        node = self._node
        node.live.attach(self.logs)
        self._forget_producers_later()
        self.replicas.start()
        self._is_publishing = True
        self._delete_logs_of_deleted_topics()
        self.publish(_partitions_here(node.image, node.node_id, self._changed_configs))
        self.lifecycle.start(unfenced, node.failed)

    def _delete_logs_of_deleted_topics(self) -> None:
        """The replica manager has no partitions for them yet."""
        present = self._node.image.topics_by_id
        gone = [
            TopicPartition(topic.name, index)
            for topic in self._deleted_topics
            for index in topic.partitions
            if topic.id not in present and self.logs.log(TopicPartition(topic.name, index)) is not None
        ]
        self._deleted_topics = []
        if gone:
            self.logs.delete(gone, _log_errors)

    def _forget_producers_later(self) -> None:
        def forget() -> None:
            if not self._is_closed:
                self.logs.forget_idle_producers()
                self._forget_producers_later()

        interval_ms = self._node.config.producer_id_expiration_check_interval_ms
        self._node.env.jobs.later("producer-expiration", interval_ms, forget)

    # Metadata

    def publish(self, delta: MetadataDelta) -> None:
        """Settings first: a new log is created with its topic's. Then partitions, and those that depend on them."""
        node = self._node
        if not self._is_publishing:
            self._deleted_topics += delta.deleted_topics
            self._changed_configs |= delta.changed_configs
            return
        node.live.apply(delta, node.image)
        self.replicas.apply(delta, node.image)
        node.coordinators.metadata_changed(delta)
        if delta.features_changed:
            self._list_directories()
            self.replicas.compare_directories()
        if node.node_id in delta.changed_brokers:
            self._notify_if_left()
        for topic in delta.deleted_topics:
            if topic.name not in node.image.topics:
                node.counters.forget_topic(topic.name)

    def _list_directories(self) -> None:
        """A registration before metadata.version 3.7 has no directories, without which none can fail alone."""
        image = self._node.image
        registration = image.brokers.get(self._node.node_id)
        if registration is None or registration.epoch != self.lifecycle.broker_epoch:
            return
        if not registration.directories and has_directories(image.metadata_version):
            self.lifecycle.register_again()

    def _notify_if_left(self) -> None:
        """A response from now on would describe a cluster without brokers, which clients may take as final."""
        node = self._node
        registration = node.image.brokers.get(node.node_id)
        is_leaving = node.counters.broker_state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        if is_leaving and (registration is None or registration.is_fenced):
            self.on_left()

    def _directory_differs(self, partition: Partition, directory: LogDirectory) -> None:
        assert directory.id is not None
        self._node.replica_directories.report(partition.topic_id, partition.index, directory.id)

    # End

    def shutdown(self, done: Callable[[], None]) -> None:
        """Leave the cluster, so that the controller moves the leaderships; `done` also if it does not answer."""
        if self._is_publishing:
            self.lifecycle.shutdown(done)
        else:
            done()

    def close_partitions(self, done: Callable[[], None]) -> None:
        self._is_closed = True
        if self._is_publishing:
            self.replicas.shutdown(done)
        else:
            done()

    def close_logs(self, done: Callable[[], None]) -> None:
        """Last, because it unlocks the directories."""
        self.logs.shutdown(done, self.lifecycle.broker_epoch)


def _partitions_here(image: MetadataImage, node_id: int, changed_configs: set[tuple[int, str]]) -> MetadataDelta:
    """All partitions of this broker as if they were new. Settings were loaded with the logs, except for changed ones.

    Those of other brokers concern nothing that has just started.
    """
    delta = MetadataDelta(image)
    delta.changed_configs = changed_configs
    delta.changed_partitions = {
        (topic.name, index): registration
        for topic in image.topics.values()
        for index, registration in topic.partitions.items()
        if node_id in registration.replicas
    }
    return delta


def _log_errors(errors: Errors) -> None:
    for partition, error in errors.items():
        _log.error("the log of %s cannot be deleted: %s", partition, error)
