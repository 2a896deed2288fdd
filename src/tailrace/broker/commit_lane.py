"""Offset commits of one connection that are alike but for their offsets, taken without making objects of them.

Only what the coordinator takes as it took the one before goes this way. Everything else (another group or member, a
topic that is gone, a coordinator that is loading or elsewhere, a log that refuses) goes to the handler, which finds the
same and says so.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Final, cast

from tailrace.coordinator.outcome import Outcome
from tailrace.coordinator.shard import Shard, ShardState
from tailrace.metadata.topic_image import TopicImage
from tailrace.model.errors import TailraceError
from tailrace.protocol.apis import OFFSET_COMMIT
from tailrace.protocol.commit_shape import CommitShape
from tailrace.protocol.headers import RequestHeader
from tailrace.protocol.message import Request
from tailrace.protocol.messages.offset_commit import OffsetCommitRequest

if TYPE_CHECKING:
    from tailrace.broker.channel import Channel
    from tailrace.broker.metrics import ApiMetrics
    from tailrace.broker.node import Node
    from tailrace.coordinator.groups.shard import GroupShard
    from tailrace.coordinator.offsets.prepared_commit import PreparedCommit

_TOPIC_IDS_FROM: Final = 10
_VAIN_LESSONS: Final = 8  # after so many shapes in a row that never came again, no more are learnt


class _Lesson:
    """A request that was taken, and what has to be as it was for the next one like it."""

    __slots__ = ("index", "partition_count", "prepared", "shape", "topics")

    def __init__(
        self, shape: CommitShape, prepared: PreparedCommit, topics: list[TopicImage], index: int, partition_count: int
    ) -> None:
        self.shape = shape
        self.prepared = prepared
        self.topics = topics
        self.index = index
        """Of the shard. Not the shard itself: a connection that commits no more would keep it when it has ended."""
        self.partition_count = partition_count
        """Of the coordinator's topic: another number, and the group may belong elsewhere."""


class CommitLane:
    __slots__ = ("_lesson", "_node", "_size", "_vain")

    def __init__(self, node: Node) -> None:
        self._node = node
        self._lesson: _Lesson | None = None
        self._size = 0
        """Of the frame before: what comes once is not learnt from."""
        self._vain = 0

    def learn(self, header: RequestHeader, request: Request, frame: bytes) -> None:
        """The request was decoded, and nothing in it is changed yet: the next one may be like it."""
        size, self._size = self._size, len(frame)
        if size != len(frame) or self._vain >= _VAIN_LESSONS or not isinstance(request, OffsetCommitRequest):
            return
        self._vain += 1
        self._lesson = self._lesson_of(header, request, frame)

    def _lesson_of(self, header: RequestHeader, request: OffsetCommitRequest, frame: bytes) -> _Lesson | None:
        runtime, image = self._node.groups, self._node.image
        shape = CommitShape.of(header, request, frame)
        own_topic = image.topics.get(runtime.topic)
        if shape is None or own_topic is None or runtime.codec:
            return None
        topics = []
        for topic in request.topics:
            by_id = header.request_api_version >= _TOPIC_IDS_FROM
            known = image.topics_by_id.get(topic.topic_id) if by_id else image.topics.get(topic.name)
            if known is None or any(row.partition_index not in known.partitions for row in topic.partitions):
                return None
            topic.name, topic.topic_id = known.name, known.id
            topics.append(known)
        from tailrace.coordinator.offsets.prepared_commit import PreparedCommit  # with the rest of the coordinator

        prepared = PreparedCommit(request)
        if not prepared.is_sound:
            return None
        return _Lesson(shape, prepared, topics, runtime.partition_for(request.group_id), len(own_topic.partitions))

    def take(self, channel: Channel, frame: bytes, version: int, correlation_id: int) -> bool:
        """Whether it was such a request, and is written; it is answered then, or will be."""
        lesson = self._lesson
        if lesson is None or version != lesson.shape.version:
            return False
        offsets = lesson.shape.match(frame)
        if offsets is None:
            return False
        self._vain = 0
        began_ns = perf_counter_ns()
        if not self._holds(lesson):
            self._lesson = None
            return False
        shard = self._node.groups.shard(lesson.index)
        if shard is None or shard.state is not ShardState.ACTIVE:
            return False
        machine = cast("GroupShard", shard.machine)
        if not machine.offsets.can_commit(lesson.prepared, version):
            return False
        try:
            last_offset = machine.offsets.commit_prepared(lesson.prepared, offsets)
        except TailraceError:
            return False  # nothing was written: the handler tries it again, and tells
        if last_offset is None:
            return False
        counters = self._node.counters.api(OFFSET_COMMIT)
        counters.requests[version] += 1
        if shard.is_committed(last_offset):
            counters.total_time_us.record((perf_counter_ns() - began_ns) // 1000)
            channel.send([lesson.shape.answer(correlation_id)])
        else:
            _answer_later(channel, shard, lesson, correlation_id, counters, began_ns)
        return True

    def _holds(self, lesson: _Lesson) -> bool:
        """Whether topics and settings are those that the lesson was learnt with."""
        runtime, topics = self._node.groups, self._node.image.topics
        own_topic = topics.get(runtime.topic)
        if own_topic is None or len(own_topic.partitions) != lesson.partition_count or runtime.codec:
            return False
        return all(topics.get(topic.name) is topic for topic in lesson.topics)


def _answer_later(
    channel: Channel, shard: Shard, lesson: _Lesson, correlation_id: int, counters: ApiMetrics, began_ns: int
) -> None:
    """An answer without records waits for everything that was written before it."""
    slot, shape = channel.hold(), lesson.shape

    def answer(frame: bytes) -> None:
        counters.total_time_us.record((perf_counter_ns() - began_ns) // 1000)
        channel.answer(slot, [frame])

    def failed(error: TailraceError) -> None:
        for _ in range(lesson.prepared.count):
            counters.failed(error.code)
        answer(shape.refusal(correlation_id, error.code))

    shard.submit(
        "offset-commit",
        lambda: Outcome(response=shape.answer(correlation_id)),
        answer,
        failed,
    )
