"""The small HTTP server over the loopback: what it answers, and that nobody can keep it busy."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tailrace.broker import http
from tailrace.broker.http import MOST_CONNECTIONS, Answer, HttpServer, short


@pytest.fixture
def gate() -> threading.Event:
    """Opens the page /slow."""
    return threading.Event()


@pytest.fixture
def server(gate: threading.Event) -> Iterator[HttpServer]:
    def slow() -> Answer:
        gate.wait(30)
        return short(200, "late")

    def broken() -> Answer:
        raise KeyError("no")

    pages = {
        "/metrics": lambda: Answer(200, [b"a" * 70_000, b"b"], "text/x"),
        "/slow": slow,
        "/broken": broken,
    }
    made = HttpServer("127.0.0.1", 0, pages)
    yield made
    gate.set()
    made.close()


def connect(server: HttpServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), 20)


def ask(server: HttpServer, request: bytes) -> tuple[bytes, bytes]:
    """Head and body, read to the end of the connection."""
    with connect(server) as connection:
        connection.sendall(request)
        return answer(connection)


def answer(connection: socket.socket) -> tuple[bytes, bytes]:
    received = b""
    while more := connection.recv(65536):
        received += more
    head, _, body = received.partition(b"\r\n\r\n")
    return head, body


def test_a_page(server: HttpServer) -> None:
    head, body = ask(server, b"GET /metrics?a=1 HTTP/1.1\r\nHost: x\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 200 OK"
    assert {b"Content-Type: text/x", b"Content-Length: 70001", b"Connection: close"} <= set(lines)
    assert body == b"a" * 70_000 + b"b"


def test_head_has_no_body(server: HttpServer) -> None:
    head, body = ask(server, b"HEAD /metrics HTTP/1.0\r\n\r\n")
    assert b"Content-Length: 70001" in head
    assert body == b""


def test_a_head_in_pieces(server: HttpServer) -> None:
    with connect(server) as connection:
        for byte in b"GET /metrics HTTP/1.1\r\n\r\n":
            connection.sendall(bytes([byte]))
        assert answer(connection)[0].startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", b"405"),
        (b"\x00\x00\x00\x12\x00\x12\x00\x00\r\n\r\n", b"400"),
        (b"GET /metrics\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/2\r\n\r\n", b"400"),
        (b"GET /\xff\xfe HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /broken HTTP/1.1\r\n\r\n", b"500"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 20_000, b"431"),
    ],
)
def test_what_it_refuses(server: HttpServer, request_bytes: bytes, status: bytes) -> None:
    assert ask(server, request_bytes)[0].startswith(b"HTTP/1.1 " + status + b" ")


def test_a_request_that_ends_in_its_head(server: HttpServer) -> None:
    with connect(server) as connection:
        connection.sendall(b"GET /metrics")
        connection.shutdown(socket.SHUT_WR)
        assert answer(connection)[0].startswith(b"HTTP/1.1 400 ")


def test_a_request_that_never_ends_is_given_up(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LONGEST_REQUEST_S", 0.05)
    with connect(server) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\n")
        assert answer(connection)[0].startswith(b"HTTP/1.1 408 ")


def test_more_connections_than_places_are_told_so(server: HttpServer, gate: threading.Event) -> None:
    held = [connect(server) for _ in range(MOST_CONNECTIONS)]
    for connection in held:
        connection.sendall(b"GET /slow HTTP/1.1\r\n\r\n")
    assert ask(server, b"")[0].startswith(b"HTTP/1.1 503 "), "accepted in the order in which they came"
    gate.set()
    for connection in held:
        with connection:
            assert answer(connection)[1] == b"late\n"
    head, _ = ask_until_there_is_room(server)
    assert head.startswith(b"HTTP/1.1 200 ")


def ask_until_there_is_room(server: HttpServer) -> tuple[bytes, bytes]:
    """A place is free a moment after the client has its answer."""
    while True:
        try:
            head, body = ask(server, b"GET /metrics HTTP/1.1\r\n\r\n")
        except ConnectionResetError:
            continue
        if not head.startswith(b"HTTP/1.1 503 "):
            return head, body


def test_clients_that_vanish_leave_their_places(server: HttpServer) -> None:
    for _ in range(3 * MOST_CONNECTIONS):
        connect(server).close()
    head, _ = ask_until_there_is_room(server)
    assert head.startswith(b"HTTP/1.1 200 ")


def test_closed_it_listens_no_more(server: HttpServer) -> None:
    port = server.port
    server.close()
    server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5)


def test_a_port_that_is_taken_is_an_error(server: HttpServer) -> None:
    with pytest.raises(OSError):
        HttpServer("127.0.0.1", server.port, {})
