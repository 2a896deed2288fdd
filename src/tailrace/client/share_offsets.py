"""Where share groups begin to read partitions, and how much is left: asked of their coordinator, and changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tailrace.client.cluster import Cluster
from tailrace.client.coordinators import Coordinators
from tailrace.client.errors import NONE, refusal
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from tailrace.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from tailrace.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)


class ShareOffset(NamedTuple):
    """The first record that is not settled yet; both are −1 where the coordinator does not tell."""

    offset: int
    lag: int


def fetch_share_offsets(
    cluster: Cluster, coordinators: Coordinators, group_id: str
) -> dict[TopicPartition, ShareOffset]:
    wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=[wanted])
    doing = f"fetching offsets of share group {group_id}"

    def ask(node_id: int) -> dict[TopicPartition, ShareOffset]:
        response: DescribeShareGroupOffsetsResponse = cluster.call(request, node_id=node_id)
        (said,) = response.groups
        if said.error_code != NONE:
            raise refusal(said.error_code, doing, said.error_message)
        found = {}
        for topic in said.topics:
            for each in topic.partitions:
                if each.error_code != NONE:
                    raise refusal(each.error_code, doing, each.error_message)
                partition = TopicPartition(topic.topic_name, each.partition_index)
                found[partition] = ShareOffset(each.start_offset, each.lag)
        return dict(sorted(found.items()))

    return coordinators.ask(doing, group_id, ask)


def alter_share_offsets(
    cluster: Cluster, coordinators: Coordinators, group_id: str, offsets: Mapping[TopicPartition, int]
) -> None:
    topics: dict[str, AlterShareGroupOffsetsRequestTopic] = {}
    for partition, offset in offsets.items():
        topic = topics.setdefault(partition.topic, AlterShareGroupOffsetsRequestTopic(topic_name=partition.topic))
        wanted = AlterShareGroupOffsetsRequestPartition(partition_index=partition.partition, start_offset=offset)
        topic.partitions.append(wanted)
    request = AlterShareGroupOffsetsRequest(group_id=group_id, topics=list(topics.values()))
    doing = f"changing offsets of share group {group_id}"

    def ask(node_id: int) -> None:
        response: AlterShareGroupOffsetsResponse = cluster.call(request, node_id=node_id)
        if response.error_code != NONE:
            raise refusal(response.error_code, doing, response.error_message)
        for topic in response.responses:
            for each in topic.partitions:
                if each.error_code != NONE:
                    raise refusal(each.error_code, doing, each.error_message)

    coordinators.ask(doing, group_id, ask)


def delete_share_offsets(cluster: Cluster, coordinators: Coordinators, group_id: str, topics: Iterable[str]) -> None:
    wanted = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
    request = DeleteShareGroupOffsetsRequest(group_id=group_id, topics=wanted)
    doing = f"deleting offsets of share group {group_id}"

    def ask(node_id: int) -> None:
        response: DeleteShareGroupOffsetsResponse = cluster.call(request, node_id=node_id)
        if response.error_code != NONE:
            raise refusal(response.error_code, doing, response.error_message)
        for each in response.responses:
            if each.error_code != NONE:
                raise refusal(each.error_code, doing, each.error_message)

    coordinators.ask(doing, group_id, ask)
