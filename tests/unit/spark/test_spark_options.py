"""Options of the source: those of Spark's Kafka source mean the same, and what cannot be is refused by name."""

from __future__ import annotations

import logging
import pickle

import pytest

from tailrace.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from tailrace.model.ids import TopicPartition
from tailrace.spark.errors import OptionError
from tailrace.spark.options import client_keys
from tailrace.spark.options.client_keys import SINK_KEYS, SOURCE_KEYS
from tailrace.spark.options.given import Given
from tailrace.spark.options.positions import AtOffsets, AtTime, AtTimes, Earliest, Latest
from tailrace.spark.options.secrets import is_secret, shown
from tailrace.spark.options.source import COLUMNS, SourceOptions, chosen_columns, source_options
from tailrace.spark.options.subscription import Assigned, Pattern, Topics

HERE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def batch(**more: str) -> SourceOptions:
    return source_options({**HERE, **named(more)}, streaming=False)


def stream(**more: str) -> SourceOptions:
    return source_options({**HERE, **named(more)}, streaming=True)


def named(more: dict[str, str]) -> dict[str, str]:
    """`kafka__client__id` is kafka.client.id."""
    return {name.replace("__", "."): value for name, value in more.items()}


def refused(*, streaming: bool = False, only: dict[str, str] | None = None, **more: str) -> str:
    with pytest.raises(OptionError) as caught:
        source_options({**HERE, **named(more)} if only is None else only, streaming=streaming)
    return str(caught.value)


# What there is without saying anything


def test_defaults_are_those_of_sparks_kafka_source() -> None:
    options = batch()
    assert options.subscription == Topics(("orders",))
    assert (options.brokers, options.path) == ("localhost:9092", None)
    assert (options.starting, options.ending) == (Earliest(), Latest())
    assert options.isolation == READ_UNCOMMITTED
    assert options.columns == COLUMNS
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert (options.min_partitions, options.max_offsets_per_trigger) == (None, None)
    assert options.max_trigger_delay_ms == 15 * 60_000
    assert (options.poll_timeout_ms, options.fetch_retries, options.fetch_retry_interval_ms) == (120_000, 3, 1_000)
    assert stream().starting == Latest()


def test_names_are_the_same_in_any_case() -> None:
    given = {"KAFKA.Bootstrap.SERVERS": "a:1,b:2", "SubscribePattern": "x", "startingoffsets": "LATEST"}
    options = source_options(given, streaming=True)
    assert (options.brokers, options.subscription, options.starting) == ("a:1,b:2", Pattern("x"), Latest())


def test_options_go_to_tasks() -> None:
    for options in (batch(), batch(startingOffsets='{"orders":{"0":1}}', endingTimestamp="5")):
        assert pickle.loads(pickle.dumps(options)) == options


def test_sparks_own_options_pass() -> None:
    own = {"checkpointlocation": "/c", "queryname": "q", "__partition_columns": "[]"}
    assert source_options({**HERE, **own}, streaming=True) == stream()


def test_values_that_are_no_text_are_taken_as_spark_would_and_none_as_not_given() -> None:
    options = source_options({**HERE, "failOnDataLoss": False, "minPartitions": 3, "path": None}, streaming=False)
    assert (options.fail_on_data_loss, options.min_partitions) == (False, 3)


# Where from


def test_brokers_or_a_path_and_not_both() -> None:
    assert "kafka.bootstrap.servers and path must be given, not neither" in refused(only={"subscribe": "t"})
    assert "not both" in refused(path="/logs")
    assert source_options({"path": "/logs", "subscribe": "t"}, streaming=True).path == "/logs"


