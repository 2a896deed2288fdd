"""Transactions and transactional producers, administered: which there are, which hang, and ending them.

A transaction hangs when a partition has it open and its coordinator does not know of it: nobody will ever end it, and
readers under read_committed wait at its first record for ever. With transaction.version 2 that cannot come to be.

One thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from tailrace.client.cluster import Cluster
from tailrace.client.coordinators import TRANSACTION, Coordinators
from tailrace.client.errors import NONE, TRANSACTIONAL_ID_NOT_FOUND, error_of, refusal
from tailrace.model.errors import RefusedRequestError
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from tailrace.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

LONGEST_TRANSACTION_MS: Final = 900_000
"""What brokers allow by default (transaction.max.timeout.ms): no transaction that is known is open for longer."""
FENCING_TIMEOUT_MS: Final = 1


class TransactionListing(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


class TransactionDescription(NamedTuple):
    """`began_ms` is None where no transaction is open."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    began_ms: int | None
    coordinator: int
    partitions: tuple[TopicPartition, ...]


class PartitionProducer(NamedTuple):
    """A producer that a partition remembers; `open_since` is the first offset of its open transaction."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    open_since: int | None


class TransactionAdmin:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._coordinators = Coordinators(cluster, TRANSACTION)

    # Looking

    def transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """All transactional ids, or those that all filters let through; by name. Every broker is asked for its own."""
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=longer_than_ms,
            transactional_id_pattern=pattern,
        )
        self._cluster.retry("asking which brokers there are", lambda: self._cluster.refresh(()))
        found: list[TransactionListing] = []
        for node_id in sorted(self._cluster.brokers):
            found += self._cluster.retry(
                f"asking broker {node_id} for its transactions", partial(self._listed, node_id, request)
            )
        return sorted(found)

    def _listed(self, node_id: int, request: ListTransactionsRequest) -> list[TransactionListing]:
        response: ListTransactionsResponse = self._cluster.call(request, node_id=node_id)
        if response.error_code != NONE:
            raise refusal(response.error_code, f"asking broker {node_id} for its transactions")
        if response.unknown_state_filters:
            raise RefusedRequestError(f"broker {node_id} knows no state {response.unknown_state_filters[0]}")
        return [
            TransactionListing(each.transactional_id, each.producer_id, each.transaction_state, node_id)
            for each in response.transaction_states
        ]

    def describe(self, transactional_id: str) -> TransactionDescription:
        """TransactionalIdNotFoundError where there is none."""
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

        def ask(node_id: int) -> TransactionDescription:
            response: DescribeTransactionsResponse = self._cluster.call(request, node_id=node_id)
            (said,) = response.transaction_states
            if said.error_code == TRANSACTIONAL_ID_NOT_FOUND:
                raise error_of(said.error_code, f"there is no transactional id {transactional_id}")
            if said.error_code != NONE:
                raise refusal(said.error_code, f"describing {transactional_id}")
            began_ms = said.transaction_start_time_ms
            return TransactionDescription(
                said.transactional_id,
                said.transaction_state,
                said.producer_id,
                said.producer_epoch,
                said.transaction_timeout_ms,
                began_ms if began_ms >= 0 else None,
                node_id,
                tuple(sorted(TopicPartition(each.topic, number) for each in said.topics for number in each.partitions)),
            )

        return self._coordinators.ask(f"describing {transactional_id}", transactional_id, ask)

    def producers(self, partitions: Iterable[TopicPartition]) -> list[PartitionProducer]:
        """That the leaders of these partitions remember, by partition and producer id."""
        found: dict[TopicPartition, list[PartitionProducer]] = {}
        wanted = set(partitions)

        def ask() -> None:
            by_leader: dict[int, dict[str, TopicRequest]] = {}
            for partition in sorted(wanted - found.keys()):
                topics = by_leader.setdefault(self._cluster.leader(partition).leader, {})
                topic = topics.setdefault(partition.topic, TopicRequest(name=partition.topic))
                topic.partition_indexes.append(partition.partition)
            for node_id, topics in by_leader.items():
                request = DescribeProducersRequest(topics=list(topics.values()))
                self._take_producers(self._cluster.call(request, node_id=node_id), found)

        self._cluster.retry("asking for producers", ask)
        return sorted(each for producers in found.values() for each in producers)

    def _take_producers(
        self, response: DescribeProducersResponse, found: dict[TopicPartition, list[PartitionProducer]]
    ) -> None:
        for topic in response.topics:
            for part in topic.partitions:
                partition = TopicPartition(topic.name, part.partition_index)
                if part.error_code != NONE:
                    self._cluster.forget(topic.name)
                    raise refusal(part.error_code, f"asking for producers of {partition}", part.error_message)
                found[partition] = [
                    PartitionProducer(
                        partition,
                        each.producer_id,
                        each.producer_epoch,
                        each.last_sequence,
                        each.last_timestamp,
                        each.coordinator_epoch,
                        each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
                    )
                    for each in part.active_producers
                ]

    def find_hanging(
        self,
        partitions: Iterable[TopicPartition],
        *,
        longer_than_ms: int = LONGEST_TRANSACTION_MS,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> list[PartitionProducer]:
        """Open for so long that no coordinator can still know them, and none does."""
        before_ms = now_ms() - longer_than_ms
        old = [
            each
            for each in self.producers(partitions)
            if each.open_since is not None and each.last_timestamp_ms < before_ms
        ]
        if not old:
            return []
        known = self._known_partitions({each.producer_id for each in old})
        return [each for each in old if each.partition not in known.get(each.producer_id, ())]

    def _known_partitions(self, producer_ids: Iterable[int]) -> Mapping[int, set[TopicPartition]]:
        """By producer id: what its coordinator has in an open transaction."""
        known: dict[int, set[TopicPartition]] = {}
        for listed in self.transactions(producer_ids=producer_ids):
            described = self.describe(listed.transactional_id)
            known.setdefault(described.producer_id, set()).update(described.partitions)
        return known

    # Ending

    def fence(self, transactional_id: str) -> None:
        """Its open transaction is aborted by its coordinator, and the producer that has the id is fenced."""
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=FENCING_TIMEOUT_MS)

        def ask(node_id: int) -> None:
            response: InitProducerIdResponse = self._cluster.call(request, node_id=node_id)
            if response.error_code != NONE:
                raise refusal(response.error_code, f"taking {transactional_id} over")

        self._coordinators.ask(f"taking {transactional_id} over", transactional_id, ask)

    def abort_hanging(self, producer: PartitionProducer) -> None:
        """Write the marker that its coordinator never will, on its one partition. Nothing is asked of a coordinator:
        a transaction that does not hang is torn by this."""
        partition = producer.partition
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
            coordinator_epoch=max(producer.coordinator_epoch, 0),
        )
        request = WriteTxnMarkersRequest(markers=[marker])

        def ask() -> None:
            node_id = self._cluster.leader(partition).leader
            response: WriteTxnMarkersResponse = self._cluster.call(request, node_id=node_id)
            for said in response.markers:
                for topic in said.topics:
                    for each in topic.partitions:
                        if each.error_code != NONE:
                            self._cluster.forget(partition.topic)
                            raise refusal(each.error_code, f"aborting a transaction on {partition}")

        self._cluster.retry(f"aborting a transaction on {partition}", ask)
