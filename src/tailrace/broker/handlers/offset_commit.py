"""OffsetCommit: what a group has read, kept by its coordinator.

Topics and partitions that do not exist are answered here, the others when the coordinator's log has committed them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import TailraceError, UnknownTopicIdError, UnknownTopicOrPartitionError
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node

TOPIC_IDS_FROM: Final = 10


def handle(
    node: Node, context: RequestContext, request: OffsetCommitRequest, reply: Callable[[OffsetCommitResponse], None]
) -> None:
    version = context.version
    refused = _Refused(by_id=version >= TOPIC_IDS_FROM)
    topics = _existing(node.image, request.topics, refused)
    if not topics:
        reply(refused.with_others(OffsetCommitResponse()))
        return

    def failed(error: TailraceError) -> None:
        rows = [_refusal(topic, topic.partitions, error.code) for topic in topics]
        reply(refused.with_others(OffsetCommitResponse(topics=rows)))

    node.groups.submit(
        "offset-commit",
        request.group_id,
        lambda machine: machine.offsets.commit(request, topics, version),
        reply if refused.is_empty else lambda response: reply(refused.with_others(response)),
        failed,
    )


class _Refused:
    """Rows that need no coordinator. They stand before the others, a topic's before the others of the topic."""

    def __init__(self, *, by_id: bool) -> None:
        self.by_id = by_id
        self._topics: dict[str | bytes, OffsetCommitResponseTopic] = {}

    @property
    def is_empty(self) -> bool:
        return not self._topics

    def add(self, refused: OffsetCommitResponseTopic) -> None:
        key = refused.topic_id if self.by_id else refused.name
        held = self._topics.setdefault(key, refused)
        if held is not refused:
            held.partitions += refused.partitions

    def with_others(self, response: OffsetCommitResponse) -> OffsetCommitResponse:
        if self.is_empty:
            return response
        for topic in response.topics:
            self.add(topic)
        return OffsetCommitResponse(topics=list(self._topics.values()))


def _existing(
    image: MetadataImage, asked: list[OffsetCommitRequestTopic], refused: _Refused
) -> list[OffsetCommitRequestTopic]:
    """Topics and partitions that exist, with names and ids."""
    existing = []
    for topic in asked:
        known = image.topics_by_id.get(topic.topic_id) if refused.by_id else image.topics.get(topic.name)
        if known is None:
            error = UnknownTopicIdError if refused.by_id else UnknownTopicOrPartitionError
            refused.add(_refusal(topic, topic.partitions, error.code))
            continue
        topic.name, topic.topic_id = known.name, known.id
        missing = [each for each in topic.partitions if each.partition_index not in known.partitions]
        if missing:
            refused.add(_refusal(topic, missing, UnknownTopicOrPartitionError.code))
            topic.partitions = [each for each in topic.partitions if each.partition_index in known.partitions]
        if topic.partitions:
            existing.append(topic)
    return existing


def _refusal(
    topic: OffsetCommitRequestTopic, partitions: list[OffsetCommitRequestPartition], code: int
) -> OffsetCommitResponseTopic:
    rows = [OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code) for each in partitions]
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=rows)
