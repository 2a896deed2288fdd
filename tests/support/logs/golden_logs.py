"""The golden directories opened by our engine: as Kafka left them, and with what can be derived taken away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from golden.corpus import Golden
from tailrace.config.log import MAX_LONG, LogConfig
from tailrace.env.real import real_env
from tailrace.storage import loader
from tailrace.storage.loader import LoadOptions
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.warm import WarmSet

INDEXES = (".index", ".timeindex")
DERIVED = (*INDEXES, ".txnindex", ".snapshot")


class Way(NamedTuple):
    """`lost` are the kinds of files taken away; without checkpoints the log is recovered from its first byte."""

    name: str
    lost: tuple[str, ...] = ()
    has_checkpoints: bool = True


AS_LEFT = Way("as Kafka left it")
WITHOUT_INDEXES = Way("without offset and time indexes", INDEXES)
RECOVERED_WHOLE = Way("recovered whole", DERIVED, has_checkpoints=False)
WAYS = (AS_LEFT, WITHOUT_INDEXES, RECOVERED_WHOLE)


def settings(golden: Golden) -> LogConfig:
    given = golden.expected["topic_settings"]
    return LogConfig(
        cleanup_policy=(given.get("cleanup.policy", "delete"),),
        segment_bytes=int(given.get("internal.segment.bytes", 1 << 30)),
        segment_index_bytes=int(given["segment.index.bytes"]),
        index_interval_bytes=int(given["index.interval.bytes"]),
        segment_ms=int(given["segment.ms"]),
    )


def options(golden: Golden, has_checkpoints: bool = True) -> LoadOptions:
    """What the broker remembers. Producers, whose timestamps lie years back, do not expire."""
    checkpoints = golden.expected["checkpoints"]
    return LoadOptions(
        recovery_point=checkpoints["recovery-point-offset-checkpoint"] if has_checkpoints else 0,
        log_start_offset=checkpoints["log-start-offset-checkpoint"] or 0,
        was_clean=has_checkpoints and not golden.was_killed,
        producer_expiration_ms=MAX_LONG,
    )


def open_golden(golden: Golden, folder: Path, way: Way = AS_LEFT) -> UnifiedLog:
    """`folder` is a copy of the directory."""
    for file in folder.iterdir():
        if file.name.endswith(way.lost):
            file.unlink()
    return loader.load(real_env(), str(folder), settings(golden), WarmSet(99), options(golden, way.has_checkpoints))


def contents(folder: Path, keep: Callable[[str], bool] = lambda name: True) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if keep(file.name)}
