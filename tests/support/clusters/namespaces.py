"""A network of namespaces: one for each host, with a router between them that can drop packets by source and target.

    host 1 ── veth ──┐
    host 2 ── veth ──┤ router     `ip rule … blackhole` drops packets of one direction
    clients ─ veth ──┘

Nothing is created outside of these namespaces, and nothing in them can be reached from outside. Their names have the
pid of the process that created them: what a killed process has left is removed by the next one.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from support.clusters.cluster_network import CLIENTS, ClusterNetwork, Route
from tailrace.config.voters import Address

NAMESPACES: Final = Path("/run/netns")
PREFIX: Final = "tailrace-test-"
MAX_HOSTS: Final = 32
COMMAND_TIMEOUT_SECONDS: Final = 30
CLONE_NEWNET: Final = 0x40000000

_numbers = itertools.count()


def can_create_namespaces() -> bool:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"{PREFIX}{os.getpid()}-probe"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, timeout=COMMAND_TIMEOUT_SECONDS).returncode:
        return False
    _ip("netns", "del", name)
    return True


class NamespaceNetwork(ClusterNetwork):
    def __init__(self) -> None:
        remove_abandoned()
        self._prefix = f"{PREFIX}{os.getpid()}-{next(_numbers)}-"
        self._router = f"{self._prefix}router"
        self._indexes: dict[str, int] = {}
        self._cuts: set[tuple[str, str]] = set()
        _ip("netns", "add", self._router)
        forward = "echo 1 > /proc/sys/net/ipv4/ip_forward"
        _run("ip", "netns", "exec", self._router, "sh", "-c", forward)
        self.add_host(CLIENTS)

    def add_host(self, host: str) -> None:
        index = len(self._indexes) + 1
        if index > MAX_HOSTS:
            raise ValueError(f"a network has at most {MAX_HOSTS} hosts")
        self._indexes[host] = index
        name, near = self._namespace(host), f"link{index}"
        _ip("netns", "add", name)
        _ip("-n", self._router, "link", "add", near, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("-n", self._router, "address", "add", f"10.213.{index}.1/24", "dev", near)
        _ip("-n", self._router, "link", "set", near, "up")
        _ip("-n", name, "address", "add", f"{self._address(host)}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", name, "route", "add", "default", "via", f"10.213.{index}.1")

    def _namespace(self, host: str) -> str:
        return self._prefix + host

    def _address(self, host: str) -> str:
        return f"10.213.{self._indexes[host]}.2"

    def route(self, host: str, port: int) -> Route:
        address = Address(self._address(host), port)
        return Route(address, address)

    def command(self, host: str, command: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", self._namespace(host), *command]

    def started(self, host: str, pid: int) -> None:
        """The namespace says which host it is."""

    def cut(self, source: str, target: str) -> None:
        if (source, target) not in self._cuts:
            self._rule("add", source, target)
            self._cuts.add((source, target))

    def heal(self) -> None:
        for source, target in sorted(self._cuts):
            self._rule("del", source, target)
        self._cuts.clear()

    def _rule(self, action: str, source: str, target: str) -> None:
        ends = ("from", self._address(source), "to", self._address(target))
        _ip("-n", self._router, "rule", action, *ends, "blackhole")

    def enter(self, host: str = CLIENTS) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        with (NAMESPACES / self._namespace(host)).open() as namespace:
            if libc.setns(namespace.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"cannot enter the namespace of {host}")

    def close(self) -> None:
        _remove(self._prefix)


def remove_abandoned() -> None:
    """Remove the namespaces of processes that have ended."""
    if not NAMESPACES.is_dir():
        return
    owners = {each.name.removeprefix(PREFIX).partition("-")[0] for each in NAMESPACES.glob(f"{PREFIX}*")}
    for pid in owners:
        if not Path(f"/proc/{pid}").exists():
            _remove(f"{PREFIX}{pid}-")


def _remove(prefix: str) -> None:
    """Another process may be removing them, too."""
    for each in NAMESPACES.glob(f"{prefix}*"):
        with suppress(subprocess.CalledProcessError):
            _ip("netns", "del", each.name)


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=COMMAND_TIMEOUT_SECONDS)