@pytest.mark.parametrize(
    ("given", "path"),
    [("file:/a/b", "/a/b"), ("file:///a/b%20c", "/a/b c"), ("C:logs", "/there/C:logs"), ("a/dir", "/there/a/dir")],
)
def test_a_path_is_a_local_directory(monkeypatch: pytest.MonkeyPatch, given: str, path: str) -> None:
    """Of the driver: an executor is elsewhere, and would take a relative one for another."""
    monkeypatch.setattr("os.getcwd", lambda: "/there")
    assert source_options({"path": given, "subscribe": "t"}, streaming=False).path == path


@pytest.mark.parametrize("given", ["s3://bucket/logs", "hdfs://host/logs", "file://host/logs"])
def test_other_paths_are_refused(given: str) -> None:
    text = refused(only={"path": given, "subscribe": "t"})
    assert f"option path is '{given}'" in text
    assert "local" in text


def test_several_paths_are_refused() -> None:
    assert "path must be one directory" in refused(only={"paths": '["/a","/b"]', "subscribe": "t"})


@pytest.mark.parametrize("given", ["localhost", "host:port", "host:0", "", ","])
def test_addresses_of_brokers(given: str) -> None:
    assert "kafka.bootstrap.servers" in refused(kafka__bootstrap__servers=given)


# What of it


def test_subscribe_takes_names_with_commas_between() -> None:
    assert batch(subscribe=" b, a ,,b").subscription == Topics(("a", "b"))
    assert "option subscribe is ','" in refused(subscribe=",")
    assert "'a b' is none" in refused(subscribe="a b")


def test_a_pattern_is_found_anywhere_in_a_name_but_not_in_internal_ones() -> None:
    names = ["orders", "old-orders-eu", "users", "__consumer_offsets"]
    assert Pattern("orders").chosen(names) == ["old-orders-eu", "orders"]
    assert Pattern("^orders$").chosen(names) == ["orders"]
    assert Pattern("").chosen(names) == ["old-orders-eu", "orders", "users"]
    assert Pattern("us.*").includes(TopicPartition("users", 3))
    assert pickle.loads(pickle.dumps(Pattern("a"))) == Pattern("a")


@pytest.mark.parametrize("given", ["(", "a(?!b)", "a" * 5 + "{1001}"])
def test_a_pattern_that_is_none_is_refused(given: str) -> None:
    only = {"kafka.bootstrap.servers": "h:1", "subscribePattern": given}
    assert "option subscribePattern" in refused(only=only)
    assert "RE2" in refused(only=only)


def test_assign_names_partitions() -> None:
    only = {"kafka.bootstrap.servers": "h:1", "assign": '{"b":[2,0,2],"a":[1]}'}
    assigned = source_options(only, streaming=False).subscription
    assert assigned == Assigned({"b": (0, 2), "a": (1,)})
    assert isinstance(assigned, Assigned)
    assert assigned.all() == [TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("b", 2)]
    assert assigned.includes(TopicPartition("b", 2))
    assert not assigned.includes(TopicPartition("b", 1))
    assert assigned.chosen(["b", "c"]) == ["b"]


def test_what_is_gone_can_be_left_out() -> None:
    assert Topics(("a", "b")).without(["b", "c"]) == Topics(("a",))
    assert Assigned({"a": (0, 1), "b": (0,)}).without(["a-1", "b"]) == Assigned({"a": (0,)})


@pytest.mark.parametrize(
    "given", ["orders", "[]", "{}", '{"a":1}', '{"a":[]}', '{"a":[-1]}', '{"a":[true]}', '{"a":["0"]}', '{"a b":[0]}']
)
def test_assign_that_is_no_such_json_is_refused(given: str) -> None:
    text = refused(only={"kafka.bootstrap.servers": "h:1", "assign": given})
    assert "option assign" in text
    assert '{"orders":[0,1]}' in text


def test_exactly_one_way_to_say_what_to_read() -> None:
    assert "one must say what to read" in refused(only={"path": "/x"})
    assert "subscribe and assign are given: only one of" in refused(assign='{"a":[0]}')


# Where to begin and to end


