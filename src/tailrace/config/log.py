"""Topic-level settings of one log: Kafka's keys, defaults and ranges, in one table.

`LogConfig.of({"segment.bytes": "1048576"})` parses and checks; an unknown key or a value out of range is refused
with the key named. Fields are the keys with dots turned into underscores. Settings of tiered storage are known so that
files and requests that name them are understood; switching it on is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from tailrace.config.table import (
    MAX_INT,
    MAX_LONG,
    MIN_LONG,
    ConfigError,
    Effect,
    Kind,
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

# Kafka's default of lz4 is the fast compressor, which has no level.
_LEVELS: Final = {
    "gzip": ("compression_gzip_level", -1),
    "lz4": ("compression_lz4_level", 9),
    "zstd": ("compression_zstd_level", 3),
}
_REPLICA: Final = re.compile(r"[0-9]+:[0-9]+")
_LATER: Final = Effect.LATER


def _policies(text: str) -> tuple[str, ...]:
    found = text_list(text)
    if not set(found) <= {"delete", "compact"}:
        raise ValueError("must be delete, compact or both")
    return found


def _throttled(text: str) -> tuple[str, ...]:
    found = text_list(text)
    if found != ("*",) and not all(_REPLICA.fullmatch(part) for part in found):
        raise ValueError("must be *, or a list of PARTITION:BROKER")
    return found


def _no_tiering(text: str) -> bool:
    if boolean(text):
        raise ValueError("tiered storage does not exist yet")
    return False


@dataclass(frozen=True, slots=True)
class LogConfig:
    cleanup_policy: tuple[str, ...] = key(
        ("delete",), _policies, "how old data goes: delete, compact or both", kind=Kind.LIST
    )
    compression_type: str = key("producer", choice(*CODEC_NAMES), "codec of stored batches; producer keeps theirs")
    compression_gzip_level: int = key(-1, whole(1, 9, extra=-1), "level of gzip, when compression.type says gzip")
    compression_lz4_level: int = key(9, whole(1, 17), "level of lz4, when compression.type says lz4")
    compression_zstd_level: int = key(3, whole(-131_072, 22), "level of zstd, when compression.type says zstd")
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
    min_insync_replicas: int = key(1, whole(1, MAX_INT), "replicas in sync that a write with acks=all needs")
    preallocate: bool = key(False, boolean, "give a new segment its full length at once")
    retention_bytes: int = key(-1, whole(MIN_LONG, MAX_LONG), "delete what exceeds this; negative: never")
    retention_ms: int = key(604_800_000, whole(-1, MAX_LONG), "delete what is older than this; -1: never")
    segment_bytes: int = key(1_073_741_824, whole(1_048_576, MAX_INT), "roll a segment before it exceeds this")
    internal_segment_bytes: int | None = key(
        None, whole(1, MAX_INT), "segment.bytes without its lower bound, for tests", internal=True
    )
    segment_index_bytes: int = key(10_485_760, whole(4, MAX_INT), "length of a preallocated index")
    segment_jitter_ms: int = key(0, whole(0, MAX_LONG), "random part taken off segment.ms")
    segment_ms: int = key(604_800_000, whole(1, MAX_LONG), "roll a segment that is older than this")
    unclean_leader_election_enable: bool = key(
        False, boolean, "let a replica that lacks committed records lead, when no other is left"
    )
    leader_replication_throttled_replicas: tuple[str, ...] = key(
        (), _throttled, "replicas whose leaders are throttled: PARTITION:BROKER, or *", kind=Kind.LIST, effect=_LATER
    )
    follower_replication_throttled_replicas: tuple[str, ...] = key(
        (),
        _throttled,
        "replicas that are throttled as followers: PARTITION:BROKER, or *",
        kind=Kind.LIST,
        effect=_LATER,
    )
    remote_storage_enable: bool = key(
        False, _no_tiering, "keep old segments in remote storage", kind=Kind.BOOLEAN, effect=Effect.REFUSED
    )
    remote_log_copy_disable: bool = key(False, boolean, "copy nothing more to remote storage", effect=_LATER)
    remote_log_delete_on_disable: bool = key(
        False, boolean, "delete what is remote when tiering is switched off", effect=_LATER
    )
    local_retention_bytes: int = key(
        -2, whole(-2, MAX_LONG), "how much of a tiered topic stays local; -2: as retention.bytes", effect=_LATER
    )
    local_retention_ms: int = key(
        -2, whole(-2, MAX_LONG), "how long a tiered topic stays local; -2: as retention.ms", effect=_LATER
    )

    @classmethod
    def of(cls, settings: Mapping[str, str], defaults: LogConfig | None = None) -> LogConfig:
        """`defaults` are what holds for all that `settings` does not name: the broker's."""
        config = replace(defaults or _DEFAULTS, **parsed(cls, settings, "topic"))
        if config.internal_segment_bytes is not None:
            config = replace(config, segment_bytes=config.internal_segment_bytes)
        if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
            raise ConfigError(
                f"min.compaction.lag.ms={config.min_compaction_lag_ms}: "
                f"must not exceed max.compaction.lag.ms={config.max_compaction_lag_ms}"
            )
        return config

    @property
    def compression_level(self) -> int | None:
        """Of the topic's own codec; None where it is the codec's default, or there is no such thing."""
        given, usual = _LEVELS.get(self.compression_type, ("", None))
        level: int | None = getattr(self, given) if given else None
        return None if level == usual else level

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


_DEFAULTS: Final = LogConfig()
