"""What a process's settings must be together, and what they may not ask for because it is not built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tailrace.config.broker import BrokerConfig
from tailrace.config.listeners import Listener, ListenerConfig, effective_protocols
from tailrace.config.security import SecurityConfig
from tailrace.config.table import ConfigError, Effect, Key, keys_of

if TYPE_CHECKING:
    from tailrace.config.server import ServerConfig

_SECURITY_KEYS: Final = frozenset(keys_of(SecurityConfig)) | {"security.inter.broker.protocol"}
_UNSECURED: Final = (
    "there is no encryption, authentication or authorisation yet, and a broker that was meant to be closed must not "
    "open; take the setting out only if everybody who can reach the port may read and write everything"
)


def check_what_is_built(row: Key, text: str, value: Any) -> None:
    """ConfigError for a value that asks for what does not exist, where going on without it would break a promise."""
    if row.effect is not Effect.REFUSED or value == row.default or not text.strip():
        return
    if row.name in _SECURITY_KEYS:
        raise ConfigError(f"{row.name}={row.shown(text)}: {_UNSECURED}")
    if row.name == "remote.log.storage.system.enable":
        raise ConfigError(f"{row.name}={text}: tiered storage does not exist yet; take the setting out")
    raise ConfigError(f"{row.name}={text}: Java classes cannot be loaded here; take the setting out")


def check_listener_prefix(name: str, text: str) -> None:
    """`listener.name.NAME.KEY` is a setting of one listener; the prefix of security."""
    base = name.split(".", 3)[-1]
    if any(base == key or base.endswith("." + key) for key in _SECURITY_KEYS):
        raise ConfigError(f"{name}: {_UNSECURED}")


def effective_listeners(values: Mapping[str, Any], given: Mapping[str, str], broker: BrokerConfig) -> dict[str, Any]:
    """The fields whose default is another setting's value."""
    controllers = values.get("controller_listener_names", ())
    listeners: tuple[Listener, ...] = values.get("listeners", keys_of(ListenerConfig)["listeners"].default)
    advertised: tuple[Listener, ...] = values.get("advertised_listeners", listeners)
    inter_broker = values.get("inter_broker_listener_name", "").upper()
    return {
        "advertised_listeners": tuple(each for each in advertised if each.name not in controllers),
        "inter_broker_listener_name": inter_broker or values.get("security_inter_broker_protocol", "PLAINTEXT"),
        "node_id": values.get("node_id", values.get("broker_id", -1)),
        "broker_id": values.get("broker_id", values.get("node_id", -1)),
        "metadata_log_dir": given.get("metadata.log.dir", "").strip().rstrip("/") or broker.directories[0],
    }


def check_server(config: ServerConfig, settings: Mapping[str, str]) -> None:
    """What must hold of a process that is going to serve, in either role or both."""
    for name, text in settings.items():
        if name.startswith("listener.name."):
            check_listener_prefix(name, text)
    check_storage(config)
    _check_protocols(config)
    _check_addresses(config)
    if config.is_broker:
        _check_broker_listeners(config)
    _check_numbers(config)


def check_storage(config: ServerConfig) -> None:
    """What must hold of a node whose directories are formatted, whatever runs on them: Tailrace or Kafka."""
    _check_identity(config)
    _check_roles(config)
    _check_voters(config)


def _check_identity(config: ServerConfig) -> None:
    if not config.process_roles:
        raise ConfigError("process.roles: must be given", "set it to broker, to controller or to broker,controller")
    if config.node_id < 0:
        raise ConfigError("node.id: must be given, a number from 0", "give each node of the cluster another number")
    if config.broker_id != config.node_id:
        raise ConfigError(f"broker.id={config.broker_id}: must be the same as node.id={config.node_id}")
    if not config.controller_listener_names:
        raise ConfigError(
            "controller.listener.names: must be given",
            "name the listener of the controllers on all nodes: controller.listener.names=CONTROLLER",
        )


def _check_roles(config: ServerConfig) -> None:
    """Which listeners the roles need, and which they exclude."""
    names = config.controller_listener_names
    named = {each.name for each in config.listeners} & set(names)
    if config.is_controller and not named:
        raise ConfigError(
            f"controller.listener.names={','.join(names)}: none is among listeners",
            f"add a listener for the controller, such as {names[0]}://:9093, or take controller out of process.roles",
        )
    if named and not config.is_controller:
        raise ConfigError(
            f"listeners: {min(named)} is a controller listener, and process.roles has no controller",
            "remove it from listeners, or add controller to process.roles",
        )
    others = {each.name for each in config.listeners} - named
    if others and not config.is_broker:
        raise ConfigError(
            f"listeners: {min(others)} is not in controller.listener.names, and process.roles has no broker",
            "remove it from listeners, or add broker to process.roles",
        )


