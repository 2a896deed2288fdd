"""A cluster's metadata on one node without topic logs: what `metadata.py` measures, and the cluster it is made of.

Files, threads and the log are real; the only voter of the quorum is this node. `run_until` is the node's loop: it
measures how long no event could have been served.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tailrace.broker.main import resume_full_collections, suspend_full_collections
from tailrace.config.server import ServerConfig
from tailrace.controller.controller import Controller
from tailrace.controller.state import ControllerIdentity
from tailrace.env import Env
from tailrace.env.real import RealClock, RealFiles, ThreadJobs
from tailrace.metadata.endpoint import Endpoint
from tailrace.metadata.versions import NEW_CLUSTER_FEATURES, SUPPORTED_FEATURES
from tailrace.metrics.metrics import Metrics
from tailrace.model.ids import DirectoryId, TopicId
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.brokers import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from tailrace.protocol.records.settings import FeatureLevelRecord
from tailrace.protocol.records.topics import PartitionRecord, TopicRecord
from tailrace.raft.commit_reporter import PreparedSnapshot
from tailrace.raft.format import format_directories
from tailrace.raft.metadata_loader import MetadataLoader
from tailrace.raft.quorum import Quorum, QuorumEndpoint, QuorumNode
from tailrace.raft.snapshot import SnapshotHead, SnapshotId, SnapshotReader
from tailrace.raft.snapshot_writer import write_snapshot

REPLICATION_FACTOR = 3
PARTITIONS_PER_TOPIC = 100
FAILING_BROKER = 0
FAILING_LEADERS = 600
FAILING_REPLICAS = 1800
"""Partitions that the failing broker leads, and of which it has a replica. A cluster has more."""
CONTROLLER_ID = 1_000_000
LOOP_SLEEP_S = 0.001
FOLDER = "__cluster_metadata-0"
_LEVEL_VERSIONS = 4, 2  # of RegisterBrokerRecord and PartitionRecord at the latest metadata.version


class Shape(NamedTuple):
    """How large the cluster is."""

    brokers: int
    partitions: int


def directory_of(broker_id: int) -> DirectoryId:
    return DirectoryId((1 << 64 | broker_id).to_bytes(16, "big"))


def records_of(shape: Shape) -> Iterator[VersionedRecord]:
    """The cluster as a snapshot. All brokers are active, all replicas in sync; topics have 100 partitions."""
    register, partition_version = _LEVEL_VERSIONS
    for name, level in sorted(NEW_CLUSTER_FEATURES.items(), key=lambda item: (item[0] != "metadata.version", item)):
        yield VersionedRecord(FeatureLevelRecord(name=name, feature_level=level), 0)
    for broker_id in range(shape.brokers):
        record = RegisterBrokerRecord(
            broker_id=broker_id,
            broker_epoch=broker_id + 10,
            incarnation_id=(2 << 64 | broker_id).to_bytes(16, "big"),
            end_points=[BrokerEndpoint(name="PLAINTEXT", host=f"broker-{broker_id}.example", port=9092)],
            features=[
                BrokerFeature(name=name, min_supported_version=first, max_supported_version=last)
                for name, (first, last) in SUPPORTED_FEATURES.items()
            ],
            rack=f"zone-{broker_id % 3}",
            fenced=False,
            log_dirs=[directory_of(broker_id)],
        )
        yield VersionedRecord(record, register)
    dice = random.Random(1)
    for index in range(shape.partitions):
        topic, partition = divmod(index, PARTITIONS_PER_TOPIC)
        topic_id = topic_id_of(topic)
        if not partition:
            yield VersionedRecord(TopicRecord(name=f"department.service-{topic:05d}.events", topic_id=topic_id), 0)
        replicas = dice.sample(range(1, shape.brokers), REPLICATION_FACTOR)
        if index < FAILING_LEADERS:
            replicas[0] = FAILING_BROKER
        elif index < FAILING_REPLICAS:
            replicas[1] = FAILING_BROKER
        record_of_partition = PartitionRecord(
            partition_id=partition,
            topic_id=topic_id,
            replicas=replicas,
            isr=list(replicas),
            leader=replicas[0],
            leader_epoch=dice.randrange(20),
            partition_epoch=dice.randrange(300, 3000),
            directories=[directory_of(each) for each in replicas],
        )
        yield VersionedRecord(record_of_partition, partition_version)


class Waited(NamedTuple):
    """`cpu` is the time of the process on a processor: what remains if other programs use the machine as well."""

    seconds: float
    stall_ms: float
    """The longest time between two rounds of the loop."""
    cpu_s: float
    round_cpu_ms: float
    """The longest work of the loop's own thread in one round. It also waits for the GIL: 5 ms if no job keeps it."""

    def figures(self, prefix: str) -> dict[str, float]:
        return {
            f"{prefix}_s": self.seconds,
            f"{prefix}_cpu_s": self.cpu_s,
            f"{prefix}_stall_ms": self.stall_ms,
            f"{prefix}_round_cpu_ms": self.round_cpu_ms,
        }


class Times(NamedTuple):
    wall_s: float
    cpu_s: float
    thread_s: float

    @classmethod
    def now(cls) -> Times:
        return cls(time.perf_counter(), time.process_time(), time.thread_time())


