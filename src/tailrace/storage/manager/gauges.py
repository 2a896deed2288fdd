"""What the log manager shows of itself, under Kafka's names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tailrace.storage.manager.log_directories import LogDirectories
from tailrace.storage.manager.log_loading import LogLoading


class Gauge(NamedTuple):
    name: str
    tags: tuple[tuple[str, str], ...]
    value: int


def directory_gauges(directories: LogDirectories) -> Iterator[Gauge]:
    yield Gauge("OfflineLogDirectoryCount", (), len(directories.offline))
    for directory in directories:
        yield Gauge("LogDirectoryOffline", (("logDirectory", directory.path),), int(not directory.is_live))


def recovery_gauges(loading: LogLoading) -> Iterator[Gauge]:
    """While logs load."""
    for directory, pool in loading.pools.items():
        yield Gauge("remainingLogsToRecover", (("dir", directory.path),), pool.remaining)
        for place, segments in enumerate(pool.segments_remaining):
            tags = (("dir", directory.path), ("threadNum", str(place)))
            yield Gauge("remainingSegmentsToRecover", tags, segments)
