"""Records that break a rule of the metadata are found when they are committed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tailrace.protocol.message import Record
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.brokers import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from tailrace.protocol.records.topics import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from tailrace.sim.committed_log import CommittedLog
from tailrace.sim.event_log import Event, Violation
from tailrace.sim.metadata_rules import MetadataRules
from tailrace.sim.quorum_observer import Committed

BROKER, OTHER, CONTROLLER = 11, 12, 1
TOPIC_ID = bytes([9] * 16)


class Cluster:
    def __init__(self) -> None:
        self.committed = CommittedLog(())
        self.rules = MetadataRules(self.committed)
        self._epochs: dict[int, int] = {}

    def commits(self, *records: Record) -> None:
        """One batch, which a controller reports. A change of a broker is of its newest registration."""
        for each in records:
            if isinstance(each, RegisterBrokerRecord):
                self._epochs[each.broker_id] = each.broker_epoch
            elif isinstance(each, BrokerRegistrationChangeRecord):
                each.broker_epoch = self._epochs[each.broker_id]
        batch = [VersionedRecord(each, 0) for each in records]
        self.committed.add(self.committed.end + len(batch) - 1, 1, batch, None)
        self.reads(CONTROLLER)

    def reads(self, node_id: int) -> None:
        """A node has everything that is committed."""
        member: Any = SimpleNamespace(node_id=node_id)
        read = Committed(member, self.committed.end - 1, 1, [])
        self.rules.on_event(Event(1, 1, f"node-{node_id}", "commit", "", data=read))

    def starts(self) -> None:
        """Two brokers, and one topic with a partition on both."""
        for broker_id in (BROKER, OTHER):
            self.commits(registration(broker_id, epoch=self.committed.end, incarnation=1))
            self.reads(broker_id)
            self.commits(unfencing(broker_id))
        self.commits(TopicRecord(name="orders", topic_id=TOPIC_ID), partition())


def registration(broker_id: int, epoch: int, incarnation: int) -> Record:
    incarnation_id = bytes([incarnation]) * 16
    return RegisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch, incarnation_id=incarnation_id, fenced=True)


def unfencing(broker_id: int) -> Record:
    return BrokerRegistrationChangeRecord(broker_id=broker_id, fenced=-1)


def fencing(broker_id: int) -> Record:
    return BrokerRegistrationChangeRecord(broker_id=broker_id, fenced=1)


def partition() -> Record:
    return PartitionRecord(
        topic_id=TOPIC_ID, partition_id=0, replicas=[BROKER, OTHER], isr=[BROKER, OTHER], leader=BROKER
    )


def change(leader: int, *isr: int) -> Record:
    return PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=leader, isr=list(isr))


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([RemoveTopicRecord(topic_id=TOPIC_ID), TopicRecord(name="new", topic_id=TOPIC_ID)], "given before"),
        ([partition()], "adds partition 0 of orders again"),
        ([registration(BROKER, epoch=0, incarnation=2)], "is registered in epoch 0, after 0"),
        ([change(-1, OTHER), registration(BROKER, epoch=9, incarnation=2), unfencing(BROKER)], "has not read"),
        ([change(BROKER, OTHER)], "is not in the ISR"),
        ([fencing(BROKER)], "is fenced and leads"),
        ([change(OTHER, BROKER, OTHER), fencing(BROKER)], "has a fenced broker"),
    ],
)
def test_broken_rule_is_found(records: list[Record], reason: str) -> None:
    cluster = Cluster()
    cluster.starts()
    with pytest.raises(Violation, match=reason):
        cluster.commits(*records)


def test_changes_that_keep_the_rules() -> None:
    cluster = Cluster()
    cluster.starts()
    cluster.commits(change(OTHER, OTHER), fencing(BROKER))
    cluster.commits(registration(BROKER, epoch=cluster.committed.end, incarnation=2))
    cluster.reads(BROKER)
    cluster.commits(unfencing(BROKER), change(OTHER, OTHER, BROKER))
    cluster.commits(change(-1, OTHER), fencing(OTHER))
    cluster.commits(RemoveTopicRecord(topic_id=TOPIC_ID))
    cluster.commits(TopicRecord(name="orders", topic_id=bytes([8] * 16)))
