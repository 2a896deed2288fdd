"""Topic-level settings of one log: Kafka's keys, defaults and ranges, in one table.

`LogConfig.of({"segment.bytes": "1048576"})` parses and checks; an unknown key or a value out of range is refused
with the key named. Fields are the keys with dots turned into underscores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

MAX_LONG: Final = 2**63 - 1
MAX_INT: Final = 2**31 - 1

CODEC_NAMES: Final = ("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer")


class ConfigError(ValueError):
    """A setting is unknown or has a value that it cannot have; the text names the key."""


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError(f"must be from {low} to {high}")
        return value

    return parse


def _choice(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text

    return parse


def _boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError("must be true or false")
    return lowered == "true"


def _policies(text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not set(found) <= {"delete", "compact"}:
        raise ValueError("must be delete, compact or both")
    return found


def _key(default: Any, parse: Callable[[str], Any], doc: str) -> Any:
    return field(default=default, metadata={"parse": parse, "doc": doc})


@dataclass(frozen=True, slots=True)
class LogConfig:
    cleanup_policy: tuple[str, ...] = _key(("delete",), _policies, "how old data goes: delete, compact or both")
    compression_type: str = _key("producer", _choice(*CODEC_NAMES), "codec of stored batches; producer keeps theirs")
    flush_messages: int = _key(MAX_LONG, _whole(1, MAX_LONG), "sync after so many records")
    flush_ms: int = _key(MAX_LONG, _whole(0, MAX_LONG), "sync after so many milliseconds")
    file_delete_delay_ms: int = _key(60_000, _whole(0, MAX_LONG), "wait before a removed file is unlinked")
    index_interval_bytes: int = _key(4096, _whole(0, MAX_INT), "log bytes between two index entries")
    max_message_bytes: int = _key(1_048_588, _whole(0, MAX_INT), "largest batch that a producer may send")
    message_timestamp_type: str = _key(
        "CreateTime", _choice("CreateTime", "LogAppendTime"), "whose clock stamps the records"
    )
    message_timestamp_before_max_ms: int = _key(MAX_LONG, _whole(0, MAX_LONG), "how far behind a timestamp may be")
    message_timestamp_after_max_ms: int = _key(3_600_000, _whole(0, MAX_LONG), "how far ahead a timestamp may be")
    preallocate: bool = _key(False, _boolean, "give a new segment its full length at once")
    segment_bytes: int = _key(1_073_741_824, _whole(1_048_576, MAX_INT), "roll a segment before it exceeds this")
    segment_index_bytes: int = _key(10_485_760, _whole(4, MAX_INT), "length of a preallocated index")
    segment_jitter_ms: int = _key(0, _whole(0, MAX_LONG), "random part taken off segment.ms")
    segment_ms: int = _key(604_800_000, _whole(1, MAX_LONG), "roll a segment that is older than this")

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> LogConfig:
        known = {f.name.replace("_", "."): f for f in fields(cls)}
        values: dict[str, Any] = {}
        for key, text in settings.items():
            if key not in known:
                raise ConfigError(f"{key}: no such topic setting")
            setting = known[key]
            try:
                values[setting.name] = setting.metadata["parse"](text)
            except ValueError as error:
                raise ConfigError(f"{key}={text}: {error}") from None
        return cls(**values)

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy
