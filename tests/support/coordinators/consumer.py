"""Members of consumer groups, and the coordinator that they talk to: commands go straight to its runtime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from support.coordinators.classic import GROUP, Awaited, ClassicRig
from tailrace.coordinator.classic.caller import Caller
from tailrace.coordinator.consumer.group import ConsumerGroup
from tailrace.coordinator.consumer.heartbeats import check_request
from tailrace.coordinator.outcome import Outcome
from tailrace.metadata.delta import MetadataDelta
from tailrace.model.errors import TailraceError
from tailrace.protocol.messages.consumer_group_describe import DescribedGroup
from tailrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from tailrace.protocol.records.topics import PartitionRecord, RemoveTopicRecord, TopicRecord

Owned = dict[bytes, frozenset[int]]
LATEST_HEARTBEAT = 1


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b".")[:16]


class ConsumerRig(ClassicRig):
    def __init__(
        self, topics: Mapping[str, int] | None = None, *, in_sync: Sequence[int] = (1,), **settings: Any
    ) -> None:
        """Assignments follow each other at once, unless it is said otherwise."""
        settings.setdefault("group_consumer_assignment_interval_ms", "0")
        super().__init__(in_sync=in_sync, **settings)
        self._has_follower = len(in_sync) > 1
        for name, count in ({"t": 4} if topics is None else topics).items():
            self.create(name, count)

    @property
    def consumers(self) -> ConsumerGroup:
        group = self.pair.leader.machine.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    # Topics

    def create(self, name: str, partitions: int) -> None:
        records: list[Any] = [TopicRecord(name=name, topic_id=topic_id(name))]
        self._change([*records, *_partitions(name, range(partitions))])

    def extend(self, name: str, partitions: int) -> None:
        present = len(self.pair.image.topics[name].partitions)
        self._change(_partitions(name, range(present, partitions)))

    def delete(self, name: str) -> None:
        self._change([RemoveTopicRecord(topic_id=topic_id(name))])

    def _change(self, records: Iterable[Any]) -> None:
        delta = MetadataDelta(self.pair.image)
        for record in records:
            delta.replay(record)
            self.pair.image.offset += 1
        self.pair.leader.runtime.metadata_changed(delta)
        self.pair.run()

    # Requests

    def beat(self, member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """One that is accepted."""
        answer = self.send(member_id, epoch, **fields).answer
        assert isinstance(answer, ConsumerGroupHeartbeatResponse), repr(answer)
        return answer

    def refused(self, member_id: str, epoch: int, **fields: Any) -> type[TailraceError]:
        """One that is not: the kind of error."""
        answer = self.send(member_id, epoch, **fields).answer
        assert isinstance(answer, TailraceError), repr(answer)
        return type(answer)

    def send(
        self,
        member_id: str,
        epoch: int,
        *,
        owned: Mapping[bytes, Iterable[int]] | None = None,
        version: int = LATEST_HEARTBEAT,
        client_id: str = "me",
        group_id: str = GROUP,
        **fields: Any,
    ) -> Awaited:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            topic_partitions=(
                None
                if owned is None
                else [
                    RequestTopicPartitions(topic_id=each, partitions=list(indexes)) for each, indexes in owned.items()
                ]
            ),
            **fields,
        )
        try:
            check_request(request, version, self.pair.config.group_consumer_assignors)
        except TailraceError as error:
            awaited = Awaited()
            awaited(error)
            return awaited
        caller = Caller(client_id, "/10.0.0.1", version)
        return self.submit(lambda machine: machine.consumer.heartbeat(caller, request), group_id)

    def enter(self, member_id: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """A member joins, subscribed to the topics, or to whatever the fields say."""
        fields.setdefault("subscribed_topic_names", list(topics))
        fields.setdefault("rebalance_timeout_ms", 30_000)
        return self.beat(member_id, 0, owned={}, **fields)

    def describe(self, group_id: str = GROUP) -> DescribedGroup:
        answer = self.submit(lambda machine: Outcome(response=machine.consumer.describe(group_id)), group_id).answer
        assert isinstance(answer, DescribedGroup), repr(answer)
        return answer

    def reload(self) -> None:
        """A coordinator is made of what is in the log: of the other broker where both are in sync."""
        if self._has_follower:
            self.pair.replicate()
            self.pair.fail_over()
        else:
            self.pair.move(self.pair.leader)


def _said(owned: Mapping[bytes, Iterable[int]]) -> list[RequestTopicPartitions]:
    return [RequestTopicPartitions(topic_id=each, partitions=list(indexes)) for each, indexes in owned.items()]


def owned_of(response: ConsumerGroupHeartbeatResponse) -> Owned:
    """The assignment that it tells of."""
    assert response.assignment is not None
    return {each.topic_id: frozenset(each.partitions) for each in response.assignment.topic_partitions}


def _partitions(name: str, indexes: Iterable[int]) -> list[Any]:
    return [
        PartitionRecord(partition_id=index, topic_id=topic_id(name), replicas=[1, 2], isr=[1], leader=1)
        for index in indexes
    ]


class Consumer:
    """A client of the consumer protocol: it gives up and takes what it is told to, when it is told to."""

    def __init__(self, rig: ConsumerRig, member_id: str, *topics: str, **fields: Any) -> None:
        self.rig = rig
        self.member_id = member_id
        self.topics = topics
        self.fields = fields
        self.epoch = 0
        self.owned: Owned = {}

    def beat(self, *, is_full: bool = False, loses_answer: bool = False) -> TailraceError | None:
        """One heartbeat. What went wrong, where it was refused: the client has given everything up then."""
        said: dict[str, Any] = dict(self.fields)
        if self.epoch == 0 or is_full:
            said.setdefault("subscribed_topic_names", list(self.topics))
            said.setdefault("rebalance_timeout_ms", 30_000)
        answer = self.rig.send(self.member_id, self.epoch, owned=self.owned, **said).answer
        if loses_answer:
            return None
        if isinstance(answer, TailraceError):
            self.epoch, self.owned = 0, {}
            return answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = owned_of(answer)
        return None

    def settle(self) -> None:
        """Until there is nothing more to do for it alone."""
        for _ in range(3):
            self.beat()

    def leave(self, epoch: int = -1) -> None:
        self.rig.beat(self.member_id, epoch, **{k: v for k, v in self.fields.items() if k == "instance_id"})
        self.epoch, self.owned = 0, {}

    @property
    def partitions(self) -> set[tuple[bytes, int]]:
        return {(each, index) for each, indexes in self.owned.items() for index in indexes}
