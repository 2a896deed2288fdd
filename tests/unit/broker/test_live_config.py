"""Settings that change while the broker runs, each by name, and those that do not."""

from __future__ import annotations

import logging
from typing import Any, Final

import pytest

from support.brokers.config_nodes import ConfigNode, override
from support.logs.builders import batch
from tailrace.broker.live_config import LiveConfig
from tailrace.config.server import ServerConfig, server_keys
from tailrace.config.table import ConfigError, Effect, Mode
from tailrace.config.validation import BROKER, TOPIC

# Every setting that is the default of topics, with another value: (broker's key, value, topic's field, its value)
LOG_SETTINGS: Final[list[tuple[str, str, str, object]]] = [
    ("compression.type", "zstd", "compression_type", "zstd"),
    ("compression.gzip.level", "4", "compression_gzip_level", 4),
    ("compression.lz4.level", "4", "compression_lz4_level", 4),
    ("compression.zstd.level", "-5", "compression_zstd_level", -5),
    ("log.cleaner.delete.retention.ms", "7", "delete_retention_ms", 7),
    ("log.cleaner.max.compaction.lag.ms", "7", "max_compaction_lag_ms", 7),
    ("log.cleaner.min.cleanable.ratio", "0.25", "min_cleanable_dirty_ratio", 0.25),
    ("log.cleaner.min.compaction.lag.ms", "7", "min_compaction_lag_ms", 7),
    ("log.cleanup.policy", "compact", "cleanup_policy", ("compact",)),
    ("log.flush.interval.messages", "7", "flush_messages", 7),
    ("log.flush.interval.ms", "7", "flush_ms", 7),
    ("log.index.interval.bytes", "7", "index_interval_bytes", 7),
    ("log.index.size.max.bytes", "70", "segment_index_bytes", 70),
    ("log.local.retention.bytes", "7", "local_retention_bytes", 7),
    ("log.local.retention.ms", "7", "local_retention_ms", 7),
    ("log.message.timestamp.after.max.ms", "7", "message_timestamp_after_max_ms", 7),
    ("log.message.timestamp.before.max.ms", "7", "message_timestamp_before_max_ms", 7),
    ("log.message.timestamp.type", "LogAppendTime", "message_timestamp_type", "LogAppendTime"),
    ("log.preallocate", "true", "preallocate", True),
    ("log.retention.bytes", "7", "retention_bytes", 7),
    ("log.retention.ms", "7", "retention_ms", 7),
    ("log.roll.jitter.ms", "7", "segment_jitter_ms", 7),
    ("log.roll.ms", "7", "segment_ms", 7),
    ("log.segment.bytes", "2000000", "segment_bytes", 2_000_000),
    ("log.segment.delete.delay.ms", "7", "file_delete_delay_ms", 7),
    ("message.max.bytes", "7", "max_message_bytes", 7),
    ("min.insync.replicas", "2", "min_insync_replicas", 2),
    ("unclean.leader.election.enable", "true", "unclean_leader_election_enable", True),
]
CLEANER_SETTINGS: Final[list[tuple[str, str, object]]] = [
    ("log.cleaner.threads", "2", 2),
    ("log.cleaner.dedupe.buffer.size", "4000000", 4_000_000),
    ("log.cleaner.io.buffer.size", "7000", 7000),
    ("log.cleaner.io.buffer.load.factor", "0.5", 0.5),
    ("log.cleaner.io.max.bytes.per.second", "7", 7.0),
    ("log.cleaner.backoff.ms", "7", 7),
]
# Read from the settings that hold now, each time: (key, value, field, value)
READ_EACH_TIME: Final[list[tuple[str, str, str, object]]] = [
    ("max.connections", "7", "max_connections", 7),
    ("max.connections.per.ip", "7", "max_connections_per_ip", 7),
    ("max.connections.per.ip.overrides", "a:7", "connection_limits_by_host", {"a": 7}),
    ("max.connection.creation.rate", "7", "max_connection_creation_rate", 7),
    ("num.io.threads", "16", "num_io_threads", 16),
    ("num.network.threads", "6", "num_network_threads", 6),
    ("num.replica.fetchers", "2", "num_replica_fetchers", 2),
    ("background.threads", "5", "background_threads", 5),
    ("group.share.assignment.interval.ms", "7", "group_share_assignment_interval_ms", 7),
    ("group.consumer.assignment.interval.ms", "7", "group_consumer_assignment_interval_ms", 7),
    ("group.streams.assignment.interval.ms", "7", "group_streams_assignment_interval_ms", 7),
]
ELSEWHERE: Final = {
    "producer.id.expiration.ms",
    "transaction.partition.verification.enable",
    "cordoned.log.dirs",
    "num.recovery.threads.per.data.dir",
    "replica.alter.log.dirs.io.max.bytes.per.second",
}


