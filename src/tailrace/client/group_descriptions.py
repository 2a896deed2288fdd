"""Groups described by their coordinator. There are four kinds, each with a request of its own and members of its own:

classic     members divide the partitions among themselves; the leader's bytes are decoded here where they are
            those of consumers, and left alone where they are another protocol's (Kafka Connect)
consumer    the coordinator divides them (KIP-848): epochs, and a target that members are on their way to
share       several members read one partition (KIP-932)
streams     tasks of a topology in place of partitions (KIP-1071)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from tailrace.client.cluster import Cluster
from tailrace.client.errors import NONE, refusal
from tailrace.model.errors import InvalidDataError, UnsupportedVersionError
from tailrace.model.ids import TopicPartition
from tailrace.protocol.codec import decode
from tailrace.protocol.message import Record, Request
from tailrace.protocol.messages import (
    consumer_group_describe,
    describe_groups,
    share_group_describe,
    streams_group_describe,
)
from tailrace.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tailrace.protocol.messages.describe_groups import DescribeGroupsRequest
from tailrace.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from tailrace.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from tailrace.protocol.records.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
STREAMS: Final = "streams"
KINDS: Final = (CLASSIC, CONSUMER, SHARE, STREAMS)

CONSUMERS: Final = "consumer"  # the protocol type of a classic group of consumers
CLASSIC_MEMBER: Final = 0
_VERSION: Final = struct.Struct(">h")


class GroupMember(NamedTuple):
    """`epoch` is None for a member of a classic group, `wanted` where it has all that it is to have."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None
    subscription: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]
    wanted: tuple[TopicPartition, ...] | None = None
    tasks: tuple[str, ...] = ()
    """Of a streams group: `subtopology_partition`, those that stand by in brackets."""
    is_classic: bool = False


class GroupDescription(NamedTuple):
    group_id: str
    kind: str
    state: str
    assignor: str
    coordinator: int
    epoch: int | None
    assignment_epoch: int | None
    members: tuple[GroupMember, ...]


def describe_group(cluster: Cluster, node_id: int, group_id: str, kind: str) -> GroupDescription:
    """One attempt, asking its coordinator. GroupIdNotFoundError where there is none of this kind."""
    requests: dict[str, Request] = {
        CLASSIC: DescribeGroupsRequest(groups=[group_id]),
        CONSUMER: ConsumerGroupDescribeRequest(group_ids=[group_id]),
        SHARE: ShareGroupDescribeRequest(group_ids=[group_id]),
        STREAMS: StreamsGroupDescribeRequest(group_ids=[group_id]),
    }
    response: Any = cluster.call(requests[kind], node_id=node_id)
    (said,) = response.groups
    if said.error_code != NONE:
        raise refusal(said.error_code, f"describing group {group_id}", said.error_message)
    if kind == CLASSIC:
        members = [_classic(each, said.protocol_type) for each in said.members]
        assignor = said.protocol_data
        epochs: tuple[int | None, int | None] = (None, None)
    else:
        members = [_MEMBERS[kind](each) for each in said.members]
        assignor = "" if kind == STREAMS else said.assignor_name
        epochs = (said.group_epoch, said.assignment_epoch)
    in_order = tuple(sorted(members, key=lambda each: (each.client_id, each.member_id)))
    return GroupDescription(group_id, kind, said.group_state, assignor, node_id, *epochs, in_order)


def _classic(said: describe_groups.DescribedGroupMember, protocol_type: str) -> GroupMember:
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    if protocol_type == CONSUMERS:
        subscription = _embedded(ConsumerProtocolSubscription, said.member_metadata)
        assignment = _embedded(ConsumerProtocolAssignment, said.member_assignment)
        if subscription is not None:
            topics = tuple(sorted(subscription.topics))
        if assignment is not None:
            partitions = _partitions((each.topic, each.partitions) for each in assignment.assigned_partitions)
    return GroupMember(
        said.member_id,
        said.group_instance_id,
        said.client_id,
        said.client_host.lstrip("/"),
        None,
        topics,
        partitions,
        is_classic=True,
    )


def _embedded(kind: type[Record], data: bytes) -> Any:
    """What a member's bytes say, behind their version; None where they say nothing that we can read."""
    if len(data) < _VERSION.size:
        return None
    version = min(_VERSION.unpack_from(data)[0], kind.VERSIONS[1])
    try:
        return decode(kind, version, memoryview(data)[_VERSION.size :])
    except (InvalidDataError, UnsupportedVersionError):
        return None


def _consumer(said: consumer_group_describe.Member) -> GroupMember:
    has = _named(said.assignment)
    wanted = _named(said.target_assignment)
    pattern = (f"/{said.subscribed_topic_regex}/",) if said.subscribed_topic_regex else ()
    return GroupMember(
        said.member_id,
        said.instance_id,
        said.client_id,
        said.client_host.lstrip("/"),
        said.member_epoch,
        (*sorted(said.subscribed_topic_names), *pattern),
        has,
        wanted if wanted != has else None,
        is_classic=said.member_type == CLASSIC_MEMBER,
    )


def _share(said: share_group_describe.Member) -> GroupMember:
    return GroupMember(
        said.member_id,
        None,
        said.client_id,
        said.client_host.lstrip("/"),
        said.member_epoch,
        tuple(sorted(said.subscribed_topic_names)),
        _named(said.assignment),
    )


def _streams(said: streams_group_describe.Member) -> GroupMember:
    active = [f"{each.subtopology_id}_{number}" for each in said.assignment.active_tasks for number in each.partitions]
    waiting = [
        f"[{each.subtopology_id}_{number}]"
        for tasks in (said.assignment.standby_tasks, said.assignment.warmup_tasks)
        for each in tasks
        for number in each.partitions
    ]
    return GroupMember(
        said.member_id,
        said.instance_id,
        said.client_id,
        said.client_host.lstrip("/"),
        said.member_epoch,
        (),
        (),
        tasks=(*sorted(active), *sorted(waiting)),
        is_classic=said.is_classic,
    )


def _named(assignment: Any) -> tuple[TopicPartition, ...]:
    return _partitions((each.topic_name, each.partitions) for each in assignment.topic_partitions)


def _partitions(topics: Iterable[tuple[str, list[int]]]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(topic, number) for topic, numbers in topics for number in numbers))


_MEMBERS: Final[dict[str, Callable[[Any], GroupMember]]] = {CONSUMER: _consumer, SHARE: _share, STREAMS: _streams}
