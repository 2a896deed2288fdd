"""DeleteRecords: forget everything of a partition below an offset.

A partition is done when its log begins at the offset for good, and those of all live replicas do too: the low watermark
has reached it. The timeout is for other replicas, as in Kafka: a partition whose replicas have not followed by then is
answered with REQUEST_TIMED_OUT, and its records may still be deleted. If a partition only waits for the leader's own
disk, the response waits too. Kafka responds before that write, so even a timeout of 0 is no error there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.broker.purgatory import LONGEST_WAIT_MS, Operation, Watched
from tailrace.model.errors import (
    InvalidTopicError,
    RequestTimedOutError,
    TailraceError,
    UnknownTopicOrPartitionError,
)
from tailrace.model.ids import TopicPartition
from tailrace.model.internal_topics import INTERNAL_TOPICS
from tailrace.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from tailrace.replication.partition import Partition

if TYPE_CHECKING:
    from tailrace.broker.node import Node
    from tailrace.broker.purgatory import Purgatory

NO_LOW_WATERMARK: Final = -1


class _Deletion(Operation):
    """Of all partitions of a request."""

    kind = "DeleteRecords"

    def __init__(self, purgatory: Purgatory, reply: Callable[[DeleteRecordsResponse], None]) -> None:
        self._purgatory = purgatory
        self._reply = reply
        self._results: dict[TopicPartition, DeleteRecordsPartitionResult] = {}
        self._open: dict[TopicPartition, Partition] = {}
        """Partitions that are not answered yet."""
        self._starts: dict[TopicPartition, int] = {}
        """Where their logs begin for good."""
        self._moved_to: dict[TopicPartition, int] = {}
        """Where their logs begin, unless the leader crashes before that is on its disk."""
        self._is_late = False

    def add(self, partition: TopicPartition) -> DeleteRecordsPartitionResult:
        result = DeleteRecordsPartitionResult(partition_index=partition.partition, low_watermark=NO_LOW_WATERMARK)
        self._results[partition] = result
        return result

    def watch(self, partition: Partition) -> None:
        self._open[partition.id] = partition

    @property
    def watched(self) -> list[Partition]:
        return list(self._open.values())

    def moves(self, partition: TopicPartition, start: int) -> None:
        self._moved_to[partition] = start

    def begins(self, partition: TopicPartition, start: int) -> None:
        self._starts[partition] = start

    def fails(self, partition: TopicPartition, error: TailraceError) -> None:
        self._results[partition].error_code = error.code
        self._open.pop(partition, None)

    def try_complete(self, moved: Watched | None) -> bool:
        for name, partition in list(self._open.items()):
            try:
                low_watermark = partition.low_watermark
            except TailraceError as error:
                self.fails(name, error)
                continue
            if name in self._starts:
                self._results[name].low_watermark = low_watermark
                if low_watermark >= self._starts[name]:
                    del self._open[name]
                    continue
            if self._is_late and not self._is_only_unsaved(name, low_watermark):
                self._results[name].error_code = RequestTimedOutError.code
                del self._open[name]
        if not self._open:
            self._answer()
        return not self._open

    def expire(self) -> None:
        """From now on it only waits for the leader's disk: there is no second timeout."""
        self._is_late = True
        self.is_over = False
        self._purgatory.wait(self, self.watched, LONGEST_WAIT_MS)

    def _is_only_unsaved(self, name: TopicPartition, low_watermark: int) -> bool:
        """Whether all replicas have deleted the records, and only the leader's disk is waited for."""
        return name not in self._starts and low_watermark >= self._moved_to[name]

    def _answer(self) -> None:
        topics: dict[str, DeleteRecordsTopicResult] = {}
        for name, result in self._results.items():
            topics.setdefault(name.topic, DeleteRecordsTopicResult(name=name.topic)).partitions.append(result)
        self._reply(DeleteRecordsResponse(topics=list(topics.values())))


def handle(
    node: Node, context: RequestContext, request: DeleteRecordsRequest, reply: Callable[[DeleteRecordsResponse], None]
) -> None:
    offsets = {
        TopicPartition(topic.name, wanted.partition_index): wanted.offset
        for topic in request.topics
        for wanted in topic.partitions
    }  # of a partition that is named twice the last word counts
    deletion = _Deletion(node.purgatory, reply)
    for name in offsets:
        result = deletion.add(name)
        try:
            deletion.watch(_partition(node, name))
        except TailraceError as error:
            result.error_code = error.code
    watched = deletion.watched

    def failed(partition: Partition, error: TailraceError) -> None:
        deletion.fails(partition.id, error)
        node.purgatory.moved(partition)

    for partition in watched:
        start = partition.delete_records(
            offsets[partition.id], partial(deletion.begins, partition.id), partial(failed, partition)
        )
        if start is not None:
            deletion.moves(partition.id, start)
    context.when_dropped(lambda: node.purgatory.abandon(deletion))
    node.purgatory.wait(deletion, watched, request.timeout_ms)


def _partition(node: Node, name: TopicPartition) -> Partition:
    topic = node.image.topics.get(name.topic)
    if topic is None or name.partition not in topic.partitions:
        raise UnknownTopicOrPartitionError(f"there is no partition {name}")
    if name.topic in INTERNAL_TOPICS:
        raise InvalidTopicError(f"records of the internal topic {name.topic} are not deleted by clients")
    return node.replicas.partition(*name)
