"""The real sockets: floods, half frames, garbage, slow readers, limits."""

from __future__ import annotations

import os
import resource
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from support.brokers.simulated import fetch_request, produce_request
from support.brokers.threaded import ThreadedBroker
from support.logs.builders import batch
from tailrace.broker import socket_server
from tailrace.broker.connection import Connection
from tailrace.broker.reactor import READABLE
from tailrace.broker.socket_server import RECEIVE_BUFFER_BYTES
from tailrace.env.real.files import RealFile
from tailrace.protocol.frame import decode_response, encode_request
from tailrace.protocol.message import Request
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.metadata import MetadataRequest

TIMEOUT_S = 10


class Served(ThreadedBroker):
    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), TIMEOUT_S)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@contextmanager
def serving(folder: Path, **settings: str) -> Iterator[Served]:
    served = Served(folder, log_segment_bytes=str(64 << 20), **settings)
    try:
        with served.connect() as sock:
            topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
            sock.sendall(frame(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7))
            assert answer(sock, 19, 7).topics[0].error_code in (0, 36)  # type: ignore[attr-defined]
        until(served, lambda: served.node.replicas.partition("orders", 0).is_leader)
        until(served, lambda: served.server.count == 0)
        yield served
    finally:
        served.close()


def until(served: Served, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not served.on_node(condition):
        assert time.monotonic() < deadline


def frame(request: Request, version: int, correlation_id: int = 1) -> bytes:
    return b"".join(encode_request(request, version, correlation_id, "test"))


def read_exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def answer(sock: socket.socket, key: int, version: int) -> object:
    (size,) = struct.unpack(">i", read_exactly(sock, 4))
    return decode_response(key, version, read_exactly(sock, size))[1]


def is_closed(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def serves(served: Served) -> bool:
    with served.connect() as sock:
        sock.sendall(frame(ApiVersionsRequest(), 0))
        return answer(sock, 18, 0).error_code == 0  # type: ignore[attr-defined]


def test_requests_in_single_bytes(folder: Path) -> None:
    with serving(folder) as served, served.connect() as sock:
        for byte in frame(produce_request("orders", batch(1, 50)), 9):
            sock.sendall(bytes([byte]))
        found = answer(sock, 0, 9)
        assert found.responses[0].partition_responses[0].error_code == 0  # type: ignore[attr-defined]


@pytest.mark.spec("NW-01")
def test_many_large_and_small_requests_at_once(folder: Path) -> None:
    with serving(folder) as served, served.connect() as sock:
        sizes = [10, 40_000, 600_000, 20, 33_000, 900_000, 5, 70_000]
        requests = [frame(produce_request("orders", batch(1, size)), 9, n) for n, size in enumerate(sizes)]
        sender = threading.Thread(target=sock.sendall, args=(b"".join(requests * 3),))
        sender.start()
        for n in range(len(sizes) * 3):
            found = answer(sock, 0, 9)
            part = found.responses[0].partition_responses[0]  # type: ignore[attr-defined]
            assert (part.error_code, part.base_offset) == (0, n)
        sender.join(TIMEOUT_S)
        assert served.on_node(lambda: served.server.budget.held_bytes) == 0


@pytest.mark.spec("NW-03")
@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes.fromhex("7fffffff") + bytes(100),
        bytes.fromhex("ffffffff"),
        bytes.fromhex("00000000"),
        bytes.fromhex("06400001"),  # one byte over socket.request.max.bytes
        bytes.fromhex("0000000a 03e7 0000 00000001 ffff"),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50),  # TLS
    ],
)
def test_garbage_ends_its_connection_and_no_other(folder: Path, garbage: bytes) -> None:
    with serving(folder) as served, served.connect() as sock:
        sock.sendall(garbage)
        assert is_closed(sock)
        assert serves(served)


def test_half_a_frame_and_then_nothing(folder: Path) -> None:
    with serving(folder) as served:
        with served.connect() as sock:
            sock.sendall(frame(produce_request("orders", batch(1, 500_000)), 9)[:300_000])
        assert serves(served)


