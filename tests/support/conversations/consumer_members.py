"""Members of a consumer group, of either protocol, on a connection to any server, and those who look at the group."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from support.conversations.conversation import Talk
from tailrace.protocol.codec import encode
from tailrace.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, RequestTopicPartitions
from tailrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.delete_groups import DeleteGroupsRequest
from tailrace.protocol.messages.describe_groups import DescribeGroupsRequest
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tailrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tailrace.protocol.messages.list_groups import ListGroupsRequest
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tailrace.protocol.messages.sync_group import SyncGroupRequest
from tailrace.protocol.records.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)

TOPIC = "cg-data"
EVEN = "cg-even"
PARTITIONS = 3
HEARTBEAT, DESCRIBE, COMMIT, FETCH, JOIN, SYNC, CLASSIC_HEARTBEAT, LEAVE = 1, 1, 9, 9, 9, 5, 4, 5
NOT_READY = (14, 15, 16)
SETTLING_SECONDS = 0.5
"""In so long patterns are resolved, and metadata known everywhere."""


def pause(talk: Talk, seconds: float = SETTLING_SECONDS) -> None:
    """On a simulated machine its time passes, not ours."""
    getattr(talk._client, "pause", time.sleep)(seconds)


class Party:
    """A group, and who looks at it."""

    def __init__(self, talk: Talk, group_id: str) -> None:
        self.talk = talk
        self.group_id = group_id
        for _ in range(200):
            talk._client.ask(FindCoordinatorRequest(key=group_id), 2)
            described: Any = talk._client.ask(DescribeGroupsRequest(groups=[group_id or "x"]), 5)
            if described.groups[0].error_code not in NOT_READY:
                break
            pause(talk, 0.1)

    def describe(self, name: str, version: int = DESCRIBE, *, hides: bool = False) -> None:
        """`hides`: who has which partition goes by ids that the server has made."""
        answer = self.talk.ask(name, ConsumerGroupDescribeRequest(group_ids=[self.group_id]), version)
        for group in answer.groups:
            for member in group.members:
                assert member.client_host.startswith("/")
                member.client_id = member.client_host = "chosen"
                if hides:
                    hide(member.assignment)
                    hide(member.target_assignment)

    def describe_classic(self, name: str) -> None:
        answer = self.talk.ask(name, DescribeGroupsRequest(groups=[self.group_id]), 6)
        for group in answer.groups:
            for member in group.members:
                member.client_id = member.client_host = "chosen"
                member.member_id = member.member_id and "chosen"
                member.member_assignment = bytes(len(member.member_assignment))

    def list(self, name: str) -> None:
        answer = self.talk.ask(name, ListGroupsRequest(), 5)
        answer.groups = [row for row in answer.groups if row.group_id == self.group_id]

    def delete(self, name: str) -> None:
        self.talk.ask(name, DeleteGroupsRequest(groups_names=[self.group_id]), 2)

    def beat(self, name: str, member_id: str, epoch: int, version: int = HEARTBEAT, **fields: Any) -> Any:
        if "owned" in fields:
            owned: Mapping[bytes, Sequence[int]] | None = fields.pop("owned")
            fields["topic_partitions"] = (
                None
                if owned is None
                else [RequestTopicPartitions(topic_id=each, partitions=list(owned[each])) for each in owned]
            )
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=member_id, member_epoch=epoch, **fields
        )
        return self.talk.ask(name, request, version)

    def member(self, member_id: str, *topics: str, **fields: Any) -> Member:
        return Member(self, member_id, topics or (TOPIC,), fields)

    def commit(
        self, name: str, member_id: str, epoch: int, *, version: int = COMMIT, instance: str | None = None
    ) -> None:
        parts = [OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in range(PARTITIONS)]
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            group_instance_id=instance,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=parts)],
        )
        self.talk.ask(name, request, version)

    def fetch(self, name: str, member_id: str | None, epoch: int) -> None:
        group = OffsetFetchRequestGroup(
            group_id=self.group_id,
            member_id=member_id,
            member_epoch=epoch,
            topics=[OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])],
        )
        self.talk.ask(name, OffsetFetchRequest(groups=[group]), FETCH)

    def topic_id(self, name: str = TOPIC) -> bytes:
        answer: Any = self.talk._client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12)
        found: bytes = answer.topics[0].topic_id
        return found

    def extend(self, topic: str, count: int) -> None:
        topics = [CreatePartitionsTopic(name=topic, count=count)]
        self.talk._client.ask(CreatePartitionsRequest(topics=topics, timeout_ms=5_000), 3)
        pause(self.talk)


def hide(assignment: Any) -> None:
    """All but how many there are."""
    for row in assignment.topic_partitions if assignment is not None else ():
        row.partitions = [0] * len(row.partitions)
        if hasattr(row, "topic_name"):
            row.topic_name = "chosen"


class Member:
    """Does as it is told, and remembers what."""

    def __init__(self, party: Party, member_id: str, topics: Sequence[str], fields: Mapping[str, Any]) -> None:
        self._party = party
        self.id = member_id
        self._topics = list(topics)
        self._fields = fields
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}

    def join(self, name: str, **fields: Any) -> Any:
        self.epoch, self.owned = 0, {}
        whole = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": self._topics, **self._fields, **fields}
        return self._heard(self._party.beat(name, self.id, 0, owned={}, **whole))

    def beat(self, name: str, **fields: Any) -> Any:
        instance = {key: value for key, value in self._fields.items() if key == "instance_id"}
        return self._heard(self._party.beat(name, self.id, self.epoch, owned=self.owned, **instance, **fields))

    def leave(self, name: str, epoch: int = -1) -> Any:
        instance = {key: value for key, value in self._fields.items() if key == "instance_id"}
        return self._party.beat(name, self.id, epoch, **instance)

    def _heard(self, answer: Any) -> Any:
        if answer.error_code:
            self.epoch, self.owned = 0, {}
            return answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
        return answer


def subscription(owned: Sequence[int] = (), topics: Sequence[str] = (TOPIC,), version: int = 1) -> bytes:
    rows = [ConsumerProtocolSubscriptionTopicPartition(topic=TOPIC, partitions=list(owned))] if owned else []
    said = ConsumerProtocolSubscription(topics=list(topics), owned_partitions=rows)
    return version.to_bytes(2, "big") + encode(said, version)


class ClassicMember:
    def __init__(self, party: Party, name: str, instance_id: str | None = None) -> None:
        self._party = party
        self._name = name
        self.id = ""
        self.instance_id = instance_id
        self.generation = -1

    def join(self, what: str, protocols: Mapping[str, bytes] | None = None, **fields: Any) -> Any:
        """With the member id that it is given, where it is asked to."""
        rows = {"range": subscription()} if protocols is None else protocols
        for step in (1, 2):
            request = JoinGroupRequest(
                group_id=self._party.group_id,
                session_timeout_ms=30_000,
                rebalance_timeout_ms=60_000,
                member_id=fields.get("member_id", self.id),
                group_instance_id=self.instance_id,
                protocol_type=fields.get("protocol_type", "consumer"),
                protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in rows.items()],
            )
            answer = self._party.talk.ask(f"{self._name} {what} ({step})", request, JOIN)
            if answer.member_id:
                self.id = answer.member_id
            self._hide(answer)
            if answer.error_code != 79:
                break
        self.generation = answer.generation_id if not answer.error_code else self.generation
        return answer

    def _hide(self, answer: Any) -> None:
        """Ids that the server has made."""
        answer.leader = answer.leader and "chosen"
        answer.member_id = answer.member_id and "chosen"
        for row in answer.members:
            row.member_id = "chosen"

    def sync(self, what: str, generation: int | None = None, **fields: Any) -> Any:
        request = SyncGroupRequest(
            group_id=self._party.group_id,
            member_id=fields.pop("member_id", self.id),
            generation_id=self.generation if generation is None else generation,
            group_instance_id=fields.pop("instance_id", self.instance_id),
            **fields,
        )
        return self._party.talk.ask(f"{self._name} {what}", request, SYNC)

    def beat(self, what: str, generation: int | None = None, **fields: Any) -> Any:
        request = HeartbeatRequest(
            group_id=self._party.group_id,
            member_id=fields.pop("member_id", self.id),
            generation_id=self.generation if generation is None else generation,
            group_instance_id=fields.pop("instance_id", self.instance_id),
        )
        return self._party.talk.ask(f"{self._name} {what}", request, CLASSIC_HEARTBEAT)


def leave_classic(party: Party, name: str, *identities: tuple[str, str | None]) -> None:
    rows = [MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in identities]
    answer = party.talk.ask(name, LeaveGroupRequest(group_id=party.group_id, members=rows), LEAVE)
    for row in answer.members:
        row.member_id = row.member_id and "chosen"


def make_topic(talk: Talk, name: str, partitions: int) -> None:
    topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)]
    talk._client.ask(CreateTopicsRequest(topics=topics, timeout_ms=20_000), 7)
    pause(talk)
