"""The first voters of a cluster as a command line names them, `kafka-storage format --initial-controllers`:

    1@controller-1:9093:JEXY6aqzQY-32P5TStzaFg,2@[::1]:9094:MvDxzVmcRsaTz33bUuRU6A

Each is the node id, the host and port of its controller listener, and the id of the directory in which it keeps the
metadata log. All nodes of a cluster must be formatted with the same list: each writes it to a snapshot at offset 0, and
these snapshots count as equal. Therefore voters are sorted by node id, and an IPv6 address has the long form in which
Kafka writes it.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from tailrace.config.table import MAX_INT, ConfigError
from tailrace.config.voters import address
from tailrace.model.ids import DirectoryId
from tailrace.raft.voters import QuorumEndpoint, Voter

_CONTROLLER: Final = re.compile(r"([0-9]{1,10})@(.+):([^:]+)")


def initial_controllers(text: str, listener: str) -> tuple[Voter, ...]:
    """`listener` is the name of the controller listener at these addresses. Raises ConfigError."""
    voters = [_voter(part.strip(), listener) for part in text.split(",") if part.strip()]
    if not voters:
        raise ConfigError("the list of initial controllers is empty")
    for what, found in (
        ("node id", [voter.node_id for voter in voters]),
        ("directory id", [voter.directory_id for voter in voters]),
        ("address", [voter.endpoints for voter in voters]),
    ):
        if len(set(found)) < len(found):
            raise ConfigError(f"two of the initial controllers have the same {what}: {text}")
    return tuple(sorted(voters))


def initial_controller(node_id: int, directory_id: DirectoryId, listener: str, host: str, port: int) -> Voter:
    """Raises ConfigError for an address that other nodes cannot connect to."""
    if not port:
        raise ConfigError(f"the address of controller {node_id}, {host}:0, has no port")
    return Voter(node_id, directory_id, (QuorumEndpoint(listener, _host_of_record(host), port),))


def _voter(text: str, listener: str) -> Voter:
    matched = _CONTROLLER.fullmatch(text)
    if matched is None or int(matched[1]) > MAX_INT:
        raise ConfigError(f"{text} is not of the form ID@HOST:PORT:DIRECTORY-ID")
    try:
        where, directory_id = address(matched[2]), DirectoryId.parse(matched[3])
    except ValueError as error:
        raise ConfigError(f"{text} is not of the form ID@HOST:PORT:DIRECTORY-ID: {error}") from None
    if directory_id.is_reserved:
        raise ConfigError(f"{text} has the directory id {directory_id}, which is reserved")
    return initial_controller(int(matched[1]), directory_id, listener, where.host, where.port)


def _host_of_record(host: str) -> str:
    """Java's text of an address. A name is left as it is, and so is an address with a zone, which is of one machine."""
    try:
        parsed = ipaddress.IPv6Address(host)
    except ValueError:
        return host
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    if parsed.scope_id is not None:
        return host
    return ":".join(f"{int(part, 16):x}" for part in parsed.exploded.split(":"))
