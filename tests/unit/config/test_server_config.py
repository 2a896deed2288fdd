"""Settings of a whole process: Kafka's files are understood, and what cannot be stops the start."""

from __future__ import annotations

from typing import Final

import pytest

from tailrace.config.listeners import Listener
from tailrace.config.properties import parse_properties
from tailrace.config.server import ServerConfig, server_keys
from tailrace.config.table import ConfigError, Mode
from tailrace.config.voters import Address, Voter

# What a single node's properties file of Kafka sets.
SAMPLE: Final = b"""
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\\
    SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def test_a_properties_file_of_kafka_works_as_it_is() -> None:
    config = ServerConfig.of(parse_properties(SAMPLE))
    assert config.unknown == ()
    assert config.listeners == (Listener("PLAINTEXT", "", 9092), Listener("CONTROLLER", "", 9093))
    assert config.broker_listeners == config.listeners[:1]
    assert config.controller_listeners == config.listeners[1:]
    assert config.advertised_listeners == (Listener("PLAINTEXT", "localhost", 9092),)
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert config.controller_quorum_bootstrap_servers == (Address("localhost", 9093),)
    assert (config.node_id, config.broker_id) == (1, 1)
    assert config.process_roles == ("broker", "controller")
    assert config.is_broker
    assert config.is_controller
    assert config.metadata_log_dir == "/tmp/kraft-combined-logs"
    assert config.broker.directories == ("/tmp/kraft-combined-logs",)
    assert config.broker.topic_defaults.retention_ms == 604_800_000
    assert config.offsets_topic_replication_factor == 1


def test_without_a_file_it_is_a_single_node_on_this_machine() -> None:
    config = ServerConfig.single_node({})
    assert config.listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092), Listener("CONTROLLER", "127.0.0.1", 9093))
    assert config.advertised_listeners == config.broker_listeners
    assert config.transaction_state_log_min_isr == 1
    assert config.transaction_state_log_replication_factor == 1
    assert config.offsets_topic_replication_factor == 1
    assert config.min_insync_replicas == 1
    assert not config.unclean_leader_election_enable
    assert config.metrics_listener is None


def test_any_free_port_may_be_asked_for() -> None:
    config = ServerConfig.single_node({"listeners": "PLAINTEXT://127.0.0.1:0"})
    assert config.listeners == (Listener("PLAINTEXT", "127.0.0.1", 0), Listener("CONTROLLER", "127.0.0.1", 0))
    config = ServerConfig.single_node({"listeners": "PLAINTEXT://[::1]:0", "log.dir": "/data"})
    assert config.controller_listeners == (Listener("CONTROLLER", "::1", 0),)
    assert config.broker.directories == ("/data",)


def test_requests_in_memory_have_a_bound_of_our_own() -> None:
    assert ServerConfig.single_node({}).queued_max_request_bytes == 256 * 1024 * 1024
    assert ServerConfig.single_node({"queued.max.request.bytes": "-1"}).queued_max_request_bytes == -1


def test_other_settings() -> None:
    config = ServerConfig.single_node(
        {
            "max.connections.per.ip.overrides": "127.0.0.1:200, [::1]:7",
            "metadata.log.dir": "/meta/",
            "metrics.listener": "localhost:9404",
            "node.id": "7",
            "controller.quorum.voters": "7@localhost:9093",
            "broker.rack": "r1",
            "min.insync.replicas": "2",
            "unclean.leader.election.enable": "true",
        }
    )
    assert config.connection_limits_by_host == {"127.0.0.1": 200, "::1": 7}
    assert config.metadata_log_dir == "/meta"
    assert config.metrics_listener == "localhost:9404"
    assert config.controller_quorum_voters == (Voter(7, Address("localhost", 9093)),)
    assert config.broker_rack == "r1"
    assert config.min_insync_replicas == 2
    assert config.unclean_leader_election_enable
    assert ServerConfig.single_node({"metrics.listener": ""}).metrics_listener is None


def test_keys_that_nobody_knows_are_told() -> None:
    config = ServerConfig.single_node(
        {"zookeeper.connect": "localhost", "rsm.config.bucket": "b", "num.partitions": "2"}
    )
    assert config.unknown == ("zookeeper.connect",)
    assert "zookeeper.connect" not in config.settings


_ALL_PLAIN: Final = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:PLAINTEXT,CONTROLLER:PLAINTEXT"}

REFUSED: Final[list[tuple[str, dict[str, str]]]] = [
    ("num.partitions", {"num.partitions": "0"}),
    ("num.partitions", {"num.partitions": "1_0"}),
    ("node.id", {"node.id": "-1"}),
    ("broker.id", {"broker.id": "2"}),
    ("process.roles", {"process.roles": "leader"}),
    ("process.roles", {"process.roles": "broker"}),
    ("listeners", {"listeners": "localhost:9092"}),
    ("listeners", {"listeners": "PLAINTEXT://localhost:70000"}),
    ("listeners", {"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}),
    ("listeners", {"listeners": "PLAINTEXT://a:1,SSL://a:1,CONTROLLER://a:2", **_ALL_PLAIN}),
    ("listeners", {"listeners": "CONTROLLER://:9093"}),
    ("listener.security.protocol.map", {"listeners": "INTERNAL://:9092,CONTROLLER://:9093"}),
    ("listener.security.protocol.map", {"listener.security.protocol.map": "PLAINTEXT:TLS"}),
    ("controller.listener.names", {"controller.listener.names": ""}),
    ("advertised.listeners", {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}),
    ("inter.broker.listener.name", {"inter.broker.listener.name": "CONTROLLER"}),
    (
        "inter.broker.listener.name",
        {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
    ),
    ("controller.quorum.voters", {"controller.quorum.voters": "2@localhost:9093"}),
    ("controller.quorum.voters", {"controller.quorum.voters": "localhost:9093"}),
    ("controller.quorum.bootstrap.servers", {"controller.quorum.bootstrap.servers": ""}),
    ("broker.heartbeat.interval.ms", {"broker.heartbeat.interval.ms": "5000"}),
    ("replica.socket.timeout.ms", {"replica.socket.timeout.ms": "100"}),
    ("replica.fetch.wait.max.ms", {"replica.lag.time.max.ms": "100"}),
    ("queued.max.request.bytes", {"queued.max.request.bytes": "1000"}),
    ("max.connections.per.ip", {"max.connections.per.ip": "0"}),
    ("max.connections.per.ip.overrides", {"max.connections.per.ip.overrides": "localhost"}),
    ("log.retention.ms", {"log.retention.ms": "0"}),
    ("log.segment.bytes", {"log.segment.bytes": "1000"}),
    ("metrics.listener", {"metrics.listener": "9404"}),
    ("remote.log.storage.system.enable", {"remote.log.storage.system.enable": "true"}),
    ("create.topic.policy.class.name", {"create.topic.policy.class.name": "x.Y"}),
    ("config.providers", {"config.providers": "file"}),
]


@pytest.mark.parametrize(("key", "settings"), REFUSED)
def test_wrong_values_stop_the_start_with_the_key_named(key: str, settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        ServerConfig.single_node(settings)


@pytest.mark.parametrize("key", ["process.roles", "node.id", "controller.listener.names"])
def test_what_must_be_given(key: str) -> None:
    settings = parse_properties(SAMPLE)
    del settings[key]
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        ServerConfig.of(settings)


SECURED: Final = [
    {"ssl.keystore.location": "/keys"},
    {"ssl.client.auth": "required"},
    {"sasl.enabled.mechanisms": "PLAIN"},
    {"sasl.jaas.config": "secret"},
    {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"},
    {"delegation.token.secret.key": "secret"},
    {"principal.builder.class": "x.Y"},
    {"listeners": "SSL://:9092,CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT://:9092,SASL_SSL://:9094,CONTROLLER://:9093"},
    {"listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"},
    {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL"},
    {"security.inter.broker.protocol": "SSL"},
    {"listener.name.plaintext.ssl.keystore.location": "/keys"},
    {"listener.name.plaintext.plain.sasl.jaas.config": "secret"},
]


@pytest.mark.parametrize("settings", SECURED, ids=lambda settings: next(iter(settings.items()))[0])
def test_a_broker_that_was_meant_to_be_closed_never_opens(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"no encryption, authentication or authorisation yet") as refused:
        ServerConfig.single_node(settings)
    assert "secret" not in str(refused.value).replace("delegation.token.secret.key", "")


LOGIN_TUNING: Final = {
    "sasl.kerberos.min.time.before.relogin": "5",
    "sasl.kerberos.ticket.renew.jitter": "0.1",
    "sasl.kerberos.ticket.renew.window.factor": "0.5",
    "sasl.login.refresh.buffer.seconds": "5",
    "sasl.login.refresh.min.period.seconds": "5",
    "sasl.login.refresh.window.factor": "0.5",
    "sasl.login.refresh.window.jitter": "0.1",
}


@pytest.mark.parametrize("key", LOGIN_TUNING)
def test_settings_that_tune_a_login_do_not_ask_for_security(key: str) -> None:
    """In Kafka they can be changed at run time for one broker."""
    assert ServerConfig.single_node({key: LOGIN_TUNING[key]}).unknown == ()
    assert server_keys()[key].mode is Mode.PER_BROKER


def test_defaults_of_security_are_not_asking_for_it() -> None:
    rows = {name: row for name, row in server_keys().items() if name.startswith(("ssl.", "sasl."))}
    given = {name: row.default_text for name, row in rows.items() if row.default_text is not None}
    assert len(given) > 30
    ServerConfig.single_node(given | {"authorizer.class.name": "", "ssl.keystore.location": ""})


def storage(**changes: str) -> ServerConfig:
    settings = parse_properties(SAMPLE) | {name.replace("_", "."): text for name, text in changes.items()}
    return ServerConfig.for_storage(settings)


def test_directories_may_be_those_of_any_role() -> None:
    both = storage(sasl_enabled_mechanisms="SCRAM-SHA-256", controller_quorum_voters="1@a:1,2@b:1")
    assert (both.is_broker, both.is_controller) == (True, True)
    assert both.advertised_controller_listeners == (Listener("CONTROLLER", "localhost", 9093),)
    listeners = {"listeners": "CONTROLLER://:9093,SECOND://b:2", "controller_listener_names": "SECOND,CONTROLLER"}
    controller = storage(process_roles="controller", advertised_listeners="CONTROLLER://a:1", **listeners)
    assert controller.advertised_controller_listeners == (Listener("SECOND", "b", 2), Listener("CONTROLLER", "a", 1))
    broker = storage(process_roles="broker", listeners="PLAINTEXT://:9092", advertised_listeners="PLAINTEXT://a:1")
    assert broker.advertised_controller_listeners == ()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"process_roles": "broker"}, "CONTROLLER is a controller listener"),
        ({"controller_listener_names": "OTHER"}, "controller.listener.names=OTHER: none is among listeners"),
        ({"controller_quorum_voters": "2@a:1"}, "must contain this node, 1"),
        ({"node_id": "-1"}, "node.id"),
    ],
)
def test_contradictions_are_refused_for_directories_too(changes: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        storage(**changes)


MEMBER: Final = {
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@one:9093,2@two:9093,3@three:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "process.roles": "controller",
    "listeners": "CONTROLLER://one:9093",
}


def test_a_controller_among_three_voters_is_neither_alone_nor_a_founder() -> None:
    member = ServerConfig.of(MEMBER)
    assert not member.is_alone
    assert not member.is_founder
    assert [each.id for each in member.controller_quorum_voters] == [1, 2, 3]
    changed = member.with_settings({**MEMBER, "log.cleaner.threads": "2"})
    assert changed.broker.cleaner.log_cleaner_threads == 2


def test_a_broker_among_members_names_where_clients_reach_it() -> None:
    broker = {**MEMBER, "node.id": "11", "process.roles": "broker", "listeners": "PLAINTEXT://eleven:9092"}
    assert not ServerConfig.of(broker).is_alone
    with pytest.raises(ConfigError, match="controller listener"):
        ServerConfig.of({**broker, "listeners": "PLAINTEXT://eleven:9092,CONTROLLER://eleven:9093"})
    with pytest.raises(ConfigError, match=r"inter\.broker\.listener\.name"):
        ServerConfig.of({**broker, "inter.broker.listener.name": "OTHER"})


def test_a_node_that_others_cannot_find_is_alone() -> None:
    assert ServerConfig.single_node({"listeners": "PLAINTEXT://127.0.0.1:0"}).is_alone
    assert ServerConfig.single_node({"controller.quorum.voters": "1@localhost:9093"}).is_alone


def test_the_only_controller_with_a_known_address_can_get_others() -> None:
    config = ServerConfig.of(parse_properties(SAMPLE))
    assert config.is_founder
    assert not config.is_alone


@pytest.mark.parametrize(
    ("listeners", "server", "is_founder"),
    [
        ("CONTROLLER://:9093", "localhost:9093", True),
        ("CONTROLLER://:9093", "controller-1:9093", False),
        ("CONTROLLER://:9093", "localhost:9094", False),
        ("CONTROLLER://controller-1:9093", "controller-1:9093", True),
        ("CONTROLLER://controller-2:9093", "controller-1:9093", False),
    ],
)
def test_a_controller_that_names_the_address_of_another_founds_no_cluster(
    listeners: str, server: str, is_founder: bool
) -> None:
    settings = parse_properties(SAMPLE) | {
        "process.roles": "controller",
        "listeners": listeners,
        "controller.quorum.bootstrap.servers": server,
    }
    del settings["advertised.listeners"]
    assert ServerConfig.of(settings).is_founder is is_founder


def test_an_advertised_address_is_an_address_of_this_controller() -> None:
    settings = parse_properties(SAMPLE) | {
        "advertised.listeners": "PLAINTEXT://server-1:9092,CONTROLLER://server-1:9093",
        "controller.quorum.bootstrap.servers": "server-1:9093",
    }
    assert ServerConfig.of(settings).is_founder


def test_a_process_has_either_role_or_both() -> None:
    assert ServerConfig.of(MEMBER).is_controller
    broker = {"process.roles": "broker", "controller.quorum.voters": "1@one:9093", "node.id": "11"}
    assert not ServerConfig.single_node({**broker, "listeners": "PLAINTEXT://127.0.0.1:0"}).is_founder