def set_for_all(node: ConfigNode, name: str, value: str | None) -> None:
    node.learn(*override(BROKER, "", **{name: value}))


@pytest.mark.spec("CF-03")
@pytest.mark.parametrize(("name", "value", "field", "expected"), LOG_SETTINGS)
def test_defaults_of_topics_reach_open_logs(name: str, value: str, field: str, expected: object) -> None:
    node = ConfigNode()
    log = node.log()
    before = getattr(log.config, field)
    assert before != expected
    set_for_all(node, name, value)
    assert getattr(log.config, field) == expected
    set_for_all(node, name, None)
    assert getattr(log.config, field) == before


@pytest.mark.spec("CF-03")
@pytest.mark.parametrize(("name", "value", "expected"), CLEANER_SETTINGS)
def test_the_cleaner_takes_new_settings(name: str, value: str, expected: object) -> None:
    node = ConfigNode()
    assert node.logs.cleaner is not None
    set_for_all(node, name, value)
    assert getattr(node.logs.cleaner.config, name.replace(".", "_")) == expected


@pytest.mark.spec("CF-03")
@pytest.mark.parametrize(("name", "value", "field", "expected"), READ_EACH_TIME)
def test_what_is_read_each_time(name: str, value: str, field: str, expected: object) -> None:
    node = ConfigNode()
    told: list[tuple[ServerConfig, ServerConfig]] = []
    node.live.on_change.add(lambda before, after: told.append((before, after)))
    set_for_all(node, name, value)
    assert getattr(node.config, field) == expected
    ((before, after),) = told
    assert getattr(before, field) != expected
    assert after is node.config


@pytest.mark.spec("CF-03")
def test_other_settings_that_take_effect_at_once() -> None:
    node = ConfigNode()
    log = node.log()
    set_for_all(node, "producer.id.expiration.ms", "7")
    assert log.producers.producer_expiration_ms == 7
    assert node.log("other").producers.producer_expiration_ms == 7
    set_for_all(node, "transaction.partition.verification.enable", "false")
    assert not log.producers.verifies_transactions
    assert not node.log("third").producers.verifies_transactions
    set_for_all(node, "transaction.partition.verification.enable", None)
    assert log.producers.verifies_transactions
    set_for_all(node, "replica.alter.log.dirs.io.max.bytes.per.second", "1000")
    assert node.logs.move_throttle.bytes_per_second == 1000
    node.learn(*override(BROKER, "1", cordoned_log_dirs="/b"))
    assert [each.is_cordoned for each in node.logs.directories] == [False, True]
    node.learn(*override(BROKER, "1", cordoned_log_dirs=None))
    assert [each.is_cordoned for each in node.logs.directories] == [False, False]
    set_for_all(node, "num.recovery.threads.per.data.dir", "4")
    assert node.config.broker.num_recovery_threads_per_data_dir == 4


@pytest.mark.spec("CF-03")
def test_no_setting_that_is_used_and_can_change_is_left_out() -> None:
    proven = {row[0] for row in LOG_SETTINGS + CLEANER_SETTINGS + READ_EACH_TIME} | ELSEWHERE
    used = {name for name, row in server_keys().items() if row.mode is not Mode.READ_ONLY and row.effect is Effect.USED}
    assert used <= proven


@pytest.mark.spec("CF-03")
@pytest.mark.parametrize("name", [name for name, row in server_keys().items() if row.mode is Mode.READ_ONLY])
def test_the_rest_is_refused(name: str) -> None:
    live = LiveConfig(ServerConfig.single_node({}))
    for is_cluster_default in (False, True):
        with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
            live.validate({name: "1"}, is_cluster_default=is_cluster_default)


@pytest.mark.spec("CF-03")
@pytest.mark.parametrize(
    ("name", "now", "most", "least"),
    [
        ("num.io.threads", 8, 16, 4),
        ("num.network.threads", 3, 6, 1),
        ("num.replica.fetchers", 1, 2, 1),
        ("background.threads", 10, 20, 5),
        ("num.recovery.threads.per.data.dir", 2, 4, 1),
        ("log.cleaner.threads", 4, 8, 2),
    ],
)
def test_pools_grow_and_shrink_by_a_factor_of_two_at_most(name: str, now: int, most: int, least: int) -> None:
    live = LiveConfig(ServerConfig.single_node({name: str(now)}))
    for fine in (most, least):
        live.validate({name: str(fine)}, is_cluster_default=True)
    for bad in (most + 1, least - 1):
        with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
            live.validate({name: str(bad)}, is_cluster_default=True)


