"""A real broker, as a child process, under clients that ask too much of it: the others are served all the while.

What the sockets do in each of these cases is proven in tests/unit/broker/test_socket_server.py.
"""

from __future__ import annotations

import resource
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tailrace
from support.brokers.simulated import fetch_request, produce_request
from support.clients.raw_client import RawClient
from support.hostile.mutation import fix_crcs
from support.hostile.request_load import SETTINGS, RequestStorm, rss_bytes
from support.requests.case import DATA
from tailrace.protocol.frame import encode_request
from tailrace.protocol.message import Request
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.record.batch import HEADER_BYTES
from tailrace.record.builder import BatchBuilder
from tailrace.record.compression import compress

POLICY_VIOLATION = 44
MESSAGE_TOO_LARGE = 10
GZIP, ZSTD = 1, 4
MIB = 1 << 20
AT_ONCE = struct.pack("ii", 1, 0)


@pytest.fixture(scope="module")
def broker() -> Iterator[tailrace.Broker]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2000 <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (2000, hard))
    with tailrace.Broker({**SETTINGS, "socket.listen.backlog.size": 1000}) as broker:
        yield broker


@pytest.fixture(scope="module")
def storm(broker: tailrace.Broker) -> Iterator[RequestStorm]:
    with RequestStorm(broker, 0) as storm:
        storm.check()
        yield storm


@pytest.fixture(autouse=True)
def nothing_remains(storm: RequestStorm, broker: tailrace.Broker) -> Iterator[None]:
    """Whatever a test does, the broker serves afterwards, has found nothing wrong with itself and is as small."""
    before = rss_bytes(broker)
    yield
    storm.check()
    assert storm.trouble() == []
    assert rss_bytes(broker) < before + 24 * MIB


def connected(broker: tailrace.Broker) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", broker.port), 20)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    return sock


def frame(request: Request, version: int) -> bytes:
    return b"".join(bytes(part) for part in encode_request(request, version, 1, "overload"))


def batch(value: bytes) -> bytes:
    builder = BatchBuilder()
    builder.append(1000, b"key", value)
    return bytes(builder.build())


def while_it_lasts(work: Callable[[], object], storm: RequestStorm) -> None:
    """A healthy client asks again and again until `work` is done."""
    worker = threading.Thread(target=work)
    worker.start()
    while worker.is_alive():
        storm.check()
    worker.join()


def test_a_thousand_idle_connections(broker: tailrace.Broker, storm: RequestStorm) -> None:
    before = rss_bytes(broker)
    idle = [connected(broker) for _ in range(1000)]
    for _ in range(50):
        storm.check()
    assert rss_bytes(broker) < before + 1000 * 8192
    for sock in idle:
        sock.close()


def test_a_flood_of_connections_that_leave_at_once(broker: tailrace.Broker, storm: RequestStorm) -> None:
    beginnings = (b"", b"\x00", frame(fetch_request(DATA, 0), 12), frame(fetch_request(DATA, 0), 12)[:20])

    def flood() -> None:
        for number in range(2000):
            with connected(broker) as sock:
                sock.sendall(beginnings[number % len(beginnings)])

    while_it_lasts(flood, storm)


def test_half_frames_hold_what_has_come_and_no_more(broker: tailrace.Broker, storm: RequestStorm) -> None:
    before = rss_bytes(broker)
    socks = [connected(broker) for _ in range(200)]
    for sock in socks:
        sock.sendall(struct.pack(">ihhi", 900_000, 0, 9, 1) + bytes(40_000))
    for _ in range(20):
        storm.check()
    assert rss_bytes(broker) < before + 200 * 60_000
    for sock in socks:
        sock.close()


def test_many_slow_readers(broker: tailrace.Broker, storm: RequestStorm) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        for _ in range(4):
            client.ask(produce_request(DATA, batch(bytes(900_000)), partition=1), 9)
    before = rss_bytes(broker)
    wanted = frame(fetch_request(DATA, 0, partition=1, max_bytes=4 * MIB), 12)
    slow = []
    for _ in range(100):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", broker.port))
        sock.sendall(wanted * 20)
        slow.append(sock)
    for _ in range(20):
        storm.check()
    assert rss_bytes(broker) < before + 100 * 64_000
    for sock in slow:
        sock.close()


@pytest.mark.parametrize("count", [10_000, 10_001, 2**31 - 1])
def test_too_many_partitions_in_one_request(broker: tailrace.Broker, storm: RequestStorm, count: int) -> None:
    topics = [CreatableTopic(name="large", num_partitions=count, replication_factor=1)]
    answers: list[Any] = []

    def create() -> None:
        with RawClient(broker.bootstrap_servers) as client:
            answers.append(client.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7))

    while_it_lasts(create, storm)
    assert answers[0].topics[0].error_code == POLICY_VIOLATION


@pytest.mark.long
def test_thousands_of_partitions_in_one_request(broker: tailrace.Broker, storm: RequestStorm) -> None:
    """Making so many logs takes a while; heartbeats and the commits of the metadata log must not wait for it."""
    topics = [CreatableTopic(name="large", num_partitions=2000, replication_factor=1)]
    answers: list[Any] = []

    def create() -> None:
        with RawClient(broker.bootstrap_servers) as client:
            answers.append(client.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7))

    while_it_lasts(create, storm)
    assert answers[0].topics[0].error_code == 0
    assert "is fenced" not in broker.log
    storm.tidy()


@pytest.mark.parametrize("codec", [GZIP, ZSTD])
@pytest.mark.parametrize(("inside_bytes", "code"), [(256 * MIB, 0), ((1 << 30) + 1, MESSAGE_TOO_LARGE)])
def test_decompression_bombs(broker: tailrace.Broker, codec: int, inside_bytes: int, code: int) -> None:
    """Kafka takes both; we read no batch that holds more than a gigabyte (docs/compatibility.md)."""
    request = produce_request(DATA, bomb(codec, inside_bytes), partition=2)
    before = rss_bytes(broker)
    with RawClient(broker.bootstrap_servers) as client:
        answer: Any = client.ask(request, 9)
    assert answer.responses[0].partition_responses[0].error_code == code
    assert rss_bytes(broker) < before + 16 * MIB


def bomb(codec: int, inside_bytes: int) -> bytes:
    """A batch of one record of so many zeros, in blocks: each is compressed alone, and blocks can be joined."""
    whole = bytearray(batch(bytes(16)))
    block = bytes(16 * MIB)
    head, tail = record_around(inside_bytes)
    packed = compress(codec, block)
    full, rest = divmod(inside_bytes, len(block))
    payload = compress(codec, head) + packed * full + compress(codec, bytes(rest) + tail)
    made = whole[:HEADER_BYTES] + payload
    made[22] = codec
    made[8:12] = (len(made) - 12).to_bytes(4, "big")
    fix_crcs(made)
    return bytes(made)


def record_around(value_bytes: int) -> tuple[bytes, bytes]:
    """What stands before and behind the value of a record."""
    from tailrace.record.varint import encode_varint

    fields = b"\x00\x00\x00" + encode_varint(3) + b"key" + encode_varint(value_bytes)
    return encode_varint(len(fields) + value_bytes + 1) + fields, b"\x00"
