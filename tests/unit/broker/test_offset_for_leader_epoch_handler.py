from __future__ import annotations

import pytest

from support.brokers.handler_calls import ask, versions_of
from support.brokers.nodes import LogNode
from support.brokers.stub import topic, topic_id
from tailrace.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tailrace.protocol.records.topics import PartitionChangeRecord

UNKNOWN_TOPIC, NOT_LEADER, FENCED, UNKNOWN_EPOCH = 3, 6, 74, 75


def end_of(
    node: LogNode, epoch: int, *, current: int = -1, name: str = "orders", index: int = 0, version: int | None = None
) -> tuple[int, int, int]:
    wanted = OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=name, partitions=[wanted])])
    (answered,) = ask(node, request, version).topics
    (row,) = answered.partitions
    assert (answered.topic, row.partition) == (name, index)
    return row.error_code, row.leader_epoch, row.end_offset


@pytest.fixture
def node() -> LogNode:
    """Epoch 5 goes to offset 2, epoch 7 from there to 3; nothing was written in epoch 6."""
    node = LogNode()
    node.learn(*topic("orders", leader_epoch=5))
    node.produce("orders", timestamps=(1000, 2000))
    for _ in range(2):
        node.learn(PartitionChangeRecord(topic_id=topic_id("orders"), partition_id=0, leader=1))
    node.produce("orders", timestamps=(3000,))
    return node


@pytest.mark.spec("RP-11")
@pytest.mark.parametrize("version", versions_of(OffsetForLeaderEpochRequest))
def test_every_version_tells_where_an_epoch_ended(node: LogNode, version: int) -> None:
    assert end_of(node, 5, version=version) == (0, 5, 2)
    assert end_of(node, 7, version=version) == (0, 7, 3)


def test_epochs_that_are_not_known(node: LogNode) -> None:
    assert end_of(node, 8) == (0, -1, -1)
    assert end_of(node, -1) == (0, -1, -1)


@pytest.mark.spec("RP-13")
def test_the_leader_s_epoch_that_the_client_believes_in(node: LogNode) -> None:
    assert end_of(node, 5, current=7) == (0, 5, 2)
    assert end_of(node, 5, current=6) == (FENCED, -1, -1)
    assert end_of(node, 5, current=8) == (UNKNOWN_EPOCH, -1, -1)


def test_partitions_that_are_not_here(node: LogNode) -> None:
    node.learn(*topic("elsewhere", replicas=(2,)), *topic("followed", replicas=(2, 1)))
    assert end_of(node, 0, index=9) == (UNKNOWN_TOPIC, -1, -1)
    assert end_of(node, 0, name="bad/name") == (UNKNOWN_TOPIC, -1, -1)
    assert end_of(node, 0, name="elsewhere") == (NOT_LEADER, -1, -1)
    assert end_of(node, 0, name="followed") == (NOT_LEADER, -1, -1)
