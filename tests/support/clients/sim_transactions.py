"""A transactional producer and a read_committed consumer, request by request, against a simulated broker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from support.brokers.simulated import SimClient
from support.logs.builders import in_transaction
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tailrace.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tailrace.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tailrace.protocol.messages.end_txn import EndTxnRequest
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tailrace.record.control import ABORT, control_of
from tailrace.record.reader import records_of
from tailrace.record.shallow import next_batch

GROUP, TRANSACTIONAL_ID = 0, 1
FEW_PARTITIONS = {"transaction_state_log_num_partitions": "3", "offsets_topic_num_partitions": "3"}


class SimProducer:
    """`is_new`: with an epoch for each transaction (transaction version 2), else as clients did before."""

    def __init__(self, client: SimClient, transactional_id: str, *, is_new: bool) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.is_new = is_new
        self.id = -1
        self.epoch = -1
        self._sequences: dict[tuple[str, int], int] = {}

    def initialise(self, timeout_ms: int = 60_000) -> int:
        find(self.client, TRANSACTIONAL_ID, self.transactional_id)
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=-1,
            producer_epoch=-1,
        )
        response = self.client.ask(request, 5 if self.is_new else 4)
        if not response.error_code:
            self._goes_on_as(response.producer_id, response.producer_epoch)
        return int(response.error_code)

    def _goes_on_as(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.id, self.epoch):
            self.id, self.epoch = producer_id, epoch
            self._sequences = {}

    def add(self, topic: str, *partitions: int) -> int:
        """What clients did before they could add partitions by writing to them."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        response = self.client.ask(request, 3)
        results = response.results_by_topic_v3_and_below[0].results_by_partition
        return max(int(each.partition_error_code) for each in results)

    def batch(self, topic: str, partition: int, count: int) -> bytes:
        sequence = self._sequences.get((topic, partition), 0)
        self._sequences[topic, partition] = sequence + count
        return bytes(in_transaction(self.id, sequence, count, epoch=self.epoch))

    def write(self, topic: str, partition: int = 0, count: int = 1) -> int:
        """The error code."""
        if not self.is_new:
            code = self.add(topic, partition)
            if code:
                return code
        return self.write_only(topic, self.batch(topic, partition, count), partition)

    def write_only(self, topic: str, records: bytes, partition: int = 0, version: int | None = None) -> int:
        part = PartitionProduceData(index=partition, records=records)
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=topic, partition_data=[part])],
        )
        response = self.client.ask(request, version or (12 if self.is_new else 11))
        return int(response.responses[0].partition_responses[0].error_code)

    def commit_offset(self, group: str, topic: str, offset: int, partition: int = 0) -> int:
        find(self.client, GROUP, group)
        if not self.is_new:
            request = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.id,
                producer_epoch=self.epoch,
                group_id=group,
            )
            code = int(self.client.ask(request, 3).error_code)
            if code:
                return code
        return self.commit_offset_only(group, topic, offset, partition)

    def commit_offset_only(self, group: str, topic: str, offset: int, partition: int = 0) -> int:
        part = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        commit = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.id,
            producer_epoch=self.epoch,
            generation_id=-1,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[part])],
        )
        response = self.client.ask(commit, 5 if self.is_new else 4)
        return int(response.topics[0].partitions[0].error_code)

    def end(self, *, commit: bool) -> int:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        response = self.client.ask(request, 5 if self.is_new else 4)
        if self.is_new and not response.error_code:
            self._goes_on_as(response.producer_id, response.producer_epoch)
        return int(response.error_code)


def find(client: SimClient, key_type: int, key: str) -> None:
    """As clients do before anything else; it makes the coordinator's topic."""
    response = client.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 4)
    assert response.coordinators[0].error_code == 0, response


class Seen:
    """What a fetch tells a read_committed consumer."""

    def __init__(self, answer: Any) -> None:
        self.high_watermark = int(answer.high_watermark)
        self.last_stable_offset = int(answer.last_stable_offset)
        self.aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]
        self.offsets = committed_offsets(bytes(answer.records or b""), self.aborted)


def fetch_committed(
    client: SimClient, topic: str, offset: int = 0, partition: int = 0, max_bytes: int = 1 << 20
) -> Seen:
    part = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=50 << 20,
        isolation_level=1,
        topics=[FetchTopic(topic=topic, partitions=[part])],
    )
    answer = client.ask(request, 12).responses[0].partitions[0]
    assert answer.error_code == 0, answer
    return Seen(answer)


def committed_offsets(data: bytes, aborted: Iterable[tuple[int, int]]) -> list[int]:
    """Records that are in no aborted transaction, found as clients find them: begun at the offsets that the answer
    lists, ended by the producer's next ABORT marker."""
    to_begin = sorted((first_offset, producer_id) for producer_id, first_offset in aborted)
    under_way: set[int] = set()
    offsets: list[int] = []
    position = 0
    while (batch := next_batch(memoryview(data), position, len(data))) is not None:
        position += batch.size
        while to_begin and to_begin[0][0] <= batch.last_offset:
            under_way.add(to_begin.pop(0)[1])
        if batch.is_control:
            control = control_of(data, batch)
            if control is not None and control.type == ABORT:
                under_way.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in under_way):
            offsets += [record.offset for record in records_of(data, batch)]
    return offsets


def committed_offset(client: SimClient, group: str, topic: str, partition: int = 0, *, is_stable: bool = True) -> Any:
    """The committed offset, or the error code as a negative number; −1 is none."""
    wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])], require_stable=is_stable
    )
    (found,) = client.ask(request, 8).groups
    part = found.topics[0].partitions[0]
    return -part.error_code if part.error_code else part.committed_offset


def write_marker(
    client: SimClient,
    producer_id: int,
    epoch: int,
    topics: dict[str, list[int]],
    *,
    commit: bool = False,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
    version: int = 2,
) -> dict[tuple[str, int], int]:
    """Error codes by partition."""
    request = marker_request(
        producer_id,
        epoch,
        topics,
        commit=commit,
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )
    return codes_of(client.ask(request, version))


def marker_request(
    producer_id: int,
    epoch: int,
    topics: dict[str, list[int]],
    *,
    commit: bool = False,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> WriteTxnMarkersRequest:
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )
    return WriteTxnMarkersRequest(markers=[marker])


def codes_of(response: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, part.partition_index): part.error_code
        for marker in response.markers
        for topic in marker.topics
        for part in topic.partitions
    }


def producers_of(client: SimClient, topic: str, partition: int = 0) -> list[Any]:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[partition])])
    return list(client.ask(request, 0).topics[0].partitions[0].active_producers)
