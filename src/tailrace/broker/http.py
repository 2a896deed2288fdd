"""A very small HTTP server on threads of its own: one page a path, GET and HEAD, one request a connection.

It is for scrapers and probes on a trusted network, and does as little as they need. Requests are bounded: 8 KB of
head, five seconds for all of it, eight connections at a time (more are told 503 and closed). A page is made on the
connection's thread and may wait there; it should hold the interpreter only for moments (see `broker.exporter`).
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

LONGEST_HEAD_BYTES: Final = 8192
LONGEST_REQUEST_S: Final = 5.0
LONGEST_ANSWER_S: Final = 30.0
MOST_CONNECTIONS: Final = 8

_PHRASES: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
_log = logging.getLogger(__name__)


class Answer(NamedTuple):
    """The body is in pieces, so that a long one need not be put together."""

    status: int
    body: Sequence[bytes]
    content_type: str = "text/plain; charset=utf-8"


Page = Callable[[], Answer]


def short(status: int, text: str) -> Answer:
    return Answer(status, [f"{text}\n".encode()])


class HttpServer:
    """Listens from the start; `close` ends it. Port 0 takes any that is free."""

    def __init__(self, host: str, port: int, pages: Mapping[str, Page]) -> None:
        """Raises OSError when the port cannot be had."""
        self._pages = pages
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=2 * MOST_CONNECTIONS)
        self._closed = threading.Event()
        threading.Thread(target=self._accept, name="http", daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Connections that are being served end by themselves. Again is fine."""
        self._closed.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept
        self._socket.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError as error:
                if self._closed.is_set():
                    return
                _log.warning("http: cannot accept a connection: %s", error)
                time.sleep(0.1)  # out of descriptors, most likely: trying at once would only spin
                continue
            self._begin(connection)

    def _begin(self, connection: socket.socket) -> None:
        if not self._places.acquire(blocking=False):
            connection.settimeout(0.1)
            with connection, suppress(OSError):
                _send(connection, short(503, f"more than {MOST_CONNECTIONS} connections at a time"), with_body=True)
            return
        threading.Thread(target=self._serve, args=(connection,), name="http-connection", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, suppress(OSError):
                answer, with_body = self._answer(_read_head(connection))
                connection.settimeout(LONGEST_ANSWER_S)
                _send(connection, answer, with_body)
                _drain(connection)
        finally:
            self._places.release()

    def _answer(self, head: bytes | Answer) -> tuple[Answer, bool]:
        if isinstance(head, Answer):
            return head, True
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return short(400, "this is not HTTP/1"), True
        method, target, _ = words
        page = self._pages.get(target.partition(b"?")[0].decode("latin-1"))
        if method not in (b"GET", b"HEAD"):
            return short(405, "only GET and HEAD are served"), True
        if page is None:
            return short(404, "there are: " + " ".join(sorted(self._pages))), method == b"GET"
        try:
            return page(), method == b"GET"
        except Exception:
            _log.exception("http: making the page %s failed", target.decode("latin-1"))
            return short(500, "the page could not be made; the log says why"), True


def _read_head(connection: socket.socket) -> bytes | Answer:
    deadline = time.monotonic() + LONGEST_REQUEST_S
    head = b""
    while b"\r\n\r\n" not in head:
        if len(head) > LONGEST_HEAD_BYTES:
            return short(431, f"a request's head has at most {LONGEST_HEAD_BYTES} bytes")
        left = deadline - time.monotonic()
        if left <= 0:
            return short(408, f"a request takes at most {LONGEST_REQUEST_S:g} s")
        connection.settimeout(left)
        try:
            more = connection.recv(4096)
        except TimeoutError:
            continue
        if not more:
            return short(400, "the request ends in its head")
        head += more
    return head


def _send(connection: socket.socket, answer: Answer, with_body: bool) -> None:
    head = (
        f"HTTP/1.1 {answer.status} {_PHRASES[answer.status]}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {sum(map(len, answer.body))}\r\n"
        "Connection: close\r\n\r\n"
    )
    connection.sendall(head.encode())
    for piece in answer.body if with_body else ():
        connection.sendall(piece)


def _drain(connection: socket.socket) -> None:
    """Closing with bytes unread would reset the connection, and the client might lose the answer."""
    connection.shutdown(socket.SHUT_WR)
    connection.settimeout(1.0)
    for _ in range(16):
        if not connection.recv(4096):
            return
