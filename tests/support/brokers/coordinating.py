"""An administered broker that coordinates groups, all in memory: small, and as strict as the client has to be careful.

A consumer group's partitions go round its members in the order of their names; a partition is given once nobody else
has it. Groups of the other kinds are put there by the test.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from support.brokers.administered import AdministeredBroker
from support.brokers.scripted import topic_id
from tailrace.protocol.codec import encode
from tailrace.protocol.messages import consumer_group_describe as consumer
from tailrace.protocol.messages import describe_groups as classic
from tailrace.protocol.messages import share_group_describe as share
from tailrace.protocol.messages import streams_group_describe as streams
from tailrace.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from tailrace.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)
from tailrace.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from tailrace.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from tailrace.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from tailrace.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tailrace.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tailrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tailrace.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)

Place = tuple[str, int]


@dataclass
class FakeMember:
    epoch: int
    topics: list[str]
    owned: set[Place] = field(default_factory=set)


@dataclass
class FakeGroup:
    kind: str = "Consumer"
    epoch: int = 0
    members: dict[str, FakeMember] = field(default_factory=dict)
    offsets: dict[Place, int] = field(default_factory=dict)

    @property
    def state(self) -> str:
        return "Stable" if self.members else "Empty"


class CoordinatingBroker(AdministeredBroker):
    def __init__(self) -> None:
        super().__init__()
        self.groups: dict[str, FakeGroup] = {}
        self.find_errors: list[int] = []
        self.heartbeat_errors: list[int] = []
        self.heartbeat_interval_ms = 0
        self.answers |= {
            FindCoordinatorRequest: self.find_coordinator,
            ConsumerGroupHeartbeatRequest: self.heartbeat,
            OffsetCommitRequest: self.commit,
            OffsetFetchRequest: self.fetch_offsets,
            OffsetDeleteRequest: self.delete_offsets,
            ListGroupsRequest: self.list_groups,
            DeleteGroupsRequest: self.delete_groups,
            classic.DescribeGroupsRequest: self.describe_classic,
            consumer.ConsumerGroupDescribeRequest: self.describe_consumer,
            share.ShareGroupDescribeRequest: self.describe_share,
            streams.StreamsGroupDescribeRequest: self.describe_streams,
            DescribeShareGroupOffsetsRequest: self.share_offsets,
            AlterShareGroupOffsetsRequest: self.alter_share_offsets,
            DeleteShareGroupOffsetsRequest: self.delete_share_offsets,
        }

    def find_coordinator(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        code = self.find_errors.pop(0) if self.find_errors else 0
        found = [
            Coordinator(key=key, node_id=1, host="127.0.0.1", port=self.port, error_code=code)
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=found)

    # The consumer group protocol

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        if self.heartbeat_errors:
            return ConsumerGroupHeartbeatResponse(error_code=self.heartbeat_errors.pop(0), error_message="said it")
        group = self.groups.setdefault(request.group_id, FakeGroup())
        if request.member_epoch < 0:
            del group.members[request.member_id]
            group.epoch += 1
            return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        member = group.members.get(request.member_id)
        if request.member_epoch == 0:
            assert request.topic_partitions == []
            group.epoch += 1
            member = group.members[request.member_id] = FakeMember(group.epoch, [])
        elif member is None:
            return ConsumerGroupHeartbeatResponse(error_code=25)
        elif request.member_epoch != member.epoch:
            return ConsumerGroupHeartbeatResponse(error_code=110)
        if request.subscribed_topic_names is not None:
            pattern = request.subscribed_topic_regex
            member.topics = [name for name in self.topics if pattern] or request.subscribed_topic_names
        if request.topic_partitions is not None:
            member.owned = {
                (self.name("", each.topic_id), at) for each in request.topic_partitions for at in each.partitions
            }
        member.epoch = group.epoch
        may_own = self.target(group, request.member_id) - {
            place for name, each in group.members.items() if name != request.member_id for place in each.owned
        }
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            assignment=Assignment(topic_partitions=self.by_topic(may_own)) if may_own != member.owned else None,
        )

    def target(self, group: FakeGroup, member_id: str) -> set[Place]:
        found: set[Place] = set()
        for name, logs in self.topics.items():
            takers = sorted(each for each, member in group.members.items() if name in member.topics)
            found |= {(name, at) for at in range(len(logs)) if takers and takers[at % len(takers)] == member_id}
        return found

    def by_topic(self, places: set[Place]) -> list[ResponseTopicPartitions]:
        return [
            ResponseTopicPartitions(
                topic_id=topic_id(name), partitions=[at for topic, at in sorted(places) if topic == name]
            )
            for name in sorted({topic for topic, _ in places})
        ]

    # Offsets

    def commit_error(self, group: FakeGroup, member_id: str, epoch: int) -> int:
        if epoch < 0:
            return 25 if group.members else 0
        member = group.members.get(member_id)
        return 25 if member is None else 113 if member.epoch != epoch else 0

    def commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        group = self.groups.setdefault(request.group_id, FakeGroup("Classic"))
        code = self.commit_error(group, request.member_id, request.generation_id_or_member_epoch)
        topics = []
        for topic in request.topics:
            parts = []
            for each in topic.partitions:
                if not code:
                    group.offsets[topic.name, each.partition_index] = each.committed_offset
                parts.append(OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code))
            topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=parts))
        return OffsetCommitResponse(topics=topics)

    def fetch_offsets(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        (wanted,) = request.groups
        group = self.groups.get(wanted.group_id, FakeGroup())
        places = (
            list(group.offsets)
            if wanted.topics is None
            else [(topic.name, at) for topic in wanted.topics for at in topic.partition_indexes]
        )
        topics = [
            OffsetFetchResponseTopics(
                name=topic,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=at, committed_offset=group.offsets.get((topic, at), -1), metadata=""
                    )
                ],
            )
            for topic, at in places
        ]
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id=wanted.group_id, topics=topics)])

    def delete_offsets(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        group = self.groups.get(request.group_id)
        if group is None:
            return OffsetDeleteResponse(error_code=69)
        topics = []
        for topic in request.topics:
            code = 86 if any(topic.name in each.topics for each in group.members.values()) else 0
            for each in topic.partitions:
                if not code:
                    group.offsets.pop((topic.name, each.partition_index), None)
            parts = [
                OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=code)
                for each in topic.partitions
            ]
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=parts))
        return OffsetDeleteResponse(topics=topics)

    # Administration

    def list_groups(self, _: object) -> ListGroupsResponse:
        listed = [
            ListedGroup(group_id=name, protocol_type="consumer", group_state=group.state, group_type=group.kind)
            for name, group in self.groups.items()
        ]
        return ListGroupsResponse(groups=listed)

    def delete_groups(self, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        (name,) = request.groups_names
        group = self.groups.get(name)
        code = 69 if group is None else 68 if group.members else 0
        if not code:
            del self.groups[name]
        return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=name, error_code=code)])

    def described(self, names: list[str], kind: str) -> tuple[str, FakeGroup | None]:
        (name,) = names
        group = self.groups.get(name)
        return name, group if group is not None and group.kind == kind else None

    def describe_classic(self, request: classic.DescribeGroupsRequest) -> classic.DescribeGroupsResponse:
        name, group = self.described(request.groups, "Classic")
        if group is None:
            said = classic.DescribedGroup(group_id=name, error_code=69, group_state="Dead")
            return classic.DescribeGroupsResponse(groups=[said])
        members = [
            classic.DescribedGroupMember(
                member_id=member_id,
                client_id=f"client-of-{member_id}",
                client_host="/10.0.0.7",
                member_metadata=versioned(3, ConsumerProtocolSubscription(topics=each.topics)),
                member_assignment=versioned(3, assignment_of(each.owned)),
            )
            for member_id, each in group.members.items()
        ]
        said = classic.DescribedGroup(
            group_id=name,
            group_state=group.state,
            protocol_type="consumer",
            protocol_data="range" if members else "",
            members=members,
        )
        return classic.DescribeGroupsResponse(groups=[said])

    def describe_consumer(
        self, request: consumer.ConsumerGroupDescribeRequest
    ) -> consumer.ConsumerGroupDescribeResponse:
        name, group = self.described(request.group_ids, "Consumer")
        if group is None:
            said = consumer.DescribedGroup(group_id=name, error_code=69, error_message="not here")
            return consumer.ConsumerGroupDescribeResponse(groups=[said])
        members = [
            consumer.Member(
                member_id=member_id,
                member_epoch=each.epoch,
                client_id=f"client-of-{member_id}",
                client_host="/10.0.0.7",
                subscribed_topic_names=each.topics,
                assignment=consumer.Assignment(topic_partitions=named(each.owned, consumer.TopicPartitions)),
                target_assignment=consumer.Assignment(
                    topic_partitions=named(self.target(group, member_id), consumer.TopicPartitions)
                ),
                member_type=1,
            )
            for member_id, each in group.members.items()
        ]
        said = consumer.DescribedGroup(
            group_id=name,
            group_state=group.state,
            group_epoch=group.epoch,
            assignment_epoch=group.epoch,
            assignor_name="uniform",
            members=members,
        )
        return consumer.ConsumerGroupDescribeResponse(groups=[said])

    def describe_share(self, request: share.ShareGroupDescribeRequest) -> share.ShareGroupDescribeResponse:
        name, group = self.described(request.group_ids, "Share")
        assert group is not None
        members = [
            share.Member(
                member_id=member_id,
                member_epoch=each.epoch,
                client_id="sharer",
                client_host="/10.0.0.7",
                subscribed_topic_names=each.topics,
                assignment=share.Assignment(topic_partitions=named(each.owned, share.TopicPartitions)),
            )
            for member_id, each in group.members.items()
        ]
        said = share.DescribedGroup(
            group_id=name,
            group_state=group.state,
            group_epoch=2,
            assignment_epoch=2,
            assignor_name="simple",
            members=members,
        )
        return share.ShareGroupDescribeResponse(groups=[said])

    def describe_streams(self, request: streams.StreamsGroupDescribeRequest) -> streams.StreamsGroupDescribeResponse:
        name, group = self.described(request.group_ids, "Streams")
        assert group is not None
        tasks = streams.Assignment(
            active_tasks=[streams.TaskIds(subtopology_id="0", partitions=[0, 1])],
            standby_tasks=[streams.TaskIds(subtopology_id="1", partitions=[2])],
        )
        members = [
            streams.Member(
                member_id=each, client_id="counter", client_host="/10.0.0.7", member_epoch=5, assignment=tasks
            )
            for each in group.members
        ]
        said = streams.DescribedGroup(
            group_id=name, group_state=group.state, group_epoch=5, assignment_epoch=4, members=members
        )
        return streams.StreamsGroupDescribeResponse(groups=[said])

    def share_offsets(self, request: DescribeShareGroupOffsetsRequest) -> DescribeShareGroupOffsetsResponse:
        (wanted,) = request.groups
        topics = [
            DescribeShareGroupOffsetsResponseTopic(
                topic_name=topic,
                partitions=[DescribeShareGroupOffsetsResponsePartition(partition_index=at, start_offset=offset, lag=3)],
            )
            for (topic, at), offset in self.groups[wanted.group_id].offsets.items()
        ]
        said = DescribeShareGroupOffsetsResponseGroup(group_id=wanted.group_id, topics=topics)
        return DescribeShareGroupOffsetsResponse(groups=[said])

    def alter_share_offsets(self, request: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
        for topic in request.topics:
            for each in topic.partitions:
                self.groups[request.group_id].offsets[topic.topic_name, each.partition_index] = each.start_offset
        return AlterShareGroupOffsetsResponse()

    def delete_share_offsets(self, request: DeleteShareGroupOffsetsRequest) -> DeleteShareGroupOffsetsResponse:
        gone = {each.topic_name for each in request.topics}
        group = self.groups[request.group_id]
        group.offsets = {place: at for place, at in group.offsets.items() if place[0] not in gone}
        return DeleteShareGroupOffsetsResponse()


def versioned(version: int, message: ConsumerProtocolSubscription | ConsumerProtocolAssignment) -> bytes:
    return struct.pack(">h", version) + encode(message, version)


def assignment_of(places: set[Place]) -> ConsumerProtocolAssignment:
    return ConsumerProtocolAssignment(
        assigned_partitions=named(places, ConsumerProtocolAssignmentTopicPartition, "topic")
    )


def named(places: set[Place], kind: type[Any], key: str = "topic_name") -> list[Any]:
    return [kind(**{key: topic, "partitions": [at]}) for topic, at in sorted(places)]
