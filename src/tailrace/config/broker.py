"""Settings of one broker that concern its logs: Kafka's keys, defaults and ranges, in one table.

`BrokerConfig.of({"log.dirs": "/a,/b"})` parses and checks, as `LogConfig.of` does. Settings that are a topic's too,
under another name (`log.segment.bytes` for `segment.bytes`), become the `topic_defaults`; those of the log cleaner are
in `cleaner`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tailrace.config.cleaner import CleanerConfig
from tailrace.config.log import LogConfig
from tailrace.config.table import MAX_INT, MAX_LONG, ConfigError, key, parsed, text_list, whole

_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000

# The topic's key for each of the broker's; of those that mean the same, the first that is given counts.
_TOPIC_KEYS: Final = {
    "compression.type": ("compression.type", 1),
    "log.cleaner.delete.retention.ms": ("delete.retention.ms", 1),
    "log.cleaner.max.compaction.lag.ms": ("max.compaction.lag.ms", 1),
    "log.cleaner.min.cleanable.ratio": ("min.cleanable.dirty.ratio", 1),
    "log.cleaner.min.compaction.lag.ms": ("min.compaction.lag.ms", 1),
    "log.cleanup.policy": ("cleanup.policy", 1),
    "log.flush.interval.messages": ("flush.messages", 1),
    "log.flush.interval.ms": ("flush.ms", 1),
    "log.flush.scheduler.interval.ms": ("flush.ms", 1),
    "log.index.interval.bytes": ("index.interval.bytes", 1),
    "log.index.size.max.bytes": ("segment.index.bytes", 1),
    "log.message.timestamp.after.max.ms": ("message.timestamp.after.max.ms", 1),
    "log.message.timestamp.before.max.ms": ("message.timestamp.before.max.ms", 1),
    "log.message.timestamp.type": ("message.timestamp.type", 1),
    "log.preallocate": ("preallocate", 1),
    "log.retention.bytes": ("retention.bytes", 1),
    "log.retention.ms": ("retention.ms", 1),
    "log.retention.minutes": ("retention.ms", _MINUTE_MS),
    "log.retention.hours": ("retention.ms", _HOUR_MS),
    "log.roll.jitter.ms": ("segment.jitter.ms", 1),
    "log.roll.jitter.hours": ("segment.jitter.ms", _HOUR_MS),
    "log.roll.ms": ("segment.ms", 1),
    "log.roll.hours": ("segment.ms", _HOUR_MS),
    "log.segment.bytes": ("segment.bytes", 1),
    "log.segment.delete.delay.ms": ("file.delete.delay.ms", 1),
    "message.max.bytes": ("max.message.bytes", 1),
}
_OURS_TOO: Final = frozenset({"log.flush.scheduler.interval.ms"})  # a setting of the broker as well as a default


def _directories(text: str) -> tuple[str, ...]:
    found = tuple(part.rstrip("/") or "/" for part in text_list(text))
    if not found:
        raise ValueError("must name at least one directory")
    return found


def _cordoned(text: str) -> tuple[str, ...]:
    return tuple(part.rstrip("/") or "/" for part in text_list(text))


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    log_dir: tuple[str, ...] = key(("/tmp/kafka-logs",), _directories, "the data directory where log.dirs is not given")
    log_dirs: tuple[str, ...] = key((), _directories, "the data directories, separated by commas")
    cordoned_log_dirs: tuple[str, ...] = key((), _cordoned, "data directories that get no new partitions; * for all")
    num_recovery_threads_per_data_dir: int = key(2, whole(1, MAX_INT), "how many logs of a directory load at a time")
    log_retention_check_interval_ms: int = key(300_000, whole(1, MAX_LONG), "how often to look for old segments")
    log_flush_scheduler_interval_ms: int = key(MAX_LONG, whole(1, MAX_LONG), "how often to look for logs to sync")
    log_flush_offset_checkpoint_interval_ms: int = key(60_000, whole(0, MAX_INT), "how often to note recovery points")
    log_flush_start_offset_checkpoint_interval_ms: int = key(60_000, whole(0, MAX_INT), "how often to note log starts")
    log_initial_task_delay_ms: int = key(30_000, whole(0, MAX_LONG), "wait before the first run of background tasks")
    num_replica_alter_log_dirs_threads: int | None = key(
        None, whole(1, MAX_INT), "how many partitions move between data directories at a time; else one for each"
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = key(
        MAX_LONG, whole(0, MAX_LONG), "bytes a second that all moves between data directories may copy"
    )
    topic_defaults: LogConfig = field(default_factory=LogConfig)
    cleaner: CleanerConfig = field(default_factory=CleanerConfig)

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> BrokerConfig:
        cleaner = {name: settings[name] for name in CleanerConfig.keys() & settings.keys()}
        others = _TOPIC_KEYS.keys() - _OURS_TOO | cleaner.keys()
        own = {name: text for name, text in settings.items() if name not in others}
        config = cls(
            **parsed(cls, own, "broker"),
            topic_defaults=_topic_defaults(settings),
            cleaner=CleanerConfig.of(cleaner),
        )
        unknown = set(config.cordoned_log_dirs) - {*config.directories, "*"}
        if unknown:
            raise ConfigError(f"cordoned.log.dirs: {', '.join(sorted(unknown))} is not among log.dirs")
        return config

    @property
    def directories(self) -> tuple[str, ...]:
        return self.log_dirs or self.log_dir

    def is_cordoned(self, directory: str) -> bool:
        return "*" in self.cordoned_log_dirs or directory in self.cordoned_log_dirs


def _topic_defaults(settings: Mapping[str, str]) -> LogConfig:
    found: dict[str, str] = {}
    for name, (topic_key, unit) in _TOPIC_KEYS.items():
        if name in settings and topic_key not in found:
            found[topic_key] = settings[name] if unit == 1 else _in_ms(name, settings[name], unit)
    return LogConfig.of(found)


def _in_ms(name: str, text: str, unit_ms: int) -> str:
    """−1 means never in every unit."""
    try:
        value = int(text)
    except ValueError as error:
        raise ConfigError(f"{name}={text}: {error}") from None
    return str(value * unit_ms if value > 0 else value)
