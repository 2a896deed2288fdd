"""OffsetDelete: forget what a group has committed, of topics that none of its members reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import InvalidGroupIdError, TailraceError, UnknownTopicOrPartitionError
from tailrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node, context: RequestContext, request: OffsetDeleteRequest, reply: Callable[[OffsetDeleteResponse], None]
) -> None:
    """The group is asked even when nothing is left to delete: it may not exist."""
    refused: dict[str, OffsetDeleteResponseTopic] = {}
    topics = _existing(node.image, request.topics, refused)

    def answer(response: OffsetDeleteResponse) -> None:
        if refused:
            for topic in response.topics:
                _add(refused, topic)
            response.topics = list(refused.values())
        reply(response)

    def failed(error: TailraceError) -> None:
        reply(OffsetDeleteResponse(error_code=error.code))

    if not request.group_id:
        failed(InvalidGroupIdError("offsets of a group that has no name cannot be deleted"))
        return
    node.groups.submit(
        "offset-delete",
        request.group_id,
        lambda machine: machine.offsets.delete(request.group_id, topics),
        answer,
        failed,
    )


def _existing(
    image: MetadataImage, asked: list[OffsetDeleteRequestTopic], refused: dict[str, OffsetDeleteResponseTopic]
) -> list[OffsetDeleteRequestTopic]:
    """Topics and partitions that exist; the others are added to `refused`."""
    existing = []
    for topic in asked:
        known = image.topics.get(topic.name)
        indices = () if known is None else known.partitions
        missing = [each.partition_index for each in topic.partitions if each.partition_index not in indices]
        if missing or known is None:
            code = UnknownTopicOrPartitionError.code
            rows = [OffsetDeleteResponsePartition(partition_index=index, error_code=code) for index in missing]
            _add(refused, OffsetDeleteResponseTopic(name=topic.name, partitions=rows))
            topic.partitions = [each for each in topic.partitions if each.partition_index in indices]
        if topic.partitions:
            existing.append(topic)
    return existing


def _add(refused: dict[str, OffsetDeleteResponseTopic], topic: OffsetDeleteResponseTopic) -> None:
    held = refused.setdefault(topic.name, topic)
    if held is not topic:
        held.partitions += topic.partitions
