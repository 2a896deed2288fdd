"""Settings of one broker that concern its logs: Kafka's keys, defaults and ranges, in one table.

`BrokerConfig.of({"log.dirs": "/a,/b"})` parses and checks, as `LogConfig.of` does. Settings that are a topic's too,
under another name (`log.segment.bytes` for `segment.bytes`), become the `topic_defaults`; those of the log cleaner are
in `cleaner`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tailrace.config.cleaner import CleanerConfig
from tailrace.config.log import LogConfig
from tailrace.config.table import (
    MAX_INT,
    MAX_LONG,
    ConfigError,
    Key,
    Kind,
    Mode,
    key,
    keys_of,
    parsed,
    text_list,
    whole,
)
from tailrace.config.topic_defaults import TOPIC_DEFAULTS, topic_defaults


def _directories(text: str) -> tuple[str, ...]:
    found = tuple(part.rstrip("/") or "/" for part in text_list(text))
    if not found:
        raise ValueError("must name at least one directory")
    return found


def _cordoned(text: str) -> tuple[str, ...]:
    return tuple(part.rstrip("/") or "/" for part in text_list(text))


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    log_dir: tuple[str, ...] = key(
        ("/tmp/kafka-logs",), _directories, "the data directory where log.dirs is not given", kind=Kind.LIST
    )
    log_dirs: tuple[str, ...] | None = key(
        None, _directories, "the data directories, separated by commas", kind=Kind.LIST
    )
    cordoned_log_dirs: tuple[str, ...] = key(
        (), _cordoned, "data directories that get no new partitions; * for all", kind=Kind.LIST, mode=Mode.PER_BROKER
    )
    num_recovery_threads_per_data_dir: int = key(
        2, whole(1, MAX_INT), "how many logs of a directory load at a time", mode=Mode.CLUSTER
    )
    log_retention_check_interval_ms: int = key(300_000, whole(1, MAX_LONG), "how often to look for old segments")
    log_flush_scheduler_interval_ms: int = key(MAX_LONG, whole(1, MAX_LONG), "how often to look for logs to sync")
    log_flush_offset_checkpoint_interval_ms: int = key(60_000, whole(0, MAX_INT), "how often to note recovery points")
    log_flush_start_offset_checkpoint_interval_ms: int = key(60_000, whole(0, MAX_INT), "how often to note log starts")
    log_initial_task_delay_ms: int = key(
        30_000, whole(0, MAX_LONG), "wait before the first run of background tasks", internal=True
    )
    num_replica_alter_log_dirs_threads: int | None = key(
        None, whole(1, MAX_INT), "how many partitions move between data directories at a time; else one for each"
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = key(
        MAX_LONG,
        whole(0, MAX_LONG),
        "bytes a second that all moves between data directories may copy",
        mode=Mode.CLUSTER,
        internal=True,
    )
    topic_defaults: LogConfig = field(default_factory=LogConfig)
    cleaner: CleanerConfig = field(default_factory=CleanerConfig)

    @classmethod
    def keys(cls) -> dict[str, Key]:
        """Every key that `of` takes."""
        rows = {name: default.key for name, default in TOPIC_DEFAULTS.items()}
        return {**rows, **keys_of(CleanerConfig), **keys_of(cls)}

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> BrokerConfig:
        cleaner = {name: settings[name] for name in CleanerConfig.keys() & settings.keys()}
        others = TOPIC_DEFAULTS.keys() - keys_of(cls).keys() | cleaner.keys()
        own = {name: text for name, text in settings.items() if name not in others}
        config = cls(
            **parsed(cls, own, "broker"),
            topic_defaults=topic_defaults(settings),
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