@pytest.mark.spec("NW-04")
def test_no_more_connections_than_allowed(folder: Path) -> None:
    with serving(folder, max_connections="4") as served:
        first = [served.connect() for _ in range(4)]
        for sock in first:
            sock.sendall(frame(ApiVersionsRequest(), 0))
            answer(sock, 18, 0)
        with served.connect() as late:
            late.sendall(frame(ApiVersionsRequest(), 0))
            late.settimeout(0.2)
            with pytest.raises(TimeoutError):
                late.recv(1)
            first.pop().close()
            late.settimeout(TIMEOUT_S)
            assert answer(late, 18, 0).error_code == 0  # type: ignore[attr-defined]
        for sock in first:
            sock.close()


def test_connections_do_not_take_the_descriptors_that_files_need(folder: Path) -> None:
    """A log that finds none left counts as failed, and the last directory's failing ends the broker."""
    with serving(folder) as served, served.connect() as first:
        first.sendall(frame(ApiVersionsRequest(), 0))
        answer(first, 18, 0)
        end = served.server._descriptors_end
        served.server._descriptors_end = 0
        with served.connect() as second:
            assert is_closed(second)
        first.sendall(frame(ApiVersionsRequest(), 0))
        assert answer(first, 18, 0).error_code == 0  # type: ignore[attr-defined]
        served.server._descriptors_end = end
        assert serves(served)


