"""The configuration tables of the five documents, row by row: name, default, range; and what is still missing."""

from __future__ import annotations

from typing import Final

import pytest

from tailrace.config.log import LogConfig
from tailrace.config.server import ServerConfig, server_keys
from tailrace.config.table import MAX_INT, MAX_LONG, ConfigError, Effect, Key, keys_of

LIFE: Final = str(MAX_LONG)

# key: (default, values that are allowed, values that are refused)
Row = tuple[str, tuple[str, ...], tuple[str, ...]]

RETENTION_AND_COMPACTION: Final[dict[str, Row]] = {
    "cleanup.policy": ("delete", ("delete", "compact", "compact,delete"), ("keep", "delete,keep")),
    "retention.ms": ("604800000", ("-1", "0", LIFE), ("-2", "1.5", "")),
    "retention.bytes": ("-1", ("-1", "0", LIFE), (str(MAX_LONG + 1), "1e3")),
    "file.delete.delay.ms": ("60000", ("0", LIFE), ("-1",)),
    "segment.bytes": ("1073741824", ("1048576", str(MAX_INT)), ("1048575", str(MAX_INT + 1))),
    "flush.ms": (LIFE, ("0", LIFE), ("-1",)),
    "min.cleanable.dirty.ratio": ("0.5", ("0", "1", "0.25"), ("-0.1", "1.1", "nan")),
    "min.compaction.lag.ms": ("0", ("0", LIFE), ("-1",)),
    "max.compaction.lag.ms": (LIFE, ("1", LIFE), ("0",)),
    "delete.retention.ms": ("86400000", ("0", LIFE), ("-1",)),
}
LOG_STORAGE: Final[dict[str, Row]] = {
    "segment.bytes": ("1073741824", ("1048576",), ("1048575",)),
    "segment.ms": ("604800000", ("1", LIFE), ("0",)),
    "segment.jitter.ms": ("0", ("0", LIFE), ("-1",)),
    "segment.index.bytes": ("10485760", ("4", str(MAX_INT)), ("3",)),
    "index.interval.bytes": ("4096", ("0", str(MAX_INT)), ("-1",)),
    "flush.messages": (LIFE, ("1", LIFE), ("0",)),
    "flush.ms": (LIFE, ("0",), ("-1",)),
    "preallocate": ("false", ("true", "false", "TRUE"), ("yes", "1")),
}
REPLICATION_OF_TOPICS: Final[dict[str, Row]] = {
    "min.insync.replicas": ("1", ("1", str(MAX_INT)), ("0", "-1")),
    "unclean.leader.election.enable": ("false", ("true", "false"), ("maybe",)),
}
CLEANER_AND_MANAGER: Final[dict[str, Row]] = {
    "log.cleaner.threads": ("1", ("1", "16"), ("0", "-1", "many")),
    "log.cleaner.dedupe.buffer.size": ("134217728", ("1048577", LIFE), ("0", "1048576")),
    "log.cleaner.io.buffer.load.factor": ("0.9", ("0.1", "1"), ("0", "1.1")),
    "log.cleaner.io.buffer.size": ("524288", ("1", str(MAX_INT)), ("-1", str(MAX_INT + 1))),
    "log.cleaner.io.max.bytes.per.second": ("1.7976931348623157E308", ("1", "0.5", "1e9"), ("0", "-1", "fast")),
    "log.cleaner.backoff.ms": ("15000", ("0", LIFE), ("-1",)),
    "log.cleaner.enable": ("true", ("true", "false"), ("on",)),
    "log.retention.check.interval.ms": ("300000", ("1", LIFE), ("0",)),
    "num.recovery.threads.per.data.dir": ("2", ("1", str(MAX_INT)), ("0",)),
    "log.flush.offset.checkpoint.interval.ms": ("60000", ("0", str(MAX_INT)), ("-1",)),
    "log.initial.task.delay.ms": ("30000", ("0", LIFE), ("-1",)),
}
REPLICATION: Final[dict[str, Row]] = {
    "replica.lag.time.max.ms": ("30000", ("500", LIFE), ("0", "x")),
    "min.insync.replicas": ("1", ("1",), ("0",)),
    "unclean.leader.election.enable": ("false", ("true",), ("maybe",)),
    "replica.high.watermark.checkpoint.interval.ms": ("5000", ("1", LIFE), ("0", "x")),
    "replica.fetch.wait.max.ms": ("500", ("1", "30000"), ("30001", "x")),
    "replica.fetch.max.bytes": ("1048576", ("0", str(MAX_INT)), ("-1",)),
    "replica.fetch.min.bytes": ("1", ("1", str(MAX_INT)), ("x",)),
    "replica.fetch.backoff.ms": ("1000", ("0", str(MAX_INT)), ("-1",)),
}
TIERED_STORAGE: Final[dict[str, Row]] = {
    "remote.log.storage.system.enable": ("false", ("false",), ("true", "on")),
    "remote.log.metadata.manager.class.name": (
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        (),
        (),
    ),
    "remote.log.storage.manager.impl.prefix": ("rsm.config.", ("a.",), ()),
    "remote.log.metadata.manager.impl.prefix": ("rlmm.config.", ("a.",), ()),
    "log.local.retention.ms": ("-2", ("-2", "-1", LIFE), ("-3",)),
    "log.local.retention.bytes": ("-2", ("-2", "-1", LIFE), ("-3",)),
    "remote.log.manager.task.interval.ms": ("30000", ("1", LIFE), ("0",)),
    "remote.log.manager.copier.thread.pool.size": ("10", ("1",), ("0",)),
    "remote.log.manager.expiration.thread.pool.size": ("10", ("1",), ("0",)),
    "remote.log.manager.follower.thread.pool.size": ("2", ("1",), ("0",)),
    "remote.log.reader.threads": ("10", ("1",), ("0",)),
    "remote.log.reader.max.pending.tasks": ("100", ("1",), ("0",)),
    "remote.log.index.file.cache.total.size.bytes": ("1073741824", ("1", LIFE), ("0",)),
    "remote.log.index.file.cache.ttl.ms": ("900000", ("-1", LIFE), ("-2",)),
    "remote.log.metadata.custom.metadata.max.bytes": ("128", ("0",), ("-1",)),
    "remote.log.manager.copy.max.bytes.per.second": (LIFE, ("1",), ("0",)),
    "remote.log.manager.fetch.max.bytes.per.second": (LIFE, ("1",), ("0",)),
    "remote.log.manager.copy.quota.window.num": ("11", ("1",), ("0",)),
    "remote.log.manager.fetch.quota.window.num": ("11", ("1",), ("0",)),
    "remote.log.manager.copy.quota.window.size.seconds": ("1", ("1",), ("0",)),
    "remote.log.manager.fetch.quota.window.size.seconds": ("1", ("1",), ("0",)),
    "remote.fetch.max.wait.ms": ("500", ("1",), ("0",)),
    "remote.list.offsets.request.timeout.ms": ("30000", ("1",), ("0",)),
}
# Rows of the tiered storage document without a key here at all.
ABSENT: Final = {
    "log.remote.copy.lag.ms",
    "log.remote.copy.lag.bytes",
    "remote.log.metadata.topic.num.partitions",
    "remote.log.metadata.topic.replication.factor",
    "remote.log.metadata.topic.retention.ms",
    "remote.log.metadata.consume.wait.ms",
}

