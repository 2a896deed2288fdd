"""Addresses of host names, looked up by jobs: a lookup may take seconds, and the reactor never waits.

A literal address needs no lookup. At most `MAX_LOOKUPS` run at a time, and lookups of one name are shared: a name
server that does not respond must not occupy the threads that sync files.

Who may call. The owner's thread.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from tailrace.env import Jobs

MAX_LOOKUPS: Final = 2
MAX_ADDRESSES: Final = 16
"""Of one name. Further ones are ignored."""


class SocketAddress(NamedTuple):
    family: int
    address: tuple[Any, ...]

    def __str__(self) -> str:
        return str(self.address[0])


Resolved = Callable[[list[SocketAddress] | str], None]
"""Is called with at least one address, or with the reason why the name has no address."""

Lookup = Callable[..., list[tuple[Any, ...]]]


class NameResolver:
    def __init__(self, jobs: Jobs, lookup: Lookup = socket.getaddrinfo) -> None:
        self._jobs = jobs
        self._lookup = lookup
        self._waiting: dict[tuple[str, int], list[Resolved]] = {}
        self._queue: deque[tuple[str, int]] = deque()
        self._running = 0

    def resolve(self, host: str, port: int, done: Resolved) -> None:
        """`done` is called at once for a literal address, and else later."""
        if not host or not 0 < port < 1 << 16:
            done(f"not an address: {host!r} port {port}")
            return
        try:
            literal = host.encode() if _looks_literal(host) else host
            done(_addresses(self._lookup(literal, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)))
        except socket.gaierror:
            self._enqueue((host, port), done)
        except (OSError, ValueError) as error:
            done(f"not a host name: {host!r}: {error}")

    def _enqueue(self, name: tuple[str, int], done: Resolved) -> None:
        waiting = self._waiting.get(name)
        if waiting is not None:
            waiting.append(done)
            return
        self._waiting[name] = [done]
        self._queue.append(name)
        self._start_lookups()

    def _start_lookups(self) -> None:
        while self._queue and self._running < MAX_LOOKUPS:
            name = self._queue.popleft()
            self._running += 1
            host, port = name
            self._jobs.run(
                "resolve-name",
                partial(self._lookup, host, port, type=socket.SOCK_STREAM),
                partial(self._found, name),
                partial(self._failed, name),
            )

    def _found(self, name: tuple[str, int], entries: list[tuple[Any, ...]]) -> None:
        self._finish(name, _addresses(entries))

    def _failed(self, name: tuple[str, int], error: Exception) -> None:
        self._finish(name, f"{name[0]}: {getattr(error, 'strerror', None) or error}")

    def _finish(self, name: tuple[str, int], result: list[SocketAddress] | str) -> None:
        self._running -= 1
        waiting = self._waiting.pop(name)
        self._start_lookups()
        for done in waiting:
            done(result)


def _looks_literal(host: str) -> bool:
    """Python loads its tables of international host names to look up a string, also an address; bytes need none."""
    return host.isascii() and (":" in host or host.replace(".", "").isdecimal())


def _addresses(entries: list[tuple[Any, ...]]) -> list[SocketAddress]:
    """Without duplicates, in the order of the system's preference."""
    found = dict.fromkeys(SocketAddress(family, address) for family, _, _, _, address in entries)
    return list(found)[:MAX_ADDRESSES]