def _check_protocols(config: ServerConfig) -> None:
    """Nothing may listen, or be said to, by a protocol that does not exist."""
    given = config.settings.get("listener.security.protocol.map")
    names = [each.name for each in (*config.listeners, *config.advertised_listeners)]
    protocols = effective_protocols(given, names, config.controller_listener_names)
    for name in (*names, *config.controller_listener_names):
        protocol = protocols.get(name)
        if protocol is None:
            raise ConfigError(f"listener.security.protocol.map: names no protocol for the listener {name}")
        if protocol != "PLAINTEXT":
            raise ConfigError(
                f"listeners: {name} is of protocol {protocol}: {_UNSECURED}. "
                "A listener of protocol PLAINTEXT is what there is"
            )
    if config.security_inter_broker_protocol != "PLAINTEXT":
        raise ConfigError(f"security.inter.broker.protocol={config.security_inter_broker_protocol}: {_UNSECURED}")


def _check_addresses(config: ServerConfig) -> None:
    ports = [(each.host, each.port) for each in config.listeners if each.port]
    if len(set(ports)) < len(ports):
        raise ConfigError("listeners: each listener must have a separate address")


def _check_broker_listeners(config: ServerConfig) -> None:
    names = {each.name for each in config.listeners}
    if not config.broker_listeners:
        raise ConfigError(
            "listeners: at least one must not be a controller's",
            "add a listener for clients, such as PLAINTEXT://:9092, or take broker out of process.roles",
        )
    advertised = {each.name for each in config.advertised_listeners}
    if not advertised or not advertised <= names:
        raise ConfigError(f"advertised.listeners: must name listeners, which are {', '.join(sorted(names))}")
    if any(each.host == "0.0.0.0" for each in config.advertised_listeners):
        raise ConfigError(
            "advertised.listeners: nobody can connect to 0.0.0.0; say there by which address clients reach this broker"
        )
    both = {"inter.broker.listener.name", "security.inter.broker.protocol"} <= config.settings.keys()
    if both:
        raise ConfigError("inter.broker.listener.name: excludes security.inter.broker.protocol; give only one of them")
    if config.inter_broker_listener_name not in advertised:
        raise ConfigError(
            f"inter.broker.listener.name={config.inter_broker_listener_name}: must be one of advertised.listeners, "
            f"which are {', '.join(sorted(advertised))}"
        )


def _check_voters(config: ServerConfig) -> None:
    node_id = config.node_id
    voters = [voter.id for voter in config.controller_quorum_voters]
    if not voters and not config.controller_quorum_bootstrap_servers:
        raise ConfigError(
            "controller.quorum.bootstrap.servers: must be given, or controller.quorum.voters",
            "name the controller listeners: controller.quorum.bootstrap.servers=HOST:PORT,HOST:PORT",
        )
    if voters and config.is_controller and node_id not in voters:
        raise ConfigError(
            f"controller.quorum.voters: must contain this node, {node_id}",
            f"add {node_id}@HOST:PORT to it on all nodes, or take controller out of process.roles",
        )
    if node_id in voters and not config.is_controller:
        raise ConfigError(
            f"controller.quorum.voters: contains this node, {node_id}, which is not a controller",
            "add controller to process.roles, or give this node another node.id",
        )


def _check_numbers(config: ServerConfig) -> None:
    if config.broker_heartbeat_interval_ms > config.broker_session_timeout_ms // 2:
        raise ConfigError(
            f"broker.heartbeat.interval.ms={config.broker_heartbeat_interval_ms}: must be at most half of "
            f"broker.session.timeout.ms={config.broker_session_timeout_ms}"
        )
    if config.replica_fetch_wait_max_ms > config.replica_socket_timeout_ms:
        raise ConfigError(
            f"replica.socket.timeout.ms={config.replica_socket_timeout_ms}: must be at least "
            f"replica.fetch.wait.max.ms={config.replica_fetch_wait_max_ms}"
        )
    if config.replica_fetch_wait_max_ms > config.replica_lag_time_max_ms:
        raise ConfigError(
            f"replica.fetch.wait.max.ms={config.replica_fetch_wait_max_ms}: must be at most "
            f"replica.lag.time.max.ms={config.replica_lag_time_max_ms}"
        )
    if 0 < config.queued_max_request_bytes < config.socket_request_max_bytes:
        raise ConfigError(
            f"queued.max.request.bytes={config.queued_max_request_bytes}: must be at least "
            f"socket.request.max.bytes={config.socket_request_max_bytes}"
        )
    if config.max_connections_per_ip == 0 and not config.connection_limits_by_host:
        raise ConfigError("max.connections.per.ip=0: lets nobody in unless max.connections.per.ip.overrides is given")
