"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources, through the bytes of their versions."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

import pytest

from support.brokers.config_nodes import ConfigNode, override
from support.brokers.handler_calls import ask, versions_of
from tailrace.broker.handlers import describe_configs
from tailrace.config.log import LogConfig
from tailrace.config.server import server_keys
from tailrace.config.table import keys_of
from tailrace.config.validation import (
    APPEND,
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    SET,
    SUBTRACT,
    TOPIC,
)
from tailrace.protocol.messages import alter_configs as legacy
from tailrace.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tailrace.protocol.messages.list_config_resources import ListConfigResourcesRequest

NONE, UNKNOWN_TOPIC, INVALID_TOPIC, UNSUPPORTED_VERSION, INVALID_CONFIG, INVALID_REQUEST = 0, 3, 17, 35, 40, 42
OF_TOPIC, OF_BROKER, OF_CLUSTER, STATIC, DEFAULT, OF_LOGGER, OF_CLIENT_METRICS, OF_GROUP = range(1, 9)

Operation = tuple[str, int, str | None]


@pytest.fixture
def node() -> ConfigNode:
    return ConfigNode(log_retention_hours="2", message_max_bytes="2000000")


def describe(node: ConfigNode, kind: int, name: str, *keys: str, version: int = 4, **options: Any) -> Any:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    options.setdefault("include_synonyms", True)
    (result,) = ask(node, DescribeConfigsRequest(resources=[resource], **options), version).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def described(node: ConfigNode, kind: int, name: str, key: str) -> tuple[str | None, int, list[tuple[Any, ...]]]:
    (entry,) = describe(node, kind, name, key).configs
    return entry.value, entry.config_source, [(each.name, each.value, each.source) for each in entry.synonyms]


def alter(
    node: ConfigNode, kind: int, name: str, *operations: Operation, version: int = 1, validate_only: bool = False
) -> int:
    changes = [AlterableConfig(name=key, config_operation=what, value=value) for key, what, value in operations]
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)],
        validate_only=validate_only,
    )
    (result,) = ask(node, request, version).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    assert bool(result.error_message) == (result.error_code != NONE)
    return int(result.error_code)


def replace_all(node: ConfigNode, kind: int, name: str, version: int = 2, **settings: Any) -> int:
    changes = [legacy.AlterableConfig(name=key.replace("_", "."), value=text) for key, text in settings.items()]
    resource = legacy.AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    (result,) = ask(node, legacy.AlterConfigsRequest(resources=[resource]), version).responses
    return int(result.error_code)


# Describe


@pytest.mark.spec("CF-02")
def test_every_setting_of_a_topic_is_described(node: ConfigNode) -> None:
    result = describe(node, TOPIC, "orders")
    assert result.error_code == NONE
    assert {each.name for each in result.configs} == keys_of(LogConfig).keys() - {"internal.segment.bytes"}
    assert not any(each.read_only or each.is_sensitive for each in result.configs)


@pytest.mark.spec("CF-02")
def test_where_a_topics_setting_comes_from(node: ConfigNode) -> None:
    static = ("message.max.bytes", "2000000", STATIC)
    default = ("message.max.bytes", "1048588", DEFAULT)
    assert described(node, TOPIC, "orders", "segment.bytes") == (
        "1073741824",
        DEFAULT,
        [("log.segment.bytes", "1073741824", DEFAULT)],
    )
    assert described(node, TOPIC, "orders", "max.message.bytes") == ("2000000", STATIC, [static, default])
    node.learn(*override(BROKER, "", message_max_bytes="3000000"))
    of_cluster = ("message.max.bytes", "3000000", OF_CLUSTER)
    assert described(node, TOPIC, "orders", "max.message.bytes") == (
        "3000000",
        OF_CLUSTER,
        [of_cluster, static, default],
    )
    node.learn(*override(BROKER, "1", message_max_bytes="4000000"))
    of_broker = ("message.max.bytes", "4000000", OF_BROKER)
    assert described(node, TOPIC, "orders", "max.message.bytes") == (
        "4000000",
        OF_BROKER,
        [of_broker, of_cluster, static, default],
    )
    node.learn(*override(TOPIC, "orders", max_message_bytes=" 5000000"))
    of_topic = ("max.message.bytes", "5000000", OF_TOPIC)
    assert described(node, TOPIC, "orders", "max.message.bytes") == (
        "5000000",
        OF_TOPIC,
        [of_topic, of_broker, of_cluster, static, default],
    )


