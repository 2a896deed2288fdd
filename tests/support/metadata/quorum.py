"""A metadata quorum on a simulated machine, with a listener that remembers what it was told."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tailrace.config.quorum import QuorumConfig
from tailrace.env import Mode, write_fully
from tailrace.model.errors import TailraceError
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.topics import TopicRecord
from tailrace.raft.format import Formatted, format_directories
from tailrace.raft.quorum import Quorum, QuorumEndpoint, QuorumNode
from tailrace.sim import World

DIRECTORY = "/data"
LOG_DIRECTORY = f"{DIRECTORY}/__cluster_metadata-0"
ENDPOINTS = (QuorumEndpoint("CONTROLLER", "localhost", 9093),)


def topic(name: str) -> VersionedRecord:
    return VersionedRecord(TopicRecord(name=name, topic_id=bytes(16)), 0)


def topics(names: Sequence[str]) -> list[VersionedRecord]:
    return [topic(name) for name in names]


def names_of(records: Sequence[VersionedRecord] | Iterator[VersionedRecord]) -> list[str]:
    return [record.name for record, _ in records if isinstance(record, TopicRecord)]


class Memory:
    """A listener whose state is the names of the topics that it was told of."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.places: list[tuple[int, int]] = []
        self.events: list[Any] = []
        self.epochs: list[int] = []
        self.leaders: list[tuple[int | None, int]] = []
        self.failures: list[TailraceError] = []

    def prepare(self, records: Iterator[VersionedRecord]) -> list[VersionedRecord]:
        return list(records)

    def loaded(self, prepared: list[VersionedRecord], offset: int, epoch: int, timestamp_ms: int) -> None:
        self.names = names_of(prepared)
        self.events.append(("loaded", offset, epoch, timestamp_ms))

    def committed(self, records: list[VersionedRecord], last_offset: int, epoch: int, timestamp_ms: int) -> None:
        assert not self.places or self.places[-1][0] < last_offset
        self.places.append((last_offset, epoch))
        self.names += names_of(records)
        self.events.append(("committed", last_offset, epoch))

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        self.leaders.append((leader_id, epoch))

    def resigned(self) -> None:
        self.events.append(("resigned",))

    def became_leader(self, epoch: int) -> None:
        self.epochs.append(epoch)
        self.events.append(("leader", epoch))

    def failed(self, error: TailraceError) -> None:
        self.failures.append(error)
        self.events.append(("failed", error))


class QuorumWorld:
    """One node's quorum. `open` is a new process on the same disk."""

    def __init__(self, seed: int = 0, standalone: bool = False, **changes: Any) -> None:
        self.world = World(seed)
        self.disk = self.world.disk
        self.jobs = self.world.jobs
        self.dice = random.Random(seed)
        self.config = replace(QuorumConfig(), **changes)
        self.standalone = ENDPOINTS if standalone else ()
        self.appended: list[str] = []
        self.done: list[str] = []
        self.is_ready = False

    def format(self, **options: Any) -> Formatted:
        return format_directories(
            self.world.env, [DIRECTORY], DIRECTORY, 1, **{"standalone": self.standalone, **options}
        )

    def open(self, **node: Any) -> Quorum:
        found = self.format()
        self.memory = Memory()
        self.is_ready = False
        of_node = QuorumNode(1, found.cluster_id, found.directory_id, ENDPOINTS)._replace(**node)
        self.quorum = Quorum(self.world.env, DIRECTORY, of_node, self.config, self.memory, is_alone=True)
        return self.quorum

    def start(self, **node: Any) -> Quorum:
        quorum = self.open(**node)
        quorum.start(self.ready)
        self.jobs.run_all()
        return quorum

    def ready(self) -> None:
        self.is_ready = True

    def append(self, *names: str) -> int:
        """Not committed before jobs have run."""
        self.appended += names
        return self.quorum.append(topics(names), lambda _: self.done.extend(names))

    def snapshot(self) -> None:
        self.quorum.snapshot(iter(topics(self.memory.names)), lambda: None)

    def stop(self) -> bool:
        closed = False

        def is_closed() -> None:
            nonlocal closed
            closed = True

        self.quorum.shutdown(is_closed)
        self.jobs.run_all()
        return closed

    def files(self, suffix: str = "") -> list[str]:
        return [entry.name for entry in self.disk.list(LOG_DIRECTORY) if entry.name.endswith(suffix)]

    def read(self, name: str) -> bytes:
        file = self.disk.open(f"{LOG_DIRECTORY}/{name}", Mode.READ)
        return file.read_at(file.size(), 0)

    def write(self, path: str, data: bytes) -> None:
        file = self.disk.open(path, Mode.REPLACE)
        write_fully(file, (data,), 0)
        file.sync()
