"""What the cleaner shows of itself, under Kafka's names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tailrace.metrics.gauge import Gauge
from tailrace.storage.cleaner.worker import CleanerWorker

GROUP: Final = "log"
POOL: Final = "LogCleaner"
MANAGER: Final = "LogCleanerManager"


def pool_gauges(workers: Sequence[CleanerWorker], greatest_ratio: float) -> Iterator[Gauge]:
    last = [worker.last for worker in workers if worker.last is not None]
    written = sum(each.stats.bytes_written for each in last)
    read = sum(each.stats.bytes_read for each in last)
    fullest = max((each.stats.map_utilization for each in last), default=0.0)
    longest_ms = max((each.took_ms for each in last), default=0)
    yield Gauge(GROUP, POOL, "DeadThreadCount", sum(worker.is_dead for worker in workers))
    yield Gauge(GROUP, POOL, "max-buffer-utilization-percent", int(100 * fullest))
    yield Gauge(GROUP, POOL, "cleaner-recopy-percent", int(100 * written / max(read, 1)))
    yield Gauge(GROUP, POOL, "max-clean-time-secs", longest_ms // 1000)
    yield Gauge(GROUP, MANAGER, "max-dirty-percent", int(100 * greatest_ratio))


def uncleanable_gauges(directory: str, partitions: int, dirty_bytes: int) -> Iterator[Gauge]:
    tags = (("logDirectory", directory),)
    yield Gauge(GROUP, MANAGER, "uncleanable-partitions-count", partitions, tags)
    yield Gauge(GROUP, MANAGER, "uncleanable-bytes", dirty_bytes, tags)