@pytest.mark.parametrize(
    ("limit", "end"), [(1024, 896), (200, 136), (65_536, 57_344), (resource.RLIM_INFINITY, sys.maxsize)]
)
def test_an_eighth_of_the_descriptors_and_at_least_64_are_left_to_files(
    monkeypatch: pytest.MonkeyPatch, limit: int, end: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert socket_server._descriptors_end() == end


@pytest.mark.spec("NW-04")
def test_more_connections_are_accepted_when_more_are_allowed(folder: Path) -> None:
    with serving(folder, max_connections="1", connections_max_idle_ms="600000") as served, served.connect() as first:
        first.sendall(frame(ApiVersionsRequest(), 0))
        answer(first, 18, 0)
        with served.connect() as late:
            late.sendall(frame(ApiVersionsRequest(), 0))
            until(served, lambda: not served.server._is_accepting)

            def allow_more() -> None:
                served.node.live.config = replace(served.node.config, max_connections=2)
                served.server._next_sweep_ms = 0

            served.on_node(allow_more)
            assert answer(late, 18, 0).error_code == 0  # type: ignore[attr-defined]


@pytest.mark.spec("NW-04")
def test_no_more_connections_of_one_host_than_allowed(folder: Path) -> None:
    with serving(folder, max_connections_per_ip="1") as served, served.connect() as first:
        first.sendall(frame(ApiVersionsRequest(), 0))
        answer(first, 18, 0)
        with served.connect() as second:
            assert is_closed(second)
    settings = {"max_connections_per_ip": "1", "max_connections_per_ip_overrides": "127.0.0.1:2"}
    with serving(folder, **settings) as served, served.connect() as first, served.connect() as second:
        for sock in (first, second):
            sock.sendall(frame(ApiVersionsRequest(), 0))
            assert answer(sock, 18, 0).error_code == 0  # type: ignore[attr-defined]


def let_idle(served: Served, ms: int) -> None:
    """As if no bytes had moved on any connection for this time."""

    def age() -> None:
        for connection in served.server._connections:
            connection.active_ms -= ms
        served.server._next_sweep_ms = 0

    served.on_node(age)


@pytest.mark.spec("NW-04")
def test_idle_connections_are_closed(folder: Path) -> None:
    with serving(folder, connections_max_idle_ms="60000") as served, served.connect() as sock:
        for _ in range(3):
            sock.sendall(frame(ApiVersionsRequest(), 0))
            answer(sock, 18, 0)
            let_idle(served, 30_000)
        let_idle(served, 31_000)
        assert is_closed(sock)
        assert serves(served)
        assert served.server._metrics.expired_connections == 1


@pytest.mark.spec("NW-04")
def test_an_idle_connection_with_a_pending_request_is_closed(folder: Path) -> None:
    with serving(folder, connections_max_idle_ms="60000") as served, served.connect() as sock:
        sock.sendall(frame(fetch_request("orders", 0, max_wait_ms=2**31 - 1), 12))
        until(served, lambda: len(served.node.purgatory) == 1)
        let_idle(served, 61_000)
        assert is_closed(sock)
        assert served.on_node(lambda: len(served.node.purgatory)) == 0


@pytest.mark.spec("NW-04")
def test_a_response_counts_as_activity_of_its_connection(folder: Path) -> None:
    """The client of a long poll has the whole idle time to send its next request."""
    with serving(folder, connections_max_idle_ms="60000") as served, served.connect() as sock:
        sock.sendall(frame(fetch_request("orders", 0, max_wait_ms=2**31 - 1), 12))
        until(served, lambda: len(served.node.purgatory) == 1)
        let_idle(served, 40_000)
        with served.connect() as other:
            other.sendall(frame(produce_request("orders", batch(1, 50)), 9))
            answer(other, 0, 9)
        answer(sock, 1, 12)
        let_idle(served, 40_000)
        sock.sendall(frame(ApiVersionsRequest(), 0))
        assert answer(sock, 18, 0).error_code == 0  # type: ignore[attr-defined]


@pytest.mark.spec("NW-04")
def test_a_part_of_a_request_counts_as_activity_of_its_connection(folder: Path) -> None:
    request = frame(ApiVersionsRequest(), 0)
    with serving(folder, connections_max_idle_ms="60000") as served, served.connect() as sock:
        for part in (request[:5], request[5:10]):
            sock.sendall(part)
            until(served, lambda part=part: any(_kept(each).endswith(part) for each in served.server._connections))
            let_idle(served, 40_000)
        sock.sendall(request[10:])
        assert answer(sock, 18, 0).error_code == 0  # type: ignore[attr-defined]


def _kept(connection: Connection) -> bytes:
    return bytes(connection._kept or b"")


@pytest.mark.spec("NW-04")
def test_idle_connections_stay_where_no_limit_is_set(folder: Path) -> None:
    with serving(folder, connections_max_idle_ms="-1") as served, served.connect() as sock:
        sock.sendall(frame(ApiVersionsRequest(), 0))
        answer(sock, 18, 0)
        let_idle(served, 1 << 40)
        sock.sendall(frame(ApiVersionsRequest(), 0))
        assert answer(sock, 18, 0).error_code == 0  # type: ignore[attr-defined]


def test_connections_come_no_faster_than_allowed(folder: Path) -> None:
    with serving(folder, max_connection_creation_rate="5") as served:
        began = time.monotonic()
        for _ in range(10):
            assert serves(served)
        assert time.monotonic() - began > 0.9, "ten of them need a second window"


@pytest.mark.spec("NW-05")
def test_api_versions_from_the_future(folder: Path) -> None:
    with serving(folder) as served, served.connect() as sock:
        sock.sendall(bytes.fromhex("0000000d 0012 0063 0000002a 0002 6162 00"))
        (size,) = struct.unpack(">i", read_exactly(sock, 4))
        found = decode_response(18, 0, read_exactly(sock, size))
        assert found[0] == 42
        assert found[1].error_code == 35  # type: ignore[attr-defined]
        assert [(row.api_key, row.min_version, row.max_version) for row in found[1].api_keys] == [(18, 0, 4)]  # type: ignore[attr-defined]


@pytest.mark.spec("NW-06")
def test_a_slow_reader_holds_no_memory_and_nobody_up(folder: Path) -> None:
    with serving(folder) as served:
        with served.connect() as writer:
            for _ in range(8):
                writer.sendall(frame(produce_request("orders", batch(1, 900_000)), 9))
                answer(writer, 0, 9)
        with served.connect() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            metadata = frame(MetadataRequest(topics=None), 12)
            slow.sendall((frame(fetch_request("orders", 0, max_bytes=8 << 20), 12) + metadata) * 50)
            for _ in range(3):
                assert serves(served)
            (connection,) = [each for each in served.server._connections if each._out]
            in_memory = sum(len(part) for part in connection._out if isinstance(part, bytes | memoryview))
            assert in_memory < 64 << 10, "what is to be sent is in files"
            assert sum(map(len, connection._out)) <= 9 << 20, "one answer at a time"


@pytest.mark.spec("NW-06")
def test_a_producer_that_never_reads_is_no_longer_read_from(folder: Path) -> None:
    """What the broker holds for it is bounded, and no request is lost when the client reads at last."""
    settings = {"socket_send_buffer_bytes": "4096", "socket_receive_buffer_bytes": "4096"}
    with serving(folder, **settings) as served, socket.socket() as sock:
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, 4096)
        sock.settimeout(TIMEOUT_S)
        sock.connect(("127.0.0.1", served.port))
        request = frame(produce_request("orders", batch(1, 500)), 9)
        sock.sendall(request)
        answer(sock, 0, 9)
        (connection,) = served.server._connections
        sock.setblocking(False)
        sent = 0
        while served.on_node(lambda: connection._events & READABLE):
            with suppress(BlockingIOError):
                while sent < 16 << 20:
                    sent += sock.send((request * 20)[sent % len(request) :])
            assert sent < 16 << 20, "the broker goes on reading"
        held = served.on_node(lambda: sum(map(len, connection._out)) + len(connection._kept or b""))
        assert held < 2 * RECEIVE_BUFFER_BYTES
        assert serves(served)
        sock.settimeout(TIMEOUT_S)
        answers = [answer(sock, 0, 9) for _ in range(sent // len(request))]
        offsets = [found.responses[0].partition_responses[0].base_offset for found in answers]  # type: ignore[attr-defined]
        assert offsets == list(range(1, len(answers) + 1))


def test_more_large_requests_than_the_budget_has_bytes(folder: Path) -> None:
    with serving(folder, queued_max_request_bytes="1048576", socket_request_max_bytes="1048576") as served:
        large = frame(produce_request("orders", batch(1, 700_000)), 9)
        socks = [served.connect() for _ in range(4)]
        for sock in socks:
            sock.sendall(large[:400_000])
        done = []
        for sock in socks:
            sender = threading.Thread(target=sock.sendall, args=(large[400_000:],))
            sender.start()
            done.append(sender)
        for sock in socks:
            found = answer(sock, 0, 9)
            assert found.responses[0].partition_responses[0].error_code == 0  # type: ignore[attr-defined]
            sock.close()
        for sender in done:
            sender.join(TIMEOUT_S)
        assert served.on_node(lambda: served.server.budget.held_bytes) == 0


@pytest.mark.parametrize("is_slow", [False, True])
def test_announced_bytes_that_do_not_come_keep_nobody_waiting_for_long(
    folder: Path, monkeypatch: pytest.MonkeyPatch, is_slow: bool
) -> None:
    """A request that takes all of the budget, and of which nothing follows, or only a byte now and then."""
    monkeypatch.setattr("tailrace.broker.connection.LONGEST_PAUSE_MS", 10_000 if is_slow else 100)
    monkeypatch.setattr("tailrace.broker.connection.LONGEST_REQUEST_MS", 100 if is_slow else 10_000)
    monkeypatch.setattr("tailrace.broker.socket_server.DAWDLER_SWEEP_MS", 20)
    with serving(folder, queued_max_request_bytes="1048576", socket_request_max_bytes="1048576") as served:
        large = frame(produce_request("orders", batch(1, 700_000)), 9)
        with served.connect() as first, served.connect() as second:
            first.sendall(large[:40_000])
            second.sendall(large[:40_000])  # has to wait, however long the first takes
            sender = threading.Thread(target=second.sendall, args=(large[40_000:],))
            sender.start()
            if is_slow:
                with suppress(ConnectionError):
                    for byte in range(40_000, 40_100):
                        first.sendall(large[byte : byte + 1])
            found = answer(second, 0, 9)
            assert found.responses[0].partition_responses[0].error_code == 0  # type: ignore[attr-defined]
            sender.join(TIMEOUT_S)
            assert is_closed(first)
        with served.connect() as third:  # a slow one disturbs nobody when nobody waits
            third.sendall(large[:40_000])
            assert serves(served)
            third.sendall(large[40_000:])
            assert answer(third, 0, 9).responses[0].partition_responses[0].error_code == 0  # type: ignore[attr-defined]


def test_clients_that_vanish_while_they_wait(folder: Path) -> None:
    with serving(folder) as served:
        for _ in range(20):
            with served.connect() as sock:
                sock.sendall(frame(fetch_request("orders", 0, max_wait_ms=100_000), 12))
        assert serves(served)
        deadline = served.reactor.now_ms + 5000
        while len(served.node.purgatory) and served.reactor.now_ms < deadline:
            serves(served)
        assert len(served.node.purgatory) == 0


def test_what_is_cold_is_read_by_a_job(folder: Path) -> None:
    """Other connections are served while the disk is read."""
    with serving(folder) as served, served.connect() as sock:
        for _ in range(4):
            sock.sendall(frame(produce_request("orders", batch(1, 900_000)), 9))
            answer(sock, 0, 9)
        (segment,) = (folder / "orders-0").glob("*.log")
        with segment.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        run, jobs = served.jobs.run, []

        def noted(name: str, *rest: object, **options: object) -> None:
            jobs.append(name)
            run(name, *rest, **options)  # type: ignore[arg-type]

        served.jobs.run = noted  # type: ignore[method-assign, assignment]
        sock.sendall(frame(fetch_request("orders", 0, max_bytes=8 << 20), 12))
        found = answer(sock, 1, 12).responses[0].partitions[0]  # type: ignore[attr-defined]
        assert len(found.records) == segment.stat().st_size
        if not jobs:
            pytest.skip("this file system keeps what it is asked to drop from its cache")
        assert set(jobs) == {"read-cold-segment"}


@pytest.mark.spec("NW-02")
def test_fetched_records_go_from_the_file_to_the_socket(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every byte of them is sent by sendfile, and the file is not read by anything else than lookups of positions."""
    with serving(folder) as served, served.connect() as sock:
        for _ in range(4):
            sock.sendall(frame(produce_request("orders", batch(1, 900_000)), 9))
            answer(sock, 0, 9)
        sent, read = [], []
        sendfile, read_at = os.sendfile, RealFile.read_at

        def counting_sendfile(out: int, source: int, position: int, count: int) -> int:
            sent.append(sendfile(out, source, position, count))
            return sent[-1]

        def counting_read(self: RealFile, size: int, position: int) -> bytes:
            read.append(size)
            return read_at(self, size, position)

        monkeypatch.setattr(os, "sendfile", counting_sendfile)
        monkeypatch.setattr(RealFile, "read_at", counting_read)
        sock.sendall(frame(fetch_request("orders", 0, max_bytes=8 << 20), 12))
        found = answer(sock, 1, 12).responses[0].partitions[0]  # type: ignore[attr-defined]
        assert sum(sent) == len(found.records) > 4 * 900_000
        assert sum(read) < 64 << 10


@pytest.mark.spec("NW-01")
def test_what_came_before_garbage_is_answered(folder: Path) -> None:
    with serving(folder) as served, served.connect() as sock:
        for number in range(3):
            sock.sendall(frame(produce_request("orders", batch(1, 50)), 9, number))
            answer(sock, 0, 9)
        sock.sendall(frame(produce_request("orders", batch(1, 50)), 9) * 2 + bytes.fromhex("7fffffff"))
        for offset in (3, 4):
            found = answer(sock, 0, 9)
            assert found.responses[0].partition_responses[0].base_offset == offset  # type: ignore[attr-defined]
        assert is_closed(sock)
