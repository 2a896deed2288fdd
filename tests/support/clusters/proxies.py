"""A network of proxies on the loopback interface, for users who cannot create namespaces.

Each listener of a node is behind a proxy, whose address is the advertised one. The proxy finds out who connects: the
process that has the other end of the socket, in /proc. Every other process is a client. A cut direction stalls: the
proxy forwards nothing of it until it is healed. `delay` holds every piece back for a time.

Differences to a real network: a connection to a host without a process is accepted, then closed, and is not refused. So
voters see no evidence that a leader is gone, and elections take as long as the timeouts of the quorum.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Final

from support.clusters.cluster_network import CLIENTS, ClusterNetwork, Route
from tailrace.config.voters import Address
from tailrace.testing.broker import HOST, reserved_port

PIECE_BYTES: Final = 65536
MAX_CONNECTIONS: Final = 1000
CHECK_SECONDS: Final = 0.02
ESTABLISHED: Final = "01"


class ProxyNetwork(ClusterNetwork):
    def __init__(self) -> None:
        self.delay_s = 0.0
        self._cuts: frozenset[tuple[str, str]] = frozenset()
        self._pids: dict[str, int] = {}
        self._routes: dict[tuple[str, int], Route] = {}
        self._reservations: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="proxies")
        self._thread.start()

    def add_host(self, host: str) -> None:
        """Hosts differ by their processes."""

    def route(self, host: str, port: int) -> Route:
        if (host, port) not in self._routes:
            reservation = reserved_port(0)
            self._reservations.append(reservation)
            bound = Address(HOST, reservation.getsockname()[1])
            starting = asyncio.run_coroutine_threadsafe(self._listen(host, bound), self._loop)
            self._routes[host, port] = Route(bound, starting.result())
        return self._routes[host, port]

    async def _listen(self, host: str, bound: Address) -> Address:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
            if len(self._connections) > MAX_CONNECTIONS:
                writer.transport.abort()
            else:
                await self._serve(host, bound, reader, writer)

        server = await asyncio.start_server(accept, HOST, 0)
        self._servers.append(server)
        return Address(HOST, server.sockets[0].getsockname()[1])

    async def _serve(
        self, host: str, bound: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        opened = [writer]
        pumps: list[asyncio.Future[None]] = []
        try:
            peer = writer.get_extra_info("peername")
            source = self._host_at(peer[1]) if peer is not None else CLIENTS  # it has gone again
            await self._pass(source, host)
            inner_reader, inner_writer = await asyncio.open_connection(bound.host, bound.port)
            opened.append(inner_writer)
            pumps.append(asyncio.ensure_future(self._pump(source, host, reader, inner_writer)))
            pumps.append(asyncio.ensure_future(self._pump(host, source, inner_reader, writer)))
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass  # no process listens: the connection is closed
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for each in opened:
                each.transport.abort()

    async def _pump(self, source: str, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(PIECE_BYTES):
                await self._pass(source, target)
                writer.write(piece)
                await writer.drain()
            await self._pass(source, target)  # an end of the connection does not arrive either

    async def _pass(self, source: str, target: str) -> None:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        while (source, target) in self._cuts:
            await asyncio.sleep(CHECK_SECONDS)

    def _host_at(self, port: int) -> str:
        """The host whose process has the socket that is connected from `port`."""
        inode = _inode_of(port)
        if inode is not None:
            for host, pid in list(self._pids.items()):
                if _has_socket(pid, inode):
                    return host
        return CLIENTS

    def command(self, host: str, command: Sequence[str]) -> list[str]:
        return list(command)

    def started(self, host: str, pid: int) -> None:
        self._pids[host] = pid

    def cut(self, source: str, target: str) -> None:
        self._cuts |= {(source, target)}

    def heal(self) -> None:
        self._cuts = frozenset()
        self.delay_s = 0.0

    def enter(self, host: str = CLIENTS) -> None:
        """The process decides: one that is not a node is a client."""

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        for reservation in self._reservations:
            reservation.close()

    async def _end(self) -> None:
        await asyncio.sleep(
            CHECK_SECONDS
        )  # connections that were just accepted begin: a closed server cannot take them
        for server in self._servers:
            server.close()
        while tasks := list(self._connections):
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(CHECK_SECONDS)  # transports close in the next rounds of the loop


def _inode_of(port: int) -> str | None:
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == ESTABLISHED and int(fields[1].rpartition(":")[2], 16) == port:
            return fields[9]
    return None


def _has_socket(pid: int, inode: str) -> bool:
    wanted = f"socket:[{inode}]"
    with suppress(OSError):
        for each in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if str(each.readlink()) == wanted:
                    return True
    return False
