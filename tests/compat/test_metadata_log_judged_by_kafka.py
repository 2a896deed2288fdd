"""The metadata log and Kafka 4.3.1: its tools read what we write, and a directory changes hands both ways.

We format a directory and write the records of a new cluster with a topic; a real broker takes it over, makes a topic of
its own and ends; we take it back, write a snapshot and trim the log; the broker starts from our snapshot. Once with
configured voters and once with voters in the log.
"""

from __future__ import annotations

import json
import random
import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from support.kafka.tools import DUMP_TOOL, run_tool

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of kafka-python's use of importlib
    from golden.broker import Broker
    from support.kafka.client import free_port

from tailrace.config.quorum import QuorumConfig
from tailrace.env import Env, InlineJobs
from tailrace.env.real import RealClock, RealFiles
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicId
from tailrace.protocol.message import Record
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.ledger import BeginTransactionRecord, EndTransactionRecord, NoOpRecord
from tailrace.protocol.records.topics import PartitionRecord, TopicRecord
from tailrace.raft.format import format_directories
from tailrace.raft.quorum import Quorum, QuorumEndpoint, QuorumNode
from tailrace.storage.verify import verify_directory

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.usefixtures("kafka_jars")]

TOPIC_ID = TopicId(bytes(range(16)))
CONFIG = replace(QuorumConfig(), internal_metadata_log_segment_bytes=2000, internal_metadata_delete_delay_millis=0)


class OurQuorum:
    """A quorum over a real directory, with an image that follows it. Leaving the block is a shutdown."""

    def __init__(self, log_dir: Path, controller_port: int, config: QuorumConfig = CONFIG, *, standalone: bool) -> None:
        self.log_dir = log_dir
        self.image = MetadataImage()
        endpoints = (QuorumEndpoint("CONTROLLER", "127.0.0.1", controller_port),)
        env = Env(files=RealFiles(), clock=RealClock(), jobs=InlineJobs(), random=random.Random(5))
        found = format_directories(env, [str(log_dir)], str(log_dir), 1, standalone=endpoints if standalone else ())
        self.directory_id = found.directory_id
        node = QuorumNode(1, found.cluster_id, found.directory_id, endpoints)
        self.quorum = Quorum(env, str(log_dir), node, config, self)

    def __enter__(self) -> OurQuorum:
        self.quorum.start(lambda: None)
        assert self.quorum.is_leader
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.quorum.shutdown(lambda: None)

    def prepare(self, records: Iterator[VersionedRecord]) -> list[VersionedRecord]:
        return list(records)

    def loaded(self, prepared: list[VersionedRecord], offset: int, epoch: int, timestamp_ms: int) -> None:
        self._replay([record for record, _ in prepared])

    def committed(self, records: list[VersionedRecord], last_offset: int, epoch: int, timestamp_ms: int) -> None:
        self._replay([record for record, _ in records])

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        pass

    def became_leader(self, epoch: int) -> None:
        pass

    def resigned(self) -> None:
        pass

    def failed(self, error: TailraceError) -> None:
        raise error

    def _replay(self, records: list[Record]) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)

    def append(self, *records: tuple[Record, int]) -> None:
        told: list[int] = []
        last = self.quorum.append([VersionedRecord(*each) for each in records], told.append)
        assert told == [last]

    def begin_cluster(self) -> None:
        """What a controller does with an empty log."""
        first = VersionedRecord(BeginTransactionRecord(name="Bootstrap records"), 0)
        self.append(first, *self.quorum.bootstrap_records, (EndTransactionRecord(), 0))

    def create_topic(self, name: str) -> None:
        partition = PartitionRecord(
            partition_id=0,
            topic_id=TOPIC_ID,
            replicas=[1],
            isr=[1],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=[self.directory_id],
        )
        self.append((TopicRecord(name=name, topic_id=TOPIC_ID), 0), (partition, 2))

    def snapshot(self) -> None:
        ended: list[int] = []
        self.quorum.snapshot(iter(list(self.image.records())), lambda: ended.append(1))
        assert ended == [1]

    @property
    def files(self) -> Path:
        return self.log_dir / "__cluster_metadata-0"


def dumped(path: Path) -> list[dict[str, Any]]:
    """Every metadata record as Kafka's decoder prints it; control records by what the tool calls them."""
    output, errors = run_tool(DUMP_TOOL, "--cluster-metadata-decoder", "--files", str(path))
    assert "isvalid: false" not in output
    assert "Could not" not in output + errors
    assert "Exception" not in output + errors
    found = []
    for line in output.splitlines():
        payload = re.search(r" payload: (\{.*)$", line)
        control = re.search(r"headerKeys: \[\] (\w+):? (\{.*)$", line)
        if payload:
            found.append(json.loads(payload[1]))
        elif control:
            found.append({"type": control[1], "data": json.loads(control[2])})
    return found


def kinds(records: list[dict[str, Any]]) -> list[str]:
    return [record["type"] for record in records]


