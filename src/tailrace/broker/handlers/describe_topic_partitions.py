"""DescribeTopicPartitions: topics in the order of their names, page by page.

A page has as many partitions as the client asks for, at most `max.request.partition.size.limit`. Its cursor names the
first partition that did not fit; the next request carries it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.endpoints import ListenerView
from tailrace.broker.operations import TOPIC_OPERATIONS
from tailrace.metadata.partition_registration import PartitionRegistration
from tailrace.metadata.topic_image import TopicImage
from tailrace.model.errors import InvalidRequestError, InvalidTopicError, UnknownTopicOrPartitionError
from tailrace.model.internal_topics import INTERNAL_TOPICS
from tailrace.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)
from tailrace.storage.names import topic_problem

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node,
    context: RequestContext,
    request: DescribeTopicPartitionsRequest,
    reply: Callable[[DescribeTopicPartitionsResponse], None],
) -> None:
    image, cursor = node.image, request.cursor
    asked = [topic.name for topic in request.topics]
    if cursor is not None and ((asked and cursor.topic_name not in asked) or cursor.partition_index < 0):
        reply(_refused(asked))
        return
    first_name = cursor.topic_name if cursor is not None else ""
    view = ListenerView(image, context.listener)
    left = max(min(node.config.max_request_partition_size_limit, request.response_partition_limit), 1)
    response = DescribeTopicPartitionsResponse()
    for name in sorted(name for name in (set(asked) if asked else image.topics) if name >= first_name):
        if not left:
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            response.topics.append(_missing(name))
            continue
        begin = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        end = min(begin + left, len(topic.partitions))
        response.topics.append(_topic(view, topic, range(begin, end)))
        left -= max(end - begin, 0)
        if end < len(topic.partitions):
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=end)
            break
    reply(response)


def _refused(names: list[str]) -> DescribeTopicPartitionsResponse:
    code = InvalidRequestError.code
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(error_code=code, name=name) for name in names]
    )


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    error = UnknownTopicOrPartitionError if topic_problem(name) is None else InvalidTopicError
    return DescribeTopicPartitionsResponseTopic(
        error_code=error.code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _topic(view: ListenerView, topic: TopicImage, indexes: range) -> DescribeTopicPartitionsResponseTopic:
    found = ((index, topic.partitions.get(index)) for index in indexes)
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(view, index, partition) for index, partition in found if partition is not None],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(
    view: ListenerView, index: int, partition: PartitionRegistration
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=view.leader(partition),
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=view.offline_replicas(partition),
    )