@pytest.mark.spec("CF-02")
def test_settings_in_other_units(node: ConfigNode) -> None:
    assert described(node, TOPIC, "orders", "retention.ms") == ("7200000", DEFAULT, [])
    node.learn(*override(BROKER, "", log_retention_ms="-1"))
    hours = [("log.retention.hours", "2", STATIC), ("log.retention.hours", "168", DEFAULT)]
    of_cluster = ("log.retention.ms", "-1", OF_CLUSTER)
    assert described(node, TOPIC, "orders", "retention.ms") == ("-1", OF_CLUSTER, [of_cluster, *hours])
    assert described(node, BROKER, "1", "log.retention.ms") == ("-1", OF_CLUSTER, [of_cluster, *hours])
    assert described(node, BROKER, "1", "log.retention.minutes") == (None, DEFAULT, [])


@pytest.mark.spec("CF-02")
def test_every_setting_of_a_broker_is_described(node: ConfigNode) -> None:
    entries = {each.name: each for each in describe(node, BROKER, "1", include_documentation=True).configs}
    internal = {name for name, row in server_keys().items() if row.is_internal}
    assert entries.keys() == server_keys().keys() - internal
    assert all(each.documentation for each in entries.values())
    assert entries["log.dirs"].read_only
    assert not entries["log.cleaner.threads"].read_only
    assert (entries["node.id"].value, entries["broker.id"].value) == ("1", "1")
    assert (entries["ssl.key.password"].value, entries["ssl.key.password"].is_sensitive) == (None, True)
    types = {name: entries[name].config_type for name in ("auto.create.topics.enable", "log.dirs", "num.partitions")}
    assert types == {"auto.create.topics.enable": 1, "log.dirs": 7, "num.partitions": 3}


def test_an_answer_has_an_end(node: ConfigNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker's settings take thousands of times the bytes in which they were asked for."""
    broker = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=None)
    monkeypatch.setattr(describe_configs, "MAX_SETTINGS", len(server_keys()) + 1)
    results = ask(node, DescribeConfigsRequest(resources=[broker] * 5), 4).results
    assert [result.error_code for result in results] == [NONE, NONE, *[INVALID_REQUEST] * 3]
    assert not results[2].configs


def test_what_was_set_for_all_brokers(node: ConfigNode) -> None:
    assert describe(node, BROKER, "").configs == []
    node.learn(*override(BROKER, "", max_connections="7", unheard_of="secret"))
    first, second = sorted(describe(node, BROKER, "").configs, key=lambda each: each.name)
    assert (first.name, first.value, first.config_source) == ("max.connections", "7", OF_CLUSTER)
    assert (second.name, second.value, second.is_sensitive, second.config_type) == ("unheard.of", None, True, 0)


@pytest.mark.parametrize("version", versions_of(DescribeConfigsRequest))
def test_every_version_of_describing(node: ConfigNode, version: int) -> None:
    with_docs = {"include_documentation": True} if version >= 3 else {}
    (entry,) = describe(node, TOPIC, "orders", "flush.ms", "no.such", version=version, **with_docs).configs
    assert (entry.name, entry.value) == ("flush.ms", "9223372036854775807")
    assert bool(entry.documentation) == (version >= 3)
    (entry,) = describe(node, TOPIC, "orders", "segment.bytes", version=version, include_synonyms=False).configs
    assert entry.synonyms == []
    assert not entry.documentation


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "no-such", UNKNOWN_TOPIC),
        (TOPIC, "a b", INVALID_TOPIC),
        (TOPIC, "", INVALID_TOPIC),
        (BROKER, "2", INVALID_REQUEST),
        (BROKER, "one", INVALID_REQUEST),
        (BROKER_LOGGER, "", INVALID_REQUEST),
        (BROKER_LOGGER, "2", INVALID_REQUEST),
        (CLIENT_METRICS, "", INVALID_REQUEST),
        (GROUP, "", INVALID_REQUEST),
        (3, "x", INVALID_REQUEST),
        (0, "x", INVALID_REQUEST),
    ],
)
def test_what_cannot_be_described(node: ConfigNode, kind: int, name: str, code: int) -> None:
    result = describe(node, kind, name)
    assert (result.error_code, result.configs) == (code, [])


