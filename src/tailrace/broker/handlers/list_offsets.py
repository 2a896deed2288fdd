"""ListOffsets: offsets by time, and the ends of logs by their special timestamps.

    −1 latest · −2 earliest · −3 largest timestamp · −4 earliest local · −5 latest tiered · −6 earliest not tiered

A look-up by time reads from disk and may decompress a batch: it is done by a job, all of a request's in one.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.model.errors import (
    InvalidRequestError,
    LeaderNotAvailableError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    SegmentGoneError,
    TailraceError,
    UnsupportedVersionError,
)
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tailrace.replication.partition import Partition
from tailrace.storage.fetch import Isolation
from tailrace.storage.offset_lookup import EARLIEST, LATEST, MAX_TIMESTAMP, FoundOffset

if TYPE_CHECKING:
    from tailrace.broker.node import Node

_log = logging.getLogger(__name__)

CONSUMER: Final = -1
DEBUGGING_REPLICA: Final = -2
ISOLATIONS: Final = {0: Isolation.HIGH_WATERMARK, 1: Isolation.TXN_COMMITTED}
FIRST_VERSIONS: Final = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, -4: 8, -5: 9, -6: 11}
"""Of special timestamps."""
LEADER_EPOCH_FROM: Final = 4
OFFSET_NOT_AVAILABLE_FROM: Final = 5
LOOKUPS: Final = 3
"""So often is a look-up begun that loses the race against a truncation."""


class _Asked:
    """One partition of a request and, once it is known, its answer."""

    def __init__(self, wanted: ListOffsetsPartition) -> None:
        self.wanted = wanted
        self.partition: Partition | None = None
        self.error_code = 0
        self.found: FoundOffset | None = None

    @property
    def is_by_time(self) -> bool:
        return self.partition is not None and (self.wanted.timestamp >= 0 or self.wanted.timestamp == MAX_TIMESTAMP)


def handle(
    node: Node, context: RequestContext, request: ListOffsetsRequest, reply: Callable[[ListOffsetsResponse], None]
) -> None:
    asked = _asked(node, request, context.version)
    isolation = ISOLATIONS.get(request.isolation_level)
    if request.replica_id != CONSUMER and isolation is not None:
        isolation = Isolation.LOG_END
    leader_only = request.replica_id != DEBUGGING_REPLICA

    def look_up(item: _Asked) -> None:
        partition = item.partition
        if partition is None:
            return
        if isolation is None:
            item.error_code = TailraceError.code
            return
        try:
            item.found = _found(partition, item.wanted, isolation, leader_only)
        except TailraceError as error:
            item.error_code = error.code

    def look_up_by_time() -> None:
        for item in by_time:
            look_up(item)

    def answer(_: None = None) -> None:
        reply(_response(asked, context.version))

    def break_off(error: Exception) -> None:
        _log.error("an offset could not be looked up by its time", exc_info=error)
        for item in by_time:
            item.error_code, item.found = TailraceError.code, None
        answer()

    by_time = [item for item in asked.values() if item.is_by_time]
    for item in asked.values():
        if not item.is_by_time:
            look_up(item)
    if by_time:
        node.env.jobs.run("list-offsets", look_up_by_time, answer, break_off)
    else:
        answer()


def _asked(node: Node, request: ListOffsetsRequest, version: int) -> dict[TopicPartition, _Asked]:
    """By partition, in the order asked; one that is named twice is an error."""
    asked: dict[TopicPartition, _Asked] = {}
    times = Counter((topic.name, p.partition_index) for topic in request.topics for p in topic.partitions)
    for topic in request.topics:
        for wanted in topic.partitions:
            partition = TopicPartition(topic.name, wanted.partition_index)
            item = asked[partition] = _Asked(wanted)
            if times[partition] > 1:
                item.error_code = InvalidRequestError.code
            elif wanted.timestamp < 0 and version < FIRST_VERSIONS.get(wanted.timestamp, version + 1):
                item.error_code = UnsupportedVersionError.code
            else:
                try:
                    item.partition = node.replicas.partition(*partition)
                except TailraceError as error:
                    item.error_code = error.code
    return asked


def _found(
    partition: Partition, wanted: ListOffsetsPartition, isolation: Isolation, leader_only: bool
) -> FoundOffset | None:
    for _ in range(LOOKUPS):
        try:
            return partition.list_offsets(
                wanted.timestamp, isolation, wanted.current_leader_epoch, leader_only=leader_only
            )
        except SegmentGoneError:
            continue
    raise NotLeaderOrFollowerError(f"{partition.id} is being truncated")


def _response(asked: dict[TopicPartition, _Asked], version: int) -> ListOffsetsResponse:
    topics: dict[str, ListOffsetsTopicResponse] = {}
    for partition, item in asked.items():
        row = ListOffsetsPartitionResponse(partition_index=partition.partition, error_code=item.error_code)
        if item.error_code == OffsetNotAvailableError.code and version < OFFSET_NOT_AVAILABLE_FROM:
            row.error_code = LeaderNotAvailableError.code
        if item.found is not None:
            row.timestamp, row.offset = item.found.timestamp, item.found.offset
            if version >= LEADER_EPOCH_FROM:
                row.leader_epoch = item.found.leader_epoch
        topics.setdefault(partition.topic, ListOffsetsTopicResponse(name=partition.topic)).partitions.append(row)
    return ListOffsetsResponse(topics=list(topics.values()))
