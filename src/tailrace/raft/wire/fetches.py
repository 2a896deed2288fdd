"""Fetch of the metadata log, and FetchSnapshot.

The bytes of records and of snapshots are not part of the values: `respond_*` takes them, `fetched_records` and
`fetched_chunk` return those that were received.
"""

from __future__ import annotations

from typing import Final

from tailrace.model.errors import CorruptMessageError, InvalidRequestError, UnknownTopicOrPartitionError
from tailrace.model.ids import DirectoryId
from tailrace.protocol.messages import fetch, fetch_snapshot
from tailrace.protocol.schema import Payload
from tailrace.raft.consensus.messages import (
    EndOffset,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Leadership,
    ReplicaKey,
)
from tailrace.raft.metadata_log import METADATA_TOPIC_ID
from tailrace.raft.snapshot import SnapshotId
from tailrace.raft.wire.addressing import (
    TOPIC_IDS_FROM,
    QuorumAddress,
    RefusedRequestError,
    answered_partition,
    check_cluster,
    leader_endpoint,
    leadership_of,
    only_partition,
)
from tailrace.storage.manager.directory_names import METADATA_TOPIC

_REPLICA_STATES_FROM: Final = 15
_FETCH_ENDPOINTS_FROM: Final = 17
_SNAPSHOT_ENDPOINTS_FROM: Final = 1


def max_bytes_of(message: fetch.FetchRequest) -> int:
    """How many bytes the sender of an accepted request takes. Not part of its value: only the driver needs it."""
    return min(message.max_bytes, message.topics[0].partitions[0].partition_max_bytes)


def accept_fetch(message: fetch.FetchRequest, version: int, address: QuorumAddress) -> FetchRequest:
    check_cluster(message.cluster_id, address, fetch.FetchResponse())
    partition = only_partition(message.topics, "topic_id", "partition")
    if partition is None or version < TOPIC_IDS_FROM:
        response = fetch.FetchResponse(error_code=InvalidRequestError.code)
        raise RefusedRequestError(response, "Fetch on a controller listener is about the metadata log only")
    state = message.replica_state
    if version < _REPLICA_STATES_FROM:
        replica_id = message.replica_id
    else:
        replica_id = state.replica_id if state is not None else -1
    return FetchRequest(
        ReplicaKey(replica_id, DirectoryId(partition.replica_directory_id)),
        partition.current_leader_epoch,
        partition.fetch_offset,
        partition.last_fetched_epoch,
        partition.high_watermark,
        message.max_wait_ms,
    )


def respond_fetch(response: FetchResponse, version: int, listener_name: str, records: Payload) -> fetch.FetchResponse:
    leadership = response.leadership
    partition = fetch.PartitionData(
        error_code=int(response.error),
        high_watermark=response.high_watermark,
        log_start_offset=response.log_start_offset,
        records=records,
    )
    partition.current_leader = fetch.LeaderIdAndEpoch(leader_id=leadership.leader_id, leader_epoch=leadership.epoch)
    if response.diverging is not None:
        partition.diverging_epoch = fetch.EpochEndOffset(
            epoch=response.diverging.epoch, end_offset=response.diverging.offset
        )
    if response.snapshot_id is not None:
        partition.snapshot_id = fetch.SnapshotId(
            end_offset=response.snapshot_id.offset, epoch=response.snapshot_id.epoch
        )
    topic = fetch.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[partition])
    found = fetch.FetchResponse(responses=[topic])
    endpoint = leader_endpoint(leadership, listener_name)
    if endpoint is not None and version >= _FETCH_ENDPOINTS_FROM:
        found.node_endpoints = [
            fetch.NodeEndpoint(node_id=leadership.leader_id, host=endpoint.host, port=endpoint.port)
        ]
    return found


