"""The network between the processes of a cluster, with faults.

Each node has a host, and the test's clients share the host CLIENTS. `cut` drops everything from one host to another, in
this direction only: requests pass and responses do not, or the other way round. Connections that are open stall.

`open_network` returns a `NamespaceNetwork` where network namespaces can be created, else a `ProxyNetwork`. The variable
TAILRACE_CLUSTER_NETWORK is `namespaces` or `proxies` to require one of them.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, NamedTuple

from tailrace.config.voters import Address

CLIENTS: Final = "clients"
KIND_VARIABLE: Final = "TAILRACE_CLUSTER_NETWORK"


class Route(NamedTuple):
    """Where a process listens, and where others reach it."""

    bound: Address
    advertised: Address


class ClusterNetwork(ABC):
    @abstractmethod
    def add_host(self, host: str) -> None: ...

    @abstractmethod
    def route(self, host: str, port: int) -> Route:
        """To what listens on `port` of a host. The same whenever it is called."""

    @abstractmethod
    def command(self, host: str, command: Sequence[str]) -> list[str]:
        """`command`, so that it runs on a host."""

    @abstractmethod
    def started(self, host: str, pid: int) -> None:
        """The process of a host is this one now."""

    @abstractmethod
    def cut(self, source: str, target: str) -> None: ...

    @abstractmethod
    def heal(self) -> None:
        """Undo all faults."""

    @abstractmethod
    def enter(self, host: str = CLIENTS) -> None:
        """From now on the sockets that the calling thread creates are those of a host."""

    @abstractmethod
    def close(self) -> None:
        """Remove everything. The processes have ended before."""


def open_network() -> ClusterNetwork:
    from support.clusters.namespaces import NamespaceNetwork, can_create_namespaces
    from support.clusters.proxies import ProxyNetwork

    kind = os.environ.get(KIND_VARIABLE) or ("namespaces" if can_create_namespaces() else "proxies")
    return {"namespaces": NamespaceNetwork, "proxies": ProxyNetwork}[kind]()