def test_a_setting_of_each_broker_cannot_be_set_for_all() -> None:
    node = ConfigNode()
    with pytest.raises(ConfigError, match=r"cordoned\.log\.dirs"):
        node.live.validate({"cordoned.log.dirs": "/a"}, is_cluster_default=True)
    node.live.validate({"cordoned.log.dirs": "/a"}, is_cluster_default=False)
    with pytest.raises(ConfigError, match=r"cordoned\.log\.dirs"):
        node.live.validate({"cordoned.log.dirs": "/elsewhere"}, is_cluster_default=False)


@pytest.mark.spec("CF-02")
def test_a_topics_setting_is_stronger_than_the_brokers() -> None:
    node = ConfigNode(log_retention_hours="1")
    log, other = node.log(), node.log("other")
    node.learn(*override(TOPIC, "orders", retention_ms="5"))
    assert (log.config.retention_ms, other.config.retention_ms) == (5, 3_600_000)
    set_for_all(node, "log.retention.ms", "9")
    assert (log.config.retention_ms, other.config.retention_ms) == (5, 9)
    set_for_all(node, "log.segment.bytes", "2000000")
    assert (log.config.segment_bytes, other.config.segment_bytes) == (2_000_000, 2_000_000)
    node.learn(*override(TOPIC, "orders", retention_ms=None))
    assert (log.config.retention_ms, other.config.retention_ms) == (9, 9)


@pytest.mark.spec("CF-02")
def test_one_brokers_setting_is_stronger_than_that_of_all() -> None:
    node = ConfigNode(message_max_bytes="1")
    log = node.log()
    set_for_all(node, "message.max.bytes", "2")
    assert log.config.max_message_bytes == 2
    node.learn(*override(BROKER, "1", message_max_bytes="3"))
    assert log.config.max_message_bytes == 3
    node.learn(*override(BROKER, "2", message_max_bytes="4"))
    assert log.config.max_message_bytes == 3
    node.learn(*override(BROKER, "1", message_max_bytes=None))
    assert log.config.max_message_bytes == 2


def test_settings_of_before_hold_after_a_restart() -> None:
    records = [
        *override(BROKER, "", log_cleaner_threads="8", log_segment_bytes="2000000"),
        *override(TOPIC, "orders", retention_ms="5"),
    ]
    node = ConfigNode(*records)
    assert node.topic_configs["orders"].retention_ms == 5
    assert node.logs.cleaner is not None
    assert node.logs.cleaner.config.log_cleaner_threads == 8
    assert node.log().config.retention_ms == 5
    assert node.log("other").config.segment_bytes == 2_000_000


def test_what_cannot_be_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    records: list[Any] = [
        *override(BROKER, "", log_dirs="/x", message_max_bytes="many", max_connections="7", cordoned_log_dirs="*"),
        *override(TOPIC, "orders", remote_storage_enable="true", retention_ms="5"),
    ]
    with caplog.at_level(logging.WARNING):
        node = ConfigNode(*records)
    assert node.config.max_connections == 7
    assert node.config.broker.directories == ("/a", "/b")
    assert node.log().config.retention_ms == 5
    for name in ("log.dirs", "message.max.bytes", "cordoned.log.dirs", "remote.storage.enable"):
        assert name in caplog.text


def test_settings_that_do_not_go_together_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    node = ConfigNode()
    with caplog.at_level(logging.ERROR):
        set_for_all(node, "max.connections.per.ip", "0")
    assert node.config.max_connections_per_ip > 0
    assert "max.connections.per.ip" in caplog.text


def test_producers_are_forgotten_by_what_holds_now() -> None:
    node = ConfigNode()
    log = node.log()
    now_ms = node.world.clock.now_ms()
    (result,) = log.append_as_leader(
        [batch(1, 10, timestamp=now_ms, producer_id=5, producer_epoch=0, base_sequence=0)], 0
    )
    assert result.error is None
    node.logs.forget_idle_producers()
    assert list(log.producers.producers) == [5]
    set_for_all(node, "producer.id.expiration.ms", "1000")
    node.world.jobs.tick(now_ms + 999)
    node.logs.forget_idle_producers()
    assert list(log.producers.producers) == [5]
    node.world.jobs.tick(now_ms + 1000)
    node.logs.forget_idle_producers()
    assert list(log.producers.producers) == []


def test_a_deleted_topics_settings_go_with_it() -> None:
    node = ConfigNode(*override(TOPIC, "orders", retention_ms="5"))
    log = node.log()
    assert log.config.retention_ms == 5
    node.learn(*override(TOPIC, "orders", retention_ms=None))
    assert log.config.retention_ms == 604_800_000
