"""Brokers to try compaction with: small segments, small maps, and what else makes trouble likely."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tailrace.config.log import MAX_LONG, LogConfig

COMPACT: Final = ("compact",)
DELETE: Final = ("delete",)
BOTH: Final = ("compact", "delete")
POLICIES: Final = (COMPACT, BOTH, DELETE)
SEGMENT_BYTES: Final = (900, 1500, 3000)
"""Every batch fits the smallest."""
BASE: Final = LogConfig(
    cleanup_policy=COMPACT,
    segment_bytes=1500,
    segment_index_bytes=120,
    index_interval_bytes=200,
    file_delete_delay_ms=300,
    delete_retention_ms=1000,
    min_cleanable_dirty_ratio=0.0,
    retention_ms=-1,
)


@dataclass(frozen=True)
class Shape:
    """A broker to try things with."""

    config: LogConfig = BASE
    slots: int = 100
    io_buffer_bytes: int = 700
    partitions: int = 1
    directories: tuple[str, ...] = ("/a",)
    threads: int = 1


SHAPES: Final = (
    Shape(),
    Shape(slots=8),
    Shape(replace(BASE, segment_bytes=3000, min_cleanable_dirty_ratio=0.4, delete_retention_ms=0)),
    Shape(replace(BASE, cleanup_policy=BOTH, retention_ms=4000, retention_bytes=6000), slots=12),
    Shape(replace(BASE, min_compaction_lag_ms=400, max_compaction_lag_ms=3000, segment_ms=700), slots=20),
    Shape(replace(BASE, delete_retention_ms=MAX_LONG, message_timestamp_type="LogAppendTime"), io_buffer_bytes=4000),
    Shape(replace(BASE, compression_type="zstd", preallocate=True, segment_bytes=1100), slots=9),
    Shape(replace(BASE, cleanup_policy=DELETE, retention_bytes=5000, flush_messages=9), slots=30),
    Shape(partitions=2, directories=("/a", "/b"), threads=2, slots=40),
    Shape(replace(BASE, segment_bytes=900, cleanup_policy=BOTH, retention_ms=2500), partitions=2, slots=10),
)
