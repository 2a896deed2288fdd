"""What members of share groups, their brokers and administrators say to a server, and what it answers.

A story has a topic and a group of its own. What takes its time on either server (states that are made, leaders that are
found) is waited for and not noted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from support.conversations.consumer_members import pause
from support.conversations.conversation import Talk, produce_request
from support.requests.case import UNKNOWN_ID
from support.requests.records import batch
from tailrace.protocol.messages import share_acknowledge as acknowledging
from tailrace.protocol.messages import share_fetch as fetching
from tailrace.protocol.messages import write_share_group_state as writing
from tailrace.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.delete_groups import DeleteGroupsRequest
from tailrace.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from tailrace.protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest, DeleteStateData
from tailrace.protocol.messages.delete_share_group_state import PartitionData as DeletedState
from tailrace.protocol.messages.describe_groups import DescribeGroupsRequest
from tailrace.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tailrace.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
)
from tailrace.protocol.messages.initialize_share_group_state import PartitionData as InitialState
from tailrace.protocol.messages.list_groups import ListGroupsRequest
from tailrace.protocol.messages.offset_commit import OffsetCommitRequest
from tailrace.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tailrace.protocol.messages.read_share_group_state import PartitionData as AskedState
from tailrace.protocol.messages.read_share_group_state import ReadShareGroupStateRequest, ReadStateData
from tailrace.protocol.messages.read_share_group_state_summary import PartitionData as AskedSummary
from tailrace.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from tailrace.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from tailrace.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
FETCH = 2
GROUP_RESOURCE = 32
NOT_READY = (14, 15, 16)
LOCK_MS = 1000
SETTINGS = {"group.share.min.record.lock.duration.ms": str(LOCK_MS)}
"""Of both servers."""

Said = tuple[int, int, list[int]]
"""First and last offset, and the types."""


class Sharers:
    """A group that reads a topic of one partition."""

    def __init__(self, talk: Talk, name: str, records: Sequence[int] = (10,)) -> None:
        """The topic has batches of so many records."""
        self.talk = talk
        self.group = self.topic = f"shared-{name}"
        made = self.quietly(
            CreateTopicsRequest(
                topics=[CreatableTopic(name=self.topic, num_partitions=1, replication_factor=1)], timeout_ms=20_000
            ),
            7,
        )
        self.topic_id: bytes = made.topics[0].topic_id
        self.set("share.auto.offset.reset", "earliest")
        for count in records:
            self.produce(count)
        self.quietly(FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group]), 6)
        described = ShareGroupDescribeRequest(group_ids=[self.group])
        self.until(described, 1, lambda answer: answer.groups[0].error_code not in NOT_READY)

    def quietly(self, request: Any, version: int) -> Any:
        """Nobody looks at the answer."""
        answer = self.talk.ask("", request, version)
        self.talk.answers.pop()
        return answer

    def until(self, request: Any, version: int, is_good: Callable[[Any], bool]) -> Any:
        for _ in range(400):
            answer = self.quietly(request, version)
            if is_good(answer):
                break
            pause(self.talk, 0.05)
        return answer

    def produce(self, count: int) -> None:
        request = produce_request(batch(count), topic=self.topic, partition=0)
        self.until(request, 9, lambda answer: answer.responses[0].partition_responses[0].error_code == 0)

    def set(self, name: str, value: str) -> None:
        config = AlterableConfig(name=name, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=self.group, configs=[config])
        self.quietly(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        pause(self.talk, 0.3)

    # The group

    def heartbeat(self, member: str, epoch: int, **fields: Any) -> ShareGroupHeartbeatRequest:
        if epoch == 0:
            fields.setdefault("subscribed_topic_names", [self.topic])
        return ShareGroupHeartbeatRequest(group_id=self.group, member_id=member, member_epoch=epoch, **fields)

    def join(self, member: str) -> int:
        """Until it may read; its epoch."""
        epoch = 0
        for _ in range(100):
            answer = self.quietly(self.heartbeat(member, epoch), 1)
            if answer.error_code == 0:
                epoch = answer.member_epoch
                if answer.assignment is not None and answer.assignment.topic_partitions:
                    return epoch
            pause(self.talk, 0.2)
        raise AssertionError("nothing is assigned")

    def beat(self, name: str, member: str, epoch: int, **fields: Any) -> Any:
        return self.talk.ask(f"{member} {name}", self.heartbeat(member, epoch, **fields), 1)

    def describe(self, name: str) -> None:
        answer = self.talk.ask(name, ShareGroupDescribeRequest(group_ids=[self.group]), 1)
        for member in answer.groups[0].members:
            assert member.client_host.startswith("/")
            member.client_id = member.client_host = "chosen"

    # Records

    def fetch(
        self,
        name: str,
        member: str,
        epoch: int,
        *said: Said,
        version: int = FETCH,
        partitions: Sequence[int] = (0,),
        topic_id: bytes | None = None,
        forgotten: Sequence[int] = (),
        **fields: Any,
    ) -> Any:
        rows = [
            fetching.FetchPartition(
                partition_index=index,
                acknowledgement_batches=[
                    fetching.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                    for first, last, types in said
                ],
            )
            for index in partitions
        ]
        wanted: dict[str, Any] = {
            "group_id": self.group,
            "member_id": member,
            "share_session_epoch": epoch,
            "max_wait_ms": 200,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 100,
            "batch_size": 100,
            "topics": [fetching.FetchTopic(topic_id=topic_id or self.topic_id, partitions=rows)] if rows else [],
            "forgotten_topics_data": (
                [fetching.ForgottenTopic(topic_id=self.topic_id, partitions=list(forgotten))] if forgotten else []
            ),
        }
        return self.talk.ask(f"{member} {name}", fetching.ShareFetchRequest(**{**wanted, **fields}), version)

    def acknowledge(
        self,
        name: str,
        member: str,
        epoch: int,
        *said: Said,
        version: int = FETCH,
        partition: int = 0,
        topic_id: bytes | None = None,
        **fields: Any,
    ) -> Any:
        rows = [
            acknowledging.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in said
        ]
        part = acknowledging.AcknowledgePartition(partition_index=partition, acknowledgement_batches=rows)
        topic = acknowledging.AcknowledgeTopic(topic_id=topic_id or self.topic_id, partitions=[part])
        wanted = {"group_id": self.group, "member_id": member, "share_session_epoch": epoch, "topics": [topic]}
        request = acknowledging.ShareAcknowledgeRequest(**{**wanted, **fields})
        return self.talk.ask(f"{member} {name}", request, version)

    # Offsets

    def offsets(self, name: str, *topics: str, version: int = 1) -> None:
        wanted = [DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[0]) for topic in topics]
        group = DescribeShareGroupOffsetsRequestGroup(group_id=self.group, topics=wanted or None)
        self.talk.ask(name, DescribeShareGroupOffsetsRequest(groups=[group]), version)

    def alter(self, name: str, *starts: tuple[int, int], topic: str = "", group: str | None = None) -> None:
        rows = [AlterShareGroupOffsetsRequestPartition(partition_index=at, start_offset=to) for at, to in starts]
        topics = [AlterShareGroupOffsetsRequestTopic(topic_name=topic or self.topic, partitions=rows)]
        request = AlterShareGroupOffsetsRequest(group_id=self.group if group is None else group, topics=topics)
        self.talk.ask(name, request, 0)

    def forget(self, name: str, *topics: str, group: str | None = None) -> None:
        rows = [DeleteShareGroupOffsetsRequestTopic(topic_name=each) for each in topics]
        request = DeleteShareGroupOffsetsRequest(group_id=self.group if group is None else group, topics=rows)
        self.talk.ask(name, request, 0)


def share_group_members(talk: Talk) -> None:
    group = Sharers(talk, "members")
    group.describe("before it is there")
    talk.ask("no group", ShareGroupDescribeRequest(group_ids=["", "nope"]), 1)
    group.beat("beats before it has joined", "a", 1)
    group.beat("leaves before it has joined", "a", -1)
    group.beat("has no name", "", 0)
    group.beat("has a blank name", " ", 0)
    group.beat("has no rack", "a", 0, rack_id="")
    group.beat("wants nothing", "a", 0, subscribed_topic_names=[])
    group.beat("does not say what it wants", "a", 0, subscribed_topic_names=None)
    group.beat("has an epoch that cannot be", "a", -2)
    talk.ask("group without a name", ShareGroupHeartbeatRequest(group_id="", member_id="a", member_epoch=0), 1)
    group.describe("still not there")
    group.beat("joins", "a", 0)
    group.describe("with one")
    epoch = group.join("a")
    group.describe("with one that reads")
    group.beat("beats", "a", epoch)
    group.beat("beats in full", "a", epoch, subscribed_topic_names=[group.topic])
    group.beat("beats with the epoch before", "a", epoch - 1)
    group.beat("beats ahead", "a", epoch + 1)
    group.beat("beats from long ago", "a", epoch - 2)
    group.beat("joins again", "a", 0)
    group.beat("is a stranger", "b", epoch)
    talk.ask("groups", ListGroupsRequest(types_filter=["share"]), 5)
    talk.ask("as if it were classic", DescribeGroupsRequest(groups=[group.group]), 6)
    commit = OffsetCommitRequest(group_id=group.group, generation_id_or_member_epoch=-1)
    talk.ask("a commit", commit, 9)
    talk.ask("a fetch of offsets", OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group.group)]), 9)
    talk.ask("delete with members", DeleteGroupsRequest(groups_names=[group.group]), 2)
    group.beat("wants something else", "a", epoch, subscribed_topic_names=["nope"])
    group.beat("leaves", "a", -1)
    group.beat("leaves twice", "a", -1)
    group.describe("without members")
    talk.ask("groups after that", ListGroupsRequest(types_filter=["share"], states_filter=["Empty"]), 5)
    talk.ask("deleted", DeleteGroupsRequest(groups_names=[group.group]), 2)
    group.describe("deleted")


def share_sessions(talk: Talk) -> None:
    group = Sharers(talk, "sessions")
    group.join("a")
    group.fetch("goes on without a session", "a", 1)
    group.fetch("ends what has not begun", "a", -1)
    group.acknowledge("speaks without a session", "a", 1, (0, 0, [ACCEPT]))
    group.acknowledge("speaks first", "a", 0, (0, 0, [ACCEPT]))
    group.acknowledge("ends what has not begun, speaking", "a", -1, (0, 0, [ACCEPT]))
    group.fetch("begins with an acknowledgement", "a", 0, (0, 0, [ACCEPT]))
    group.fetch("has no name", "", 0)
    group.fetch("has too long a name", "m" * 37, 0)
    group.fetch("has no group", "a", 0, group_id=None)
    group.fetch("is nobody", "a", 0, member_id=None)
    group.acknowledge("has no name, speaking", "", 1, (0, 0, [ACCEPT]))
    group.acknowledge("has no group, speaking", "a", 1, (0, 0, [ACCEPT]), group_id=None)
    for version in (1, 2):
        group.fetch(f"begins in version {version}", "a", 0, version=version, max_records=1, share_acquire_mode=0)
    group.fetch("goes on", "a", 1, partitions=())
    group.fetch("goes on with the same epoch", "a", 1, partitions=())
    group.fetch("jumps ahead", "a", 7, partitions=())
    group.acknowledge("jumps ahead, speaking", "a", 7, (0, 0, [ACCEPT]))
    group.fetch("names a partition that is not there", "a", 2, partitions=(9,))
    group.fetch("hears of it again", "a", 3, partitions=())
    group.fetch("forgets", "a", 4, partitions=(), forgotten=(9,))
    group.fetch("has no more of it", "a", 5, partitions=())
    group.fetch("ends", "a", -1, partitions=())
    group.fetch("goes on after its end", "a", 6, partitions=())
    group.fetch("of no group", "stranger", 0, max_wait_ms=5000)
    group.fetch("of no group, ends", "stranger", -1)


def shared_records(talk: Talk) -> None:
    group = Sharers(talk, "records", (4, 4, 4, 4))
    group.join("a")
    group.fetch("reads a record", "a", 0, max_records=1, share_acquire_mode=1)
    group.fetch("reads a batch", "a", 1, max_records=1, share_acquire_mode=0)
    group.fetch("reads in small parts", "a", 2, max_records=8, batch_size=2)
    group.fetch("reads what is left", "a", 3)
    group.fetch("reads nothing more", "a", 4)
    group.acknowledge("accepts", "a", 5, (0, 3, [ACCEPT]))
    group.offsets("after the first batch")
    group.acknowledge("accepts again", "a", 6, (0, 3, [ACCEPT]))
    group.acknowledge("accepts what was never there", "a", 7, (90, 91, [ACCEPT]))
    group.acknowledge("accepts too much", "a", 8, (12, 30, [ACCEPT]))
    group.acknowledge("says nothing", "a", 9)
    group.acknowledge("has it both ways", "a", 10, (4, 7, [ACCEPT, RELEASE, REJECT, GAP]))
    group.offsets("after both ways")
    group.fetch("reads again", "a", 11)
    group.acknowledge("speaks of what it released", "a", 12, (4, 7, [ACCEPT]))
    group.fetch("is another", "b", 0)
    group.acknowledge("speaks of another's", "b", 1, (8, 8, [ACCEPT]))
    group.acknowledge("of a partition that is not there", "a", 13, (0, 0, [ACCEPT]), partition=9)
    group.acknowledge("of a topic that is not there", "a", 14, (0, 0, [ACCEPT]), topic_id=UNKNOWN_ID)
    for at, said in enumerate(
        [
            [(9, 8, [ACCEPT])],
            [(8, 9, [])],
            [(8, 9, [ACCEPT] * 3)],
            [(8, 8, [5])],
            [(8, 8, [-1])],
            [(8, 8, [RENEW])],
            [(9, 9, [ACCEPT]), (8, 8, [ACCEPT])],
            [(8, 9, [ACCEPT]), (9, 10, [ACCEPT])],
        ]
    ):
        group.acknowledge(f"makes no sense, {at}", "a", 15 + at, *said)
    group.acknowledge("renews in a version that cannot", "a", 23, (8, 8, [RENEW]), version=1)
    group.acknowledge("renews", "a", 24, (8, 8, [RENEW]), is_renew_ack=True)
    group.fetch("renews and reads", "a", 25, (8, 8, [RENEW]), is_renew_ack=True)
    nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    group.fetch("renews with a fetch", "a", 25, (8, 8, [RENEW]), is_renew_ack=True, **nothing)
    group.set("share.renew.acknowledge.enable", "false")
    group.acknowledge("renews where nobody may", "a", 26, (8, 8, [RENEW]), is_renew_ack=True)
    group.fetch("accepts and reads", "a", 27, (8, 11, [ACCEPT]))
    group.fetch("speaks wrongly and reads", "a", 28, (8, 99, [ACCEPT]))
    group.produce(2)
    group.fetch("reads what is new", "b", 2, partitions=())
    group.offsets("with records at two members")
    group.offsets("by an old client", version=0)
    group.acknowledge("ends, speaking", "b", -1, (16, 16, [ACCEPT]))
    group.fetch("reads what the other left", "a", 29, partitions=())
    group.fetch("ends, speaking with a fetch", "a", -1, (12, 15, [ACCEPT]))
    group.offsets("in the end")


def refused_share_fetches(talk: Talk) -> None:
    group = Sharers(talk, "refused")
    group.join("a")
    group.fetch("wants no records", "a", 0, max_records=0)
    group.fetch("wants no bytes", "a", 1, max_bytes=0)
    group.fetch("wants fewer than none", "a", 2, max_records=-1)
    group.fetch("has a strange mode", "a", 3, share_acquire_mode=7)


def share_group_offsets(talk: Talk) -> None:
    group = Sharers(talk, "offsets", (5, 5))
    group.offsets("of no group")
    group.offsets("of no group, by name", group.topic)
    group.forget("of no group", group.topic)
    group.forget("of a group without a name", group.topic, group="")
    group.alter("of a group without a name", (0, 0), group="")
    group.alter("sets those of a new group", (0, 3), (7, 1))
    group.describe("made by its offsets")
    group.offsets("set")
    group.offsets("by name", group.topic, "nope")
    group.alter("of a topic that is not there", (0, 0), topic="nope")
    group.join("a")
    group.alter("sets while somebody reads", (0, 0))
    group.forget("while somebody reads", group.topic)
    got = group.fetch("reads from there", "a", 0)
    assert got.responses
    group.fetch("accepts some", "a", 1, (5, 6, [ACCEPT]))
    group.offsets("with something accepted")
    group.acknowledge("ends", "a", -1, (7, 7, [ACCEPT]))
    group.offsets("after it has ended")
    group.beat("leaves", "a", -1)
    group.alter("sets again", (0, 1))
    group.offsets("set again")
    group.alter("sets what cannot be", (0, -5))
    group.offsets("set to what cannot be")
    group.forget("a topic that is not there", "nope")
    group.forget("one that is and one that is not", group.topic, "nope")
    group.offsets("deleted")
    group.forget("twice", group.topic)
    group.describe("without offsets")
    talk.ask("deleted whole", DeleteGroupsRequest(groups_names=[group.group]), 2)


def share_states(talk: Talk) -> None:
    """What brokers ask the share coordinator."""
    group = Sharers(talk, "states")
    name, topic = group.group, group.topic_id
    key = f"{name}:AAAAAAAAAAAAAAAAAAAAAQ:0"
    group.quietly(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6)

    def initialize(what: str, state_epoch: int, start: int, partition: int = 0, **fields: Any) -> Any:
        part = InitialState(partition=partition, state_epoch=state_epoch, start_offset=start)
        data = InitializeStateData(topic_id=fields.pop("topic_id", topic), partitions=[part])
        return InitializeShareGroupStateRequest(**{"group_id": name, "topics": [data], **fields})

    def read(what: str, leader: int, partition: int = 0, **fields: Any) -> None:
        part = AskedState(partition=partition, leader_epoch=leader)
        data = ReadStateData(topic_id=fields.pop("topic_id", topic), partitions=[part])
        talk.ask(f"read {what}", ReadShareGroupStateRequest(**{"group_id": name, "topics": [data], **fields}), 0)

    def write(
        what: str, state: int, leader: int, start: int, *batches: tuple[int, int, int, int], **fields: Any
    ) -> None:
        rows = [
            writing.StateBatch(first_offset=first, last_offset=last, delivery_state=kind, delivery_count=count)
            for first, last, kind, count in batches
        ]
        part = writing.PartitionData(
            partition=fields.pop("partition", 0),
            state_epoch=state,
            leader_epoch=leader,
            start_offset=start,
            delivery_complete_count=fields.pop("count", 0),
            state_batches=rows,
        )
        data = writing.WriteStateData(topic_id=fields.pop("topic_id", topic), partitions=[part])
        request = writing.WriteShareGroupStateRequest(**{"group_id": name, "topics": [data], **fields})
        talk.ask(f"write {what}", request, 1)

    def summary(what: str, partition: int = 0, version: int = 1, **fields: Any) -> None:
        part = AskedSummary(partition=partition, leader_epoch=-1)
        data = ReadStateSummaryData(topic_id=fields.pop("topic_id", topic), partitions=[part])
        request = ReadShareGroupStateSummaryRequest(**{"group_id": name, "topics": [data], **fields})
        talk.ask(f"summary {what}", request, version)

    def delete(what: str, partition: int = 0, **fields: Any) -> None:
        data = DeleteStateData(topic_id=fields.pop("topic_id", topic), partitions=[DeletedState(partition=partition)])
        talk.ask(f"delete {what}", DeleteShareGroupStateRequest(**{"group_id": name, "topics": [data], **fields}), 0)

    def begin(what: str, *args: int, **fields: Any) -> None:
        talk.ask(f"initialize {what}", initialize(what, *args, **fields), 0)

    for ask, args in ((begin, (0, 0)), (read, (0,)), (summary, ()), (delete, ())):
        group.until(
            initialize("", 0, 0, topic_id=UNKNOWN_ID), 0, lambda answer: answer.results[0].partitions[0].error_code == 3
        )
        ask("of no group", *args, group_id="")
        ask("of no topics", *args, topics=[])
        ask("of a topic that is not there", *args, topic_id=UNKNOWN_ID)
    write("of no group", 0, 0, 0, group_id="")
    write("of a topic that is not there", 0, 0, 0, topic_id=UNKNOWN_ID)
    for partition in (-1, 9):
        begin(f"of partition {partition}", 0, 0, partition)
        read(f"of partition {partition}", 0, partition)
        write(f"to partition {partition}", 0, 0, 0, partition=partition)
        summary(f"of partition {partition}", partition)
        delete(f"of partition {partition}", partition)
    read("before it is there", 0)
    write("before it is there", 0, 0, 0)
    summary("before it is there")
    delete("before it is there")
    begin("unread", 3, -1)
    summary("unread")
    read("unread", 0)
    begin("in an older epoch", 2, 0)
    begin("in the same epoch", 3, 5)
    read("begun at 5", 0)
    summary("begun at 5")
    write("of something", 3, 0, 5, (5, 9, 2, 1), (12, 13, 0, 1), count=5)
    read("something", 0)
    summary("something")
    summary("by an old broker", version=0)
    write("that overlaps", 3, 0, 5, (8, 12, 0, 2))
    read("what overlaps", 0)
    write("of a later start", 3, 0, 9, (9, 9, 4, 3), count=1)
    read("from a later start", 0)
    write("without a start", 3, 0, -1, (13, 14, 2, 1), count=2)
    read("with the start from before", 0)
    write("in an older state epoch", 2, 0, 9)
    write("in a later state epoch", 7, 0, 9)
    read("as a later leader", 4)
    summary("with a later leader")
    read("as an older leader", 3)
    write("as an older leader", 3, 3, 9)
    write("as nobody", -1, -1, 9, (20, 20, 2, 1))
    read("as nobody", -1)
    begin("anew", 8, 100)
    read("anew", 4)
    write("of what was before", 3, 4, 9)
    delete("all")
    summary("of nothing")
    read("of nothing", 4)
    delete("all again")


def failing_records(talk: Talk) -> None:
    """Nobody says anything: locks end, and records come again until they are given up."""
    group = Sharers(talk, "failing", (16, 2))
    group.set("share.record.lock.duration.ms", str(LOCK_MS))
    group.join("a")
    epoch = 0
    for time_around in range(1, 6):
        for part in range(4):
            group.fetch(f"reads, {time_around} times, part {part}", "a", epoch)
            epoch += 1
        group.offsets(f"after {time_around} times")
        pause(talk, LOCK_MS / 1000 + 0.3)
    for _ in range(3):
        group.fetch("reads what is left", "a", epoch)
        epoch += 1
        pause(talk, LOCK_MS / 1000 + 0.3)
    group.acknowledge("is too late", "a", epoch, (0, 15, [ACCEPT]))


CONVERSATIONS_OF_SHARE_GROUPS: tuple[Callable[[Talk], None], ...] = (
    share_group_members,
    share_sessions,
    shared_records,
    refused_share_fetches,
    share_group_offsets,
    share_states,
    failing_records,
)