def test_groups_and_subscriptions(node: ConfigNode) -> None:
    key = "consumer.session.timeout.ms"
    of_broker = (f"group.{key}", "45000", DEFAULT)
    assert described(node, GROUP, "g", key) == ("45000", DEFAULT, [of_broker])
    assert described(node, GROUP, "g", "share.isolation.level")[0] == "read_uncommitted"
    assert described(node, CLIENT_METRICS, "s", "interval.ms") == ("300000", DEFAULT, [])
    node.learn(*override(GROUP, "g", consumer_session_timeout_ms="50000"))
    node.learn(*override(CLIENT_METRICS, "s", interval_ms="1000"))
    assert described(node, GROUP, "g", key) == ("50000", OF_GROUP, [(key, "50000", OF_GROUP), of_broker])
    expected = ("1000", OF_CLIENT_METRICS, [("interval.ms", "1000", OF_CLIENT_METRICS)])
    assert described(node, CLIENT_METRICS, "s", "interval.ms") == expected


# Alter


@pytest.mark.spec("CF-02")
@pytest.mark.parametrize("version", versions_of(IncrementalAlterConfigsRequest))
def test_a_topics_settings_change_one_by_one(node: ConfigNode, version: int) -> None:
    log = node.log()
    assert alter(node, TOPIC, "orders", ("retention.ms", SET, "5"), version=version) == NONE
    assert alter(node, TOPIC, "orders", ("cleanup.policy", APPEND, "compact"), version=version) == NONE
    assert (log.config.retention_ms, log.config.cleanup_policy) == (5, ("delete", "compact"))
    assert described(node, TOPIC, "orders", "cleanup.policy")[:2] == ("delete,compact", OF_TOPIC)
    assert alter(node, TOPIC, "orders", ("cleanup.policy", SUBTRACT, "delete"), version=version) == NONE
    assert alter(node, TOPIC, "orders", ("retention.ms", DELETE, None), version=version) == NONE
    assert (log.config.retention_ms, log.config.cleanup_policy) == (7_200_000, ("compact",))


POLICY, THROTTLED = "cleanup.policy", "leader.replication.throttled.replicas"


# What Kafka 4.3.1 makes of the same; the value of the override, as it is stored.
@pytest.mark.spec("CF-02")
@pytest.mark.parametrize(
    ("key", "operations", "value"),
    [
        (POLICY, [(APPEND, "compact")], "delete,compact"),
        (POLICY, [(APPEND, "compact"), (APPEND, "compact")], "delete,compact"),
        (POLICY, [(APPEND, "compact"), (APPEND, "compact,delete")], "delete,compact"),
        (POLICY, [(APPEND, "compact,compact")], "delete,compact"),
        (POLICY, [(APPEND, "compact,")], "delete,compact"),
        (POLICY, [(APPEND, "delete")], "delete"),
        (POLICY, [(SUBTRACT, "delete")], ""),
        (POLICY, [(SUBTRACT, "compact")], "delete"),
        (POLICY, [(SUBTRACT, "delete,compact"), (APPEND, "compact")], "compact"),
        (POLICY, [(SET, "delete,compact"), (SUBTRACT, " compact")], "delete,compact"),
        (THROTTLED, [(APPEND, "0:1"), (APPEND, "0:1,0:2")], "0:1,0:2"),
        (THROTTLED, [(SET, "0:1,0:2,0:1"), (SUBTRACT, "0:1")], "0:2,0:1"),
        (THROTTLED, [(SET, "0:1"), (SUBTRACT, "0:9")], "0:1"),
    ],
)
def test_elements_are_appended_to_a_list_once_and_removed_one_by_one(
    node: ConfigNode, key: str, operations: list[tuple[int, str]], value: str
) -> None:
    for operation, operand in operations:
        assert alter(node, TOPIC, "orders", (key, operation, operand)) == NONE
    assert node.image.configs[TOPIC, "orders"] == {key: value}
    assert described(node, TOPIC, "orders", key)[:2] == (value, OF_TOPIC)


