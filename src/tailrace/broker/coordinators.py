"""The coordinators of a node, and how they hear of its partitions.

Their state machines are imported with the first partition that is led here: a broker without groups does not wait for
them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tailrace.broker.group_metrics import GroupMetrics
from tailrace.broker.purgatory import Operation, Purgatory
from tailrace.broker.txn_markers import MarkerSender
from tailrace.coordinator.records import GROUP_RECORDS, SHARE_STATE_RECORDS, TRANSACTION_RECORDS
from tailrace.coordinator.runtime import CoordinatorRuntime, WhenCommitted
from tailrace.coordinator.shard import Committed, Shard
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.partition_registration import NO_LEADER
from tailrace.model.errors import RequestTimedOutError
from tailrace.model.ids import TopicPartition
from tailrace.model.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from tailrace.model.line_limit import LineLimit
from tailrace.replication.partition import ALL_IN_SYNC, Partition

if TYPE_CHECKING:
    from tailrace.broker.node import Node
    from tailrace.coordinator.groups.shard import GroupShard
    from tailrace.coordinator.share_state.shard import ShareStateShard
    from tailrace.coordinator.transactions.shard import TransactionShard

_log = logging.getLogger(__name__)


class Coordinators:
    """Every runtime by its topic."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._metrics = GroupMetrics(node)
        self._markers = MarkerSender(node)
        self._lines = LineLimit()
        self.groups: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            CONSUMER_OFFSETS,
            GROUP_RECORDS,
            self._group_shard,
            node.env,
            node.image,
            lambda: node.config,
            lambda config: config.offsets_topic_num_partitions,
            waiting_in(node.purgatory, lambda: node.config.offsets_commit_timeout_ms),
            lambda config: config.offsets_topic_compression_codec,
        )
        self.transactions: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            TRANSACTION_STATE,
            TRANSACTION_RECORDS,
            self._transaction_shard,
            node.env,
            node.image,
            lambda: node.config,
            lambda config: config.transaction_state_log_num_partitions,
            waiting_in(node.purgatory, lambda: node.config.request_timeout_ms),
        )
        self.share_states: CoordinatorRuntime[ShareStateShard] = CoordinatorRuntime(
            SHARE_GROUP_STATE,
            SHARE_STATE_RECORDS,
            self._share_state_shard,
            node.env,
            node.image,
            lambda: node.config,
            lambda config: config.share_coordinator_state_topic_num_partitions,
            waiting_in(node.purgatory, lambda: node.config.share_coordinator_write_timeout_ms),
            lambda config: config.share_coordinator_state_topic_compression_codec,
        )
        self._by_topic: dict[str, CoordinatorRuntime[Any]] = {
            CONSUMER_OFFSETS: self.groups,
            TRANSACTION_STATE: self.transactions,
            SHARE_GROUP_STATE: self.share_states,
        }

    def _group_shard(self, shard: Shard) -> GroupShard:
        from tailrace.coordinator.groups.shard import GroupShard

        return GroupShard(shard, self._metrics.offset_counts)

    def _transaction_shard(self, shard: Shard) -> TransactionShard:
        from tailrace.coordinator.transactions.shard import TransactionShard

        return TransactionShard(shard, self._node.producer_ids.take, self._markers.send)

    def _share_state_shard(self, shard: Shard) -> ShareStateShard:
        from tailrace.coordinator.share_state.shard import ShareStateShard

        return ShareStateShard(shard)

    def of_topic(self, topic: str) -> CoordinatorRuntime[Any] | None:
        return self._by_topic.get(topic)

    def is_led_elsewhere(self, partition: TopicPartition) -> bool:
        """Whether another broker leads it: a transaction that this broker coordinates cannot write to it."""
        topic = self._node.image.topics.get(partition.topic)
        registration = None if topic is None else topic.partitions.get(partition.partition)
        leader = NO_LEADER if registration is None else registration.leader
        if leader in (NO_LEADER, self._node.node_id):
            return False
        if self._lines.is_due("elsewhere", self._node.env.clock.monotonic_ms()):
            _log.warning(
                "transaction refused, another broker leads its partition partition=%s leader=%s coordinator=%s: "
                "transactions need the coordinator and all partitions on one broker in this release",
                partition,
                leader,
                self._node.node_id,
            )
        return True

    def role_changed(self, partition: Partition) -> None:
        runtime = self._by_topic.get(partition.topic)
        if runtime is not None:
            runtime.role_changed(partition)

    def metadata_changed(self, delta: MetadataDelta) -> None:
        for runtime in self._by_topic.values():
            runtime.metadata_changed(delta)


def waiting_in(purgatory: Purgatory, timeout_ms: Callable[[], int]) -> WhenCommitted:
    def when_committed(partition: Partition, last_offset: int, done: Committed) -> None:
        purgatory.wait(_CommitOfRecords(partition, last_offset, done), (partition,), timeout_ms())

    return when_committed


class _CommitOfRecords(Operation):
    """Records of a coordinator that wait for the replicas of its topic."""

    kind = "CoordinatorAppend"

    def __init__(self, partition: Partition, last_offset: int, done: Committed) -> None:
        self._partition = partition
        self._last_offset = last_offset
        self._done = done
        self._is_told = False

    def try_complete(self, moved: object) -> bool:
        if self._is_told:
            return False  # what it was told makes it append, and the partition move
        is_done, error = self._partition.acknowledgement(self._last_offset, ALL_IN_SYNC)
        if is_done:
            self._is_told = True
            self._done(error)
        return is_done

    def expire(self) -> None:
        self._done(RequestTimedOutError(f"the replicas of {self._partition.id} do not have offset {self._last_offset}"))
