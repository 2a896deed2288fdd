"""DescribeProducers: what a partition's log remembers of the producers that write to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.model.errors import (
    InvalidTopicError,
    RefusedRequestError,
    TailraceError,
    UnknownTopicOrPartitionError,
)
from tailrace.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from tailrace.storage.names import topic_problem

if TYPE_CHECKING:
    from tailrace.broker.node import Node

NO_TRANSACTION: Final = -1
MAX_PRODUCERS: Final = 200_000  # in an answer: a partition may have many, and be named any number of times


def handle(
    node: Node,
    context: RequestContext,
    request: DescribeProducersRequest,
    reply: Callable[[DescribeProducersResponse], None],
) -> None:
    response, left = DescribeProducersResponse(), MAX_PRODUCERS
    for topic in request.topics:
        error = _topic_error(node, topic.name)
        answer = TopicResponse(name=topic.name)
        response.topics.append(answer)
        for index in topic.partition_indexes:
            if left <= 0:
                error = RefusedRequestError("the answer would be too large: ask for fewer partitions at a time")
            partition = _partition(node, topic.name, index) if error is None else _refused(index, error)
            left -= len(partition.active_producers)
            answer.partitions.append(partition)
    reply(response)


def _topic_error(node: Node, name: str) -> TailraceError | None:
    problem = topic_problem(name)
    if problem is not None:
        return InvalidTopicError(f"Topic name is invalid: {problem}")
    if name not in node.image.topics:
        return UnknownTopicOrPartitionError(f"there is no topic {name}")
    return None


def _refused(index: int, error: TailraceError) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=error.code, error_message=str(error))


def _partition(node: Node, topic: str, index: int) -> PartitionResponse:
    try:
        entries = node.replicas.partition(topic, index).active_producers()
    except TailraceError as error:
        return _refused(index, error)
    producers = [
        ProducerState(
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            last_sequence=entry.last_seq,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=NO_TRANSACTION if entry.txn_first_offset is None else entry.txn_first_offset,
        )
        for entry in entries
    ]
    return PartitionResponse(partition_index=index, active_producers=producers)
