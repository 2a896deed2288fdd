"""Random networks: whatever other nodes do and whenever, each request ends exactly once and in time."""

from __future__ import annotations

import random

from suite.seeds import parametrized_seeds
from support.peers.scripted_network import VERSIONS, A, B, PeerWorld, ScriptedStream
from tailrace.env import CloseReason
from tailrace.protocol.apis import API_VERSIONS
from tailrace.protocol.frame import encode_response
from tailrace.protocol.messages.fetch import FetchRequest, FetchResponse
from tailrace.protocol.messages.produce import ProduceRequest
from tailrace.protocol.messages.vote import VoteRequest, VoteResponse

STEPS = 400
RESPONSES = {API_VERSIONS: VERSIONS, FetchRequest.KEY: FetchResponse(), VoteRequest.KEY: VoteResponse()}


class RandomNodes:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = PeerWorld(
            seed,
            max_in_flight=self.random.choice([1, 3]),
            max_queued=10,
            connect_timeout_ms=500,
            idle_ms=self.random.choice([300, 5_000]),
            max_response_bytes=10_000,
        )
        self.deadlines: dict[int, int] = {}
        self.accepted: set[int] = set()

    def now_ms(self) -> int:
        return self.world.world.clock.monotonic_ms()

    def step(self) -> None:
        rng, world = self.random, self.world
        kind = rng.random()
        if kind < 0.35:
            number, timeout_ms = len(self.deadlines), rng.choice([1, 50, 400, 2_000])
            self.deadlines[number] = self.now_ms() + timeout_ms
            request = rng.choice([VoteRequest, VoteRequest, FetchRequest, ProduceRequest])()
            world.send(number, request, timeout_ms, rng.choice([A, B]))
        elif kind < 0.55:
            self.pass_time(rng.choice([1, 5, 30, 100, 600]))
        elif world.network.open:
            self.act(rng.choice(world.network.open))
        self.check()

    def act(self, stream: ScriptedStream) -> None:
        rng = self.random
        if id(stream) not in self.accepted:
            if rng.random() < 0.7:
                self.accepted.add(id(stream))
                stream.accept()
            else:
                stream.end(rng.choice([CloseReason.REFUSED, CloseReason.UNREACHABLE]))
            return
        stream.requests()
        kind = rng.random()
        if kind < 0.1:
            stream.end(rng.choice([CloseReason.CLOSED, CloseReason.RESET, CloseReason.UNREACHABLE]))
        elif kind < 0.2:
            stream.feed(rng.randbytes(rng.randrange(1, 30)))
        elif stream.headers:
            header = stream.headers.pop(0)
            data = encode_response(header, RESPONSES[header.request_api_key])
            self.feed(stream, b"".join(bytes(part) for part in data))

    def feed(self, stream: ScriptedStream, data: bytes) -> None:
        while data and not stream.is_closed:
            size = self.random.randint(1, len(data))
            stream.feed(data[:size])
            data = data[size:]

    def pass_time(self, ms: int) -> None:
        """A node gives up an attempt to connect when its time is over, as `Network` promises."""
        self.world.pass_time(ms)
        for stream in self.world.network.open:
            if id(stream) not in self.accepted and self.random.random() < 0.5:
                stream.end(CloseReason.UNREACHABLE)

    def check(self) -> None:
        addresses = [stream.address for stream in self.world.network.open]
        assert len(addresses) == len(set(addresses)), "one connection to a node"
        for number, deadline_ms in self.deadlines.items():
            assert number in self.world.results or self.now_ms() <= deadline_ms, f"request {number} is overdue"
        assert len(self.world.world.jobs.waiting) <= 40


@parametrized_seeds()
def test_every_request_ends_once_and_in_time(seed: int) -> None:
    nodes = RandomNodes(seed)
    for _ in range(STEPS):
        nodes.step()
    nodes.world.pass_time(10_000)
    assert set(nodes.world.results) == set(nodes.deadlines)
    for stream in nodes.world.network.open:  # attempts to connect that never ended
        assert id(stream) not in nodes.accepted
    nodes.world.peers.close()
    assert nodes.world.network.open == []
    nodes.world.pass_time(60_000)
    assert nodes.world.world.jobs.waiting == []