def test_trying_changes_nothing(node: ConfigNode) -> None:
    assert alter(node, TOPIC, "orders", ("retention.ms", SET, "5"), validate_only=True) == NONE
    assert alter(node, BROKER, "", ("max.connections", SET, "5"), validate_only=True) == NONE
    assert node.image.configs == {}


@pytest.mark.spec("CF-03")
def test_a_brokers_settings_change_one_by_one(node: ConfigNode) -> None:
    assert alter(node, BROKER, "", ("log.cleaner.threads", SET, "2")) == NONE
    assert node.logs.cleaner is not None
    assert node.logs.cleaner.config.log_cleaner_threads == 2
    assert alter(node, BROKER, "1", ("log.cleaner.threads", SET, "4")) == NONE
    assert alter(node, BROKER, "1", ("cordoned.log.dirs", APPEND, "/b")) == NONE
    assert [each.is_cordoned for each in node.logs.directories] == [False, True]
    assert described(node, BROKER, "1", "log.cleaner.threads") == (
        "4",
        OF_BROKER,
        [
            ("log.cleaner.threads", "4", OF_BROKER),
            ("log.cleaner.threads", "2", OF_CLUSTER),
            ("log.cleaner.threads", "1", DEFAULT),
        ],
    )


# What Kafka 4.3.1 answers to the same.
REFUSED: Final[list[tuple[int, str, list[Operation], int]]] = [
    (BROKER, "1", [("log.cleaner.threads", SET, "5")], INVALID_REQUEST),
    (BROKER, "", [("log.cleaner.threads", SET, "5")], INVALID_REQUEST),
    (BROKER, "", [("log.cleaner.threads", SET, "x")], INVALID_REQUEST),
    (BROKER, "", [("num.io.threads", SET, "100")], INVALID_REQUEST),
    (BROKER, "", [("num.io.threads", SET, "3")], INVALID_REQUEST),
    (BROKER, "", [("background.threads", SET, "100")], INVALID_REQUEST),
    (BROKER, "", [("log.cleaner.enable", SET, "false")], INVALID_REQUEST),
    (BROKER, "1", [("log.dirs", SET, "/x"), ("num.partitions", SET, "3")], INVALID_REQUEST),
    (BROKER, "1", [("no.such.key", APPEND, "x")], INVALID_CONFIG),
    (BROKER, "2", [("log.cleaner.threads", SET, "2")], INVALID_REQUEST),
    (BROKER, "one", [("log.cleaner.threads", SET, "2")], INVALID_REQUEST),
    (BROKER, "-1", [("log.cleaner.threads", SET, "2")], INVALID_REQUEST),
    (BROKER, "", [("cordoned.log.dirs", SET, "/a")], INVALID_REQUEST),
    (BROKER, "1", [("cordoned.log.dirs", SET, "/x")], INVALID_REQUEST),
    (BROKER, "1", [("ssl.keystore.location", SET, "/x")], INVALID_REQUEST),
    (BROKER, "", [("message.max.bytes", SET, None)], INVALID_REQUEST),
    (BROKER, "", [("message.max.bytes", SET, "-3")], INVALID_REQUEST),
    (BROKER, "", [("message.max.bytes", 9, "3")], INVALID_REQUEST),
    (BROKER, "", [("message.max.bytes", APPEND, "3")], INVALID_CONFIG),
    (BROKER, "", [("message.max.bytes", SET, "3"), ("message.max.bytes", SET, "4")], INVALID_REQUEST),
    (BROKER, "", [("log.retention.ms", SET, "0")], INVALID_REQUEST),
    (BROKER, "", [("log.retention.hours", SET, "1")], INVALID_REQUEST),
    (BROKER, "", [("log.cleanup.policy", SET, "x")], INVALID_REQUEST),
    (BROKER, "", [("log.cleaner.dedupe.buffer.size", SET, "1000")], INVALID_REQUEST),
    (BROKER, "", [("max.connections.per.ip.overrides", SET, "a")], INVALID_REQUEST),
    (BROKER, "", [("max.connections.per.ip", SET, "0")], INVALID_REQUEST),
    (BROKER, "", [("unclean.leader.election.enable", SET, "maybe")], INVALID_REQUEST),
    (BROKER, "", [("min.insync.replicas", SET, "0")], INVALID_REQUEST),
    (BROKER, "", [("listeners", SET, "PLAINTEXT://:1")], INVALID_REQUEST),
    (BROKER, "", [("remote.log.storage.system.enable", SET, "true")], INVALID_REQUEST),
    (TOPIC, "orders", [("no.such", SET, "1")], INVALID_CONFIG),
    (TOPIC, "orders", [("no.such", APPEND, "1")], INVALID_CONFIG),
    (TOPIC, "orders", [("retention.ms", SET, "-5")], INVALID_CONFIG),
    (TOPIC, "orders", [("retention.ms", SET, "abc")], INVALID_CONFIG),
    (TOPIC, "orders", [("retention.ms", SET, None)], INVALID_REQUEST),
    (TOPIC, "orders", [("retention.ms", APPEND, "3")], INVALID_CONFIG),
    (TOPIC, "orders", [("retention.ms", SET, "1"), ("retention.ms", SET, "2")], INVALID_REQUEST),
    (TOPIC, "orders", [("segment.bytes", SET, "1")], INVALID_CONFIG),
    (
        TOPIC,
        "orders",
        [("min.compaction.lag.ms", SET, "100"), ("max.compaction.lag.ms", SET, "10")],
        INVALID_CONFIG,
    ),
    (TOPIC, "orders", [("remote.storage.enable", SET, "true")], INVALID_CONFIG),
    (TOPIC, "orders", [("leader.replication.throttled.replicas", SET, "x")], INVALID_CONFIG),
    (TOPIC, "orders", [("compression.type", SET, "none")], INVALID_CONFIG),
    (TOPIC, "orders", [("compression.gzip.level", SET, "0")], INVALID_CONFIG),
    (TOPIC, "orders", [("message.timestamp.type", SET, "createtime")], INVALID_CONFIG),
    (TOPIC, "orders", [("message.downconversion.enable", SET, "true")], INVALID_CONFIG),
    (TOPIC, "no-such", [("retention.ms", SET, "1")], UNKNOWN_TOPIC),
    (TOPIC, "", [("retention.ms", SET, "1")], INVALID_REQUEST),
    (TOPIC, "a b", [("retention.ms", SET, "1")], INVALID_TOPIC),
    (BROKER_LOGGER, "2", [("root", SET, "DEBUG")], INVALID_REQUEST),
    (BROKER_LOGGER, "", [("root", SET, "DEBUG")], INVALID_REQUEST),
    (BROKER_LOGGER, "1", [("root", SET, "LOUD")], INVALID_CONFIG),
    (BROKER_LOGGER, "1", [("root", DELETE, None)], INVALID_REQUEST),
    (BROKER_LOGGER, "1", [("root", APPEND, "DEBUG")], INVALID_REQUEST),
    (BROKER_LOGGER, "1", [("no.such.logger", SET, "DEBUG")], INVALID_CONFIG),
    (GROUP, "g", [("no.such", SET, "1")], INVALID_CONFIG),
    (GROUP, "g", [("consumer.session.timeout.ms", SET, "5")], INVALID_CONFIG),
    (GROUP, "g", [("share.delivery.count.limit", SET, "11")], INVALID_CONFIG),
    (GROUP, "", [("consumer.session.timeout.ms", SET, "50000")], INVALID_REQUEST),
    (CLIENT_METRICS, "s", [("interval.ms", SET, "1")], INVALID_REQUEST),
    (CLIENT_METRICS, "s", [("no.such", SET, "1")], INVALID_REQUEST),
    (CLIENT_METRICS, "s", [("metrics", APPEND, "a")], INVALID_CONFIG),
    (CLIENT_METRICS, "s", [("match", SUBTRACT, "client_id=a")], INVALID_CONFIG),
    (3, "x", [("a", SET, "1")], INVALID_REQUEST),
    (99, "x", [("a", SET, "1")], INVALID_REQUEST),
]


