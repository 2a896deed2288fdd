"""The partitions that a killed process writes, what is done to them, and how often.

Everything is small and quick, so that segments roll, are compacted and deleted many times in the few hundred
milliseconds that a process has before it is killed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tailrace.config.log import LogConfig

DIRECTORIES: Final = ("a", "b")


@dataclass(frozen=True)
class Partition:
    """`keys`: how many different ones are written; 0: records without a key."""

    topic: str
    directory: str
    keys: int
    config: LogConfig
    has_deleted_records: bool = False
    """Now and then everything below some offset is deleted on demand."""

    @property
    def name(self) -> str:
        return f"{self.topic}-0"

    @property
    def is_compacted(self) -> bool:
        return self.config.compacts

    def path(self, root: Path) -> Path:
        return root / self.directory / self.name


def _config(*policies: str, segment_bytes: int, **settings: int) -> LogConfig:
    return LogConfig(
        cleanup_policy=policies,
        segment_bytes=segment_bytes,
        segment_index_bytes=4096,
        index_interval_bytes=500,
        min_cleanable_dirty_ratio=0.01,
        file_delete_delay_ms=settings.pop("file_delete_delay_ms", 20),
        retention_ms=settings.pop("retention_ms", -1),
        **settings,
    )


_ALL: Final = (
    Partition("accounts", "a", 250, _config("compact", segment_bytes=16_384, delete_retention_ms=60_000)),
    Partition("sessions", "b", 40, _config("compact", segment_bytes=8192, delete_retention_ms=150)),
    Partition(
        "carts",
        "a",
        60,
        _config("compact", "delete", segment_bytes=8192, delete_retention_ms=150, retention_ms=2500),
        has_deleted_records=True,
    ),
    Partition(
        "offers",
        "b",
        120,
        _config("compact", "delete", segment_bytes=8192, delete_retention_ms=600, retention_bytes=24_000),
    ),
    Partition("clicks", "a", 0, _config("delete", segment_bytes=8192, retention_bytes=30_000, file_delete_delay_ms=80)),
    Partition(
        "orders",
        "b",
        0,
        _config("delete", segment_bytes=8192, retention_ms=1200, file_delete_delay_ms=80),
        has_deleted_records=True,
    ),
)
PARTITIONS: Final = {partition.name: partition for partition in _ALL}
