"""One node as the program of a machine: its ports, its connections, its end."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from support.brokers.simulated import fetch_request, produce_request
from support.logs.builders import batch
from support.universe.endpoints import End, Idle
from tailrace.protocol.frame import SIZE_BYTES, decode_response, encode_request
from tailrace.protocol.message import Request
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.sim.machine import Machine
from tailrace.sim.node_program import NodeProgram, node_boot
from tailrace.sim.pipe import WINDOW_BYTES
from tailrace.sim.universe import Universe

PORT = 9092
SETTINGS = {
    "node.id": "1",
    "log.dirs": "/data",
    "listeners": f"PLAINTEXT://broker:{PORT},CONTROLLER://broker:{PORT + 1}",
    "socket.request.max.bytes": "2000000",
}


class Cluster:
    def __init__(self, seed: int = 1) -> None:
        self.universe = Universe(seed)
        self.broker = self.universe.add_machine("broker", node_boot(SETTINGS))
        self.client = self.universe.add_machine("client", Idle)
        self.broker.start()
        self.client.start()
        self.end = self.connect()
        self.ask(CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]), 7)

    @property
    def program(self) -> NodeProgram:
        assert self.broker.process is not None
        assert isinstance(self.broker.process.program, NodeProgram)
        return self.broker.process.program

    def connect(self) -> End:
        assert self.client.process is not None
        end = End(self.client)
        end.stream = self.client.process.env.network.connect("broker", PORT, end, 10_000)  # type: ignore[assignment]
        return end

    def post(self, request: Request, version: int, number: int = 1) -> None:
        self.end.stream.send([b"".join(encode_request(request, version, number, "client"))])

    def ask(self, request: Request, version: int, ms: int = 2_000) -> Any:
        self.post(request, version)
        self.universe.run_for(ms)
        (response,) = self.responses(request.KEY, version)
        return response

    def responses(self, key: int, version: int) -> list[Any]:
        found, data = [], bytes(self.end.data)
        while data:
            size = int.from_bytes(data[:SIZE_BYTES], "big")
            found.append(decode_response(key, version, data[SIZE_BYTES : SIZE_BYTES + size])[1])
            data = data[SIZE_BYTES + size :]
        self.end.data.clear()
        return found

    def produce(self, records: int, size: int, acks: int = -1) -> int:
        response = self.ask(produce_request("t", batch(records, size), acks=acks), 9)
        partition = response.responses[0].partition_responses[0]
        assert partition.error_code == 0
        return int(partition.base_offset)

    def high_watermark(self) -> int:
        response = self.ask(fetch_request("t", 0), 12)
        return int(response.responses[0].partitions[0].high_watermark)


def test_a_clean_shutdown_exits_and_keeps_everything() -> None:
    cluster = Cluster()
    cluster.produce(3, 100)
    assert cluster.broker.process is not None
    cluster.broker.process.after(0, cluster.program.shutdown)
    cluster.universe.run_for(10_000)
    assert not cluster.broker.is_running
    assert cluster.end.events == ["connected", "CLOSED"]
    assert "shut down" in next(event.text for event in cluster.universe.log.events if event.kind == "end")
    cluster.broker.lose_power()
    cluster.broker.power_up()
    cluster.end = cluster.connect()
    assert cluster.high_watermark() == 3


def test_connections_wait_until_the_node_is_ready() -> None:
    cluster = Cluster()
    cluster.broker.kill()
    cluster.broker.job_times.slowness = 50
    cluster.broker.start()
    cluster.end = cluster.connect()
    cluster.post(fetch_request("t", 0), 12)
    cluster.universe.run_for(20)
    assert not cluster.program.is_ready
    assert (cluster.end.events, cluster.end.data) == (["connected"], b"")
    cluster.universe.run_for(20_000)
    assert cluster.program.is_ready
    assert len(cluster.responses(1, 12)) == 1


def test_a_large_request_arrives_in_pieces() -> None:
    cluster = Cluster()
    assert cluster.produce(1, 900_000) == 0
    assert cluster.high_watermark() == 1


def test_requests_in_a_row_are_answered_in_order() -> None:
    cluster = Cluster()
    for number in range(200):
        cluster.post(produce_request("t", batch(1, 500)), 9, number)
    cluster.universe.run_for(5_000)
    offsets = [each.responses[0].partition_responses[0].base_offset for each in cluster.responses(0, 9)]
    assert offsets == list(range(200))


def test_a_client_that_does_not_read_stops_the_node_from_reading() -> None:
    """Responses of 40 MB wait as requests at the client, and not in the memory of the node."""
    cluster = Cluster()
    for _ in range(4):
        cluster.produce(1, 200_000)
    cluster.end.stream.set_reading(False)
    for number in range(50):
        cluster.post(fetch_request("t", 0), 12, number)
    cluster.universe.run_for(5_000)
    assert cluster.broker.process is not None
    (stream,) = cluster.broker.process.streams
    assert 0 < stream.unsent_bytes < 2_000_000
    assert cluster.end.stream.inbox_bytes == WINDOW_BYTES
    cluster.end.stream.set_reading(True)
    cluster.universe.run_for(60_000)
    assert len(cluster.responses(1, 12)) == 50


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x14" + bytes(20), b"\x7f\xff\xff\xff"])
def test_garbage_costs_the_connection_alone(garbage: bytes) -> None:
    cluster = Cluster()
    other, cluster.end = cluster.end, cluster.connect()
    cluster.end.stream.send([garbage])
    cluster.universe.run_for(100)
    assert cluster.end.events[-1] in ("CLOSED", "RESET")
    cluster.end = other
    assert cluster.produce(1, 100) == 0


def reasons(broker: Machine) -> list[str]:
    return [event.text for event in broker.universe.log.events if event.kind == "end"]


def test_a_node_without_a_working_disk_exits_and_comes_back() -> None:
    cluster = Cluster()
    cluster.produce(2, 100)
    cluster.broker.restart_delay_ms = 1_000
    cluster.broker.disk.fail_next("write", "*/t-0/*.log", errno.EIO, times=None)
    cluster.post(produce_request("t", batch(1, 100)), 9)
    cluster.universe.run_for(500)
    assert not cluster.broker.is_running
    assert "every log directory has failed" in reasons(cluster.broker)[0]
    cluster.broker.disk.faults.heal()
    cluster.universe.run_for(5_000)
    cluster.end = cluster.connect()
    assert cluster.high_watermark() == 2
