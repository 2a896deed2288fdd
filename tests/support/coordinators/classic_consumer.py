"""A consumer of the classic protocol, and what such consumers tell each other."""

from __future__ import annotations

from support.coordinators.consumer import ConsumerRig
from tailrace.coordinator.consumer.embedded import assignment_of
from tailrace.model.errors import RebalanceInProgressError
from tailrace.protocol.codec import encode
from tailrace.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)


def subscription(owned: set[int] | None = None, *topics: str, rack: str | None = None, version: int = 3) -> bytes:
    said = ConsumerProtocolSubscription(
        topics=list(topics or ("t",)),
        owned_partitions=[ConsumerProtocolSubscriptionTopicPartition(topic="t", partitions=sorted(owned or ()))],
        rack_id=rack,
    )
    return version.to_bytes(2, "big") + encode(said, version)


def assigned(*indexes: int, user_data: bytes | None = None) -> bytes:
    partitions = [ConsumerProtocolAssignmentTopicPartition(topic="t", partitions=list(indexes))]
    return bytes(2) + encode(ConsumerProtocolAssignment(assigned_partitions=partitions, user_data=user_data), 0)


def indexes_of(data: bytes) -> set[int]:
    return {index for each in assignment_of(data).assigned_partitions for index in each.partitions}


class ClassicConsumer:
    """Of the cooperative kind it keeps what it is not told to give up; an eager one gives up all before it joins."""

    def __init__(self, rig: ConsumerRig, member_id: str = "", instance_id: str | None = None) -> None:
        self.rig = rig
        self.member_id = member_id
        self.instance_id = instance_id
        self.generation = -1
        self.owned: set[int] = set()
        self.is_eager = False

    def start_anew(self) -> None:
        """It was told that it is no member."""
        self.member_id, self.generation, self.owned = "", -1, set()
        if self.join() == 0:
            self.sync()

    def join(self) -> int:
        if self.is_eager:
            self.owned = set()
        protocols = {"cooperative-sticky": subscription(self.owned), "range": subscription(self.owned)}
        answer = self.rig.join(self.member_id, protocols=protocols, instance_id=self.instance_id).answer
        if not answer.error_code:
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return int(answer.error_code)

    def sync(self) -> int:
        answer = self.rig.sync(self.member_id, self.generation, instance_id=self.instance_id).answer
        if not answer.error_code:
            self.owned = indexes_of(answer.assignment)
        return int(answer.error_code)

    def beat(self) -> int:
        """And whatever follows from its answer."""
        code = self.rig.heartbeat(self.member_id, self.generation, instance_id=self.instance_id)
        if code == RebalanceInProgressError.code:
            assert self.join() == 0
            self.sync()
        return code
