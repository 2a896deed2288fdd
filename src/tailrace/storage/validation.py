"""What a leader asks of a set of batches before it takes them, and what it then has to write."""

from __future__ import annotations

from typing import NamedTuple

from tailrace.config.log import CODEC_NAMES, LogConfig
from tailrace.model.errors import InvalidRecordError, InvalidTimestampError
from tailrace.record.batch import CREATE_TIME, LOG_APPEND_TIME
from tailrace.record.shallow import NO_TIMESTAMP, ShallowBatch

MIN_INT64 = -(2**63)
MAX_INT64 = 2**63 - 1

_LEAST_REBUILD_BYTES = 1 << 24
_REBUILD_RATIO = 64
_LEGACY_RATIO = 16


class ValidationRules(NamedTuple):
    """A topic's settings as far as they decide about an append."""

    timestamp_type: int
    """CREATE_TIME keeps the producer's timestamps and checks them, LOG_APPEND_TIME stamps the leader's."""
    before_max_ms: int
    after_max_ms: int
    require_key: bool
    """The topic is compacted: a record without a key could never be found again."""
    target_codec: int | None
    """None keeps the producer's."""
    max_message_bytes: int
    level: int | None = None
    """Of the target codec; None is the codec's own default."""

    @classmethod
    def of(cls, config: LogConfig) -> ValidationRules:
        return cls(
            timestamp_type=LOG_APPEND_TIME if config.message_timestamp_type == "LogAppendTime" else CREATE_TIME,
            before_max_ms=config.message_timestamp_before_max_ms,
            after_max_ms=config.message_timestamp_after_max_ms,
            require_key=config.compacts,
            target_codec=None if config.compression_type == "producer" else CODEC_NAMES.index(config.compression_type),
            max_message_bytes=config.max_message_bytes,
            level=config.compression_level,
        )

    def timestamp_bounds(self, now_ms: int) -> tuple[int, int]:
        """Earliest and latest timestamp that a record may have now; they may lie outside of int64."""
        if self.timestamp_type == LOG_APPEND_TIME:
            return MIN_INT64, MAX_INT64
        return now_ms - self.before_max_ms, now_ms + self.after_max_ms

    @property
    def max_rebuild_bytes(self) -> int:
        """How far a compressed v2 batch is unpacked to be packed again; what expands more is a bomb."""
        return max(_LEAST_REBUILD_BYTES, _REBUILD_RATIO * self.max_message_bytes)

    @property
    def max_legacy_bytes(self) -> int:
        """The same for wrappers of magic 0 and 1, whose messages are rebuilt one by one in Python."""
        return max(_LEAST_REBUILD_BYTES, _LEGACY_RATIO * self.max_message_bytes)

    def check_record(self, index: int, timestamp: int, timestamp_type: int, key: bytes | None, now_ms: int) -> None:
        """The rules about record `index` of a set that is rebuilt. `record.check` holds them for v2 batches."""
        if timestamp_type == LOG_APPEND_TIME:
            raise InvalidTimestampError(f"record {index}: the producer set LogAppendTime", record_index=index)
        if self.require_key and key is None:
            raise InvalidRecordError(f"record {index} has no key and the topic is compacted", record_index=index)
        earliest_ms, latest_ms = self.timestamp_bounds(now_ms)
        if timestamp != NO_TIMESTAMP and not earliest_ms <= timestamp <= latest_ms:
            raise InvalidTimestampError(
                f"record {index}: timestamp {timestamp} is not from {earliest_ms} to {latest_ms}", record_index=index
            )


class ValidatedSet(NamedTuple):
    """A set with offsets, ready to be written."""

    buffer: memoryview | bytearray
    batches: tuple[ShallowBatch, ...]
    """As they are in `buffer` now."""
    first_offset: int
    last_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    """Last offset of the first batch with that timestamp; −1 where no record has a timestamp."""
    log_append_time_ms: int
    """−1 under CreateTime."""
    size_changed: bool
    """The batches were rebuilt; `buffer` is not the producer's."""
