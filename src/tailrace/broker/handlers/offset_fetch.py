"""OffsetFetch: what groups have committed, of some partitions or of all.

Until version 7 a request is of one group. From version 8 on it may be of many, which are answered together when the
last of them has its answer.

Without `require_stable` what is committed is shown at once. With it, partitions for which an open transaction has
offsets are answered with an error, and the answer waits until everything is committed that was written before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.coordinator.groups.shard import GroupShard
from tailrace.coordinator.offsets.answers import nothing
from tailrace.coordinator.outcome import Outcome
from tailrace.coordinator.shard import ShardState
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    RefusedRequestError,
    TailraceError,
    UnknownTopicIdError,
)
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node

GROUP_ERRORS_FROM: Final = 2
MANY_GROUPS_FROM: Final = 8
TOPIC_IDS_FROM: Final = 10
MAX_PARTITIONS: Final = 200_000
"""In an answer: a group may have many, and be named any number of times."""


def handle(
    node: Node, context: RequestContext, request: OffsetFetchRequest, reply: Callable[[OffsetFetchResponse], None]
) -> None:
    asked = request.groups if context.version >= MANY_GROUPS_FROM else [_only_group(request)]
    _Fetch(node, context.version, asked, reply).begin(request.require_stable)


class _Fetch:
    def __init__(
        self,
        node: Node,
        version: int,
        asked: list[OffsetFetchRequestGroup],
        reply: Callable[[OffsetFetchResponse], None],
    ) -> None:
        self._node = node
        self._version = version
        self._asked = asked
        self._reply = reply
        self._answers: list[OffsetFetchResponseGroup | None] = [None] * len(asked)
        self._missing = len(asked)
        self._left_partitions = MAX_PARTITIONS

    def begin(self, requires_stable: bool) -> None:
        if not self._asked:
            self._reply(OffsetFetchResponse())
        for place, group in enumerate(self._asked):
            unknown = _name_topics(self._node.image, group) if self._version >= TOPIC_IDS_FROM else []
            self._ask(place, group, unknown, requires_stable)

    def _ask(
        self,
        place: int,
        group: OffsetFetchRequestGroup,
        unknown: list[OffsetFetchResponseTopics],
        requires_stable: bool,
    ) -> None:
        def question(machine: GroupShard) -> OffsetFetchResponseGroup:
            if self._left_partitions <= 0:
                raise RefusedRequestError("the answer would be too large: ask for fewer groups at a time")
            answer = machine.offsets.fetch(group, self._version, requires_stable=requires_stable)
            self._left_partitions -= sum(len(topic.partitions) for topic in answer.topics)
            return answer

        def answered(answer: OffsetFetchResponseGroup) -> None:
            if self._version >= TOPIC_IDS_FROM and group.topics is None:
                answer.topics = _with_ids(self._node.image, answer.topics)
            answer.topics += unknown
            self._take(place, answer)

        def failed(error: TailraceError) -> None:
            self._take(place, _refusal(group, _told(error), self._version))

        if requires_stable:
            self._node.groups.submit(
                "offset-fetch", group.group_id, lambda machine: Outcome(response=question(machine)), answered, failed
            )
            return
        try:
            answer = question(_machine(self._node, group.group_id))
        except TailraceError as error:
            failed(error)
        else:
            answered(answer)

    def _take(self, place: int, answer: OffsetFetchResponseGroup) -> None:
        self._answers[place] = answer
        self._missing -= 1
        if not self._missing:
            groups = [each for each in self._answers if each is not None]
            old = self._version < MANY_GROUPS_FROM
            self._reply(_old_response(groups[0]) if old else OffsetFetchResponse(groups=groups))


def _machine(node: Node, group_id: str) -> GroupShard:
    """The state of the group's shard as it is now."""
    shard = node.groups.shard(node.groups.partition_for(group_id))
    if shard is None or shard.state is ShardState.CLOSED:
        raise NotCoordinatorError(f"this broker does not coordinate {group_id!r}")
    if shard.state is ShardState.LOADING:
        raise CoordinatorLoadInProgressError(f"what is known of {group_id!r} is being loaded")
    assert isinstance(shard.machine, GroupShard)
    return shard.machine


def _told(error: TailraceError) -> int:
    """Whoever fetches offsets looks for the coordinator again where others wait for it."""
    return NotCoordinatorError.code if error.code == CoordinatorNotAvailableError.code else error.code


def _name_topics(image: MetadataImage, group: OffsetFetchRequestGroup) -> list[OffsetFetchResponseTopics]:
    """Give the topics of a request by ids their names. Returns the answers for those that do not exist."""
    unknown, known = [], []
    for topic in group.topics or ():
        found = image.topics_by_id.get(topic.topic_id)
        if found is None:
            rows = [nothing(index, UnknownTopicIdError.code) for index in topic.partition_indexes]
            unknown.append(OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=rows))
        else:
            topic.name = found.name
            known.append(topic)
    if group.topics is not None:
        group.topics = known
    return unknown


def _with_ids(image: MetadataImage, topics: list[OffsetFetchResponseTopics]) -> list[OffsetFetchResponseTopics]:
    """Topics that do not exist any more have none, and are left out."""
    named = []
    for topic in topics:
        found = image.topics.get(topic.name)
        if found is not None:
            topic.topic_id = found.id
            named.append(topic)
    return named


def _refusal(group: OffsetFetchRequestGroup, code: int, version: int) -> OffsetFetchResponseGroup:
    if version >= GROUP_ERRORS_FROM:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
    topics = [
        OffsetFetchResponseTopics(
            name=topic.name, partitions=[nothing(index, code) for index in topic.partition_indexes]
        )
        for topic in group.topics or ()
    ]
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


# Versions before 8


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _old_response(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    response = OffsetFetchResponse(error_code=group.error_code)
    for topic in group.topics:
        rows = [
            OffsetFetchResponsePartition(
                partition_index=row.partition_index,
                committed_offset=row.committed_offset,
                committed_leader_epoch=row.committed_leader_epoch,
                metadata=row.metadata,
                error_code=row.error_code,
            )
            for row in topic.partitions
        ]
        response.topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=rows))
    return response
