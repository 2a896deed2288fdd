"""DescribeQuorum: who leads the metadata quorum, who votes, how far each has got."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tailrace.model.errors import NotLeaderOrFollowerError, UnknownTopicOrPartitionError
from tailrace.model.ids import ZERO_DIRECTORY_ID
from tailrace.model.internal_topics import CLUSTER_METADATA
from tailrace.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from tailrace.raft.quorum import QuorumDescription
from tailrace.raft.quorum import ReplicaState as QuorumReplica

DIRECTORIES_FROM: Final = 2
"""Older versions have no place for the directories and addresses of nodes."""


def describe_quorum(
    quorum: QuorumDescription | None, request: DescribeQuorumRequest, version: int
) -> DescribeQuorumResponse:
    """A node that does not lead has no description and refuses with NOT_LEADER_OR_FOLLOWER, as Kafka does."""
    if not _asks_for_the_metadata_log(request):
        return _unknown(request)
    if quorum is None:
        error = ResponsePartitionData(partition_index=0, error_code=NotLeaderOrFollowerError.code)
        return DescribeQuorumResponse(topics=[ResponseTopicData(topic_name=CLUSTER_METADATA, partitions=[error])])
    partition = ResponsePartitionData(
        partition_index=0,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        current_voters=_replicas(quorum.voters, version),
        observers=_replicas(quorum.observers, version),
    )
    nodes = [
        Node(node_id=node_id, listeners=[Listener(name=e.name, host=e.host, port=e.port) for e in endpoints])
        for node_id, endpoints in quorum.endpoints.items()
    ]
    topic = ResponseTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])
    return DescribeQuorumResponse(topics=[topic], nodes=nodes if version >= DIRECTORIES_FROM else [])


def _asks_for_the_metadata_log(request: DescribeQuorumRequest) -> bool:
    asked = [(t.topic_name, [p.partition_index for p in t.partitions]) for t in request.topics]
    return asked == [(CLUSTER_METADATA, [0])]


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    code, message = UnknownTopicOrPartitionError.code, "This server does not host this topic-partition."
    topics = [
        ResponseTopicData(
            topic_name=topic.topic_name,
            partitions=[
                ResponsePartitionData(partition_index=p.partition_index, error_code=code, error_message=message)
                for p in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return DescribeQuorumResponse(topics=topics)


def _replicas(states: Iterable[QuorumReplica], version: int) -> list[ReplicaState]:
    return [
        ReplicaState(
            replica_id=state.node_id,
            replica_directory_id=state.directory_id if version >= DIRECTORIES_FROM else ZERO_DIRECTORY_ID,
            log_end_offset=state.log_end_offset,
            last_fetch_timestamp=state.last_fetch_timestamp,
            last_caught_up_timestamp=state.last_caught_up_timestamp,
        )
        for state in states
    ]
