"""Which broker a marker goes to, and what a coordinator hears of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from support.brokers.simulated import SimBroker
from support.brokers.stub import StubNode, topic
from support.clients.sim_transactions import FEW_PARTITIONS, find, write_marker
from tailrace.broker.txn_markers import Done, MarkerSender
from tailrace.coordinator.transactions.markers import MarkerOrder, MarkerResults
from tailrace.model.errors import InvalidProducerEpochError, UnknownTopicOrPartitionError
from tailrace.model.ids import TopicPartition
from tailrace.model.internal_topics import CONSUMER_OFFSETS

HERE, THERE, ELSEWHERE, NOBODYS = (TopicPartition(name, 0) for name in ("here", "there", "elsewhere", "nobodys"))
GONE = TopicPartition("gone", 0)


def order(*partitions: TopicPartition, producer_id: int = 7) -> MarkerOrder:
    return MarkerOrder(3, producer_id, 5, True, partitions, 2)


class Channel:
    """Other brokers, that answer when the test likes."""

    def __init__(self) -> None:
        self.sent: dict[int, tuple[list[MarkerOrder], Done]] = {}

    def send(self, broker_id: int, orders: list[MarkerOrder], done: Done) -> None:
        assert broker_id not in self.sent
        self.sent[broker_id] = orders, done


class Append:
    """The replicas of this broker; none of their logs takes a marker."""

    def partition(self, name: str, index: int) -> Any:
        if name != "here":
            raise UnknownTopicOrPartitionError(f"{name}-{index}")
        return SimpleNamespace(is_offline=False, append=self._refuse)

    def _refuse(self, sets: Any, *more: Any) -> Any:
        return [SimpleNamespace(error=InvalidProducerEpochError("x")) for _ in sets]


@pytest.fixture
def node() -> StubNode:
    made = StubNode()
    made.learn(*topic("here"), *topic("there", replicas=(2,)), *topic("elsewhere", replicas=(3,)))
    made.learn(*topic("nobodys", replicas=(2,), leader=-1))
    made.replicas = Append()
    return made


def test_each_leader_gets_its_partitions_and_one_answer_tells_of_all(node: StubNode) -> None:
    channel, answers = Channel(), list[MarkerResults]()
    orders = [order(HERE, THERE, ELSEWHERE), order(THERE, producer_id=8)]
    MarkerSender(node, channel).send(orders, answers.append)  # type: ignore[arg-type]
    assert channel.sent[2][0] == [order(THERE)._replace(partitions=[THERE]), orders[1]._replace(partitions=[THERE])]
    assert channel.sent[3][0] == [orders[0]._replace(partitions=[ELSEWHERE])]
    channel.sent[3][1]([{ELSEWHERE: 0}])
    assert not answers
    channel.sent[2][1]([{THERE: 6}, {}])
    assert answers == [[{HERE: 47, THERE: 6, ELSEWHERE: 0}, {THERE: 6}]]


def test_what_is_gone_is_told_at_once(node: StubNode) -> None:
    answers = list[MarkerResults]()
    MarkerSender(node).send([order(GONE), order()], answers.append)  # type: ignore[arg-type]
    assert answers == [[{GONE: 3}, {}]]


def test_what_nobody_leads_and_whoever_cannot_be_reached_may_be_tried_again(node: StubNode) -> None:
    answers = list[MarkerResults]()
    MarkerSender(node).send([order(THERE, NOBODYS)], answers.append)  # type: ignore[arg-type]
    assert answers == [[{THERE: 6, NOBODYS: 6}]]


@pytest.mark.spec("CO-08")
def test_a_group_coordinator_that_is_not_ready_is_tried_again() -> None:
    """Transaction coordinators know nothing of a coordinator that loads, but of a leader that is not there."""
    broker = SimBroker(**FEW_PARTITIONS).start()
    client = broker.client()
    find(client, 0, "group")
    shard = broker.node.groups.shard(1)
    assert shard is not None
    shard.close()
    codes = write_marker(client, 7, 0, {CONSUMER_OFFSETS: [0, 1]})
    assert codes == {(CONSUMER_OFFSETS, 0): 0, (CONSUMER_OFFSETS, 1): 6}