def test_offsets_by_name_and_by_number() -> None:
    p0, p1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
    options = batch(startingOffsets='{"orders":{"0":23,"1":-2}}', endingOffsets=' {"orders":{"0":50,"1":-1}}')
    assert options.starting == AtOffsets({p0: 23, p1: -2})
    assert options.ending == AtOffsets({p0: 50, p1: -1})
    assert stream(startingOffsets='{"orders":{"0":-1}}').starting == AtOffsets({p0: -1})


def test_a_time_counts_before_times_before_offsets() -> None:
    p0 = TopicPartition("orders", 0)
    times = '{"orders":{"0":1000}}'
    assert batch(startingOffsetsByTimestamp=times, startingOffsets="earliest").starting == AtTimes({p0: 1000})
    everything = batch(startingTimestamp="5", startingOffsetsByTimestamp=times, startingOffsets="earliest")
    assert everything.starting == AtTime(5)
    assert batch(endingTimestamp="9", endingOffsetsByTimestamp=times).ending == AtTime(9)
    assert batch(endingOffsetsByTimestamp=times, endingOffsets="latest").ending == AtTimes({p0: 1000})


def test_what_to_do_without_a_record_at_the_time() -> None:
    assert batch().timestamp_strategy == "error"
    assert batch(startingOffsetsByTimestampStrategy="LATEST").timestamp_strategy == "latest"
    assert "must be error or latest" in refused(startingOffsetsByTimestampStrategy="earliest")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startingOffsets", "fisrt"),
        ("startingOffsets", '{"orders":{"0":-3}}'),
        ("startingOffsets", '{"orders":{"0":1.5}}'),
        ("startingOffsets", '{"orders":{"0":true}}'),
        ("startingOffsets", '{"orders":{"x":1}}'),
        ("startingOffsets", '{"orders":{"0":1,"0":2}}'),
        ("startingOffsets", '{"orders":[0]}'),
        ("startingOffsets", ""),
        ("startingTimestamp", "-1"),
        ("startingTimestamp", "2026-01-01"),
        ("startingOffsetsByTimestamp", "1000"),
        ("startingOffsetsByTimestamp", '{"orders":{"0":-1}}'),
        ("endingTimestamp", "soon"),
        ("endingOffsets", "never"),
    ],
)
def test_positions_that_are_none_are_refused(name: str, value: str) -> None:
    assert f"option {name} is {value!r}: it must" in refused(**{name: value})


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    assert f"option {name}" in refused(streaming=True, **{name: "latest"})


def test_a_batch_cannot_begin_at_the_end_nor_end_at_the_beginning() -> None:
    assert "must not be latest" in refused(startingOffsets="latest")
    assert "orders-1" in refused(startingOffsets='{"orders":{"0":-2,"1":-1}}')
    assert "must not be earliest" in refused(endingOffsets="earliest")
    assert "orders-0" in refused(endingOffsets='{"orders":{"0":-2}}')


def test_a_start_behind_the_end_is_refused_before_anything_is_asked() -> None:
    assert "startingOffsets of orders-0 is 9, more than its endingOffsets, 8" in refused(
        startingOffsets='{"orders":{"0":9}}', endingOffsets='{"orders":{"0":8}}'
    )
    assert "only one of them has orders-1" in refused(
        startingOffsets='{"orders":{"0":9}}', endingOffsets='{"orders":{"0":9,"1":9}}'
    )
    assert "later than endingTimestamp" in refused(startingTimestamp="9", endingTimestamp="8")
    same = batch(startingOffsets='{"orders":{"0":9}}', endingOffsets='{"orders":{"0":-1}}')
    assert same.ending == AtOffsets({TopicPartition("orders", 0): -1})


# How much


