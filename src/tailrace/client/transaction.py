"""The transactions of one transactional id, as its coordinator is told of them.

    init                 the id's producer id and epoch; who had it before is fenced, what was open is aborted
    add_partitions       before the first batch to a partition, and with `send_offsets` before offsets of a group:
                         only where the cluster's transaction.version is below 2
    commit_offsets       offsets that become a group's own when the transaction commits
    end                  committed or aborted

With transaction.version 2 (KIP-890) brokers add partitions and groups by themselves when the first batch or offset of
them comes, and every end gives the next epoch: what is late from an ended transaction is refused by all of them.

One thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from tailrace.client.cluster import Cluster
from tailrace.client.coordinators import GROUP, TRANSACTION, Coordinators
from tailrace.client.errors import NONE, ClientError, refusal
from tailrace.client.group_offsets import NOBODY, Committed, MemberId
from tailrace.client.outgoing import Identity
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tailrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from tailrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

FEATURE: Final = "transaction.version"
V2: Final = 2

# The newest versions that mean the older flow.
PRODUCE_BEFORE_V2: Final = 11
END_BEFORE_V2: Final = 4
OFFSETS_BEFORE_V2: Final = 4
ADD_PARTITIONS_BY_CLIENTS: Final = 3  # later versions are for brokers among themselves

T = TypeVar("T")


class Transactions:
    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        """A transaction that is open for longer than `timeout_ms` is aborted by its coordinator."""
        self.transactional_id = transactional_id
        self.is_v2 = False
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._coordinators = Coordinators(cluster, TRANSACTION)
        self._groups = Coordinators(cluster, GROUP)
        self._identity: Identity | None = None
        self._partitions: set[TopicPartition] = set()
        self._group_ids: set[str] = set()
        self.is_empty = True
        """Nothing was said since the last end, so there is nothing to end."""

    @property
    def identity(self) -> Identity:
        if self._identity is None:
            raise ClientError(f"{self.transactional_id} has no producer id yet")
        return self._identity

    @property
    def is_known(self) -> bool:
        """Whether the coordinator has given an identity."""
        return self._identity is not None

    def init(self) -> None:
        """The first identity, or the one behind that which we have: what is under way of that is refused from now on.

        ProducerFencedError where the id is another producer's by now.
        """
        held = self._identity or Identity(-1, -1)
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=held.producer_id,
            producer_epoch=held.epoch,
        )

        def ask(node_id: int) -> Identity:
            response: InitProducerIdResponse = self._cluster.call(request, node_id=node_id)
            if response.error_code != NONE:
                raise refusal(response.error_code, f"asking for the producer id of {self.transactional_id}")
            return Identity(response.producer_id, response.producer_epoch)

        self._identity = self._ask("asking for a producer id", ask)
        self._ended()

    def adopt(self, identity: Identity) -> None:
        """One that somebody else was given for the id, and does not use."""
        self._identity = identity
        self._ended()

    def begin(self) -> None:
        """Nothing is said to anybody; which flow it will be is looked up."""
        said = self._cluster.any_connection().broker
        self.is_v2 = any(each.name == FEATURE and each.max_version_level >= V2 for each in said.finalized_features)

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        new = sorted(set(partitions) - self._partitions)
        if not new:
            return
        self.is_empty = False
        if not self.is_v2:
            self._add(new)
        self._partitions.update(new)

    def _add(self, partitions: list[TopicPartition]) -> None:
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for partition in partitions:
            topic = topics.setdefault(partition.topic, AddPartitionsToTxnTopic(name=partition.topic))
            topic.partitions.append(partition.partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=list(topics.values()),
        )

        def ask(node_id: int) -> None:
            response: AddPartitionsToTxnResponse = self._cluster.call(
                request, node_id=node_id, newest=ADD_PARTITIONS_BY_CLIENTS
            )
            for topic in response.results_by_topic_v3_and_below:
                for each in topic.results_by_partition:
                    if each.partition_error_code != NONE:
                        partition = TopicPartition(topic.name, each.partition_index)
                        raise refusal(each.partition_error_code, f"adding {partition} to the transaction")

        self._ask("adding partitions to the transaction", ask)

    def commit_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, Committed], member: MemberId = NOBODY
    ) -> None:
        self.is_empty = False
        if not self.is_v2 and group_id not in self._group_ids:
            self._add_group(group_id)
        self._group_ids.add(group_id)
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for partition, committed in offsets.items():
            topic = topics.setdefault(partition.topic, TxnOffsetCommitRequestTopic(name=partition.topic))
            topic.partitions.append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition.partition,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    committed_metadata=committed.metadata,
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            generation_id=member.epoch,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=list(topics.values()),
        )
        newest = None if self.is_v2 else OFFSETS_BEFORE_V2

        def ask(node_id: int) -> None:
            response: TxnOffsetCommitResponse = self._cluster.call(request, node_id=node_id, newest=newest)
            for topic in response.topics:
                for each in topic.partitions:
                    if each.error_code != NONE:
                        partition = TopicPartition(topic.name, each.partition_index)
                        raise refusal(each.error_code, f"committing the offset of {partition} in a transaction")

        self._groups.ask(f"committing offsets of group {group_id}", group_id, ask)

    def _add_group(self, group_id: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            group_id=group_id,
        )

        def ask(node_id: int) -> None:
            response: AddOffsetsToTxnResponse = self._cluster.call(request, node_id=node_id)
            if response.error_code != NONE:
                raise refusal(response.error_code, f"adding group {group_id} to the transaction")

        self._ask("adding a group to the transaction", ask)

    def end(self, *, is_commit: bool) -> None:
        """Waits until the coordinator has written down which it is. Asked again after a lost answer it is the same."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            committed=is_commit,
        )
        newest = None if self.is_v2 else END_BEFORE_V2
        what = "committing" if is_commit else "aborting"

        def ask(node_id: int) -> Identity:
            response: EndTxnResponse = self._cluster.call(request, node_id=node_id, newest=newest)
            if response.error_code != NONE:
                raise refusal(response.error_code, f"{what} the transaction of {self.transactional_id}")
            return Identity(response.producer_id, response.producer_epoch)

        given = self._ask(f"{what} the transaction", ask)
        if given.producer_id >= 0:
            self._identity = given
        self._ended()

    def _ended(self) -> None:
        self._partitions.clear()
        self._group_ids.clear()
        self.is_empty = True

    def _ask(self, doing: str, ask: Callable[[int], T]) -> T:
        return self._coordinators.ask(doing, self.transactional_id, ask)