def test_a_setting_of_a_part_that_is_not_built_yet_can_be_altered_as_in_kafka(node: ConfigNode) -> None:
    key = "sasl.kerberos.min.time.before.relogin"
    assert alter(node, BROKER, "", (key, SET, "1234")) == INVALID_REQUEST
    assert alter(node, BROKER, "1", (key, SET, "x")) == INVALID_REQUEST
    assert alter(node, BROKER, "1", (key, SET, "1234")) == NONE
    assert described(node, BROKER, "1", key) == ("1234", OF_BROKER, [(key, "1234", OF_BROKER), (key, "60000", DEFAULT)])
    assert alter(node, BROKER, "1", (key, DELETE, None)) == NONE
    assert described(node, BROKER, "1", key) == ("60000", DEFAULT, [(key, "60000", DEFAULT)])


@pytest.mark.spec("CF-03")
@pytest.mark.parametrize(("kind", "name", "operations", "code"), REFUSED)
def test_what_is_refused(node: ConfigNode, kind: int, name: str, operations: list[Operation], code: int) -> None:
    assert alter(node, kind, name, *operations) == code
    assert node.image.configs == {}


# What Kafka 4.3.1 lets through.
ALLOWED: Final[list[tuple[int, str, list[Operation]]]] = [
    (BROKER, "", [("num.network.threads", SET, "5")]),
    (BROKER, "1", [("cordoned.log.dirs", SET, "*")]),
    (BROKER, "1", [("cordoned.log.dirs", DELETE, None)]),
    (BROKER, "", [("log.cleanup.policy", APPEND, "compact")]),
    (BROKER, "", [("log.retention.ms", SET, "-1")]),
    (BROKER, "1", [("no.such.key", SET, "3")]),
    (BROKER, "1", [("no.such.key", DELETE, None)]),
    (BROKER, "", [("leader.replication.throttled.rate", SET, "100")]),
    (BROKER, "", [("replica.alter.log.dirs.io.max.bytes.per.second", SET, "100")]),
    (BROKER, "", [("producer.id.expiration.ms", SET, "5")]),
    (TOPIC, "orders", [("no.such", DELETE, None)]),
    (TOPIC, "orders", [("cleanup.policy", SET, "")]),
    (TOPIC, "orders", [("internal.segment.bytes", SET, "1000")]),
    (TOPIC, "orders", [("remote.storage.enable", SET, "false")]),
    (TOPIC, "orders", [("remote.log.copy.disable", SET, "true")]),
    (TOPIC, "orders", [("leader.replication.throttled.replicas", SET, "0:1,1:2")]),
    (TOPIC, "orders", [("preallocate", SET, "TRUE")]),
    (GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")]),
    (CLIENT_METRICS, "s", [("interval.ms", SET, "1000")]),
]


@pytest.mark.parametrize(("kind", "name", "operations"), ALLOWED)
def test_what_is_allowed(node: ConfigNode, kind: int, name: str, operations: list[Operation]) -> None:
    assert alter(node, kind, name, *operations) == NONE


def test_each_resource_is_judged_by_itself(node: ConfigNode) -> None:
    def change(kind: int, name: str, key: str, value: str) -> AlterConfigsResource:
        return AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[AlterableConfig(name=key, config_operation=SET, value=value)],
        )

    request = IncrementalAlterConfigsRequest(
        resources=[
            change(BROKER, "2", "max.connections", "5"),
            change(TOPIC, "orders", "retention.ms", "5"),
            change(TOPIC, "twice", "retention.ms", "5"),
            change(BROKER, "", "max.connections", "5"),
            change(TOPIC, "twice", "retention.ms", "6"),
        ]
    )
    answer = ask(node, request)
    assert [(each.resource_name, each.error_code) for each in answer.responses] == [
        ("2", INVALID_REQUEST),
        ("orders", NONE),
        ("twice", INVALID_REQUEST),
        ("", NONE),
        ("twice", INVALID_REQUEST),
    ]
    (passed_on,) = node.passed_on
    assert [each.resource_name for each in passed_on.resources] == ["orders", ""]  # type: ignore[attr-defined]


