"""Settings of a whole process, broker and controller: Kafka's keys, as in a properties file.

`ServerConfig.of(settings)` parses, checks each value and how they go together, and refuses with the key named. The
fields come from the tables of the modules beside this one, one for each subject; those of logs are in `broker`.

What is not built stops the start where ignoring it would break a promise (security, tiered storage, Java classes), and
is accepted where it would not; `docs/configuration.md` says which is which. A key that Kafka does not know is put
into `unknown` for a warning, as Kafka does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from socket import gethostname
from types import MappingProxyType
from typing import Any, Final

from tailrace.config.broker import BrokerConfig
from tailrace.config.groups import GroupConfig
from tailrace.config.listeners import WILDCARD_HOSTS, Listener, ListenerConfig
from tailrace.config.network import NetworkConfig
from tailrace.config.quorum import QuorumConfig
from tailrace.config.replication import ReplicationConfig
from tailrace.config.reporting import ReportingConfig
from tailrace.config.security import SecurityConfig
from tailrace.config.server_checks import (
    check_server,
    check_storage,
    check_what_is_built,
    effective_listeners,
)
from tailrace.config.share_groups import ShareGroupConfig
from tailrace.config.table import ConfigError, Key, keys_of
from tailrace.config.tiered import TieredConfig
from tailrace.config.topics import TopicCreationConfig
from tailrace.config.transactions import TransactionConfig
from tailrace.config.voters import Address

# What Kafka's own sample of a single node's properties says, as far as it is not the default.
SINGLE_NODE: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "/tmp/kraft-combined-logs",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


@dataclass(frozen=True)
class ServerConfig(
    QuorumConfig,
    ListenerConfig,
    NetworkConfig,
    TopicCreationConfig,
    ReplicationConfig,
    GroupConfig,
    TransactionConfig,
    ShareGroupConfig,
    ReportingConfig,
    TieredConfig,
    SecurityConfig,
):
    broker: BrokerConfig = field(default_factory=BrokerConfig)
    settings: Mapping[str, str] = field(default_factory=dict)
    """What was given, as text, of the keys that are known."""
    unknown: tuple[str, ...] = ()
    """What was given and is no key of Kafka's or ours: to be warned about."""

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> ServerConfig:
        """Of a process that is going to serve."""
        _check_built(settings)
        config = cls._parsed(settings)
        check_server(config, settings)
        return config

    @classmethod
    def for_storage(cls, settings: Mapping[str, str]) -> ServerConfig:
        """Of a node whose directories are looked at or formatted: any roles, and settings that are not built yet."""
        config = cls._parsed(settings)
        check_storage(config)
        return config

    @classmethod
    def _parsed(cls, settings: Mapping[str, str]) -> ServerConfig:
        known, own, values = server_keys(), keys_of(cls), dict[str, Any]()
        given = {name: text for name, text in settings.items() if name in known}
        for name, text in given.items():
            value = known[name].parsed(text)
            if name in own:
                values[own[name].field] = value
        broker = BrokerConfig.of({name: text for name, text in given.items() if name not in own})
        values |= effective_listeners(values, given, broker)
        given |= {name: str(values["node_id"]) for name in ("node.id", "broker.id") if name not in given}
        unknown = tuple(name for name in settings if name not in known and not _is_of_a_plugin(name))
        return cls(**values, broker=broker, settings=MappingProxyType(given), unknown=unknown)

    @classmethod
    def single_node(cls, settings: Mapping[str, str]) -> ServerConfig:
        """One node alone, on this machine only: Kafka's sample values where `settings` say nothing else.

        Where `listeners` names no listener of a controller, one is added on any free port of the same host.
        """
        merged = {**SINGLE_NODE, **settings}
        if "log.dir" in settings and "log.dirs" not in settings:
            del merged["log.dirs"]
        if "controller" not in merged["process.roles"]:
            return cls.of(merged)
        controllers = {name.strip().upper() for name in merged["controller.listener.names"].split(",")} - {""}
        listeners = keys_of(ListenerConfig)["listeners"].parsed(merged["listeners"])
        if controllers and not controllers & {listener.name for listener in listeners}:
            controller = Listener(min(controllers), listeners[0].host, 0)
            listeners = (*listeners, controller)
            merged["listeners"] = ",".join(map(str, listeners))
        if not {"controller.quorum.voters", "controller.quorum.bootstrap.servers"} & settings.keys():
            chosen = next((listener for listener in listeners if listener.name in controllers), listeners[0])
            host = f"[{chosen.host}]" if ":" in chosen.host else chosen.host or "localhost"
            merged["controller.quorum.bootstrap.servers"] = f"{host}:{chosen.port}"
        return cls.of(merged)

    def with_settings(self, settings: Mapping[str, str]) -> ServerConfig:
        """Of the same node with other settings, under the same checks."""
        return ServerConfig.of(settings)

    # Views

    @property
    def is_broker(self) -> bool:
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.process_roles

    @property
    def is_founder(self) -> bool:
        """Whether this node may create its cluster at its first start: its settings name no other controller."""
        if not self.is_controller:
            return False
        voters, servers = self.controller_quorum_voters, self.controller_quorum_bootstrap_servers
        if voters:
            return len(voters) == 1
        return len(servers) == 1 and servers[0] in self._controller_addresses

    @property
    def is_alone(self) -> bool:
        """Whether this node stays the only controller of its cluster: no other controller could find it.

        The voters are static, or its only controller listener takes any free port.
        """
        servers = self.controller_quorum_bootstrap_servers
        return self.is_founder and (bool(self.controller_quorum_voters) or servers[0].port == 0)

    @property
    def _controller_addresses(self) -> set[Address]:
        """By which other nodes could reach the controller listeners of this node."""
        listeners = (*self.controller_listeners, *self.advertised_controller_listeners)
        found = {Address(each.host, each.port) for each in listeners}
        for each in self.controller_listeners:
            if each.host in WILDCARD_HOSTS:
                found |= {Address(host, each.port) for host in ("localhost", "127.0.0.1", "::1", gethostname())}
        return found

    @property
    def broker_listeners(self) -> tuple[Listener, ...]:
        return tuple(each for each in self.listeners if each.name not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        return tuple(each for each in self.listeners if each.name in self.controller_listener_names)

    @property
    def advertised_controller_listeners(self) -> tuple[Listener, ...]:
        """Where the others reach this controller, in the order of controller.listener.names; an empty host if any."""
        text = self.settings.get("advertised.listeners")
        advertised = keys_of(ListenerConfig)["advertised.listeners"].parsed(text) if text else ()
        found = {each.name: each for each in (*self.listeners, *advertised)}
        return tuple(found[name] for name in self.controller_listener_names if name in found)

    @property
    def min_insync_replicas(self) -> int:
        return self.broker.topic_defaults.min_insync_replicas

    @property
    def unclean_leader_election_enable(self) -> bool:
        return self.broker.topic_defaults.unclean_leader_election_enable


def _check_built(settings: Mapping[str, str]) -> None:
    for name, text in settings.items():
        if name in _KEYS:
            check_what_is_built(_KEYS[name], text, _KEYS[name].parsed(text))


def server_keys() -> dict[str, Key]:
    """Every key of a process: of its tables, of its logs, of the defaults for topics."""
    return _KEYS


_PLUGIN_PREFIXES: Final = ("rsm.config.", "rlmm.config.")


def _is_of_a_plugin(name: str) -> bool:
    """For whoever stores remote segments; without tiered storage nobody reads it."""
    return name.startswith(_PLUGIN_PREFIXES)


_KEYS: Final = {**keys_of(ServerConfig), **BrokerConfig.keys()}

__all__ = ["SINGLE_NODE", "ConfigError", "Listener", "ServerConfig", "server_keys"]