@pytest.mark.spec("LS-51")
@pytest.mark.parametrize("standalone", [False, True])
def test_kafkas_decoder_reads_what_we_write(tmp_path: Path, standalone: bool) -> None:
    voters = ["KRaftVersion", "KRaftVoters"] if standalone else []
    with OurQuorum(tmp_path / "log", 9093, QuorumConfig(), standalone=standalone) as ours:
        ours.begin_cluster()
        ours.create_topic("orders")
        ours.append((NoOpRecord(), 0))
        ours.snapshot()
        ours.append((NoOpRecord(), 0))
        written = ours.quorum.log_end_offset
    log = dumped(ours.files / "00000000000000000000.log")
    assert kinds(log) == [
        "LeaderChange",
        *voters,
        "BEGIN_TRANSACTION_RECORD",
        "FEATURE_LEVEL_RECORD",
        "END_TRANSACTION_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "NO_OP_RECORD",
        "NO_OP_RECORD",
    ]
    assert len(log) == written
    assert log[0]["data"] == {
        "version": 0,
        "leaderId": 1,
        "voters": [{"voterId": 1}],
        "grantingVoters": [{"voterId": 1}],
    }
    assert log[-4]["data"] == {"name": "orders", "topicId": str(TOPIC_ID)}
    (snapshot,) = (path for path in ours.files.glob("*.checkpoint") if not path.name.startswith("0" * 20))
    records = dumped(snapshot)
    assert kinds(records) == [
        "SnapshotHeader",
        *voters,
        "FEATURE_LEVEL_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "SnapshotFooter",
    ]
    if standalone:
        (voter,) = records[2]["data"]["voters"]
        assert voter["voterDirectoryId"] == str(ours.directory_id)
    assert kinds(dumped(tmp_path / "log" / "bootstrap.checkpoint")) == [
        "SnapshotHeader",
        "FEATURE_LEVEL_RECORD",
        "SnapshotFooter",
    ]


def quorum_status(broker: Broker) -> dict[str, str]:
    tool = "org.apache.kafka.tools.MetadataQuorumCommand"
    output, _ = run_tool(tool, "--bootstrap-server", broker.address, "describe", "--status")
    return dict(line.split(":", 1) for line in output.splitlines() if re.match(r"\w+: ", line))


def topics_of(broker: Broker) -> set[str]:
    admin = broker.admin()
    found = set(admin.list_topics())
    admin.close()
    return found


@pytest.mark.spec("LS-51")
@pytest.mark.parametrize("standalone", [False, True])
def test_a_directory_changes_hands(tmp_path: Path, standalone: bool) -> None:
    port = free_port()
    settings = {"controller.quorum.bootstrap.servers": f"127.0.0.1:{port + 1}"}
    broker = Broker(tmp_path, port, {**settings, "controller.quorum.voters": ""} if standalone else {})
    with OurQuorum(broker.log_dir, port + 1, standalone=standalone) as ours:
        ours.begin_cluster()
        ours.create_topic("ours")
    with broker:
        assert topics_of(broker) == {"ours"}
        status = quorum_status(broker)
        assert int(status["LeaderEpoch"]) == 2
        assert status["ClusterId"].strip() == ours_cluster_id(broker)
        broker.create_topic("theirs", {})
        broker.stop()
    with OurQuorum(broker.log_dir, port + 1, standalone=standalone) as ours:
        assert ours.quorum.epoch == 3
        assert ours.image.topics.keys() == {"ours", "theirs"}
        ours.snapshot()
        for _ in range(60):
            ours.append((NoOpRecord(), 0))
        ours.snapshot()
        ours.append((NoOpRecord(), 0))
    with OurQuorum(broker.log_dir, port + 1, _keeping_little(), standalone=standalone) as ours:
        ours.snapshot()
        assert ours.quorum.log_start_offset > 60
        assert not (ours.files / "00000000000000000000.log").exists()
    assert list(verify_directory(RealFiles(), str(ours.files))) == []
    with broker:
        assert topics_of(broker) == {"ours", "theirs"}
        assert int(quorum_status(broker)["LeaderEpoch"]) == 5
        broker.create_topic("later", {})
        broker.stop()
    with OurQuorum(broker.log_dir, port + 1, standalone=standalone) as ours:
        assert ours.image.topics.keys() == {"ours", "theirs", "later"}
        assert ours.quorum.epoch == 6


def _keeping_little() -> QuorumConfig:
    return replace(CONFIG, metadata_max_retention_bytes=1)


def ours_cluster_id(broker: Broker) -> str:
    found = re.search(r"cluster\.id=(\S+)", (broker.log_dir / "meta.properties").read_text())
    assert found
    return found[1]


@pytest.mark.spec("RP-26")
def test_kafka_formats_what_we_format(tmp_path: Path) -> None:
    """Two directories, with Kafka's tool and with ours: the same files, the same text but for ids and time."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    properties = tmp_path / "server.properties"
    directories = [str(theirs / "a"), str(theirs / "b")]
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "log.dirs": ",".join(directories),
    }
    properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    run_tool("kafka.tools.StorageTool", "format", "--standalone", "-t", "uViM5VGiQUWqVVgvr1gYxQ", "-c", str(properties))
    env = Env(files=RealFiles(), clock=RealClock(), jobs=InlineJobs(), random=random.Random(5))
    endpoints = (QuorumEndpoint("CONTROLLER", "127.0.0.1", 9093),)
    format_directories(
        env,
        [str(ours / "a"), str(ours / "b")],
        str(ours / "a"),
        1,
        cluster_id="uViM5VGiQUWqVVgvr1gYxQ",
        standalone=endpoints,
        features={
            "eligible.leader.replicas.version": 1,
            "group.version": 1,
            "share.version": 1,
            "streams.version": 1,
            "transaction.version": 2,
        },
    )

    def content(root: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for path in sorted(root.rglob("*")):
            name = str(path.relative_to(root))
            if path.name == "meta.properties":
                found[name] = [re.sub(r"=.{22}$|^#.+", "", line) for line in path.read_text().splitlines()]
            elif path.is_file() and path.name != ".lock":
                text = json.dumps(dumped(path))
                found[name] = re.sub(r'"voterDirectoryId": "[^"]+"|"lastContainedLogTimestamp": \d+', "", text)
        return found

    assert content(ours) == content(theirs)
