from __future__ import annotations

import errno
from typing import Any

import pytest

from support.brokers.handler_calls import ask, begin, versions_of
from support.brokers.nodes import LogNode
from support.brokers.stub import topic, topic_id
from tailrace.metadata.versions import LATEST_METADATA_VERSION, METADATA_VERSION
from tailrace.model.ids import UNASSIGNED_DIRECTORY, TopicPartition
from tailrace.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tailrace.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

UNKNOWN_TOPIC, REPLICA_NOT_AVAILABLE, INVALID_TOPIC, INVALID_ASSIGNMENT, STORAGE, NO_SUCH_DIR = 3, 9, 17, 39, 56, 57
P0 = TopicPartition("orders", 0)


@pytest.fixture
def node() -> LogNode:
    node = LogNode()
    first, second = node.directory_ids
    node.learn(*topic("orders", directories=[first]), *topic("other", directories=[second]))
    node.produce("orders", timestamps=(1000, 2000))
    return node


def some(name: str, *indexes: int) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=name, partitions=list(indexes))])


def rows(result: Any) -> list[tuple[str, int, bool]]:
    return [(t.name, p.partition_index, p.is_future_key) for t in result.topics for p in t.partitions]


def move(node: LogNode, path: str, name: str = "orders", index: int = 0, version: int = 2) -> int:
    wanted = AlterReplicaLogDirTopic(name=name, partitions=[index])
    (answered,) = ask(
        node, AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[wanted])]), version
    ).results
    (row,) = answered.partitions
    assert (answered.topic_name, row.partition_index) == (name, index)
    return int(row.error_code)


# DescribeLogDirs


@pytest.mark.parametrize("version", versions_of(DescribeLogDirsRequest))
def test_every_version_tells_what_is_where(node: LogNode, version: int) -> None:
    answer = ask(node, DescribeLogDirsRequest(topics=None), version)
    assert [(r.log_dir, r.error_code, rows(r)) for r in answer.results] == [
        ("/a", 0, [("orders", 0, False)]),
        ("/b", 0, [("other", 0, False)]),
    ]
    (row,) = answer.results[0].topics[0].partitions
    assert row.partition_size == node.logs.log(P0).local.size > 0
    assert row.offset_lag == 0
    has_space = answer.results[0].total_bytes > answer.results[0].usable_bytes > 0
    assert has_space == (version >= 4)


def test_only_the_partitions_that_were_asked_for(node: LogNode) -> None:
    answer = ask(node, some("orders", 0, 0, 7))
    assert [rows(r) for r in answer.results] == [[("orders", 0, False)], []]
    assert [rows(r) for r in ask(node, DescribeLogDirsRequest(topics=[])).results] == [[], []]


def test_the_disk_is_asked_by_a_job(node: LogNode) -> None:
    answers = begin(node, some("orders", 0), 5)
    assert answers == []
    node.run()
    assert len(answers) == 1


def test_a_disk_that_does_not_tell_its_size(node: LogNode) -> None:
    node.world.disk.fail_next("stat", "/b", errno.EIO)
    first, second = ask(node, some("orders", 0)).results
    assert first.total_bytes > 0
    assert (second.error_code, second.total_bytes, second.usable_bytes) == (0, -1, -1)


def test_cordoned_and_offline_directories(node: LogNode) -> None:
    node.logs.directories.at("/a").is_cordoned = True
    node.world.disk.fail_next("write", lambda path: path.startswith("/b/"), errno.EIO)
    with pytest.raises(AssertionError):
        node.produce("other")
    node.run()
    first, second = ask(node, DescribeLogDirsRequest(topics=None)).results
    assert (first.is_cordoned, first.error_code) == (True, 0)
    assert (second.error_code, second.topics, second.total_bytes) == (STORAGE, [], -1)


def test_a_partition_that_moves_is_in_two_places(node: LogNode) -> None:
    log = node.logs.log(P0)
    node.logs.create_future(P0, node.logs.directories.at("/b"), lambda log: None, lambda error: None)
    node.run()
    _, second = ask(node, some("orders", 0)).results
    assert rows(second) == [("orders", 0, True)]
    assert second.topics[0].partitions[0].offset_lag == log.log_end_offset


# AlterReplicaLogDirs


@pytest.mark.parametrize("version", versions_of(AlterReplicaLogDirsRequest))
def test_a_partition_is_moved_and_goes_on(node: LogNode, version: int) -> None:
    assert move(node, "/b", version=version) == 0
    node.run()
    assert node.logs.directory_of(P0).path == "/b"
    assert node.replicas.partition("orders", 0).log is node.logs.log(P0)
    node.produce("orders", timestamps=(3000,))
    assert node.logs.log(P0).log_end_offset == 3


def test_the_directory_is_reported_to_the_controller_after_a_move(node: LogNode) -> None:
    node.image.features[METADATA_VERSION] = LATEST_METADATA_VERSION
    move(node, "/b")
    node.run()
    ((sent, _),) = node.controller.sent
    (directory,) = sent.directories
    assert directory.id == node.directory_ids[1]
    assert [t.topic_id for t in directory.topics] == [topic_id("orders")]


def test_to_where_it_is_already(node: LogNode) -> None:
    assert move(node, "/a") == 0
    assert node.logs.directory_of(P0).path == "/a"


@pytest.mark.parametrize("path", ["/nope", "relative", "/b/", ""])
def test_only_log_dirs_as_they_are_written(node: LogNode, path: str) -> None:
    assert move(node, path) == NO_SUCH_DIR
    assert move(node, path, name="nope") == NO_SUCH_DIR


def test_partitions_that_cannot_be_moved(node: LogNode) -> None:
    node.learn(*topic("elsewhere", replicas=(2,), directories=[UNASSIGNED_DIRECTORY]))
    assert move(node, "/b", name="nope") == UNKNOWN_TOPIC
    assert move(node, "/b", name="bad/name") == UNKNOWN_TOPIC
    assert move(node, "/b", index=77) == UNKNOWN_TOPIC
    assert move(node, "/b", name="elsewhere") == REPLICA_NOT_AVAILABLE
    assert move(node, "/b", name="x" * 240) == INVALID_TOPIC
    assert move(node, "/nope", name="x" * 240) == INVALID_TOPIC


def test_a_cordoned_directory_takes_none(node: LogNode) -> None:
    node.logs.directories.at("/b").is_cordoned = True
    assert move(node, "/b") == INVALID_ASSIGNMENT


def test_an_offline_directory_takes_none(node: LogNode) -> None:
    node.world.disk.fail_next("write", lambda path: path.startswith("/b/"), errno.EIO)
    with pytest.raises(AssertionError):
        node.produce("other")
    node.run()
    assert move(node, "/b") == STORAGE


def test_of_a_partition_named_twice_the_last_word_counts(node: LogNode) -> None:
    wanted = [AlterReplicaLogDirTopic(name="orders", partitions=[0])]
    dirs = [AlterReplicaLogDir(path=path, topics=wanted) for path in ("/nope", "/b")]
    (answered,) = ask(node, AlterReplicaLogDirsRequest(dirs=dirs)).results
    assert [row.error_code for row in answered.partitions] == [0]
    node.run()
    assert node.logs.directory_of(P0).path == "/b"
