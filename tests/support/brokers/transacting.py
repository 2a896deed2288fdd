"""A coordinating broker that also coordinates transactions, in memory: ids, epochs, states and partitions, and offsets
that wait for the end of their transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from support.brokers.coordinating import CoordinatingBroker, FakeGroup, Place
from tailrace.protocol.messages import describe_transactions as described
from tailrace.protocol.messages import list_transactions as listed
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tailrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from tailrace.protocol.messages.api_versions import ApiVersionsResponse, FinalizedFeatureKey
from tailrace.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from tailrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.messages.produce import ProduceRequest
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


@dataclass
class FakeTransaction:
    producer_id: int
    epoch: int
    state: str = "Empty"
    partitions: set[Place] = field(default_factory=set)
    offsets: dict[str, dict[Place, int]] = field(default_factory=dict)
    ends: list[bool] = field(default_factory=list)


class TransactingBroker(CoordinatingBroker):
    def __init__(self) -> None:
        super().__init__()
        self.transaction_version = 2
        self.transactions: dict[str, FakeTransaction] = {}
        self.producers: dict[Place, list[ProducerState]] = {}
        self.end_errors: list[int] = []
        self.answers |= {
            InitProducerIdRequest: self.init_producer_id,
            AddPartitionsToTxnRequest: self.add_to_transaction,
            AddOffsetsToTxnRequest: self.add_group,
            TxnOffsetCommitRequest: self.commit_in_transaction,
            EndTxnRequest: self.end,
            ProduceRequest: self.produce_checked,
            listed.ListTransactionsRequest: self.list_transactions,
            described.DescribeTransactionsRequest: self.describe_transactions,
            DescribeProducersRequest: self.describe_producers,
            WriteTxnMarkersRequest: self.write_markers,
        }

    def versions_with_features(self) -> ApiVersionsResponse:
        response = super().versions_with_features()
        level = FinalizedFeatureKey(name="transaction.version", max_version_level=self.transaction_version)
        response.finalized_features.append(level)
        return response

    def init_producer_id(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        if request.transactional_id is None:
            return self._init_producer_id(request)
        known = self.transactions.get(request.transactional_id)
        if known is None:
            self.next_producer_id += 1
            known = self.transactions[request.transactional_id] = FakeTransaction(self.next_producer_id, 0)
        elif request.producer_id >= 0 and request.producer_epoch < known.epoch:
            return InitProducerIdResponse(error_code=90)
        else:
            known.epoch += 1
            known.state, known.partitions, known.offsets = "Empty", set(), {}
        return InitProducerIdResponse(producer_id=known.producer_id, producer_epoch=known.epoch)

    def fault(self, name: str, epoch: int) -> int:
        return 90 if epoch < self.transactions[name].epoch else 0

    def add_to_transaction(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        name = request.v3_and_below_transactional_id
        code = self.fault(name, request.v3_and_below_producer_epoch)
        topics = []
        for topic in request.v3_and_below_topics:
            if not code:
                self.joined(name, {(topic.name, at) for at in topic.partitions})
            parts = [
                AddPartitionsToTxnPartitionResult(partition_index=at, partition_error_code=code)
                for at in topic.partitions
            ]
            topics.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=parts))
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)

    def joined(self, name: str, places: set[Place]) -> None:
        transaction = self.transactions[name]
        transaction.state = "Ongoing"
        transaction.partitions |= places

    def produce_checked(self, request: ProduceRequest) -> object:
        """Who is not in a transaction is refused before version 2, and taken in by it."""
        if request.transactional_id is not None:
            places = {
                (self.name(topic.name, topic.topic_id), each.index)
                for topic in request.topic_data
                for each in topic.partition_data
            }
            if self.transaction_version >= 2:
                self.joined(request.transactional_id, places)
            elif not places <= self.transactions[request.transactional_id].partitions:
                return self.produce(request, 48)
        return self.produce(request)

    def add_group(self, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
        self.joined(request.transactional_id, set())
        self.transactions[request.transactional_id].offsets[request.group_id] = {}
        return AddOffsetsToTxnResponse(error_code=self.fault(request.transactional_id, request.producer_epoch))

    def commit_in_transaction(self, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
        transaction = self.transactions[request.transactional_id]
        code = self.fault(request.transactional_id, request.producer_epoch)
        if self.transaction_version < 2 and request.group_id not in transaction.offsets:
            code = 48
        if not code and request.member_id:
            code = self.commit_error(self.groups[request.group_id], request.member_id, request.generation_id)
        topics = []
        for topic in request.topics:
            if not code:
                self.joined(request.transactional_id, set())
                transaction.offsets.setdefault(request.group_id, {}).update(
                    {(topic.name, each.partition_index): each.committed_offset for each in topic.partitions}
                )
            parts = [
                TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                for each in topic.partitions
            ]
            topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=parts))
        return TxnOffsetCommitResponse(topics=topics)

    def end(self, request: EndTxnRequest) -> EndTxnResponse:
        transaction = self.transactions[request.transactional_id]
        code = (
            self.end_errors.pop(0) if self.end_errors else self.fault(request.transactional_id, request.producer_epoch)
        )
        if code:
            return EndTxnResponse(error_code=code)
        transaction.ends.append(request.committed)
        transaction.state = "CompleteCommit" if request.committed else "CompleteAbort"
        if request.committed:
            for group_id, offsets in transaction.offsets.items():
                self.groups.setdefault(group_id, FakeGroup("Classic")).offsets |= offsets
        transaction.partitions, transaction.offsets = set(), {}
        if self.transaction_version < 2:
            return EndTxnResponse()
        transaction.epoch += 1
        return EndTxnResponse(producer_id=transaction.producer_id, producer_epoch=transaction.epoch)

    # Administration

    def list_transactions(self, request: listed.ListTransactionsRequest) -> listed.ListTransactionsResponse:
        found = [
            listed.TransactionState(transactional_id=name, producer_id=each.producer_id, transaction_state=each.state)
            for name, each in self.transactions.items()
            if (not request.state_filters or each.state in request.state_filters)
            and (not request.producer_id_filters or each.producer_id in request.producer_id_filters)
        ]
        return listed.ListTransactionsResponse(transaction_states=found)

    def describe_transactions(
        self, request: described.DescribeTransactionsRequest
    ) -> described.DescribeTransactionsResponse:
        (name,) = request.transactional_ids
        known = self.transactions.get(name)
        if known is None:
            said = described.TransactionState(transactional_id=name, error_code=105)
        else:
            said = described.TransactionState(
                transactional_id=name,
                transaction_state=known.state,
                transaction_timeout_ms=60_000,
                transaction_start_time_ms=1_700_000_000_000 if known.state == "Ongoing" else -1,
                producer_id=known.producer_id,
                producer_epoch=known.epoch,
                topics=[described.TopicData(topic=topic, partitions=[at]) for topic, at in sorted(known.partitions)],
            )
        return described.DescribeTransactionsResponse(transaction_states=[said])

    def describe_producers(self, request: DescribeProducersRequest) -> DescribeProducersResponse:
        topics = [
            TopicResponse(
                name=topic.name,
                partitions=[
                    PartitionResponse(partition_index=at, active_producers=self.producers.get((topic.name, at), []))
                    for at in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
        return DescribeProducersResponse(topics=topics)

    def write_markers(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        results = []
        for marker in request.markers:
            for topic in marker.topics:
                for at in topic.partition_indexes:
                    self.producers[topic.name, at] = []
            topics = [
                WritableTxnMarkerTopicResult(
                    name=topic.name,
                    partitions=[WritableTxnMarkerPartitionResult(partition_index=at) for at in topic.partition_indexes],
                )
                for topic in marker.topics
            ]
            results.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
        return WriteTxnMarkersResponse(markers=results)
