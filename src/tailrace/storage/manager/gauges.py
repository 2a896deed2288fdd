"""What the log manager shows of itself, under Kafka's names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tailrace.metrics.gauge import Gauge
from tailrace.storage.manager.log_directories import LogDirectories
from tailrace.storage.manager.log_loading import LogLoading

GROUP: Final = "log"
TYPE: Final = "LogManager"


def directory_gauges(directories: LogDirectories) -> Iterator[Gauge]:
    yield Gauge(GROUP, TYPE, "OfflineLogDirectoryCount", len(directories.offline))
    for directory in directories:
        tags = (("logDirectory", directory.path),)
        yield Gauge(GROUP, TYPE, "LogDirectoryOffline", int(not directory.is_live), tags)


def recovery_gauges(loading: LogLoading) -> Iterator[Gauge]:
    """While logs load."""
    for directory, pool in loading.pools.items():
        yield Gauge(GROUP, TYPE, "remainingLogsToRecover", pool.remaining, (("dir", directory.path),))
        for place, segments in enumerate(pool.segments_remaining):
            tags = (("dir", directory.path), ("threadNum", str(place)))
            yield Gauge(GROUP, TYPE, "remainingSegmentsToRecover", segments, tags)
