"""AlterReplicaLogDirs: move partitions of this broker from one of its data directories to another.

The answer comes when the moves have begun; DescribeLogDirs shows how far they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.model.errors import (
    InvalidTopicError,
    LogDirNotFoundError,
    LogDirUnavailableError,
    NotLeaderOrFollowerError,
    ReplicaNotAvailableError,
    TailraceError,
)
from tailrace.model.ids import TopicPartition
from tailrace.model.noop import noop
from tailrace.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from tailrace.storage.manager.directory_names import is_movable
from tailrace.storage.manager.log_directory import LogDirectory

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node,
    context: RequestContext,
    request: AlterReplicaLogDirsRequest,
    reply: Callable[[AlterReplicaLogDirsResponse], None],
) -> None:
    targets = {
        TopicPartition(topic.name, index): target.path
        for target in request.dirs
        for topic in target.topics
        for index in topic.partitions
    }  # of a partition that is named twice the last word counts
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for partition, path in targets.items():
        result = AlterReplicaLogDirPartitionResult(
            partition_index=partition.partition, error_code=_begin_move(node, partition, path)
        )
        topic = partition.topic
        results.setdefault(topic, AlterReplicaLogDirTopicResult(topic_name=topic)).partitions.append(result)
    reply(AlterReplicaLogDirsResponse(results=list(results.values())))


def _begin_move(node: Node, partition: TopicPartition, path: str) -> int:
    """The error code of what stands in its way at once, 0 when it has begun."""
    refusals: list[TailraceError] = []
    try:
        target = _target(node, partition, path)
        if node.replicas.partition(*partition).log is None:
            raise NotLeaderOrFollowerError(f"the log of {partition} is still being made")
        # When it has moved, the replica manager reports the new directory to the controller.
        node.logs.move(partition, target, noop, refusals.append)
    except NotLeaderOrFollowerError:
        return ReplicaNotAvailableError.code
    except TailraceError as error:
        return error.code
    return refusals[0].code if refusals else 0


def _target(node: Node, partition: TopicPartition, path: str) -> LogDirectory:
    if not is_movable(partition):
        raise InvalidTopicError(f"the directory of a moving {partition} would have too long a name")
    for directory in node.logs.directories:
        if directory.path == path:
            break
    else:
        raise LogDirNotFoundError(f"{path} is not among log.dirs")
    if not directory.is_live:
        raise LogDirUnavailableError(f"{path} is offline")
    return directory
