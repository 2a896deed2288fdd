"""`Peers` on real sockets: against scripted nodes, and against a broker of ours, also from within its own loop."""

from __future__ import annotations

import queue
import random
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from support.brokers.reactor_thread import TIMEOUT_S, ReactorThread
from support.brokers.scripted import NO_ANSWER, ScriptedBroker
from support.brokers.threaded import ThreadedBroker
from tailrace.config.voters import Address
from tailrace.env import Env
from tailrace.env.real import RealFiles
from tailrace.peers import PeerEvent, PeerFailure, Peers, PeerSettings, ProbeResult
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from tailrace.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tailrace.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

HOST = "127.0.0.1"
T = TypeVar("T")


class OnThread:
    """`Peers` on another thread; `call` runs a function there."""

    def __init__(self, call: Callable[[Callable[[], Any]], Any], env: Env) -> None:
        self._call = call
        self.peers: Peers = call(lambda: Peers(env, PeerSettings("test")))
        self.events: queue.SimpleQueue[PeerEvent] = queue.SimpleQueue()
        self.peers.on_event.add(self.events.put)

    def request(self, port: int, request: Request, timeout_ms: int = 10_000) -> Response | PeerFailure:
        results: queue.SimpleQueue[Response | PeerFailure] = queue.SimpleQueue()
        self._call(lambda: self.peers.send(Address(HOST, port), request, results.put, timeout_ms))
        return results.get(timeout=TIMEOUT_S)

    def failure(self, port: int, request: Request, timeout_ms: int = 10_000) -> tuple[str, bool]:
        result = self.request(port, request, timeout_ms)
        assert isinstance(result, PeerFailure)
        return result.kind.name, result.was_sent

    def probe(self, port: int) -> str:
        results: queue.SimpleQueue[ProbeResult] = queue.SimpleQueue()
        self._call(lambda: self.peers.probe(Address(HOST, port), 5_000, results.put))
        return results.get(timeout=TIMEOUT_S).outcome.name

    def event(self) -> str:
        return self.events.get(timeout=TIMEOUT_S).kind.name

    def close(self) -> None:
        self._call(self.peers.close)


@pytest.fixture
def node() -> Iterator[OnThread]:
    with closing(ReactorThread()) as loop:
        env = Env(RealFiles(), loop.clock, loop.jobs, random.Random(1), loop.network)
        with closing(OnThread(loop.call, env)) as node:
            yield node


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server((HOST, 0)) as server:
        server.settimeout(TIMEOUT_S)
        yield server


def test_a_node_that_is_not_there(node: OnThread) -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
    assert node.failure(port, MetadataRequest()) == ("REFUSED", False)
    assert node.event() == "REFUSED"
    assert node.probe(port) == "REFUSED"


def test_a_node_that_accepts_and_never_responds(node: OnThread, listening: socket.socket) -> None:
    port = listening.getsockname()[1]
    assert node.failure(port, MetadataRequest(), timeout_ms=30) == ("TIMEOUT", False)
    assert node.event() == "CONNECTED"
    assert node.probe(port) == "ACCEPTED"


def test_a_node_that_sends_garbage(node: OnThread, listening: socket.socket) -> None:
    results: queue.SimpleQueue[object] = queue.SimpleQueue()
    address = Address(HOST, listening.getsockname()[1])
    node._call(lambda: node.peers.send(address, MetadataRequest(), results.put, 10_000))
    other, _ = listening.accept()
    with other:
        other.settimeout(TIMEOUT_S)
        other.recv(1 << 10)
        other.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
        result = results.get(timeout=TIMEOUT_S)
        assert isinstance(result, PeerFailure)
        assert (result.kind.name, result.was_sent) == ("BAD_RESPONSE", False)
        assert other.recv(1 << 10) == b""
    assert [node.event(), node.event()] == ["CONNECTED", "DROPPED"]


def test_large_requests_and_responses(node: OnThread) -> None:
    records = bytes(range(256)) * 30_000
    with ScriptedBroker() as broker:
        partitions = [PartitionData(partition_index=0, records=records)]
        fetched = FetchResponse(responses=[FetchableTopicResponse(topic_id=b"t" * 16, partitions=partitions)])
        broker.answers[FetchRequest] = lambda _: fetched
        received: list[bytes] = []

        def keep(request: ProduceRequest) -> object:
            received.append(bytes(request.topic_data[0].partition_data[0].records or b""))
            return ProduceResponse()

        broker.answers[ProduceRequest] = keep
        data = TopicProduceData(topic_id=b"t" * 16, partition_data=[PartitionProduceData(index=0, records=records)])
        assert node.request(broker.port, ProduceRequest(acks=1, topic_data=[data])) == ProduceResponse()
        assert received == [records]
        response = node.request(broker.port, FetchRequest())
        assert isinstance(response, FetchResponse)
        assert bytes(response.responses[0].partitions[0].records or b"") == records
        broker.answers[FetchRequest] = lambda _: NO_ANSWER
        assert node.failure(broker.port, FetchRequest(), timeout_ms=30) == ("TIMEOUT", True)
        assert isinstance(node.request(broker.port, MetadataRequest()), MetadataResponse)
    assert [node.event() for _ in range(3)] == ["CONNECTED", "DROPPED", "CONNECTED"]


def test_a_broker_asks_itself_and_its_death_is_noticed(node: OnThread, tmp_path: Path) -> None:
    broker = ThreadedBroker(tmp_path)
    own = OnThread(broker.on_node, broker.node.env)
    for asking in (own, node):
        metadata = asking.request(broker.port, MetadataRequest(topics=[]))
        assert isinstance(metadata, MetadataResponse)
        assert [each.port for each in metadata.brokers] == [broker.port]
    quorum = own.request(broker.controller_port, DescribeQuorumRequest(topics=[]))
    assert isinstance(quorum, DescribeQuorumResponse)
    own.close()
    broker.close()
    assert [node.event(), node.event()] == ["CONNECTED", "CLOSED"]
    assert node.probe(broker.port) == "REFUSED"
