"""How settings are written down and read."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.config.log import LogConfig
from tailrace.config.server import server_keys
from tailrace.config.table import (
    MAX_INT,
    MAX_LONG,
    MAX_SHORT,
    ConfigError,
    Kind,
    Mode,
    boolean,
    java_double,
    keys_of,
    real_number,
    text_list,
    whole,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0.0"),
        (0.5, "0.5"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (0.00012, "1.2E-4"),
        (9_999_999.0, "9999999.0"),
        (10_000_000.0, "1.0E7"),
        (12_345_678.5, "1.23456785E7"),
        (-12_345_678.0, "-1.2345678E7"),
        (1e22, "1.0E22"),
        (sys.float_info.max, "1.7976931348623157E308"),
    ],
)
def test_doubles_are_written_as_java_does(value: float, expected: str) -> None:
    assert java_double(value) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_are_read_back(value: float) -> None:
    assert real_number(java_double(value)) == value


@pytest.mark.parametrize("text", ["", " ", "1_000", "0x10", "1.0", "٣", "one", "1e3", "--1", "\x00"])
def test_only_whole_numbers_are_whole(text: str) -> None:
    with pytest.raises(ValueError, match="whole number"):
        whole(0, MAX_INT)(text)


@pytest.mark.parametrize(("text", "value"), [("7", 7), (" 7 ", 7), ("+7", 7), ("007", 7), ("-1", -1)])
def test_whole_numbers(text: str, value: int) -> None:
    assert whole(0, 9, extra=-1)(text) == value


@pytest.mark.parametrize("text", ["", "nan", "inf", "Infinity", "1_0", "1,5", "0x1p3"])
def test_only_numbers_are_numbers(text: str) -> None:
    with pytest.raises(ValueError, match="must be a number"):
        real_number(text)


def test_types_follow_from_bounds() -> None:
    assert whole(0, MAX_SHORT).kind is Kind.SHORT
    assert whole(0, 9).kind is Kind.INT
    assert whole(0, MAX_INT).kind is Kind.INT
    assert whole(0, MAX_LONG).kind is Kind.LONG


def test_lists_and_truth() -> None:
    assert text_list(" a , b,,c ") == ("a", "b", "c")
    assert boolean("TRUE")
    assert not boolean("false ")


def test_values_are_told_as_they_were_understood() -> None:
    keys = keys_of(LogConfig)
    assert keys["retention.ms"].text_of(" +07 ") == "7"
    assert keys["cleanup.policy"].text_of("compact , delete") == "compact,delete"
    assert keys["preallocate"].text_of("TRUE") == "true"
    assert keys["min.cleanable.dirty.ratio"].text_of("1") == "1.0"


def test_secrets_are_not_in_errors() -> None:
    row = server_keys()["sasl.jaas.config"]
    assert row.is_sensitive
    assert row.shown("secret") == "[hidden]"


def test_every_default_is_a_value_that_can_be() -> None:
    for name, row in server_keys().items():
        text = row.default_text
        if text is not None and (text or row.kind in (Kind.LIST, Kind.STRING)) and name != "broker.id":
            row.parsed(text)


def test_an_unknown_key_and_a_wrong_value_are_named() -> None:
    with pytest.raises(ConfigError, match=r"^segment\.bytes=7: must be from 1048576 to 2147483647$"):
        LogConfig.of({"segment.bytes": "7"})
    with pytest.raises(ConfigError, match=r"^segment\.size: no such topic setting$"):
        LogConfig.of({"segment.size": "7"})


def test_segments_may_be_small_for_tests() -> None:
    config = LogConfig.of({"internal.segment.bytes": "1000"})
    assert config.segment_bytes == 1000


def test_overrides_stand_on_defaults() -> None:
    defaults = LogConfig.of({"segment.ms": "5", "retention.ms": "6"})
    config = LogConfig.of({"retention.ms": "7"}, defaults)
    assert (config.segment_ms, config.retention_ms) == (5, 7)


def test_what_changes_at_run_time_is_what_kafka_lets_change() -> None:
    """Kafka's own list, without what asks for security and listeners, which are fixed here."""
    changing = {name for name, row in server_keys().items() if row.mode is not Mode.READ_ONLY}
    per_broker = {name for name, row in server_keys().items() if row.mode is Mode.PER_BROKER}
    assert per_broker == {"cordoned.log.dirs"} | LOGIN_TUNING
    assert changing == DYNAMIC | LOGIN_TUNING


LOGIN_TUNING = {
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
}

DYNAMIC = set(
    re.findall(
        r"\S+",
        """
    background.threads compression.gzip.level compression.lz4.level compression.type compression.zstd.level
    cordoned.log.dirs follower.fetch.last.tiered.offset.enable follower.replication.throttled.rate
    group.consumer.assignment.interval.ms group.coordinator.cached.buffer.max.bytes group.share.assignment.interval.ms
    group.streams.assignment.interval.ms leader.replication.throttled.rate log.cleaner.backoff.ms
    log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms log.cleaner.io.buffer.load.factor
    log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second log.cleaner.max.compaction.lag.ms
    log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms log.cleaner.threads log.cleanup.policy
    log.flush.interval.messages log.flush.interval.ms log.index.interval.bytes log.index.size.max.bytes
    log.local.retention.bytes log.local.retention.ms log.message.timestamp.after.max.ms
    log.message.timestamp.before.max.ms log.message.timestamp.type log.preallocate log.retention.bytes
    log.retention.ms log.roll.jitter.ms log.roll.ms log.segment.bytes log.segment.delete.delay.ms
    max.connection.creation.rate max.connections max.connections.per.ip max.connections.per.ip.overrides
    message.max.bytes metric.reporters min.insync.replicas num.io.threads num.network.threads
    num.recovery.threads.per.data.dir num.replica.fetchers producer.id.expiration.ms remote.fetch.max.wait.ms
    remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes
    remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second
    remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second
    remote.log.manager.follower.thread.pool.size remote.log.reader.threads
    replica.alter.log.dirs.io.max.bytes.per.second share.coordinator.cached.buffer.max.bytes
    transaction.partition.verification.enable unclean.leader.election.enable
    """,
    )
)
