"""Directories of a real Kafka 4.3.1, taken over."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from support.metadata.quorum import Memory, topics
from tailrace.config.quorum import QuorumConfig
from tailrace.env import Env, InlineJobs
from tailrace.env.real import RealClock, RealFiles
from tailrace.protocol.records.settings import FeatureLevelRecord
from tailrace.raft.format import format_directories
from tailrace.raft.quorum import Quorum, QuorumEndpoint, QuorumNode
from tailrace.storage.verify import verify_directory

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-4.3.1-quorum"


@pytest.mark.spec("LS-51")
@pytest.mark.parametrize(
    ("name", "end", "topic_names", "kraft_version"),
    [("static", 29, ["t1"], 0), ("dynamic", 74, ["b", "a", "c", "d"], 1)],
)
def test_a_directory_of_kafka_is_taken_over(
    tmp_path: Path, name: str, end: int, topic_names: list[str], kraft_version: int
) -> None:
    path = tmp_path / "log"
    shutil.copytree(GOLDEN / name, path)
    env = Env(files=RealFiles(), clock=RealClock(), jobs=InlineJobs(), random=random.Random(1))
    found = format_directories(env, [str(path)], str(path), 1)
    memory = Memory()
    endpoints = (QuorumEndpoint("CONTROLLER", "127.0.0.1", 21193),)
    quorum = Quorum(
        env, str(path), QuorumNode(1, found.cluster_id, found.directory_id, endpoints), QuorumConfig(), memory
    )
    quorum.start(lambda: None)
    assert memory.failures == []
    assert memory.names == topic_names
    assert (quorum.epoch, quorum.kraft_version) == (2, kraft_version)
    assert memory.places[-1] == (end, 2)
    if name == "dynamic":
        assert memory.events[0] == ("loaded", 56, 1, 1794753795019)
    told: list[int] = []
    last_offset = quorum.append(topics(["ours"]), told.append)
    assert told == [last_offset] == [end + 1]
    quorum.shutdown(lambda: told.append(-1))
    assert told[-1] == -1
    assert list(verify_directory(RealFiles(), str(path / "__cluster_metadata-0"))) == []


def test_kafkas_formatted_directory_gives_its_bootstrap_records(tmp_path: Path) -> None:
    path = tmp_path / "log"
    shutil.copytree(GOLDEN / "formatted-standalone", path)
    env = Env(files=RealFiles(), clock=RealClock(), jobs=InlineJobs(), random=random.Random(1))
    found = format_directories(env, [str(path)], str(path), 1)
    memory = Memory()
    quorum = Quorum(env, str(path), QuorumNode(1, found.cluster_id, found.directory_id), QuorumConfig(), memory)
    quorum.start(lambda: None)
    assert memory.events == [("committed", 2, 1), ("leader", 1)]
    features = {r.name: r.feature_level for r, _ in quorum.bootstrap_records if isinstance(r, FeatureLevelRecord)}
    assert features["metadata.version"] == 30
    assert features["transaction.version"] == 2
    quorum.shutdown(lambda: None)
