"""Topics to count: written as batches say, to real files, and cleaned by the log's own compaction."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.logs.builders import TOPIC_ID, marker, real_log
from support.spark.local_rdds import LocalSpark
from tailrace.config.log import LogConfig
from tailrace.record.builder import BatchBuilder
from tailrace.spark.statistics.stats import stats
from tailrace.spark.statistics.topic_stats import TopicStats
from tailrace.storage.compaction.log_compaction import CompactionStats, cleanable_of, compact
from tailrace.storage.compaction.offset_map import SLOT_BYTES, OffsetMap
from tailrace.storage.origin import Origin
from tailrace.storage.steps import run_inline
from tailrace.storage.unified_log import UnifiedLog

T0 = 1_700_000_000_000
SEGMENTED = LogConfig(segment_bytes=1 << 16, segment_index_bytes=4096, index_interval_bytes=1024)

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Row:
    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def payload(self) -> int:
        headers = sum(len(name.encode()) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


@dataclass(frozen=True)
class Put:
    """A batch. With a producer it is idempotent; `ends` makes it a transaction of its own that commits or aborts."""

    partition: int
    rows: tuple[Row, ...]
    codec: int = 0
    producer_id: int = -1
    ends: bool | None = None

    @property
    def is_aborted(self) -> bool:
        return self.ends is False


def write_topic(path: Path, puts: Sequence[Put], *, partitions: int = 1, config: LogConfig = SEGMENTED) -> list[int]:
    """Gives the bytes that each partition has, as files have them."""
    logs = [_opened(path, number, config) for number in range(partitions)]
    sequences: dict[tuple[int, int], int] = {}
    for put in puts:
        log = logs[put.partition]
        fields: dict[str, Any] = {"codec": put.codec}
        if put.producer_id >= 0:
            place = put.partition, put.producer_id
            fields |= {"producer_id": put.producer_id, "producer_epoch": 0, "base_sequence": sequences.get(place, 0)}
            fields["transactional"] = put.ends is not None
            sequences[place] = fields["base_sequence"] + len(put.rows)
        builder = BatchBuilder(**fields)
        for row in put.rows:
            builder.append(row.time_ms, row.key, row.value, row.headers)
        append(log, builder.build())
        if put.ends is not None:
            append(log, marker(put.producer_id, commit=put.ends), Origin.COORDINATOR)
    for log in logs:
        log.close()
    return [log_bytes(path, number) for number in range(partitions)]


def _opened(path: Path, number: int, config: LogConfig) -> UnifiedLog:
    folder = path / f"t-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    return real_log(folder, config, topic_id=TOPIC_ID, was_clean=True, was_compacted=True)


def append(log: UnifiedLog, data: bytearray, origin: Origin = Origin.CLIENT) -> None:
    (result,) = log.append_as_leader([data], 0, origin)
    if result.error is not None:
        raise result.error


def log_bytes(path: Path, number: int) -> int:
    return sum(file.stat().st_size for file in (path / f"t-{number}").glob("*.log"))


def clean(path: Path, number: int, *, rolls: bool, now_ms: int, config: LogConfig = SEGMENTED) -> CompactionStats:
    """One run of the cleaner; with `rolls` the segment that is being written is closed before."""
    log = _opened(path, number, config)
    log.update_high_watermark(log.log_end_offset)
    if rolls and log.local.active.size:
        log.roll()
        log.update_high_watermark(log.log_end_offset)
    to_clean = cleanable_of(log, None, now_ms).log
    offset_map = OffsetMap(SLOT_BYTES * 200_000, random.Random(7))
    done: CompactionStats = run_inline(compact(log, to_clean, offset_map, now_ms))
    log.close()
    return done


def counted(path: Path | str, **more: Any) -> TopicStats:
    spark: Any = LocalSpark()
    return stats(path=str(path), session=spark, **more)