def ask_fetch(request: FetchRequest, address: QuorumAddress, max_bytes: int) -> fetch.FetchRequest:
    """In version 17 or 18. Older ones have no directory id, and Kafka nodes without them cannot vote with us."""
    partition = fetch.FetchPartition(
        current_leader_epoch=request.epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_epoch,
        partition_max_bytes=max_bytes,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=address.cluster_id,
        replica_state=fetch.ReplicaState(replica_id=request.replica.node_id),
        max_wait_ms=request.max_wait_ms,
        max_bytes=max_bytes,
        topics=[fetch.FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def read_fetch(message: fetch.FetchResponse, address: QuorumAddress) -> FetchResponse:
    """Without `runs`, which the driver adds once it has validated the records."""
    if message.error_code:
        return FetchResponse(message.error_code)
    partition = answered_partition(message.responses, "topic_id", "partition_index")
    leader = partition.current_leader
    leadership = Leadership()
    if leader is not None:
        leadership = leadership_of(leader.leader_id, leader.leader_epoch, message.node_endpoints, address.listener_name)
    diverging, snapshot_id = partition.diverging_epoch, partition.snapshot_id
    return FetchResponse(
        partition.error_code,
        leadership,
        partition.high_watermark,
        partition.log_start_offset,
        EndOffset(diverging.epoch, diverging.end_offset) if diverging is not None and diverging.epoch >= 0 else None,
        _snapshot_id(snapshot_id.end_offset, snapshot_id.epoch) if snapshot_id is not None else None,
    )


def _snapshot_id(offset: int, epoch: int) -> SnapshotId | None:
    return SnapshotId(offset, epoch) if offset >= 0 and epoch >= 0 else None


def fetched_records(message: fetch.FetchResponse) -> bytes:
    """Of a response that `read_fetch` has taken."""
    if message.error_code:
        return b""
    return _bytes_of(message.responses[0].partitions[0].records)


def _bytes_of(payload: Payload) -> bytes:
    return b"" if payload is None else bytes(payload)


def accept_fetch_snapshot(
    message: fetch_snapshot.FetchSnapshotRequest, version: int, address: QuorumAddress
) -> FetchSnapshotRequest:
    check_cluster(message.cluster_id, address, fetch_snapshot.FetchSnapshotResponse())
    if len(message.topics) != 1 or len(message.topics[0].partitions) != 1:
        response = fetch_snapshot.FetchSnapshotResponse(error_code=InvalidRequestError.code)
        raise RefusedRequestError(response, "FetchSnapshot is about one topic partition")
    partition = only_partition(message.topics, "name", "partition")
    if partition is None:
        topic = message.topics[0]
        part = fetch_snapshot.ResponsePartitionSnapshot(
            index=topic.partitions[0].partition, error_code=UnknownTopicOrPartitionError.code, unaligned_records=b""
        )
        answer = fetch_snapshot.ResponseTopicSnapshot(name=topic.name, partitions=[part])
        response = fetch_snapshot.FetchSnapshotResponse(topics=[answer])
        raise RefusedRequestError(response, "FetchSnapshot is about the metadata log only")
    wanted = partition.snapshot_id
    return FetchSnapshotRequest(
        ReplicaKey(message.replica_id, DirectoryId(partition.replica_directory_id)),
        partition.current_leader_epoch,
        SnapshotId(wanted.end_offset, wanted.epoch),
        partition.position,
        message.max_bytes,
    )


def respond_fetch_snapshot(
    response: FetchSnapshotResponse, version: int, listener_name: str, chunk: Payload
) -> fetch_snapshot.FetchSnapshotResponse:
    leadership = response.leadership
    partition = fetch_snapshot.ResponsePartitionSnapshot(
        error_code=int(response.error),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=leadership.leader_id, leader_epoch=leadership.epoch),
        size=response.size_bytes,
        position=response.position,
        unaligned_records=chunk,
    )
    if response.snapshot_id is not None:
        partition.snapshot_id = fetch_snapshot.ResponseSnapshotId(
            end_offset=response.snapshot_id.offset, epoch=response.snapshot_id.epoch
        )
    topic = fetch_snapshot.ResponseTopicSnapshot(name=METADATA_TOPIC, partitions=[partition])
    found = fetch_snapshot.FetchSnapshotResponse(topics=[topic])
    endpoint = leader_endpoint(leadership, listener_name)
    if endpoint is not None and version >= _SNAPSHOT_ENDPOINTS_FROM:
        found.node_endpoints = [
            fetch_snapshot.NodeEndpoint(node_id=leadership.leader_id, host=endpoint.host, port=endpoint.port)
        ]
    return found


def ask_fetch_snapshot(request: FetchSnapshotRequest, address: QuorumAddress) -> fetch_snapshot.FetchSnapshotRequest:
    wanted = request.snapshot_id
    partition = fetch_snapshot.RequestPartitionSnapshot(
        current_leader_epoch=request.epoch,
        snapshot_id=fetch_snapshot.RequestSnapshotId(end_offset=wanted.offset, epoch=wanted.epoch),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=address.cluster_id,
        replica_id=request.replica.node_id,
        max_bytes=request.max_bytes,
        topics=[fetch_snapshot.RequestTopicSnapshot(name=METADATA_TOPIC, partitions=[partition])],
    )


def read_fetch_snapshot(message: fetch_snapshot.FetchSnapshotResponse, address: QuorumAddress) -> FetchSnapshotResponse:
    if message.error_code:
        return FetchSnapshotResponse(message.error_code)
    partition = answered_partition(message.topics, "name", "index")
    leader = partition.current_leader
    leadership = Leadership()
    if leader is not None:
        leadership = leadership_of(leader.leader_id, leader.leader_epoch, message.node_endpoints, address.listener_name)
    if partition.position < 0 or partition.size < 0:
        raise CorruptMessageError(f"a snapshot of {partition.size} bytes, from {partition.position} on")
    return FetchSnapshotResponse(
        partition.error_code,
        leadership,
        _snapshot_id(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        partition.size,
        partition.position,
        len(fetched_chunk(message)),
    )


def fetched_chunk(message: fetch_snapshot.FetchSnapshotResponse) -> bytes:
    """Of a response that `read_fetch_snapshot` has taken."""
    if message.error_code:
        return b""
    return _bytes_of(message.topics[0].partitions[0].unaligned_records)
