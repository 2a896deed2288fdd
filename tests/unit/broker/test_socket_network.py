"""Streams to other nodes over the loopback interface."""

from __future__ import annotations

import errno
import os
import queue
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from support.brokers.reactor_thread import TIMEOUT_S, ReactorThread, RecordedStream
from tailrace.broker import socket_network
from tailrace.broker.name_resolution import MAX_ADDRESSES, MAX_LOOKUPS, NameResolver
from tailrace.broker.reactor import Reactor
from tailrace.env import CloseReason, InlineJobs

HOST = "127.0.0.1"


@pytest.fixture
def loop() -> Iterator[ReactorThread]:
    with closing(ReactorThread()) as loop:
        yield loop


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server((HOST, 0)) as server:
        server.settimeout(TIMEOUT_S)
        yield server


def unused_port(host: str = HOST) -> int:
    with socket.create_server((host, 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def silent() -> Iterator[socket.socket]:
    """A listener with a full backlog: the system drops further attempts to connect, like a firewall."""
    with socket.socket() as server, socket.socket() as first, socket.socket() as second:
        server.bind((HOST, 0))
        server.listen(0)
        for client in (first, second):
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield server


def connected(loop: ReactorThread, listening: socket.socket) -> tuple[RecordedStream, socket.socket]:
    recorded = loop.connect(*listening.getsockname())
    other, _ = listening.accept()
    other.settimeout(TIMEOUT_S)
    assert recorded.event() == "connected"
    return recorded, other


def read_fully(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = sock.recv(1 << 20)
        assert part, f"the stream ended after {len(data)} of {size} bytes"
        data += part
    return bytes(data)


# Bytes


def test_bytes_go_both_ways_and_the_end_is_reported_last(loop: ReactorThread, listening: socket.socket) -> None:
    recorded, other = connected(loop, listening)
    with other:
        assert recorded.send(b"re", b"", b"quest") == 0
        assert read_fully(other, 7) == b"request"
        other.sendall(b"response")
        assert recorded.read(8) == b"response"
        other.sendall(b"last")
    assert recorded.read(4) == b"last"
    assert recorded.event() == (CloseReason.CLOSED, "end of stream")
    assert recorded.send(b"too late") == 0
    assert recorded.events.empty()
    assert not loop.network.streams
    assert loop.call(lambda: len(loop.reactor._callbacks)) == 1  # that of jobs


def test_small_requests_are_not_held_back_and_dead_hosts_are_found(
    loop: ReactorThread, listening: socket.socket
) -> None:
    recorded, other = connected(loop, listening)
    sock = recorded.stream._socket
    assert sock is not None
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    other.close()
    recorded.event()


def test_what_is_sent_before_the_stream_is_connected_waits(loop: ReactorThread, listening: socket.socket) -> None:
    recorded = RecordedStream(loop)

    def connect() -> int:
        recorded.stream = loop.network.connect(HOST, listening.getsockname()[1], recorded, 5_000)
        recorded.stream.send([b"early"])
        assert recorded.events.empty()
        return recorded.stream.unsent_bytes

    assert loop.call(connect) == 5
    other, _ = listening.accept()
    with other:
        assert read_fully(other, 5) == b"early"
    assert recorded.event() == "connected"
    assert loop.call(lambda: recorded.stream.unsent_bytes) == 0


def test_a_slow_reader_gets_everything(loop: ReactorThread, listening: socket.socket) -> None:
    recorded, other = connected(loop, listening)
    parts = [bytes([number % 251]) * 5_000 for number in range(3_000)]
    with other:
        unsent = recorded.send(*parts)
        assert 0 < unsent < 15_000_000
        assert recorded.send(b"end") == unsent + 3
        assert read_fully(other, 15_000_003) == b"".join(parts) + b"end"
        assert loop.call(lambda: recorded.stream.unsent_bytes) == 0
        assert recorded.send(b"more") == 0
        assert read_fully(other, 4) == b"more"
    recorded.event()


def test_a_stream_is_closed_at_once(loop: ReactorThread, listening: socket.socket) -> None:
    recorded, other = connected(loop, listening)
    with other:
        recorded.send(bytes(15_000_000))
        recorded.close()
        assert recorded.stream.unsent_bytes == 0
        received = 0
        while data := other.recv(1 << 20):
            received += len(data)
        assert received < 15_000_000  # what was in the system's buffers
    assert recorded.events.empty()


def test_a_listener_may_close_its_stream(loop: ReactorThread, listening: socket.socket) -> None:
    recorded = loop.connect(*listening.getsockname(), closes=True)
    other, _ = listening.accept()
    with other:
        other.settimeout(TIMEOUT_S)
        assert other.recv(1) == b""
    assert recorded.event() == "connected"
    assert recorded.events.empty()


def test_a_reset_is_reported(loop: ReactorThread, listening: socket.socket) -> None:
    recorded, other = connected(loop, listening)
    other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    other.close()
    assert recorded.event() == (CloseReason.RESET, os.strerror(errno.ECONNRESET))


def test_a_failed_send_is_reported_as_an_event(loop: ReactorThread, listening: socket.socket) -> None:
    recorded, other = connected(loop, listening)
    order = []

    def send() -> None:
        """Without a round of the reactor in between, so that the first to notice is `send`."""
        other.sendall(b"last words")
        other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        other.close()
        for _ in range(2):
            recorded.stream.send([b"x"])
            order.append((recorded.stream.unsent_bytes, recorded.events.empty()))

    loop.call(send)
    assert order == [(0, True)] * 2
    event = recorded.event()
    if event == b"last words":  # the system may drop what arrived before a reset
        event = recorded.event()
    assert event[0] is CloseReason.RESET


# Connecting


def test_a_refused_connect(loop: ReactorThread) -> None:
    recorded = loop.connect(HOST, unused_port())
    assert recorded.event() == (CloseReason.REFUSED, f"{HOST}: {os.strerror(errno.ECONNREFUSED)}")
    assert not loop.network.streams


@pytest.mark.parametrize(
    ("host", "port"), [("", 9092), (HOST, 0), (HOST, -1), (HOST, 65_536), ("a\0b", 1), ("x" * 300, 1), ("a..b", 1)]
)
def test_what_is_not_an_address_is_unreachable(loop: ReactorThread, host: str, port: int) -> None:
    reason, _ = loop.connect(host, port).event()
    assert reason is CloseReason.UNREACHABLE


def test_an_address_that_does_not_respond_is_unreachable(loop: ReactorThread) -> None:
    with silent() as server:
        recorded = loop.connect(*server.getsockname(), timeout_ms=30)
        assert recorded.event() == (CloseReason.UNREACHABLE, "no connection within 30 ms")


def test_a_host_without_a_route_is_unreachable(loop: ReactorThread) -> None:
    """The system has no route for connections to the broadcast address."""
    reason, detail = loop.connect("255.255.255.255", 9092).event()
    assert reason is CloseReason.UNREACHABLE
    assert detail.startswith("255.255.255.255: ")


def test_a_connect_that_is_given_up_has_no_event(loop: ReactorThread) -> None:
    with silent() as server:
        recorded = loop.connect(*server.getsockname(), timeout_ms=10)
        recorded.close()
        assert loop.connect(*server.getsockname(), timeout_ms=20).event()[0] is CloseReason.UNREACHABLE
    assert recorded.events.empty()


def test_a_socket_that_met_itself_counts_as_refused(loop: ReactorThread) -> None:
    with socket.socket() as alone:
        alone.bind((HOST, 0))
        alone.connect(alone.getsockname())  # what the system may do with a chosen port
        error = socket_network._connect_error(alone)
    assert error is not None
    assert error.errno == errno.ECONNREFUSED


# Names


def entries(*addresses: tuple[str, int]) -> list[tuple[Any, ...]]:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in addresses]


def naming(table: dict[str, list[tuple[Any, ...]]]) -> Callable[..., list[tuple[Any, ...]]]:
    def lookup(host: str, port: int, **options: int) -> list[tuple[Any, ...]]:
        if host in table and not options.get("flags"):
            return table[host]
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    return lookup


def test_a_name_is_looked_up(loop: ReactorThread, listening: socket.socket) -> None:
    recorded = loop.connect("localhost", listening.getsockname()[1])
    assert recorded.event() == "connected"
    listening.accept()[0].close()
    recorded.event()


def test_the_addresses_of_a_name_are_tried_in_turn(listening: socket.socket) -> None:
    port = listening.getsockname()[1]
    table = {
        "second": entries(("127.0.0.2", port), (HOST, port), (HOST, port)),
        "refused": entries(("127.0.0.2", port), ("127.0.0.3", port)),
    }
    with closing(ReactorThread(naming(table))) as loop:
        recorded = loop.connect("second", port)
        assert recorded.event() == "connected"
        listening.accept()[0].close()
        recorded.event()
        refused = os.strerror(errno.ECONNREFUSED)
        assert loop.connect("refused", port).event() == (
            CloseReason.REFUSED,
            f"127.0.0.2: {refused}; 127.0.0.3: {refused}",
        )
        assert loop.connect("unknown", port).event() == (
            CloseReason.UNREACHABLE,
            "unknown: Name or service not known",
        )


class LateClock:
    """Of ten seconds for a connect, ten milliseconds are left when the first address is tried."""

    def __init__(self) -> None:
        self._times_ms = [0]

    def now_ms(self) -> int:
        raise AssertionError("not the time of the day")

    def monotonic_ms(self) -> int:
        return self._times_ms.pop() if self._times_ms else 9_990


def test_an_address_that_does_not_respond_leaves_time_for_the_others(listening: socket.socket) -> None:
    port = listening.getsockname()[1]
    with silent() as server:
        table = {
            "both": entries(server.getsockname(), (HOST, port)),
            "neither": entries(server.getsockname(), (HOST, unused_port())),
        }
        with closing(ReactorThread(naming(table))) as loop:
            loop.network.clock = LateClock()
            recorded = loop.connect("both", port, timeout_ms=10_000)
            assert recorded.event() == "connected"
            listening.accept()[0].close()
            recorded.event()
            loop.network.clock = LateClock()
            reason, detail = loop.connect("neither", port, timeout_ms=10_000).event()
    assert reason is CloseReason.UNREACHABLE  # one that refused is no evidence about the other
    assert detail == f"{HOST}: {os.strerror(errno.ETIMEDOUT)}; {HOST}: {os.strerror(errno.ECONNREFUSED)}"


def test_a_lookup_that_does_not_end_holds_up_nothing() -> None:
    release = threading.Event()
    asked: queue.SimpleQueue[str] = queue.SimpleQueue()

    def lookup(host: str, port: int, **options: int) -> list[tuple[Any, ...]]:
        if options.get("flags"):
            raise socket.gaierror(socket.EAI_NONAME, "not a literal address")
        asked.put(host)
        assert release.wait(TIMEOUT_S)
        return entries((HOST, port))

    with closing(ReactorThread(lookup)) as loop:
        streams = [loop.connect(f"host-{number % 3}", unused_port(), timeout_ms=20) for number in range(6)]
        assert {stream.event() for stream in streams} == {(CloseReason.UNREACHABLE, "no connection within 20 ms")}
        assert sorted(asked.get(timeout=TIMEOUT_S) for _ in range(MAX_LOOKUPS)) == ["host-0", "host-1"]
        assert asked.empty()
        release.set()
        assert asked.get(timeout=TIMEOUT_S) == "host-2"
        assert loop.connect("host-0", unused_port()).event()[0] is CloseReason.REFUSED


def test_the_addresses_of_a_name_are_limited() -> None:
    many = entries(*((f"10.0.0.{number}", 1) for number in range(50)))
    found: list[Any] = []
    NameResolver(InlineJobs(), naming({"many": many})).resolve("many", 1, found.append)
    assert [str(address) for address in found[0]] == [f"10.0.0.{number}" for number in range(MAX_ADDRESSES)]
    NameResolver(InlineJobs(), naming({"none": []})).resolve("none", 1, found.append)
    assert found[1] == []


def test_streams_end_with_the_network(listening: socket.socket) -> None:
    loop = ReactorThread()
    recorded, other = connected(loop, listening)
    loop.close()
    with other:
        assert other.recv(1) == b""
    assert recorded.events.empty()


def test_an_action_that_was_left_before_the_reactor_runs_does_not_wait_for_an_event() -> None:
    class Undue:
        def due_ms(self) -> int | None:
            raise AssertionError("the reactor wants to wait")

        def run_due(self, now_ms: int) -> None:
            pass

    with closing(Reactor()) as reactor:
        reactor.soon(reactor.stop)
        reactor.run(Undue())
