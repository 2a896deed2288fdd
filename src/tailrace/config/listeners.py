"""Where a process listens, what it tells others to connect to, and by which protocol: Kafka's listener settings.

    listeners=PLAINTEXT://:9092,CONTROLLER://[::1]:9093      NAME://HOST:PORT, separated by commas
    listener.security.protocol.map=CONTROLLER:PLAINTEXT,…    NAME:PROTOCOL

An empty host is every address of the machine; port 0 is any free port. Names are compared in capitals.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tailrace.config.table import MAX_INT, Effect, Kind, Mode, choice, key, plain, text_list

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
WILDCARD_HOSTS: Final = frozenset({"", "0.0.0.0", "::"})
"""Of a listener on every address of the machine."""
DEFAULT_PROTOCOL_MAP: Final = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"

_LISTENER: Final = re.compile(r"([A-Za-z0-9._-]+)://(\[[0-9A-Fa-f:.%]+\]|[^\[\]:/@\s]*):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Listener:
    name: str
    host: str
    """Without brackets; empty for every address of the machine."""
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class _Listeners:
    kind: Final = Kind.LIST

    def __call__(self, text: str) -> tuple[Listener, ...]:
        found = tuple(parse_listener(part) for part in text_list(text))
        if not found:
            raise ValueError("must name at least one listener")
        twice = [name for name, count in Counter(listener.name for listener in found).items() if count > 1]
        if twice:
            raise ValueError(f"each listener must have a name of its own, {twice[0]} is there twice")
        return found


def parse_listener(text: str) -> Listener:
    matched = _LISTENER.fullmatch(text)
    if matched is None or int(matched[3]) > 65_535:
        raise ValueError(f"{text} is not of the form NAME://HOST:PORT")
    return Listener(matched[1].upper(), matched[2].strip("[]"), int(matched[3]))


listener_list: Final = _Listeners()


def protocol_map(text: str) -> dict[str, str]:
    """Protocols by name of listener."""
    found = {}
    for part in text_list(text):
        name, colon, protocol = part.rpartition(":")
        if not colon or not name or protocol.upper() not in SECURITY_PROTOCOLS:
            raise ValueError(f"{part} is not of the form NAME:PROTOCOL, with one of {', '.join(SECURITY_PROTOCOLS)}")
        found[name.strip().upper()] = protocol.upper()
    return found


def _protocol_map_text(text: str) -> str:
    protocol_map(text)
    return text


def per_ip_overrides(text: str) -> dict[str, int]:
    """`host:count,127.0.0.1:200`; of an IPv6 address the last colon counts."""
    found = {}
    for part in text_list(text):
        host, colon, count = part.rpartition(":")
        if not colon or not host or not count.isascii() or not count.isdecimal() or int(count) > MAX_INT:
            raise ValueError(f"{part} is not of the form HOST:COUNT")
        found[host.strip("[]")] = int(count)
    return found


def _per_ip_text(text: str) -> str:
    per_ip_overrides(text)
    return text


def effective_protocols(
    given_map: str | None, listeners: Iterable[str], controller_listeners: Iterable[str]
) -> Mapping[str, str]:
    """The protocol of each name. Without a map, controllers' listeners are PLAINTEXT unless something is secured."""
    protocols = protocol_map(DEFAULT_PROTOCOL_MAP if given_map is None else given_map)
    controllers = tuple(controller_listeners)
    secured = {name for name in SECURITY_PROTOCOLS if name != "PLAINTEXT"}
    if given_map is None and not secured & {*listeners, *controllers}:
        for name in controllers:
            protocols.setdefault(name, "PLAINTEXT")
    return protocols


@dataclass(frozen=True)
class ListenerConfig:
    listeners: tuple[Listener, ...] = key(
        (Listener("PLAINTEXT", "", 9092),), listener_list, "where to listen: NAME://HOST:PORT, separated by commas"
    )
    advertised_listeners: tuple[Listener, ...] = key(
        None, listener_list, "where clients and other brokers are told to connect to; as listeners when not given"
    )
    listener_security_protocol_map: str = key(
        DEFAULT_PROTOCOL_MAP, _protocol_map_text, "the protocol of each listener: NAME:PROTOCOL, separated by commas"
    )
    inter_broker_listener_name: str = key(
        None,
        plain,
        "the listener that brokers use among themselves; that of security.inter.broker.protocol if not given",
    )
    security_inter_broker_protocol: str = key(
        "PLAINTEXT", choice(*SECURITY_PROTOCOLS), "the protocol between brokers, in place of a listener's name"
    )
    early_start_listeners: tuple[str, ...] | None = key(
        None, text_list, "listeners that open before the authorizer is ready", effect=Effect.NONE
    )
    max_connections_per_ip_overrides: str = key(
        "", _per_ip_text, "max.connections.per.ip for single hosts: HOST:COUNT, separated by commas", mode=Mode.CLUSTER
    )

    @property
    def connection_limits_by_host(self) -> Mapping[str, int]:
        return per_ip_overrides(self.max_connections_per_ip_overrides)