def test_numbers_and_times_are_checked() -> None:
    options = stream(minPartitions="4", maxRecordsPerPartition="9", maxOffsetsPerTrigger="7", minOffsetsPerTrigger="7")
    assert (options.min_partitions, options.max_records_per_partition) == (4, 9)
    assert (options.max_offsets_per_trigger, options.min_offsets_per_trigger) == (7, 7)
    for name in ("minPartitions", "maxRecordsPerPartition", "maxOffsetsPerTrigger", "minOffsetsPerTrigger"):
        for value in ("0", "-1", "many", "1.5", "1" * 30, "²"):
            assert f"option {name} is '{value}': it must be a whole number from 1 to" in refused(**{name: value})
    assert "more than maxOffsetsPerTrigger, 6" in refused(minOffsetsPerTrigger="7", maxOffsetsPerTrigger="6")


@pytest.mark.parametrize(
    ("text", "ms"),
    [("15m", 900_000), ("30 s", 30_000), ("250", 250), ("5MIN", 300_000), ("1500us", 1), ("2h", 7_200_000)],
)
def test_delays_have_units(text: str, ms: int) -> None:
    assert stream(maxTriggerDelay=text).max_trigger_delay_ms == ms


@pytest.mark.parametrize("text", ["soon", "-1s", "5 weeks", "s", ""])
def test_delays_without_sense_are_refused(text: str) -> None:
    assert "option maxTriggerDelay" in refused(streaming=True, maxTriggerDelay=text)


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("failOnDataLoss", "fail_on_data_loss"),
        ("includeHeaders", "include_headers"),
        ("skipCorrupt", "skip_corrupt"),
        ("filterPushdown", "filter_pushdown"),
    ],
)
def test_switches(name: str, field: str) -> None:
    assert getattr(batch(**{name: "TRUE"}), field) is True
    assert getattr(batch(**{name: "false"}), field) is False
    assert f"option {name} is 'yes': it must be true or false" in refused(**{name: "yes"})


# Columns


def test_columns_can_be_chosen() -> None:
    assert batch(columns="value, Offset,key").columns == ("key", "value", "offset")
    assert batch(includeHeaders="true").columns == (*COLUMNS, "headers")
    assert batch(columns="key", includeHeaders="true").columns == ("key", "headers")
    assert batch(columns="headers").include_headers
    assert chosen_columns({"columns": "key"}) == ("key",)
    assert "there is no 'vlaue'; did you mean value?" in refused(columns="key,vlaue")
    assert "includeHeaders is false" in refused(columns="headers", includeHeaders="false")


# Groups


def test_progress_is_committed_for_streams_from_brokers_only() -> None:
    assert stream(commitGroup="watchers").commit_group == "watchers"
    assert "streams only" in refused(commitGroup="g")
    only = {"path": "/x", "subscribe": "t", "commitGroup": "g"}
    assert "needs kafka.bootstrap.servers" in refused(streaming=True, only=only)


# Names


def test_unknown_names_are_refused_with_the_closest() -> None:
    assert "no option startingoffset; did you mean startingOffsets?" in refused(startingOffset="earliest")
    assert "no option failondatalos; did you mean failOnDataLoss?" in refused(failOnDataLos="false")
    assert refused(zzz="1").endswith("no option zzz")
    assert "did you mean kafka.bootstrap.servers?" in refused(bootstrap__servers="h:1")
    assert "option topic is one of the sink" in refused(topic="t")


# Keys of Kafka's clients


def test_keys_with_effect() -> None:
    options = batch(
        kafka__client__id="me",
        kafka__request__timeout__ms="5000",
        kafka__fetch__max__bytes="7",
        kafka__max__partition__fetch__bytes="8",
        kafka__fetch__max__wait__ms="9",
        kafka__fetch__min__bytes="10",
        kafka__isolation__level="read_committed",
        kafka__security__protocol="PLAINTEXT",
    )
    client = options.client
    assert (client.client_id, client.timeout_s) == ("me", 5.0)
    assert (client.fetch_max_bytes, client.max_partition_fetch_bytes) == (7, 8)
    assert (client.fetch_max_wait_ms, client.fetch_min_bytes) == (9, 10)
    assert options.isolation == READ_COMMITTED
    assert batch(kafka__default__api__timeout__ms="7000", kafka__request__timeout__ms="1").client.timeout_s == 7.0
    assert "must be read_uncommitted or read_committed" in refused(kafka__isolation__level="serializable")


