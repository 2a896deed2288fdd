"""What must hold for the records of the committed metadata log, whichever controller has written them.

    topic         its id has belonged to no other topic
    partition     is added once
    registration  a new incarnation of a broker has a higher epoch than all that the broker had before
    unfencing     the broker has read its own registration
    leader        is an unfenced broker of the ISR
    ISR           its brokers are unfenced; without a leader the last one may stay in it

Each batch is checked when the first node reports it.
"""

from __future__ import annotations

from tailrace.metadata.image import MetadataImage
from tailrace.metadata.partition_registration import PartitionRegistration
from tailrace.protocol.message import Record
from tailrace.protocol.records.brokers import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from tailrace.protocol.records.topics import PartitionChangeRecord, PartitionRecord, TopicRecord
from tailrace.sim.committed_log import CommittedBatch, CommittedLog
from tailrace.sim.event_log import Checker, Event, Violation
from tailrace.sim.quorum_observer import Committed, Installed

_UNFENCED = -1
_OF_LEADERS = (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
"""Records that change brokers, leaders or ISRs."""


class MetadataRules(Checker):
    """Added after the checker that adds batches to the committed log."""

    kinds = frozenset({"commit", "snapshot"})

    def __init__(self, committed: CommittedLog) -> None:
        self._committed = committed
        self._checked = 0
        """The number of batches."""
        self._names: dict[bytes, str] = {}
        """Of all topics that were ever created, by id."""
        self._partitions: set[tuple[bytes, int]] = set()
        self._registrations: dict[int, RegisterBrokerRecord] = {}
        """The newest one of each broker, also of one that was unregistered."""
        self._registered_at: dict[int, int] = {}
        """Offsets of these records."""
        self._read: dict[int, int] = {}
        """Of each node: how far its processes have read the log."""

    def on_event(self, event: Event) -> None:
        read: Committed | Installed = event.data
        node_id = read.member.node_id
        batches = self._committed.batches
        for batch in batches[self._checked :]:
            for offset, each in enumerate(batch.records, batch.last_offset - len(batch.records) + 1):
                self._check_record(offset, each.record)
            self._checked += 1
            if self._checked == len(batches):
                self._check_leaders(batch, self._committed.image)
        self._read[node_id] = max(self._read.get(node_id, -1), read.last_offset)

    # Records

    def _check_record(self, offset: int, record: Record) -> None:
        if isinstance(record, TopicRecord):
            self._check_topic(record)
        elif isinstance(record, PartitionRecord):
            key = bytes(record.topic_id), record.partition_id
            if key in self._partitions:
                raise Violation(f"offset {offset} adds partition {key[1]} of {self._names.get(key[0])} again")
            self._partitions.add(key)
        elif isinstance(record, RegisterBrokerRecord):
            self._check_registration(offset, record)
        elif isinstance(record, BrokerRegistrationChangeRecord) and record.fenced == _UNFENCED:
            self._check_unfencing(offset, record.broker_id)

    def _check_topic(self, record: TopicRecord) -> None:
        topic_id = bytes(record.topic_id)
        if topic_id in self._names:
            raise Violation(f"topic {record.name} has an id that was given before")
        self._names[topic_id] = record.name

    def _check_registration(self, offset: int, record: RegisterBrokerRecord) -> None:
        broker_id = record.broker_id
        before = self._registrations.get(broker_id)
        if before is not None:
            is_same = before.incarnation_id == record.incarnation_id
            if record.broker_epoch < before.broker_epoch or (
                record.broker_epoch == before.broker_epoch and not is_same
            ):
                raise Violation(
                    f"broker {broker_id} is registered in epoch {record.broker_epoch}, after {before.broker_epoch}"
                )
        self._registrations[broker_id] = record
        self._registered_at[broker_id] = offset

    def _check_unfencing(self, offset: int, broker_id: int) -> None:
        registered_at = self._registered_at.get(broker_id, -1)
        if self._read.get(broker_id, -1) < registered_at:
            raise Violation(
                f"offset {offset} unfences broker {broker_id}, which has not read its registration at {registered_at}"
            )

    # The image

    def _check_leaders(self, batch: CommittedBatch, image: MetadataImage) -> None:
        if not any(isinstance(each.record, _OF_LEADERS) for each in batch.records):
            return
        unfenced = {broker.id for broker in image.brokers.values() if not broker.is_fenced}
        for topic in image.topics.values():
            for index, partition in topic.partitions.items():
                _check_partition(f"{topic.name}-{index} at offset {batch.last_offset}", partition, unfenced)


def _check_partition(name: str, partition: PartitionRegistration, unfenced: set[int]) -> None:
    if partition.has_leader and partition.leader not in partition.isr:
        raise Violation(f"leader {partition.leader} of {name} is not in the ISR {partition.isr}")
    if partition.has_leader and partition.leader not in unfenced:
        raise Violation(f"broker {partition.leader} is fenced and leads {name}")
    is_last = len(partition.isr) == 1 and not partition.has_leader
    if not is_last and not unfenced.issuperset(partition.isr):
        raise Violation(f"the ISR {partition.isr} of {name} has a fenced broker")
