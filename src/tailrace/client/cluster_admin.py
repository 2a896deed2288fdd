"""The brokers of a cluster and their data directories."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final, NamedTuple

from tailrace.client.address import Address
from tailrace.client.caller import Caller
from tailrace.client.cluster import Cluster
from tailrace.client.errors import BROKER_ID_NOT_REGISTERED, NONE, error_of
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tailrace.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

FENCED_SINCE: Final = 2  # version of DescribeCluster that tells of fenced brokers


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


def unregister_broker(caller: Caller, node_id: int) -> None:
    """Remove a broker from the metadata. `caller` may be `Controllers`: brokers need not run."""
    request = UnregisterBrokerRequest(broker_id=node_id)
    attempts = 0

    def ask() -> None:
        nonlocal attempts
        attempts += 1
        response: UnregisterBrokerResponse = caller.call(request)
        if response.error_code == BROKER_ID_NOT_REGISTERED and attempts > 1:
            return  # an attempt whose response was lost removed it
        if response.error_code != NONE:
            raise error_of(response.error_code, response.error_message)

    caller.retry(f"unregistering broker {node_id}", ask)
