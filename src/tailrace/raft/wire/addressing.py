"""What all messages of the quorum have in common: the cluster, the topic partition, a leader and where it listens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from tailrace.model.errors import CorruptMessageError, InconsistentClusterIdError, TailraceError
from tailrace.model.ids import DirectoryId
from tailrace.protocol.message import Response
from tailrace.raft.consensus.messages import Leadership, ReplicaKey
from tailrace.raft.metadata_log import METADATA_PARTITION, METADATA_TOPIC_ID
from tailrace.raft.voters import NO_NODE, QuorumEndpoint
from tailrace.storage.manager.directory_names import METADATA_TOPIC

TOPIC_IDS_FROM: Final = 13
"""The first version of Fetch that names topics by their ids."""

P = TypeVar("P")


class QuorumAddress(NamedTuple):
    """`listener_name` is the controller listener on which nodes reach each other."""

    cluster_id: str
    listener_name: str


class RefusedRequestError(TailraceError):
    """A request that the core never gets. `response` is the one to send."""

    def __init__(self, response: Response, reason: str) -> None:
        super().__init__(reason)
        self.response = response


class _Endpoint(Protocol):
    node_id: int
    host: str
    port: int


class _Topic(Protocol[P]):
    @property
    def partitions(self) -> list[P]: ...


def check_cluster(cluster_id: str | None, address: QuorumAddress, response: Response) -> None:
    """A sender that does not name its cluster is trusted, as in Kafka."""
    if cluster_id is not None and cluster_id != address.cluster_id:
        reason = f"cluster id {cluster_id[:40]!r} is not {address.cluster_id!r}"
        response.error_code = InconsistentClusterIdError.code  # type: ignore[attr-defined]
        if hasattr(response, "error_message"):
            response.error_message = reason
        raise RefusedRequestError(response, reason)


def only_partition(topics: Sequence[Any], name_field: str, index_field: str) -> Any | None:
    """The partition of a message if it is that of the metadata log, and the only one; else None."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    topic, partition = topics[0], topics[0].partitions[0]
    name = METADATA_TOPIC_ID if name_field == "topic_id" else METADATA_TOPIC
    if getattr(topic, name_field) != name or getattr(partition, index_field) != METADATA_PARTITION.partition:
        return None
    return partition


def answered_partition(topics: Sequence[Any], name_field: str, index_field: str) -> Any:
    """The same of a response; CorruptMessageError if it is not there."""
    partition = only_partition(topics, name_field, index_field)
    if partition is None:
        raise CorruptMessageError("the response is not about the metadata log")
    return partition


def replica_key(node_id: int, directory_id: bytes) -> ReplicaKey | None:
    """Of a receiver; None if the sender does not name it."""
    return None if node_id < 0 else ReplicaKey(node_id, DirectoryId(directory_id))


def leader_endpoint(leadership: Leadership, listener_name: str) -> QuorumEndpoint | None:
    """Where the leader is reached by the sender of a request: on the same listener, else on its first one."""
    if leadership.leader_id < 0 or not leadership.endpoints:
        return None
    return endpoint_for(leadership.endpoints, listener_name)


def endpoint_for(endpoints: Sequence[QuorumEndpoint], listener_name: str) -> QuorumEndpoint:
    return next((each for each in endpoints if each.name == listener_name), endpoints[0])


def leadership_of(leader_id: int, epoch: int, nodes: Iterable[_Endpoint], listener_name: str) -> Leadership:
    """What a response says of the leader. Node endpoints have no names: they are of the listener that was asked."""
    if leader_id < 0:
        return Leadership(NO_NODE, epoch)
    found = tuple(
        QuorumEndpoint(listener_name, each.host, each.port)
        for each in nodes
        if each.node_id == leader_id and each.host and 0 < each.port < 2**16
    )
    return Leadership(leader_id, epoch, found[:1])


def endpoints_of(listeners: Iterable[Any]) -> tuple[QuorumEndpoint, ...]:
    """Of structs with name, host and port."""
    return tuple(QuorumEndpoint(each.name, each.host, each.port) for each in listeners)