@pytest.mark.parametrize("key", sorted(SOURCE_KEYS.refused))
def test_keys_that_sparks_source_refuses_are_refused(key: str) -> None:
    assert f"option kafka.{key} is not supported" in refused(**{f"kafka.{key}": "earliest"})


@pytest.mark.parametrize(
    "key", ["sasl.jaas.config", "ssl.truststore.password", "sasl.mechanism", "security.providers", "config.providers.x"]
)
def test_security_is_refused_without_showing_anything(key: str) -> None:
    text = refused(**{f"kafka.{key}": "hunter2"})
    assert f"kafka.{key}" in text
    assert "hunter2" not in text


def test_only_plaintext() -> None:
    assert "must be PLAINTEXT" in refused(kafka__security__protocol="SASL_SSL")


def test_keys_without_effect_are_told_once_and_all_together(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_keys, "_told", set())
    caplog.set_level(logging.WARNING)
    for _ in range(3):
        batch(kafka__group__id="g", kafka__session__timeout__ms="1", groupIdPrefix="p", maxOffsetsPerTrigger="5")
    (record,) = caplog.records
    told = "maxOffsetsPerTrigger, groupIdPrefix, kafka.group.id, kafka.session.timeout.ms"
    assert record.getMessage() == f"accepted, but without effect here: {told}"


def test_nothing_is_told_where_everything_has_an_effect(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_keys, "_told", set())
    caplog.set_level(logging.WARNING)
    stream(maxOffsetsPerTrigger="5", kafka__client__id="c")
    assert caplog.records == []


def test_unknown_keys_are_refused_with_the_closest() -> None:
    assert "no such key; did you mean kafka.isolation.level?" in refused(kafka__isolation__levle="read_committed")
    assert "kafka.acks is unknown" in refused(kafka__acks="all")


@pytest.mark.parametrize("keys", [SOURCE_KEYS, SINK_KEYS])
def test_a_key_is_of_one_kind(keys: client_keys.ClientKeys) -> None:
    assert not keys.with_effect & keys.without_effect
    assert not keys.known & keys.refused.keys()


# Secrets


@pytest.mark.parametrize(
    "name",
    [
        "kafka.ssl.keystore.key",
        "kafka.sasl.jaas.config",
        "kafka.ssl.key.password",
        "my.Secret",
        "accessToken",
        "fs.s3a.access.key",
        "apikey",
        "db_passwd",
    ],
)
def test_whatever_may_be_a_secret_is_not_shown(name: str) -> None:
    assert is_secret(name)
    assert "hunter2" not in shown(name, "hunter2")
    assert "hunter2" not in str(Given({name: "hunter2"}).refusal(name, "is wrong"))
    assert "hunter2" not in refused(**{name: "hunter2"})


def test_a_password_in_an_address_is_not_shown_and_long_values_are_cut() -> None:
    assert shown("path", "s3://me:hunter2@host/x") == "'s3://…@host/x'"
    assert len(shown("subscribe", "x" * 10_000)) < 250
    assert not is_secret("startingOffsets")


@pytest.mark.parametrize("given", ["SASL_SSL://me:hunter2@host:9092", "me:hunter2@host:9092", "a:1,me:hunter2@b:2"])
def test_a_password_in_the_addresses_of_brokers_is_not_shown(given: str) -> None:
    text = refused(kafka__bootstrap__servers=given)
    assert "host:port" in text
    assert "hunter2" not in text


def test_a_partition_is_not_named_twice_in_two_spellings() -> None:
    assert "no partition" in refused(startingOffsets='{"orders":{"0":5,"00":7}}')
