"""A node of which only the metadata is real, for handlers that need no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from tailrace.broker.auto_creation import AutoTopicCreation
from tailrace.broker.producer_ids import ProducerIds
from tailrace.broker.replica_directories import ReplicaDirectories
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.protocol.message import Record, Request, Response
from tailrace.protocol.records.brokers import (
    BrokerEndpoint,
    ControllerEndpoint,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from tailrace.protocol.records.topics import PartitionRecord, TopicRecord
from tailrace.sim.world import World

CLUSTER_ID = "mn38A76LQamCE-_Myj-iVg"
DIRECTORY = b"directory-of-one"


class StubController:
    """Keeps what it is sent; a test answers when it likes."""

    def __init__(self) -> None:
        self.sent: list[tuple[Request, int]] = []
        self._waiting: list[Callable[[Response], None]] = []

    def send(self, request: Request, version: int, done: Callable[[Any], None]) -> None:
        self.sent.append((request, version))
        self._waiting.append(done)

    def forward(self, request: Request, context: Any, done: Callable[[Any], None]) -> None:
        self.send(request, context.version, done)

    def handle(self, request: Request, version: int, context: Any, done: Callable[[Any], None]) -> None:
        self.send(request, version, done)

    def answer(self, response: Response) -> None:
        """The oldest request that has none."""
        self._waiting.pop(0)(response)


class StubNode:
    def __init__(self, *, seed: int = 0, **settings: Any) -> None:
        self.world = World(seed)
        self.env = self.world.env
        self.node_id = 1
        self.broker_epoch = 101
        self.cluster_id = CLUSTER_ID
        self.image = MetadataImage()
        self.controller = StubController()
        self.local_controller: StubController | None = None
        self.quorum = SimpleNamespace(leader_id=1)
        self.replicas: Any = SimpleNamespace(when_made=lambda done: done())  # logs are there at once
        defaults = {
            "auto_create_topics_enable": True,
            "default_replication_factor": 1,
            "max_request_partition_size_limit": 2000,
            "num_partitions": 1,
            "request_timeout_ms": 30_000,
            "transaction_max_timeout_ms": 900_000,
        }
        self.config = SimpleNamespace(**(defaults | settings))
        self.auto_topics = AutoTopicCreation(self)  # type: ignore[arg-type]
        self.producer_ids = ProducerIds(self)  # type: ignore[arg-type]
        self.replica_directories = ReplicaDirectories(self)  # type: ignore[arg-type]

    def learn(self, *records: Record) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)


def broker(
    broker_id: int,
    *,
    fenced: bool = False,
    rack: str | None = None,
    listeners: Iterable[str] = ("PLAINTEXT",),
    directories: Iterable[bytes] = (DIRECTORY,),
) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        broker_epoch=100 + broker_id,
        incarnation_id=bytes(16),
        end_points=[
            BrokerEndpoint(name=name, host=f"{name.lower()}{broker_id}", port=9000 + broker_id) for name in listeners
        ],
        rack=rack,
        fenced=fenced,
        log_dirs=list(directories),
    )


def controller(controller_id: int, listener: str = "CONTROLLER") -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller_id,
        end_points=[ControllerEndpoint(name=listener, host=f"controller{controller_id}", port=9100 + controller_id)],
    )


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b".")[:16]


def topic(
    name: str,
    partitions: int = 1,
    *,
    replicas: Iterable[int] = (1,),
    isr: Iterable[int] | None = None,
    leader: int | None = None,
    leader_epoch: int = 0,
    directories: Iterable[bytes] | None = None,
    elr: list[int] | None = None,
) -> list[Record]:
    """The first replica leads where nothing else is said."""
    replicas = list(replicas)
    records: list[Record] = [TopicRecord(name=name, topic_id=topic_id(name))]
    records += [
        PartitionRecord(
            topic_id=topic_id(name),
            partition_id=index,
            replicas=replicas,
            isr=replicas if isr is None else list(isr),
            leader=replicas[0] if leader is None else leader,
            leader_epoch=leader_epoch,
            directories=[DIRECTORY] * len(replicas) if directories is None else list(directories),
            eligible_leader_replicas=elr,
        )
        for index in range(partitions)
    ]
    return records
