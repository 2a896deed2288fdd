"""A whole broker with its controller on a simulated machine, and clients that talk to it in frames.

Nothing is replaced but the outside: disk, clock, jobs and randomness are the simulator's, and a client's bytes go
straight into a channel. Jobs take no time, and their steps run when the test says so: `run` runs them all. `kill` and
`lose_power` end the process in the middle; `start` is the next one on the same disk. Several brokers can be machines of
one universe.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, TypeVar

from tailrace.broker.channel import Channel
from tailrace.broker.file_range import FileRange
from tailrace.broker.node import Node
from tailrace.config.listeners import Listener
from tailrace.config.server import ServerConfig
from tailrace.protocol.frame import decode_response, encode_request
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.protocol.schema import Payload
from tailrace.sim.clock import MachineClock
from tailrace.sim.disk import SimDisk
from tailrace.sim.faults import Faults, Survival
from tailrace.sim.jobs import HeldJobs
from tailrace.sim.process import Process
from tailrace.sim.universe import Universe

BROKER = Listener("PLAINTEXT", "127.0.0.1", 9092)
CONTROLLER = Listener("CONTROLLER", "127.0.0.1", 9093)
SETTINGS = {"log.dirs": "/data", "node.id": "1"}

R = TypeVar("R", bound=Response)


class SimBroker:
    """Also the program of its machine."""

    LISTENERS: tuple[Listener, ...] = (BROKER, CONTROLLER)

    def __init__(
        self, seed: int = 0, faults: Faults | None = None, *, universe: Universe | None = None, **settings: str
    ) -> None:
        """Settings with underscores for dots."""
        self.universe = universe or Universe(seed)
        name = f"broker-{len(self.universe.machines) + 1}"
        self.machine = self.universe.add_machine(name, self._boot, faults=faults, holds_jobs=True)
        self.settings = {**SETTINGS, **{name.replace("_", "."): text for name, text in settings.items()}}
        self.order: random.Random | None = None  # any order of jobs, when set
        self.node: Node
        self.jobs: HeldJobs
        self.failure: Exception | None = None
        self.is_ready = False
        self._refusal: Exception | None = None

    def config(self) -> ServerConfig:
        return ServerConfig.single_node(self.settings)

    @property
    def disk(self) -> SimDisk:
        return self.machine.disk

    @property
    def clock(self) -> MachineClock:
        return self.machine.clock

    # Its life

    def start(self) -> SimBroker:
        self.begin()
        for _ in range(200):
            if self.is_ready or self.failure is not None:
                break
            self.run()
            self.pass_time(10)
        assert self.failure is None, self.failure
        assert self.is_ready
        return self

    def begin(self) -> None:
        """Start a process, after the end of one that runs. It is not ready yet."""
        self.failure, self.is_ready, self._refusal = None, False, None
        self.machine.end_process("another one starts")
        self.machine.start()
        if self._refusal is not None:
            raise self._refusal

    def _boot(self, process: Process) -> SimBroker:
        assert isinstance(process.jobs, HeldJobs)
        self.jobs = process.jobs
        self.node = Node(process.env, self.config(), 1000, self._failed)
        try:
            self.node.start(self.LISTENERS, self._ready)
        except Exception as error:
            self._refusal = error
            raise
        return self

    def _ready(self) -> None:
        self.is_ready = True

    def _failed(self, error: Exception) -> None:
        self.failure = error

    def due_ms(self) -> int | None:
        return self.node.purgatory.due_ms

    def run_due(self, now_ms: int) -> None:
        self.node.purgatory.expire_due(now_ms)

    def ends_with(self, error: Exception) -> bool:
        return False

    def stop(self) -> None:
        """Cleanly."""
        ended: list[bool] = []
        self.node.shutdown(lambda: ended.append(True))
        for _ in range(200):
            if ended:
                self.machine.end_process("stopped")
                return
            self.run()
            self.pass_time(50)
        raise AssertionError("the broker does not stop")

    def kill(self) -> None:
        self.machine.kill()

    def lose_power(self, survival: Survival = Survival.ANY) -> None:
        self.machine.lose_power()
        self.machine.power_on(survival)

    def run(self) -> None:
        """All jobs, and what is due now."""
        while True:
            self.jobs.run_all(self.order)
            self.universe.run_for(0)
            if not self.jobs.pending:
                return

    def pass_time(self, ms: int) -> None:
        self.universe.run_for(ms)
        self.node.purgatory.expire_due(self.clock.monotonic_ms())
        self.run()

    def client(self, listener: Listener = BROKER) -> SimClient:
        return SimClient(self, listener)


class SimClient:
    """One connection. It is the channel's transport."""

    def __init__(self, broker: SimBroker, listener: Listener = BROKER) -> None:
        self._broker = broker
        self._channel: Channel = broker.node.open_channel(self, listener.name, "10.0.0.1")
        self._unread = bytearray()
        self._received = bytearray()
        self._sent: dict[int, tuple[int, int]] = {}
        self._next_id = 0
        self.answers: dict[int, Any] = {}
        self.is_closed = False
        self.is_slow = False
        """It does not read: nothing of what it is sent goes through."""

    # What the channel wants of a transport

    def send(self, parts: list[Payload]) -> bool:
        if self.is_closed:
            return False
        for part in parts:
            self._received += part.read() if isinstance(part, FileRange) else part
        return not self.is_slow

    def send_soon(self, data: bytes) -> None:
        if not self.send([data]):
            self._channel.choked()

    def resume(self) -> None:
        self._broker.node.env.jobs.later("resume", 0, self._offer)

    def close(self) -> None:
        self.is_closed = True

    # What a client does

    def ask(self, request: Request, version: int) -> Any:
        """The answer, which must come without time passing."""
        correlation_id = self.post(request, version)
        self._broker.run()
        self.read()
        return self.answers.pop(correlation_id)

    def post(self, request: Request, version: int) -> int:
        """Send, and do not wait."""
        self._next_id += 1
        self._sent[self._next_id] = (request.KEY, version)
        self.write(b"".join(encode_request(request, version, self._next_id, "sim")))
        return self._next_id

    def write(self, data: bytes) -> None:
        """Any bytes. InvalidRequestError is what would close the connection."""
        self._unread += data
        self._offer()

    def _offer(self) -> None:
        buffer = bytearray(self._unread)
        taken = self._channel.receive(memoryview(buffer), 0, len(buffer))
        del self._unread[:taken]

    def read(self) -> dict[int, Any]:
        """Answers that have come, by correlation id, in the order in which they came."""
        while len(self._received) >= 4:
            size = int.from_bytes(self._received[:4], "big")
            frame = bytes(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            correlation_id = int.from_bytes(frame[:4], "big")
            key, version = self._sent.pop(correlation_id)
            self.answers[correlation_id] = decode_response(key, version, frame)[1]
        return self.answers

    def leave(self) -> None:
        self._channel.closed()

    # Often used

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> Any:
        settings = [CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
        response = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        (answer,) = response.topics
        assert answer.error_code == 0, answer
        return answer

    def produce(self, topic: str, records: bytes, partition: int = 0, acks: int = -1) -> Any:
        response = self.ask(produce_request(topic, records, partition, acks), 9)
        return response.responses[0].partition_responses[0]

    def fetch(self, topic: str, offset: int, partition: int = 0, max_bytes: int = 1 << 20) -> Any:
        response = self.ask(fetch_request(topic, offset, partition, max_bytes), 12)
        return response.responses[0].partitions[0]


def produce_request(topic: str, records: bytes | None, partition: int = 0, acks: int = -1) -> ProduceRequest:
    part = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[part])])


def fetch_request(
    topic: str, offset: int, partition: int = 0, max_bytes: int = 1 << 20, max_wait_ms: int = 0, min_bytes: int = 1
) -> FetchRequest:
    part = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=50 << 20,
        topics=[FetchTopic(topic=topic, partitions=[part])],
    )
