"""DescribeLogDirs: what of a broker's partitions is in which data directory, and how full the disks are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.env import Space
from tailrace.model.errors import StorageError
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tailrace.storage.manager.log_directory import LogDirectory
from tailrace.storage.unified_log import UnifiedLog

if TYPE_CHECKING:
    from tailrace.broker.node import Node

SPACE_FROM: Final = 4
UNKNOWN_LAG: Final = -1

Spaces = dict[str, Space]


def handle(
    node: Node,
    context: RequestContext,
    request: DescribeLogDirsRequest,
    reply: Callable[[DescribeLogDirsResponse], None],
) -> None:
    def answer(spaces: Spaces) -> None:
        reply(DescribeLogDirsResponse(results=_results(node, request, spaces)))

    if context.version < SPACE_FROM:
        answer({})
        return
    paths = [directory.path for directory in node.logs.directories.live]
    # A network disk that hangs must not stop the node.
    node.env.jobs.run("disk-space", lambda: _spaces(node, paths), answer)


def _spaces(node: Node, paths: list[str]) -> Spaces:
    spaces = {}
    for path in paths:
        try:
            spaces[path] = node.env.files.space(path)
        except OSError:
            continue  # its size stays unknown; whether it works is decided by its logs
    return spaces


def _results(node: Node, request: DescribeLogDirsRequest, spaces: Spaces) -> list[DescribeLogDirsResult]:
    topics: dict[str, dict[str, DescribeLogDirsTopic]] = {}
    for directory, partition, log, is_future in _wanted(node, request):
        row = DescribeLogDirsPartition(
            partition_index=partition.partition,
            partition_size=log.local.size,
            offset_lag=_lag(node, partition, log, is_future=is_future),
            is_future_key=is_future,
        )
        of_directory = topics.setdefault(directory.path, {})
        name = partition.topic
        of_directory.setdefault(name, DescribeLogDirsTopic(name=name)).partitions.append(row)
    results = []
    for directory in node.logs.directories:
        result = DescribeLogDirsResult(log_dir=directory.path, is_cordoned=directory.is_cordoned)
        if directory.is_live:
            result.topics = list(topics.get(directory.path, {}).values())
            if directory.path in spaces:
                result.total_bytes, result.usable_bytes = spaces[directory.path]
        else:
            result.error_code = StorageError.code
        results.append(result)
    return results


def _wanted(
    node: Node, request: DescribeLogDirsRequest
) -> Iterator[tuple[LogDirectory, TopicPartition, UnifiedLog, bool]]:
    logs = node.logs
    for is_future in (False, True):
        if request.topics is None:
            partitions = logs.partitions(future=is_future)
        else:
            asked = (TopicPartition(t.topic, index) for t in request.topics for index in t.partitions)
            partitions = list(dict.fromkeys(asked))
        for partition in partitions:
            log = logs.log(partition, future=is_future)
            directory = logs.directory_of(partition, future=is_future)
            if log is not None and directory is not None:
                yield directory, partition, log, is_future


def _lag(node: Node, partition: TopicPartition, log: UnifiedLog, *, is_future: bool) -> int:
    """Of a future log behind the current one; of a current log behind the high watermark, as a follower's may be."""
    current = node.logs.log(partition)
    if current is None:
        return UNKNOWN_LAG
    if is_future:
        return current.log_end_offset - log.log_end_offset
    return max(current.high_watermark - log.log_end_offset, 0)