class MetadataNode:
    """`is_controller`: a controller; otherwise the metadata as a broker has it."""

    def __init__(self, directory: Path, *, is_controller: bool) -> None:
        self._directory = directory
        self.jobs = ThreadJobs(RealClock(), 2)
        self.env = Env(files=RealFiles(), clock=RealClock(), jobs=self.jobs, random=random.Random(1))
        self.config = ServerConfig.single_node({"log.dirs": str(directory), "node.id": str(CONTROLLER_ID)})
        self.failures: list[Exception] = []
        endpoints = (QuorumEndpoint("CONTROLLER", "localhost", 9093),)
        formatted = format_directories(
            self.env, [str(directory)], str(directory), CONTROLLER_ID, standalone=endpoints, features=None
        )
        self.loader = MetadataLoader(self.failures.append)
        self.loader.on_preparing.add(suspend_full_collections)
        self.loader.on_prepared.add(resume_full_collections)
        self.cluster_id = formatted.cluster_id
        node = QuorumNode(CONTROLLER_ID, formatted.cluster_id, formatted.directory_id, endpoints)
        self.quorum = Quorum(self.env, str(directory), node, self.config, self.loader, is_alone=True)
        self.controller: Controller | None = None
        if is_controller:
            identity = ControllerIdentity(
                CONTROLLER_ID,
                formatted.cluster_id,
                bytes(16),
                (Endpoint("CONTROLLER", "localhost", 9093),),
                SUPPORTED_FEATURES,
            )
            settings = _Settings(self.config)
            self.controller = Controller(self.quorum, self.env, settings, identity, self.loader.image, Metrics())
            self.loader.controller = self.controller

    def start(self) -> Waited:
        ready: list[bool] = []
        self.quorum.start(lambda: ready.append(True))
        return self.run_until(lambda: bool(ready))

    def run_until(self, is_reached: Callable[[], bool], begin: Times | None = None) -> Waited:
        """`begin`: of a call that has preceded, which counts as the first round."""
        begin = previous = begin or Times.now()
        wall_s = round_s = 0.0
        while not is_reached():
            self.jobs.step()
            now = Times.now()
            wall_s = max(wall_s, now.wall_s - previous.wall_s)
            round_s = max(round_s, now.thread_s - previous.thread_s)
            time.sleep(LOOP_SLEEP_S)
            previous = now._replace(wall_s=now.wall_s + LOOP_SLEEP_S)
            if self.failures:
                raise self.failures[0]
        now = Times.now()
        return Waited(now.wall_s - begin.wall_s, wall_s * 1000, now.cpu_s - begin.cpu_s, round_s * 1000)

    def replaced_by(self, snapshot_id: SnapshotId) -> Waited:
        """The image becomes that of a newer snapshot in the directory, as when a leader has sent it."""
        path = str(self._directory / FOLDER / snapshot_id.name)

        def prepared() -> PreparedSnapshot:
            records = SnapshotReader(self.env.files, path).records()
            return PreparedSnapshot(snapshot_id, 0, self.loader.prepare(records))

        self.jobs.run("install-snapshot", prepared, self.quorum.log_replaced)
        return self.run_until(lambda: self.loader.image.offset == snapshot_id.offset - 1)

    def snapshot(self, written: Callable[[], None], is_written: Callable[[], bool]) -> Waited:
        begin = Times.now()
        self.quorum.snapshot(self.loader.image.records(), written, self.loader.image.offset)
        return self.run_until(is_written, begin)

    def close(self) -> None:
        closed: list[bool] = []
        self.quorum.shutdown(lambda: closed.append(True))
        self.run_until(lambda: bool(closed))
        self.jobs.close()


class _Settings:
    def __init__(self, config: ServerConfig) -> None:
        self.static = self.config = config


def prepare(directory: Path, shape: Shape) -> int:
    """A formatted directory whose metadata log is one snapshot of the cluster; returns its size in bytes."""
    env = _env()
    endpoints = (QuorumEndpoint("CONTROLLER", "localhost", 9093),)
    format_directories(env, [str(directory)], str(directory), CONTROLLER_ID, standalone=endpoints)
    for path in (directory / FOLDER).glob("*.checkpoint"):
        path.unlink()
    return _write(env, directory, SnapshotId(10_000_000, 1), records_of(shape))


def next_snapshot(directory: Path, shape: Shape) -> SnapshotId:
    """A snapshot that the leader has sent in the meantime: one partition in a hundred has changed."""

    def records() -> Iterator[VersionedRecord]:
        for each in records_of(shape):
            if isinstance(each.record, PartitionRecord) and not each.record.partition_id:
                each.record.isr = each.record.isr[:-1]
                each.record.partition_epoch += 1
            yield each

    snapshot_id = SnapshotId(20_000_000, 1)
    if not os.fork():  # the memory of this process stays as it is
        _write(_env(), directory, snapshot_id, records())
        os._exit(0)
    _, status = os.wait()
    if status:
        raise RuntimeError("the snapshot could not be written")
    return snapshot_id


def _write(env: Env, directory: Path, snapshot_id: SnapshotId, records: Iterator[VersionedRecord]) -> int:
    path = directory / FOLDER / snapshot_id.name
    write_snapshot(env.files, env.clock, str(path), records, SnapshotHead(0), snapshot_id.epoch)
    return path.stat().st_size


def _env() -> Env:
    clock = RealClock()
    return Env(files=RealFiles(), clock=clock, jobs=ThreadJobs(clock, 1), random=random.Random(1))


def topic_id_of(topic: int) -> TopicId:
    return TopicId((3 << 64 | topic).to_bytes(16, "big"))
