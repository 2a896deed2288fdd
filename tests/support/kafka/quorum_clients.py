"""What the tests of mixed quorums ask of single controllers, over their controller listeners, in raw requests.

Kafka's tools are no use while there is no leader: an admin client waits for one until its own timeout.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from support.clients.raw_client import NoAnswer, RawClient
from support.kafka.mixed_cluster import ClusterNode, MixedCluster, wait_for
from tailrace.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tailrace.protocol.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

BROKER: Final = 4
SETTING: Final = "log.index.interval.bytes"


def leader(cluster: MixedCluster, is_meant: Callable[[ClusterNode], bool] = lambda _: True) -> ClusterNode:
    """The node that says it leads the quorum, once there is one."""

    def found() -> ClusterNode | None:
        return next((node for node in cluster.nodes.values() if leads(node) and is_meant(node)), None)

    return wait_for(found, "a leader of the metadata quorum")


def leads(node: ClusterNode) -> bool:
    partition = RequestPartitionData(partition_index=0)
    request = DescribeQuorumRequest(topics=[RequestTopicData(topic_name="__cluster_metadata", partitions=[partition])])
    answer = _ask(node, request, 1)
    partitions = [each for topic in answer.topics for each in topic.partitions] if answer is not None else []
    return any(each.error_code == 0 and each.leader_id == node.node_id for each in partitions)


def change_setting(cluster: MixedCluster, value: int) -> None:
    """A default of all brokers: a command that needs no broker. Repeated until a leader has committed it."""

    def done() -> bool:
        change = AlterableConfig(name=SETTING, value=str(value))
        resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[change])
        answer = _ask(leader(cluster), IncrementalAlterConfigsRequest(resources=[resource]), 1)
        return answer is not None and answer.responses[0].error_code == 0

    wait_for(done, f"the change of {SETTING} to {value}")


def wait_for_setting(cluster: MixedCluster, value: int) -> None:
    """Every controller that runs has applied the change."""
    for node in cluster.nodes.values():
        if node.is_running and "controller" in node.roles:
            wait_for(lambda node=node: _setting(node) == str(value), f"node {node.node_id} has the setting {value}")


def _setting(node: ClusterNode) -> str | None:
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name="", configuration_keys=[SETTING])
    answer = _ask(node, DescribeConfigsRequest(resources=[resource]), 4)
    entries = answer.results[0].configs if answer is not None else []
    return entries[0].value if entries else None


def _ask(node: ClusterNode, request: Any, version: int) -> Any:
    """None without a response: the node has ended, or is not ready."""
    if node.is_running:
        with suppress(OSError, NoAnswer), RawClient(node.controller_address) as client:
            return client.ask(request, version)
    return None
