"""The network of a universe: machines by name, links between them, ports that processes listen on, handshakes.

    a process listens           `Process.listen`, then `SimListener.open`
    the host is off, or a       silence: the side that connects asks again, until its time is over
    link is cut
    nothing listens             refused, after a round trip
    a firewall rejects          refused, although the process lives
    the process is paused       connected: its kernel accepts, up to BACKLOG connections
    another process has the     connected to that one (`occupy`)
    port

Within a connection bytes are in order. Between connections there is no order: what was sent last on an old one may
arrive after what was sent on a new one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from errno import EADDRINUSE
from functools import partial
from typing import TYPE_CHECKING, Final

from tailrace.env.network import CloseReason, StreamListener
from tailrace.sim.faults import os_error
from tailrace.sim.link import Link, LinkRules
from tailrace.sim.pipe import Pipe
from tailrace.sim.stream import SimStream

if TYPE_CHECKING:
    from tailrace.sim.process import Process
    from tailrace.sim.universe import Universe

Acceptor = Callable[[SimStream], StreamListener]
"""Called in the process with each connection; returns what shall be notified of it."""

BACKLOG: Final = 64
FIRST_RETRY_US: Final = 1_000_000
NAME_LOOKUP_US: Final = 1_000
LOOPBACK: Final = ("localhost", "127.0.0.1")
_LOOPBACK_RULES: Final = LinkRules(10, 10, 0.0)


class SimListener:
    """A port of a process. Connections wait in the backlog until it is open."""

    def __init__(self, network: SimNetwork, process: Process, port: int, accept: Acceptor) -> None:
        self.process = process
        self.port = port
        self._network = network
        self._accept = accept
        self._backlog: deque[SimStream] = deque()
        self._is_open = False
        self.is_closed = False

    @property
    def is_full(self) -> bool:
        return len(self._backlog) >= BACKLOG

    def open(self) -> None:
        self._is_open = True
        for _ in range(len(self._backlog)):
            self.process.after(0, self._accept_next)

    def arrived(self, stream: SimStream) -> None:
        self._backlog.append(stream)
        if self._is_open:
            self.process.after(0, self._accept_next)

    def _accept_next(self) -> None:
        if self._backlog:
            stream = self._backlog.popleft()
            if not stream.is_closed:
                stream.attach(self._accept(stream))

    def close(self) -> None:
        """Connections in the backlog are closed, others stay."""
        if not self.is_closed:
            self.is_closed = True
            self._network.forget(self)
            backlog, self._backlog = self._backlog, deque()
            for stream in backlog:
                stream.close()


class SimNetwork:
    def __init__(self, universe: Universe, rules: LinkRules) -> None:
        self.rules = rules
        """Of links that have not been used yet."""
        self.describe: Callable[[bytes, bool], str] = lambda data, to_listener: ""
        """Says in the event log what a chunk of a connection is, to or from the side that listens."""
        self._universe = universe
        self._random = universe.random_for("network")
        self._links: dict[tuple[str, str], Link] = {}
        self._ports: dict[tuple[str, int], SimListener] = {}

    # Links

    def link(self, source: str, target: str) -> Link:
        """The direction from one machine to another. Partitions, firewalls and delays are set on it."""
        link = self._links.get((source, target))
        if link is None:
            rules = _LOOPBACK_RULES if source == target else self.rules
            link = self._links[source, target] = Link(source, target, rules.copy(), self._random)
        return link

    def between(self, left: Iterable[str], right: Iterable[str]) -> list[Link]:
        """Both directions of every link between two groups of machines."""
        rights = list(right)
        return [link for a in left for b in rights if a != b for link in (self.link(a, b), self.link(b, a))]

    def heal(self) -> None:
        """No partition, no firewall, no loss; the delays are those of `rules` again."""
        for (source, target), link in self._links.items():
            link.is_cut = link.is_rejecting = False
            link.rejected_ports.clear()
            link.rules = (_LOOPBACK_RULES if source == target else self.rules).copy()
            link.rules.loss_probability = 0.0

    def reset_connections(self, left: str, right: str) -> int:
        """A middlebox forgets the connections between two machines: both sides get resets. Returns how many."""
        count = 0
        for machine, other in ((left, right), (right, left)):
            process = self._universe.machines[machine].process
            for stream in list(process.streams) if process is not None else ():
                if stream.peer_host == other and stream.takes_bytes:
                    count += 1
                    self._universe.push(0, None, stream.reset_by_peer)
        return count

    # Ports

    def listen(self, process: Process, port: int, accept: Acceptor) -> SimListener:
        key = process.machine.name, port
        if key in self._ports:
            raise os_error(EADDRINUSE, f"{key[0]}:{port}")
        listener = self._ports[key] = SimListener(self, process, port, accept)
        process.listeners.append(listener)
        return listener

    def forget(self, listener: SimListener) -> None:
        del self._ports[listener.process.machine.name, listener.port]

    def is_taken(self, machine: str, port: int) -> bool:
        return (machine, port) in self._ports

    # Handshakes

    def of(self, process: Process) -> ProcessNetwork:
        return ProcessNetwork(self, process)

    def connect(self, process: Process, host: str, port: int, listener: StreamListener, timeout_ms: int) -> SimStream:
        name = process.machine.name if host in LOOPBACK else host
        stream = SimStream(process, name, listener)
        if name in self._universe.machines:
            self._ask(stream, port, FIRST_RETRY_US)
            failed = partial(stream.expire, f"{host}:{port} does not answer within {timeout_ms} ms")
            process.after(timeout_ms * 1000, failed)
        else:
            failed = partial(stream.fail, CloseReason.UNREACHABLE, f"{host} has no address")
            process.after(NAME_LOOKUP_US, failed)
        return stream

    def _ask(self, stream: SimStream, port: int, retry_us: int) -> None:
        """Send a SYN."""
        if not stream.is_connecting:
            return
        link = self.link(stream.machine.name, stream.peer_host)
        if link.refuses(port):
            self._refuse(stream, port, "a firewall refuses it")
        elif link.loses():
            text = f"{link.source} → {link.target} connecting"
            self._universe.log.add(link.target, "lost", text, peer=link.source, sent_us=self._universe.time.now_us)
            self._ask_again(stream, port, retry_us)
        else:
            self._after(link, partial(self._asked, stream, port, retry_us))

    def _ask_again(self, stream: SimStream, port: int, retry_us: int) -> None:
        self._universe.push(retry_us, None, partial(self._ask, stream, port, 2 * retry_us))

    def _after(self, link: Link, action: Callable[[], object]) -> None:
        now_us = self._universe.time.now_us
        self._universe.push(link.arrival_us(now_us, 0) - now_us, None, action)

    def _asked(self, stream: SimStream, port: int, retry_us: int) -> None:
        """A SYN has arrived, or not."""
        target, source = stream.peer_host, stream.machine.name
        back = self.link(target, source)
        listener = self._ports.get((target, port))
        is_silent = (
            self.link(source, target).is_cut
            or not self._universe.machines[target].is_on
            or (listener is not None and listener.is_full)
            or back.loses()
        )
        if is_silent:
            self._ask_again(stream, port, retry_us)
        elif listener is None:
            self._refuse(stream, port, "nothing listens there")
        else:
            self._after(back, partial(self._establish, stream, listener))

    def _refuse(self, stream: SimStream, port: int, why: str) -> None:
        detail = f"{stream.peer_host}:{port} refuses: {why}"
        back = self.link(stream.peer_host, stream.machine.name)
        self._after(back, partial(stream.fail, CloseReason.REFUSED, detail))

    def _establish(self, stream: SimStream, listener: SimListener) -> None:
        """The listening side has answered the SYN."""
        if not stream.is_connecting:
            return
        source, target = stream.machine.name, stream.peer_host
        accepted = SimStream(listener.process, source, None)
        forth, back = self.link(source, target), self.link(target, source)
        outwards = Pipe(self._universe, stream, accepted, forth, back)
        inwards = Pipe(self._universe, accepted, stream, back, forth)
        accepted.open(inwards, outwards, listener)
        if listener.is_closed or not listener.process.is_alive:
            accepted.discard()
        stream.open(outwards, inwards)
        self._universe.log.add(source, "connect", f"{source} → {target}:{listener.port}")
        stream.connected()


class ProcessNetwork:
    """Implements `env.Network` for one process."""

    def __init__(self, network: SimNetwork, process: Process) -> None:
        self._network = network
        self._process = process

    def connect(self, host: str, port: int, listener: StreamListener, timeout_ms: int) -> SimStream:
        return self._network.connect(self._process, host, port, listener, timeout_ms)