@pytest.mark.spec("CF-02")
@pytest.mark.parametrize("version", versions_of(legacy.AlterConfigsRequest))
def test_all_settings_at_once(node: ConfigNode, version: int) -> None:
    assert replace_all(node, TOPIC, "orders", version, retention_ms="5", preallocate="true") == NONE
    assert replace_all(node, TOPIC, "orders", version, segment_ms="6") == NONE
    assert node.image.topic_config("orders") == {"segment.ms": "6"}
    assert replace_all(node, BROKER, "1", version, max_connections="5") == NONE
    assert node.config.max_connections == 5
    assert replace_all(node, BROKER, "1", version) == NONE
    assert node.image.broker_config("1") == {}


@pytest.mark.parametrize(
    ("kind", "name", "settings", "code"),
    [
        (TOPIC, "orders", {"retention_ms": None}, INVALID_REQUEST),
        (TOPIC, "orders", {"no_such": "1"}, INVALID_CONFIG),
        (TOPIC, "no-such", {"retention_ms": "1"}, UNKNOWN_TOPIC),
        (BROKER_LOGGER, "1", {"root": "INFO"}, INVALID_REQUEST),
        (BROKER, "1", {"log_dirs": "/x"}, INVALID_REQUEST),
        (BROKER, "2", {"max_connections": "5"}, INVALID_REQUEST),
        (99, "x", {}, INVALID_REQUEST),
    ],
)
def test_what_is_refused_at_once(node: ConfigNode, kind: int, name: str, settings: dict[str, Any], code: int) -> None:
    assert replace_all(node, kind, name, **settings) == code
    assert node.image.configs == {}


