"""The cluster itself, described: its brokers, their data directories, the metadata quorum, features, producers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from tailrace.client.address import Address
from tailrace.client.cluster import Cluster
from tailrace.client.errors import NONE, error_of
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tailrace.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from tailrace.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
    RequestPartitionData,
    RequestTopicData,
)
from tailrace.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse

METADATA_TOPIC: Final = "__cluster_metadata"
FENCED_SINCE: Final = 2  # version of DescribeCluster that tells of fenced brokers
UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3


class BrokerNode(NamedTuple):
    node_id: int
    address: Address
    rack: str | None
    is_fenced: bool


class ClusterDescription(NamedTuple):
    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerNode, ...]


class LogDirPartition(NamedTuple):
    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool
    """The copy of a partition that moves here from another directory."""


class LogDir(NamedTuple):
    """`error` where the directory is offline. Bytes are −1 where the broker does not tell."""

    node_id: int
    path: str
    error: TailraceError | None
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool
    partitions: tuple[LogDirPartition, ...]


class QuorumReplica(NamedTuple):
    """Times are −1 where nobody knows."""

    node_id: int
    directory_id: bytes
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class QuorumDescription(NamedTuple):
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, tuple[str, ...]]


class Feature(NamedTuple):
    """`level` is None for a feature that the broker supports and the cluster has not finalised."""

    name: str
    supported: tuple[int, int]
    level: int | None


class ClusterAdmin:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def describe(self) -> ClusterDescription:
        def ask() -> ClusterDescription:
            connection = self._cluster.any_connection()
            shows_fenced = connection.version_for(DescribeClusterRequest.KEY) >= FENCED_SINCE
            request = DescribeClusterRequest(include_fenced_brokers=shows_fenced)
            response: DescribeClusterResponse = self._cluster.call(request)
            if response.error_code != NONE:
                raise error_of(response.error_code, response.error_message)
            brokers = (
                BrokerNode(each.broker_id, Address(each.host, each.port), each.rack, each.is_fenced)
                for each in response.brokers
            )
            return ClusterDescription(response.cluster_id, response.controller_id, tuple(sorted(brokers)))

        return self._cluster.retry("describing the cluster", ask)

    def log_dirs(
        self, node_ids: Iterable[int] | None = None, partitions: Iterable[TopicPartition] | None = None
    ) -> list[LogDir]:
        """Of these brokers or all, with these partitions or all; partitions by their size."""
        topics: dict[str, DescribableLogDirTopic] | None = None if partitions is None else {}
        for partition in partitions or ():
            assert topics is not None
            topic = topics.setdefault(partition.topic, DescribableLogDirTopic(topic=partition.topic))
            topic.partitions.append(partition.partition)
        request = DescribeLogDirsRequest(topics=None if topics is None else list(topics.values()))
        wanted = [each.node_id for each in self.describe().brokers] if node_ids is None else list(node_ids)
        found: list[LogDir] = []
        for node_id in wanted:
            ask = partial(self._dirs_of, node_id, request)
            found += self._cluster.retry(f"asking broker {node_id} for its directories", ask)
        return found

    def _dirs_of(self, node_id: int, request: DescribeLogDirsRequest) -> list[LogDir]:
        response: DescribeLogDirsResponse = self._cluster.call(request, node_id=node_id)
        if response.error_code != NONE:
            raise error_of(response.error_code)
        found = []
        for each in response.results:
            partitions = [
                LogDirPartition(
                    TopicPartition(topic.name, part.partition_index),
                    part.partition_size,
                    part.offset_lag,
                    part.is_future_key,
                )
                for topic in each.topics
                for part in topic.partitions
            ]
            partitions.sort(key=lambda one: (-one.size_bytes, one.partition))
            error = error_of(each.error_code) if each.error_code != NONE else None
            found.append(
                LogDir(
                    node_id,
                    each.log_dir,
                    error,
                    each.total_bytes,
                    each.usable_bytes,
                    each.is_cordoned,
                    tuple(partitions),
                )
            )
        return sorted(found, key=lambda each: each.path)

    def quorum(self) -> QuorumDescription:
        wanted = RequestTopicData(topic_name=METADATA_TOPIC, partitions=[RequestPartitionData(partition_index=0)])
        request = DescribeQuorumRequest(topics=[wanted])

        def ask() -> QuorumDescription:
            response: DescribeQuorumResponse = self._cluster.call(request)
            if response.error_code != NONE:
                raise error_of(response.error_code, response.error_message)
            said = response.topics[0].partitions[0]
            if said.error_code != NONE:
                raise error_of(said.error_code, said.error_message)
            endpoints = {
                node.node_id: tuple(f"{each.name}://{Address(each.host, each.port)}" for each in node.listeners)
                for node in response.nodes
            }
            return QuorumDescription(
                said.leader_id,
                said.leader_epoch,
                said.high_watermark,
                tuple(sorted(map(_replica, said.current_voters))),
                tuple(sorted(map(_replica, said.observers))),
                endpoints,
            )

        return self._cluster.retry("describing the quorum", ask)

    def features(self) -> list[Feature]:
        """By name, as the broker that we talk to has them."""

        def ask() -> list[Feature]:
            connection = self._cluster.any_connection()
            deadline = self._cluster.deadline(self._cluster.timeout_s)
            connection.negotiate(deadline)  # again: levels change while a connection lives
            said = connection.broker
            levels = {each.name: each.max_version_level for each in said.finalized_features}
            supported = {each.name: (each.min_version, each.max_version) for each in said.supported_features}
            names = sorted(supported.keys() | levels.keys())
            return [Feature(name, supported.get(name, (0, 0)), levels.get(name)) for name in names]

        return self._cluster.retry("asking for features", ask)

    def update_feature(
        self, name: str, level: int, *, upgrade_type: int = UPGRADE, validate_only: bool = False
    ) -> None:
        update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
        request = UpdateFeaturesRequest(
            timeout_ms=int(self._cluster.timeout_s * 1000), feature_updates=[update], validate_only=validate_only
        )

        def ask() -> None:
            response: UpdateFeaturesResponse = self._cluster.call(request)
            if response.error_code != NONE:
                raise error_of(response.error_code, response.error_message)
            for each in response.results:
                if each.error_code != NONE:
                    raise error_of(each.error_code, each.error_message)

        self._cluster.retry(f"updating feature {name}", ask)


def _replica(said: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        said.replica_id,
        said.replica_directory_id,
        said.log_end_offset,
        said.last_fetch_timestamp,
        said.last_caught_up_timestamp,
    )
