from __future__ import annotations

from typing import Any

import pytest

from support.brokers.handler_calls import ask, begin, versions_of
from support.brokers.nodes import LogNode
from support.brokers.stub import topic, topic_id
from tailrace.model.errors import SegmentGoneError
from tailrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tailrace.protocol.records.topics import PartitionChangeRecord

UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, NOT_LEADER, UNSUPPORTED_VERSION, INVALID_REQUEST = 3, 5, 6, 35, 42
FENCED, UNKNOWN_EPOCH, OFFSET_NOT_AVAILABLE = 74, 75, 78
FIRST_VERSIONS = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11}


def request(timestamp: int, *, name: str = "orders", index: int = 0, epoch: int = -1, **fields: Any) -> Any:
    wanted = ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
    fields.setdefault("replica_id", -1)
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=name, partitions=[wanted])], **fields)


def one(node: LogNode, asked: ListOffsetsRequest, version: int | None = None) -> ListOffsetsPartitionResponse:
    (found,) = ask(node, asked, version).topics
    (row,) = found.partitions
    assert isinstance(row, ListOffsetsPartitionResponse)
    return row


@pytest.fixture
def node() -> LogNode:
    node = LogNode()
    node.learn(*topic("orders", 2, leader_epoch=4))
    node.produce("orders", timestamps=(1000, 1030, 1020))
    return node


@pytest.mark.parametrize("version", versions_of(ListOffsetsRequest))
@pytest.mark.parametrize(
    ("timestamp", "found"),
    [(-1, (-1, 3)), (-2, (-1, 0)), (-3, (1030, 1)), (-4, (-1, 0)), (1010, (1030, 1)), (0, (1000, 0)), (1031, (-1, -1))],
)
def test_ends_and_times_in_every_version_that_knows_them(
    node: LogNode, version: int, timestamp: int, found: tuple[int, int]
) -> None:
    row = one(node, request(timestamp), version)
    if version < FIRST_VERSIONS.get(timestamp, 0):
        assert (row.error_code, row.offset) == (UNSUPPORTED_VERSION, -1)
        return
    assert (row.error_code, row.timestamp, row.offset) == (0, *found)
    assert row.leader_epoch == (4 if version >= 4 and row.offset >= 0 else -1)


@pytest.mark.parametrize("version", versions_of(ListOffsetsRequest))
@pytest.mark.parametrize("timestamp", [-5, -6])
def test_nothing_is_tiered(node: LogNode, version: int, timestamp: int) -> None:
    row = one(node, request(timestamp), version)
    expected = 0 if version >= FIRST_VERSIONS[timestamp] else UNSUPPORTED_VERSION
    assert (row.error_code, row.offset, row.timestamp) == (expected, -1, -1)


def test_an_unknown_special_timestamp(node: LogNode) -> None:
    assert one(node, request(-7)).error_code == UNSUPPORTED_VERSION


def test_a_look_up_by_time_does_not_run_on_the_node_s_thread(node: LogNode) -> None:
    answers = begin(node, request(1010), 11)
    assert answers == []
    node.run()
    assert len(answers) == 1
    assert len(begin(node, request(-1), 11)) == 1


def test_an_empty_partition(node: LogNode) -> None:
    for timestamp, offset in ((-1, 0), (-2, 0), (-3, -1), (5, -1)):
        assert one(node, request(timestamp, index=1)).offset == offset


def test_committed_readers_see_up_to_the_last_stable_offset(node: LogNode) -> None:
    node.produce("orders", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True, timestamps=(2000,))
    assert one(node, request(-1)).offset == 4
    assert one(node, request(-1, isolation_level=1), 2).offset == 3
    assert one(node, request(1500)).offset == 3
    assert one(node, request(1500, isolation_level=1)).offset == -1


def test_an_isolation_that_does_not_exist(node: LogNode) -> None:
    assert one(node, request(-1, isolation_level=5)).error_code == -1
    assert one(node, request(1000, isolation_level=-1)).error_code == -1


def test_partitions_that_are_not_here(node: LogNode) -> None:
    node.learn(*topic("elsewhere", replicas=(2,)))
    assert one(node, request(-1, index=9)).error_code == UNKNOWN_TOPIC
    assert one(node, request(-1, index=-1)).error_code == UNKNOWN_TOPIC
    assert one(node, request(-1, name="bad/name")).error_code == UNKNOWN_TOPIC
    assert one(node, request(-1, name="elsewhere")).error_code == NOT_LEADER


def test_leader_epochs(node: LogNode) -> None:
    assert one(node, request(-1, epoch=4)).offset == 3
    assert one(node, request(-1, epoch=3)).error_code == FENCED
    assert one(node, request(-1, epoch=5)).error_code == UNKNOWN_EPOCH
    assert one(node, request(1000, epoch=5)).error_code == UNKNOWN_EPOCH


@pytest.fixture
def new_leader() -> LogNode:
    """Elected with records that its follower may not have."""
    node = LogNode()
    node.learn(*topic("pair", replicas=(1, 2)))
    node.produce("pair", timestamps=(1000, 2000))
    node.learn(PartitionChangeRecord(topic_id=topic_id("pair"), partition_id=0, leader=1))
    return node


@pytest.mark.parametrize("version", versions_of(ListOffsetsRequest))
def test_a_new_leader_does_not_know_the_latest_offset_yet(new_leader: LogNode, version: int) -> None:
    expected = OFFSET_NOT_AVAILABLE if version >= 5 else LEADER_NOT_AVAILABLE
    assert one(new_leader, request(-1, name="pair"), version).error_code == expected
    assert one(new_leader, request(1500, name="pair"), version).error_code == expected
    assert one(new_leader, request(-2, name="pair"), version).offset == 0
    assert one(new_leader, request(-1, name="pair", replica_id=2), version).offset == 2


def test_only_a_debugging_replica_may_ask_a_follower() -> None:
    node = LogNode()
    node.learn(*topic("pair", replicas=(2, 1)))
    assert one(node, request(-1, name="pair")).error_code == NOT_LEADER
    assert one(node, request(-1, name="pair", replica_id=2)).error_code == NOT_LEADER
    assert one(node, request(-1, name="pair", replica_id=-2)).error_code == 0


def test_a_partition_named_twice_is_refused_once_and_the_others_are_served(node: LogNode) -> None:
    first = [ListOffsetsPartition(partition_index=0, timestamp=t) for t in (-1, -2)]
    second = [ListOffsetsPartition(partition_index=1, timestamp=-1)]
    topics = [ListOffsetsTopic(name="orders", partitions=p) for p in (first, second, [])]
    (answered,) = ask(node, ListOffsetsRequest(replica_id=-1, topics=topics)).topics
    assert [(p.partition_index, p.error_code, p.offset) for p in answered.partitions] == [
        (0, INVALID_REQUEST, -1),
        (1, 0, 0),
    ]


def test_a_topic_without_partitions_is_not_answered(node: LogNode) -> None:
    assert ask(node, ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders")])).topics == []


def test_a_look_up_that_loses_against_truncations_can_be_tried_again(
    node: LogNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise SegmentGoneError("cut")

    monkeypatch.setattr(node.replicas.partition("orders", 0).log, "offset_by_time", gone)
    assert one(node, request(1000)).error_code == NOT_LEADER


def test_a_broken_look_up_is_answered_and_the_node_goes_on(node: LogNode, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(node.replicas.partition("orders", 0).log, "offset_by_time", broken)
    assert one(node, request(1000)).error_code == -1