# Loggers


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("tailrace.tests.of.loggers")
    yield logger
    logger.setLevel(logging.NOTSET)


def test_levels_of_loggers(node: ConfigNode, logger: logging.Logger) -> None:
    assert alter(node, BROKER_LOGGER, "1", (logger.name, SET, "FATAL"), validate_only=True) == NONE
    assert logger.level == logging.NOTSET
    assert alter(node, BROKER_LOGGER, "1", (logger.name, SET, "FATAL")) == NONE
    assert logger.level == logging.CRITICAL
    assert described(node, BROKER_LOGGER, "1", logger.name) == ("FATAL", OF_LOGGER, [])
    assert alter(node, BROKER_LOGGER, "1", (logger.name, DELETE, None)) == NONE
    assert logger.level == logging.NOTSET
    assert node.passed_on == []
    assert "root" in {each.name for each in describe(node, BROKER_LOGGER, "1").configs}


# List


def test_what_has_settings(node: ConfigNode) -> None:
    node.learn(*override(GROUP, "g", consumer_session_timeout_ms="50000"))
    node.learn(*override(CLIENT_METRICS, "s", interval_ms="1000"))

    def listed(*kinds: int, version: int = 1) -> set[tuple[int, str]]:
        answer = ask(node, ListConfigResourcesRequest(resource_types=list(kinds)), version)
        assert answer.error_code == NONE
        return {(each.resource_type, each.resource_name) for each in answer.config_resources}

    everything = {(TOPIC, "orders"), (BROKER, "1"), (BROKER_LOGGER, "1"), (CLIENT_METRICS, "s"), (GROUP, "g")}
    assert listed() == everything
    for kind in (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP):
        assert listed(kind) == {each for each in everything if each[0] == kind}
    assert listed(TOPIC, BROKER) == {(TOPIC, "orders"), (BROKER, "1")}
    assert listed(version=0) == {(CLIENT_METRICS, "s")}
    for kind in (0, 3):
        assert ask(node, ListConfigResourcesRequest(resource_types=[kind])).error_code == UNSUPPORTED_VERSION
