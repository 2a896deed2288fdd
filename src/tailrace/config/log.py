"""Topic-level settings of one log: Kafka's keys, defaults and ranges, in one table.

`LogConfig.of({"segment.bytes": "1048576"})` parses and checks; an unknown key or a value out of range is refused
with the key named. Fields are the keys with dots turned into underscores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tailrace.config.table import (
    MAX_INT,
    MAX_LONG,
    MIN_LONG,
    ConfigError,
    boolean,
    choice,
    fraction,
    key,
    parsed,
    text_list,
    whole,
)

__all__ = ["CODEC_NAMES", "MAX_INT", "MAX_LONG", "ConfigError", "LogConfig"]

CODEC_NAMES: Final = ("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer")


def _policies(text: str) -> tuple[str, ...]:
    found = text_list(text)
    if not set(found) <= {"delete", "compact"}:
        raise ValueError("must be delete, compact or both")
    return found


@dataclass(frozen=True, slots=True)
class LogConfig:
    cleanup_policy: tuple[str, ...] = key(("delete",), _policies, "how old data goes: delete, compact or both")
    compression_type: str = key("producer", choice(*CODEC_NAMES), "codec of stored batches; producer keeps theirs")
    delete_retention_ms: int = key(86_400_000, whole(0, MAX_LONG), "how long compaction keeps a tombstone")
    flush_messages: int = key(MAX_LONG, whole(1, MAX_LONG), "sync after so many records")
    flush_ms: int = key(MAX_LONG, whole(0, MAX_LONG), "sync after so many milliseconds")
    file_delete_delay_ms: int = key(60_000, whole(0, MAX_LONG), "wait before a removed file is unlinked")
    index_interval_bytes: int = key(4096, whole(0, MAX_INT), "log bytes between two index entries")
    max_compaction_lag_ms: int = key(MAX_LONG, whole(1, MAX_LONG), "compact a record at the latest after this")
    max_message_bytes: int = key(1_048_588, whole(0, MAX_INT), "largest batch that a producer may send")
    message_timestamp_type: str = key(
        "CreateTime", choice("CreateTime", "LogAppendTime"), "whose clock stamps the records"
    )
    message_timestamp_before_max_ms: int = key(MAX_LONG, whole(0, MAX_LONG), "how far behind a timestamp may be")
    message_timestamp_after_max_ms: int = key(3_600_000, whole(0, MAX_LONG), "how far ahead a timestamp may be")
    min_cleanable_dirty_ratio: float = key(0.5, fraction, "compact a log of which more than this part is dirty")
    min_compaction_lag_ms: int = key(0, whole(0, MAX_LONG), "leave a record uncompacted for so long")
    preallocate: bool = key(False, boolean, "give a new segment its full length at once")
    retention_bytes: int = key(-1, whole(MIN_LONG, MAX_LONG), "delete what exceeds this; negative: never")
    retention_ms: int = key(604_800_000, whole(-1, MAX_LONG), "delete what is older than this; -1: never")
    segment_bytes: int = key(1_073_741_824, whole(1_048_576, MAX_INT), "roll a segment before it exceeds this")
    segment_index_bytes: int = key(10_485_760, whole(4, MAX_INT), "length of a preallocated index")
    segment_jitter_ms: int = key(0, whole(0, MAX_LONG), "random part taken off segment.ms")
    segment_ms: int = key(604_800_000, whole(1, MAX_LONG), "roll a segment that is older than this")

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> LogConfig:
        config = cls(**parsed(cls, settings, "topic"))
        if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
            raise ConfigError(
                f"min.compaction.lag.ms={config.min_compaction_lag_ms}: "
                f"must not exceed max.compaction.lag.ms={config.max_compaction_lag_ms}"
            )
        return config

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def has_compaction_lag(self) -> bool:
        """What can be compacted depends on the time."""
        return self.min_compaction_lag_ms > 0 or self.max_compaction_lag_ms < MAX_LONG