TOPIC_ROWS: Final = RETENTION_AND_COMPACTION | LOG_STORAGE | REPLICATION_OF_TOPICS
BROKER_ROWS: Final = CLEANER_AND_MANAGER | REPLICATION | TIERED_STORAGE


@pytest.mark.parametrize("name", TOPIC_ROWS)
def test_a_row_of_topics(name: str) -> None:
    default, allowed, refused = TOPIC_ROWS[name]
    assert keys_of(LogConfig)[name].default_text == default
    for text in allowed:
        LogConfig.of({name: text})
    for text in refused:
        with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
            LogConfig.of({name: text})


@pytest.mark.parametrize("name", BROKER_ROWS)
def test_a_row_of_brokers(name: str) -> None:
    default, allowed, refused = BROKER_ROWS[name]
    assert server_keys()[name].default_text == default
    for text in allowed:
        assert ServerConfig.single_node({name: text}).settings[name] == text
    for text in refused:
        with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
            ServerConfig.single_node({name: text})


def test_one_size_holds_for_reading_and_writing_together() -> None:
    assert ServerConfig.single_node({}).broker.cleaner.log_cleaner_io_buffer_size == 524_288


def missing() -> set[str]:
    """Keys of the documents that are unknown, or known and without effect."""
    known: dict[str, Key] = {**server_keys(), **keys_of(LogConfig)}
    idle = {name for name in TOPIC_ROWS | BROKER_ROWS if known[name].effect is not Effect.USED}
    return idle | {name for name in ABSENT if name not in known}


def test_what_is_still_missing_is_of_replication_and_tiered_storage() -> None:
    of_replication = {
        "replica.fetch.wait.max.ms",
        "replica.fetch.max.bytes",
        "replica.fetch.min.bytes",
        "replica.fetch.backoff.ms",
    }
    assert missing() == of_replication | TIERED_STORAGE.keys() | ABSENT
