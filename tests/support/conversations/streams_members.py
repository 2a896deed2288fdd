"""Members of streams groups, for conversations with any server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from support.conversations.consumer_members import Party, make_topic, pause
from tailrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tailrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tailrace.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from tailrace.protocol.messages.streams_group_heartbeat import (
    KeyValue,
    RequestTaskIds,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)

GROUP_RESOURCE, TOPIC_RESOURCE = 32, 2
KINDS = ("active", "standby", "warmup")
MAX_LOOKS = 100
LOOK_SECONDS = 0.1

Tasks = Mapping[str, Sequence[int]]
Held = Mapping[str, Tasks]


def task_ids(tasks: Tasks | None) -> list[RequestTaskIds] | None:
    if tasks is None:
        return None
    return [RequestTaskIds(subtopology_id=key, partitions=list(indexes)) for key, indexes in tasks.items()]


def subtopology(key: str, *sources: str, state: str | None = None, **fields: Any) -> Subtopology:
    if state is not None:
        configs = [KeyValue(key="cleanup.policy", value="compact")]
        fields["state_changelog_topics"] = [TopicInfo(name=state, topic_configs=configs)]
    return Subtopology(subtopology_id=key, source_topics=list(sources), **fields)


def topology(*subtopologies: Subtopology, epoch: int = 0) -> Topology:
    return Topology(epoch=epoch, subtopologies=list(subtopologies))


class StreamsParty(Party):
    def request(
        self, member_id: str, epoch: int, *, held: Held | None = None, **fields: Any
    ) -> StreamsGroupHeartbeatRequest:
        if held is not None:
            fields.update({f"{kind}_tasks": task_ids(held.get(kind, {})) for kind in KINDS})
        return StreamsGroupHeartbeatRequest(group_id=self.group_id, member_id=member_id, member_epoch=epoch, **fields)

    def beat(self, name: str, member_id: str, epoch: int, version: int = 0, **fields: Any) -> Any:
        answer = self.talk.ask(name, self.request(member_id, epoch, **fields), version)
        for status in answer.status or ():
            status.status_detail = "words"
        return answer

    def thread(self, member_id: str, brought: Topology, process: str | None = None, **fields: Any) -> Thread:
        return Thread(self, member_id, brought, {"process_id": process or f"process of {member_id}", **fields})

    def describe(self, name: str, version: int = 0, *, hides: bool = False) -> None:
        """`hides`: of several ways to divide the tasks, each server has its own."""
        answer = self.talk.ask(name, StreamsGroupDescribeRequest(group_ids=[self.group_id]), version)
        for group in answer.groups:
            for member in group.members:
                assert member.client_host.startswith("/")
                member.client_id = member.client_host = "chosen"
                if hides:
                    for assignment in (member.assignment, member.target_assignment):
                        hide_tasks(assignment)

    def make(self, topic: str, partitions: int) -> str:
        make_topic(self.talk, f"{self.group_id}-{topic}", partitions)
        return f"{self.group_id}-{topic}"

    def named(self, topic: str) -> str:
        return f"{self.group_id}-{topic}"

    def widen(self, topic: str, count: int) -> None:
        topics = [CreatePartitionsTopic(name=topic, count=count, assignments=None)]
        self.talk._client.ask(CreatePartitionsRequest(topics=topics, timeout_ms=5_000), 3)
        pause(self.talk)

    def drop(self, *topics: str) -> None:
        dropped = self.topic_ids(*topics).items()
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=each) for each in topics], timeout_ms=20_000)
        self.talk._client.ask(request, 6)
        self.wait(lambda: not dropped & self.topic_ids(*topics).items(), f"{topics} to go")
        pause(self.talk)

    def topic_ids(self, *topics: str) -> dict[str, bytes]:
        """Of those that the broker knows, which may be a moment behind the controller."""
        wanted = [MetadataRequestTopic(name=each) for each in topics]
        answer: Any = self.talk._client.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 12)
        return {row.name: bytes(row.topic_id) for row in answer.topics if row.error_code == 0}

    def wait_for_topics(self, *topics: str) -> None:
        """Topics that the coordinator creates: it does so after its response to a heartbeat."""
        self.wait(lambda: self.topic_ids(*topics).keys() == set(topics), f"{topics}")

    def wait(self, is_reached: Callable[[], bool], what: str) -> None:
        for _ in range(MAX_LOOKS):
            if is_reached():
                return
            pause(self.talk, LOOK_SECONDS)
        raise AssertionError(f"waited for {what}")

    def set(self, key: str, value: str) -> None:
        config = [AlterableConfig(name=key, value=value)]
        resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=self.group_id, configs=config)
        self.talk.ask(f"{key} is {value}", IncrementalAlterConfigsRequest(resources=[resource]), 1)
        pause(self.talk)

    def topics(self, name: str, *topics: str) -> None:
        """What has become of them."""
        wanted = [MetadataRequestTopic(name=each) for each in topics]
        metadata = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        answer: Any = self.talk._client.ask(metadata, 12)
        resources = [
            DescribeConfigsResource(
                resource_type=TOPIC_RESOURCE, resource_name=each, configuration_keys=["cleanup.policy"]
            )
            for each in topics
        ]
        settings = DescribeConfigsRequest(resources=resources)
        configs: Any = self.talk._client.ask(settings, 4)
        rows = [[row.name, row.error_code, len(row.partitions)] for row in answer.topics]
        rows += [[row.resource_name, row.error_code, [each.value for each in row.configs]] for row in configs.results]
        self.talk.note(name, sorted(rows, key=repr), (metadata, 12), (settings, 4))

    def delete_offsets(self, name: str, *topics: str) -> None:
        parts = [OffsetDeleteRequestPartition(partition_index=0)]
        rows = [OffsetDeleteRequestTopic(name=each, partitions=parts) for each in topics]
        self.talk.ask(name, OffsetDeleteRequest(group_id=self.group_id, topics=rows), 0)

    def commit_for(self, name: str, topic: str, member_id: str, epoch: int, version: int = 9) -> None:
        parts = [OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in range(3)]
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=parts)],
        )
        self.talk.ask(name, request, version)


def hide_tasks(holder: Any) -> None:
    """All but how many there are of each kind."""
    for kind in KINDS:
        tasks = getattr(holder, f"{kind}_tasks")
        if tasks:
            tasks[0].subtopology_id = "chosen"
            tasks[0].partitions = [0] * sum(len(each.partitions) for each in tasks)
            del tasks[1:]


class Thread:
    """A member that does as it is told, and remembers what."""

    def __init__(self, party: StreamsParty, member_id: str, brought: Topology, fields: Mapping[str, Any]) -> None:
        self._group = party
        self.id = member_id
        self._topology = brought
        self._fields = fields
        self.epoch = 0
        self.endpoint_epoch = 0
        self.held: dict[str, dict[str, list[int]]] = {}

    def join(self, name: str, **fields: Any) -> Any:
        self.epoch, self.held = 0, {}
        whole = {"rebalance_timeout_ms": 60_000, "topology": self._topology, **self._fields, **fields}
        return self._heard(self._group.beat(name, self.id, 0, held={}, **whole))

    def beat(self, name: str, *, hides: bool = False, **fields: Any) -> Any:
        fields.setdefault("endpoint_information_epoch", self.endpoint_epoch)
        answer = self._heard(self._group.beat(name, self.id, self.epoch, held=self.held, **fields))
        if hides:
            hide_tasks(answer)
        return answer

    def leave(self, name: str, **fields: Any) -> Any:
        return self._group.beat(name, self.id, -1, **fields)

    def settle(self) -> None:
        """Quietly: what comes between goes by how fast the server is."""
        for _ in range(8):
            pause(self._group.talk, 0.1)
            self._beat_unrecorded()

    def settle_with(self, *topics: str) -> None:
        """After the coordinator has created these."""

        def are_there() -> bool:
            self._beat_unrecorded()
            return self._group.topic_ids(*topics).keys() == set(topics)

        self._group.wait(are_there, f"{topics}")
        pause(self._group.talk)  # until the coordinator knows them, too
        self.settle()

    def _beat_unrecorded(self) -> None:
        before = len(self._group.talk.answers)
        self.beat("")
        del self._group.talk.answers[before:]

    def _heard(self, answer: Any) -> Any:
        if answer.error_code:
            self.epoch, self.held = 0, {}
            return answer
        self.epoch = answer.member_epoch
        self.endpoint_epoch = answer.endpoint_information_epoch
        for kind in KINDS:
            tasks = getattr(answer, f"{kind}_tasks")
            if tasks is not None:
                self.held[kind] = {each.subtopology_id: list(each.partitions) for each in tasks}
        return answer
