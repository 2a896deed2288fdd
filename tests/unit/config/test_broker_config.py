"""Broker settings: Kafka's keys, defaults and ranges."""

from __future__ import annotations

import pytest

from tailrace.config.broker import BrokerConfig
from tailrace.config.log import LogConfig
from tailrace.config.table import ConfigError


@pytest.mark.spec("LM-04", "LM-06")
def test_defaults() -> None:
    config = BrokerConfig.of({})
    assert config == BrokerConfig()
    assert config.num_recovery_threads_per_data_dir == 2
    assert config.log_retention_check_interval_ms == 300_000
    assert config.log_flush_scheduler_interval_ms == 2**63 - 1
    assert config.log_flush_offset_checkpoint_interval_ms == 60_000
    assert config.log_flush_start_offset_checkpoint_interval_ms == 60_000
    assert config.log_initial_task_delay_ms == 30_000
    assert config.topic_defaults == LogConfig()


@pytest.mark.spec("LM-01")
def test_directories() -> None:
    assert BrokerConfig.of({"log.dir": "/one"}).directories == ("/one",)
    config = BrokerConfig.of({"log.dir": "/one", "log.dirs": "/a/, /b", "cordoned.log.dirs": "/b/"})
    assert config.directories == ("/a", "/b")
    assert [config.is_cordoned(path) for path in config.directories] == [False, True]
    everywhere = BrokerConfig.of({"log.dirs": "/a,/b", "cordoned.log.dirs": "*"})
    assert everywhere.is_cordoned("/a")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("log.dirs", " , "),
        ("num.recovery.threads.per.data.dir", "0"),
        ("num.recovery.threads.per.data.dir", "two"),
        ("log.retention.check.interval.ms", "0"),
        ("log.flush.offset.checkpoint.interval.ms", "-1"),
        ("log.initial.task.delay.ms", "-1"),
        ("cordoned.log.dirs", "/elsewhere"),
        ("log.retention.hours", "soon"),
        ("log.retention.hours", "-2"),
        ("no.such.key", "1"),
        ("topic.defaults", "1"),
    ],
)
def test_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError):
        BrokerConfig.of({key: value})


@pytest.mark.parametrize(
    ("settings", "field", "value"),
    [
        ({"log.retention.hours": "2"}, "retention_ms", 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, "retention_ms", 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, "retention_ms", 4),
        ({"log.retention.hours": "-1"}, "retention_ms", -1),
        ({"log.roll.hours": "1"}, "segment_ms", 3_600_000),
        ({"log.segment.bytes": "2000000"}, "segment_bytes", 2_000_000),
        ({"log.flush.scheduler.interval.ms": "9"}, "flush_ms", 9),
        ({"log.flush.scheduler.interval.ms": "9", "log.flush.interval.ms": "8"}, "flush_ms", 8),
        ({"log.segment.delete.delay.ms": "5"}, "file_delete_delay_ms", 5),
        ({"message.max.bytes": "77"}, "max_message_bytes", 77),
        ({"log.cleanup.policy": "compact"}, "cleanup_policy", ("compact",)),
    ],
)
def test_defaults_of_topics(settings: dict[str, str], field: str, value: object) -> None:
    assert getattr(BrokerConfig.of(settings).topic_defaults, field) == value
