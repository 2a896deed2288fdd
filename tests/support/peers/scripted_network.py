"""A network without sockets: a test accepts, refuses, responds and closes, on a simulated clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tailrace.config.voters import Address
from tailrace.env import Buffer, CloseReason, StreamListener
from tailrace.peers import PeerEvent, PeerFailure, Peers, PeerSettings, ProbeResult
from tailrace.protocol.frame import decode_request, decode_request_header, encode_response
from tailrace.protocol.headers import RequestHeader
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tailrace.sim import World

A, B = Address("a.example", 9093), Address("b.example", 9093)
VERSIONS = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=key, min_version=first, max_version=last)
        for key, first, last in ((1, 4, 18), (3, 0, 9), (18, 0, 4), (52, 0, 2))
    ]
)


class ScriptedStream:
    def __init__(self, address: Address, listener: StreamListener, timeout_ms: int) -> None:
        self.address = address
        self.timeout_ms = timeout_ms
        self.is_closed = False
        self._listener = listener
        self._received = bytearray()
        self.headers: list[RequestHeader] = []
        """Of the requests that have no response."""

    # What the owner calls

    @property
    def unsent_bytes(self) -> int:
        return 0

    def send(self, parts: Sequence[Buffer]) -> None:
        assert not self.is_closed
        for part in parts:
            self._received += part

    def close(self) -> None:
        self.is_closed = True

    # What a test calls: the other side

    def accept(self) -> ScriptedStream:
        assert not self.is_closed
        self._listener.connected()
        return self

    def agree(self, versions: ApiVersionsResponse = VERSIONS) -> ScriptedStream:
        """Accept and respond to ApiVersions."""
        self.accept()
        (request,) = self.requests()
        assert isinstance(request, ApiVersionsRequest)
        self.respond(versions)
        return self

    def requests(self) -> list[Request]:
        """What has arrived since the last call."""
        data, requests = memoryview(bytes(self._received)), []
        self._received.clear()
        while data:
            size = int.from_bytes(data[:4], "big")
            frame, data = data[4 : 4 + size], data[4 + size :]
            header, position = decode_request_header(frame)
            self.headers.append(header)
            requests.append(decode_request(header, frame, position))
        return requests

    def request(self) -> Request:
        (request,) = self.requests()
        return request

    def respond(self, response: Response, version: int | None = None) -> None:
        """To the oldest request."""
        header = self.headers.pop(0)
        self.feed(b"".join(bytes(part) for part in encode_response(header, response, version=version)))

    def feed(self, data: bytes) -> None:
        assert not self.is_closed
        self._listener.received(memoryview(data))

    def end(self, reason: CloseReason = CloseReason.CLOSED) -> None:
        assert not self.is_closed
        self.is_closed = True
        self._listener.closed(reason, "scripted")


class ScriptedNetwork:
    def __init__(self) -> None:
        self.streams: list[ScriptedStream] = []

    def connect(self, host: str, port: int, listener: StreamListener, timeout_ms: int) -> ScriptedStream:
        stream = ScriptedStream(Address(host, port), listener, timeout_ms)
        self.streams.append(stream)
        return stream

    @property
    def open(self) -> list[ScriptedStream]:
        return [stream for stream in self.streams if not stream.is_closed]

    @property
    def last(self) -> ScriptedStream:
        return self.streams[-1]


class PeerWorld:
    """`Peers` on a scripted network. Results are in `results`, by the name of the request."""

    def __init__(self, seed: int = 0, **settings: Any) -> None:
        self.world = World(seed)
        self.network = ScriptedNetwork()
        self.env = replace(self.world.env, network=self.network)
        self.peers = Peers(self.env, PeerSettings("test", **settings))
        self.results: dict[object, Response | PeerFailure] = {}
        self.probes: list[ProbeResult] = []
        self.events: list[PeerEvent] = []
        self.peers.on_event.add(self.events.append)

    @property
    def kinds(self) -> list[str]:
        """The names of the events so far."""
        return [event.kind.name for event in self.events]

    def send(
        self,
        name: object,
        request: Request,
        timeout_ms: int = 2_000,
        address: Address = A,
        version: int | None = None,
    ) -> None:
        def done(result: Response | PeerFailure) -> None:
            assert name not in self.results, "a request ends once"
            self.results[name] = result

        before = dict(self.results)
        self.peers.send(address, request, done, timeout_ms, version=version)
        assert self.results == before, "no callback runs within send"

    def failure(self, name: object) -> tuple[str, bool]:
        """Kind and whether the request was sent."""
        failure = self.results[name]
        assert isinstance(failure, PeerFailure), failure
        return failure.kind.name, failure.was_sent

    def pass_time(self, ms: int) -> None:
        self.world.jobs.tick(self.world.clock.now_ms() + ms)
