"""Settings of the log cleaner: Kafka's keys, defaults and ranges. Those of a single topic are in `config.log`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from tailrace.config.table import MAX_INT, MAX_LONG, ConfigError, Kind, Mode, boolean, key, parsed, real_number, whole

_CLUSTER: Final = Mode.CLUSTER
LEAST_DEDUPE_BYTES_PER_THREAD: Final = 1024 * 1024


def _load_factor(text: str) -> float:
    value = real_number(text)
    if not 0 < value <= 1:
        raise ValueError("must be above 0 and at most 1")
    return value


def _rate(text: str) -> float:
    value = real_number(text)
    if not value > 0:
        raise ValueError("must be above 0")
    return min(value, sys.float_info.max)


@dataclass(frozen=True, slots=True)
class CleanerConfig:
    log_cleaner_enable: bool = key(True, boolean, "compact topics whose cleanup.policy says so")
    log_cleaner_threads: int = key(1, whole(1, MAX_INT), "how many logs are compacted at a time", mode=_CLUSTER)
    log_cleaner_dedupe_buffer_size: int = key(
        128 * 1024 * 1024,
        whole(1, MAX_LONG),
        "memory for the keys of the logs being compacted, for all threads",
        mode=_CLUSTER,
    )
    log_cleaner_io_buffer_size: int = key(
        512 * 1024, whole(1, MAX_INT), "bytes read and written at once, for all threads", mode=_CLUSTER
    )
    log_cleaner_io_buffer_load_factor: float = key(
        0.9, _load_factor, "how full the memory for keys may get", kind=Kind.DOUBLE, mode=_CLUSTER
    )
    log_cleaner_io_max_bytes_per_second: float = key(
        sys.float_info.max,
        _rate,
        "bytes read and written in a second by all threads together, at most",
        kind=Kind.DOUBLE,
        mode=_CLUSTER,
    )
    log_cleaner_backoff_ms: int = key(
        15_000, whole(0, MAX_LONG), "wait before looking again when nothing was dirty", mode=_CLUSTER
    )

    @classmethod
    def keys(cls) -> frozenset[str]:
        return frozenset(each.name.replace("_", ".") for each in fields(cls))

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> CleanerConfig:
        config = cls(**parsed(cls, settings, "cleaner"))
        if config.log_cleaner_dedupe_buffer_size // config.log_cleaner_threads <= LEAST_DEDUPE_BYTES_PER_THREAD:
            raise ConfigError(
                f"log.cleaner.dedupe.buffer.size={config.log_cleaner_dedupe_buffer_size}: "
                f"must be more than {LEAST_DEDUPE_BYTES_PER_THREAD} for each of the {config.log_cleaner_threads} "
                "log.cleaner.threads"
            )
        return config

    def check_change(self, changed: CleanerConfig) -> None:
        """ConfigError for what cannot be changed at run time: a step too large may come from a slip of the pen."""
        threads, wanted = self.log_cleaner_threads, changed.log_cleaner_threads
        if not threads // 2 <= wanted <= threads * 2:
            raise ConfigError(
                f"log.cleaner.threads={wanted}: is {threads} and can be halved or doubled at most; take several steps"
            )
        if self.log_cleaner_enable != changed.log_cleaner_enable:
            raise ConfigError("log.cleaner.enable: takes effect only when the broker is started")
