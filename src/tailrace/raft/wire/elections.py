"""Vote, BeginQuorumEpoch and EndQuorumEpoch. Errors of the core are those of the partition."""

from __future__ import annotations

from typing import Any

from tailrace.model.errors import InvalidRequestError
from tailrace.model.ids import DirectoryId
from tailrace.protocol.message import Response
from tailrace.protocol.messages import begin_quorum_epoch as begin
from tailrace.protocol.messages import end_quorum_epoch as end
from tailrace.protocol.messages import vote
from tailrace.raft.consensus.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Leadership,
    ReplicaKey,
    VoteRequest,
    VoteResponse,
)
from tailrace.raft.wire.addressing import (
    QuorumAddress,
    RefusedRequestError,
    answered_partition,
    check_cluster,
    endpoints_of,
    leader_endpoint,
    leadership_of,
    only_partition,
    replica_key,
)
from tailrace.storage.manager.directory_names import METADATA_TOPIC

_MODULES: dict[type, Any] = {
    VoteResponse: vote,
    BeginQuorumEpochResponse: begin,
    EndQuorumEpochResponse: end,
}
_ENDPOINTS_FROM = 1
"""The first version of all three responses that has the leader's endpoint, and of the requests with directory ids."""

ElectionMessage = vote.VoteRequest | begin.BeginQuorumEpochRequest | end.EndQuorumEpochRequest
ElectionRequest = VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest
ElectionResponse = VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse


def _partition_of(message: ElectionMessage, address: QuorumAddress, empty: Response) -> Any:
    check_cluster(message.cluster_id, address, empty)
    partition = only_partition(message.topics, "topic_name", "partition_index")
    if partition is None:
        empty.error_code = InvalidRequestError.code  # type: ignore[attr-defined]
        raise RefusedRequestError(empty, f"{type(message).__name__} is not about the metadata log")
    return partition


def accept_vote(message: vote.VoteRequest, version: int, address: QuorumAddress) -> VoteRequest:
    partition = _partition_of(message, address, vote.VoteResponse())
    return VoteRequest(
        partition.replica_epoch,
        ReplicaKey(partition.replica_id, DirectoryId(partition.replica_directory_id)),
        replica_key(message.voter_id, partition.voter_directory_id),
        partition.last_offset_epoch,
        partition.last_offset,
        partition.pre_vote,
    )


def accept_begin(
    message: begin.BeginQuorumEpochRequest, version: int, address: QuorumAddress
) -> BeginQuorumEpochRequest:
    partition = _partition_of(message, address, begin.BeginQuorumEpochResponse())
    return BeginQuorumEpochRequest(
        partition.leader_epoch,
        partition.leader_id,
        replica_key(message.voter_id, partition.voter_directory_id),
        endpoints_of(message.leader_endpoints),
    )


def accept_end(message: end.EndQuorumEpochRequest, version: int, address: QuorumAddress) -> EndQuorumEpochRequest:
    """Version 0 names the successors by their node ids only."""
    partition = _partition_of(message, address, end.EndQuorumEpochResponse())
    if version >= _ENDPOINTS_FROM:
        preferred = tuple(
            ReplicaKey(each.candidate_id, DirectoryId(each.candidate_directory_id))
            for each in partition.preferred_candidates
        )
    else:
        preferred = tuple(ReplicaKey(node_id) for node_id in partition.preferred_successors)
    return EndQuorumEpochRequest(
        partition.leader_epoch, partition.leader_id, preferred, endpoints_of(message.leader_endpoints)
    )


def respond(response: ElectionResponse, version: int, listener_name: str) -> Response:
    messages = _MODULES[type(response)]
    partition = messages.ResponsePartitionData(
        error_code=int(response.error),
        leader_id=response.leadership.leader_id,
        leader_epoch=response.leadership.epoch,
    )
    if isinstance(response, VoteResponse):
        partition.vote_granted = response.is_granted
    found = getattr(messages, type(response).__name__)(
        topics=[messages.ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])]
    )
    endpoint = leader_endpoint(response.leadership, listener_name)
    if endpoint is not None and version >= _ENDPOINTS_FROM:
        leader_id = response.leadership.leader_id
        found.node_endpoints = [messages.NodeEndpoint(node_id=leader_id, host=endpoint.host, port=endpoint.port)]
    assert isinstance(found, Response)
    return found


def ask_vote(request: VoteRequest, address: QuorumAddress) -> vote.VoteRequest:
    """Always with the receiver's id and directory: without them Kafka's voters answer INVALID_VOTER_KEY."""
    assert request.voter is not None
    partition = vote.RequestPartitionData(
        replica_epoch=request.epoch,
        replica_id=request.candidate.node_id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=request.voter.directory_id,
        last_offset_epoch=request.last_epoch,
        last_offset=request.end_offset,
        pre_vote=request.is_pre_vote,
    )
    return vote.VoteRequest(
        cluster_id=address.cluster_id,
        voter_id=request.voter.node_id,
        topics=[vote.RequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
    )


def ask_begin(request: BeginQuorumEpochRequest, address: QuorumAddress) -> begin.BeginQuorumEpochRequest:
    assert request.voter is not None
    partition = begin.RequestPartitionData(
        voter_directory_id=request.voter.directory_id, leader_id=request.leader_id, leader_epoch=request.epoch
    )
    return begin.BeginQuorumEpochRequest(
        cluster_id=address.cluster_id,
        voter_id=request.voter.node_id,
        topics=[begin.RequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=[begin.LeaderEndpoint(name=e.name, host=e.host, port=e.port) for e in request.endpoints],
    )


def ask_end(request: EndQuorumEpochRequest, address: QuorumAddress) -> end.EndQuorumEpochRequest:
    partition = end.RequestPartitionData(
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_successors=[key.node_id for key in request.preferred],
        preferred_candidates=[
            end.ReplicaInfo(candidate_id=key.node_id, candidate_directory_id=key.directory_id)
            for key in request.preferred
        ],
    )
    return end.EndQuorumEpochRequest(
        cluster_id=address.cluster_id,
        topics=[end.RequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=[end.LeaderEndpoint(name=e.name, host=e.host, port=e.port) for e in request.endpoints],
    )


def _read(message: Any, listener_name: str) -> tuple[int, Leadership, Any]:
    """Error, leader, and the partition unless the whole request was refused."""
    if message.error_code:
        return message.error_code, Leadership(), None
    partition = answered_partition(message.topics, "topic_name", "partition_index")
    leadership = leadership_of(partition.leader_id, partition.leader_epoch, message.node_endpoints, listener_name)
    return partition.error_code, leadership, partition


def read_vote(message: vote.VoteResponse, address: QuorumAddress) -> VoteResponse:
    error, leadership, partition = _read(message, address.listener_name)
    return VoteResponse(error, leadership, partition is not None and partition.vote_granted)


def read_begin(message: begin.BeginQuorumEpochResponse, address: QuorumAddress) -> BeginQuorumEpochResponse:
    return BeginQuorumEpochResponse(*_read(message, address.listener_name)[:2])


def read_end(message: end.EndQuorumEpochResponse, address: QuorumAddress) -> EndQuorumEpochResponse:
    return EndQuorumEpochResponse(*_read(message, address.listener_name)[:2])
