"""A broker's settings that are the defaults of its topics, mostly under another name: `log.roll.ms` for `segment.ms`.

Some come in several units; of those that mean the same, the finest that is given counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from tailrace.config.log import LogConfig
from tailrace.config.table import MAX_INT, MAX_LONG, Key, Mode, Whole, keys_of, whole

HOUR_MS: Final = 3_600_000
MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class TopicDefault:
    """`key` sets the default of `topic_key`, in units of `unit`."""

    key: Key
    topic_key: str
    unit: int = 1


# The topic's key for each of the broker's, where it is the same setting in the same unit.
_SAME: Final = {
    "compression.type": "compression.type",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.zstd.level": "compression.zstd.level",
    "log.cleaner.delete.retention.ms": "delete.retention.ms",
    "log.cleaner.max.compaction.lag.ms": "max.compaction.lag.ms",
    "log.cleaner.min.cleanable.ratio": "min.cleanable.dirty.ratio",
    "log.cleaner.min.compaction.lag.ms": "min.compaction.lag.ms",
    "log.cleanup.policy": "cleanup.policy",
    "log.flush.interval.messages": "flush.messages",
    "log.index.interval.bytes": "index.interval.bytes",
    "log.index.size.max.bytes": "segment.index.bytes",
    "log.local.retention.bytes": "local.retention.bytes",
    "log.local.retention.ms": "local.retention.ms",
    "log.message.timestamp.after.max.ms": "message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms": "message.timestamp.before.max.ms",
    "log.message.timestamp.type": "message.timestamp.type",
    "log.preallocate": "preallocate",
    "log.retention.bytes": "retention.bytes",
    "log.segment.bytes": "segment.bytes",
    "log.segment.delete.delay.ms": "file.delete.delay.ms",
    "message.max.bytes": "max.message.bytes",
    "min.insync.replicas": "min.insync.replicas",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
_AGE: Final = whole(1, MAX_LONG, extra=-1)
_AGE_INT: Final = whole(1, MAX_INT, extra=-1)

# Where units differ, the finest first. The values of the coarsest is the default; the others have none.
_UNITS: Final[tuple[tuple[str, str, int, Whole, int | None, Mode], ...]] = (
    ("log.flush.interval.ms", "flush.ms", 1, whole(0, MAX_LONG), None, Mode.CLUSTER),
    ("log.flush.scheduler.interval.ms", "flush.ms", 1, whole(1, MAX_LONG), MAX_LONG, Mode.READ_ONLY),
    ("log.retention.ms", "retention.ms", 1, _AGE, None, Mode.CLUSTER),
    ("log.retention.minutes", "retention.ms", MINUTE_MS, _AGE_INT, None, Mode.READ_ONLY),
    ("log.retention.hours", "retention.ms", HOUR_MS, _AGE_INT, 168, Mode.READ_ONLY),
    ("log.roll.jitter.ms", "segment.jitter.ms", 1, whole(0, MAX_LONG), None, Mode.CLUSTER),
    ("log.roll.jitter.hours", "segment.jitter.ms", HOUR_MS, whole(0, MAX_INT), 0, Mode.READ_ONLY),
    ("log.roll.ms", "segment.ms", 1, whole(1, MAX_LONG), None, Mode.CLUSTER),
    ("log.roll.hours", "segment.ms", HOUR_MS, whole(1, MAX_INT), 168, Mode.READ_ONLY),
)


def _table() -> dict[str, TopicDefault]:
    topic_keys, found = keys_of(LogConfig), dict[str, TopicDefault]()
    for name, topic_key in _SAME.items():
        row = replace(topic_keys[topic_key], name=name, field="", mode=Mode.CLUSTER)
        found[name] = TopicDefault(row, topic_key)
    for name, topic_key, unit, parse, default, mode in _UNITS:
        doc = topic_keys[topic_key].doc if unit == 1 else f"{topic_key} of topics, in {name.rpartition('.')[2]}"
        row = replace(
            topic_keys[topic_key],
            name=name,
            field="",
            parse=parse,
            kind=parse.kind,
            default=default,
            doc=doc,
            mode=mode,
        )
        found[name] = TopicDefault(row, topic_key, unit)
    return found


TOPIC_DEFAULTS: Final[Mapping[str, TopicDefault]] = _table()


def _synonyms() -> dict[str, tuple[str, ...]]:
    by_topic_key: dict[str, tuple[str, ...]] = {}
    for name, row in TOPIC_DEFAULTS.items():
        by_topic_key[row.topic_key] = (*by_topic_key.get(row.topic_key, ()), name)
    found = {name: by_topic_key[row.topic_key] for name, row in TOPIC_DEFAULTS.items()}
    # It has a meaning of its own, and is a default only where log.flush.interval.ms is not given.
    return found | {"log.flush.scheduler.interval.ms": ("log.flush.scheduler.interval.ms",)}


_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = _synonyms()


def synonyms(name: str) -> tuple[str, ...]:
    """The keys that mean the same as a broker's key, itself among them: the first that is given counts."""
    return _SYNONYMS.get(name) or (name,)


def topic_defaults(settings: Mapping[str, str]) -> LogConfig:
    """What topics have that say nothing themselves."""
    found: dict[str, str] = {}
    for name, row in TOPIC_DEFAULTS.items():
        if name in settings and row.topic_key not in found:
            value = row.key.parsed(settings[name])
            found[row.topic_key] = settings[name] if row.unit == 1 else str(value * row.unit if value > 0 else value)
    return LogConfig.of(found)
