"""The offsets of groups on two simulated brokers, and what clients ask of them, without frames."""

from __future__ import annotations

from typing import Any

from support.coordinators.replica_pair import CoordinatorPair
from tailrace.coordinator.groups.group import CommitCheck, Group, GroupKind
from tailrace.coordinator.groups.shard import GroupShard
from tailrace.coordinator.offsets.store import OffsetStore
from tailrace.coordinator.outcome import CoordinatorRecord, Outcome, ProducerBatchId
from tailrace.coordinator.records import GROUP_RECORDS
from tailrace.model.errors import TailraceError
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tailrace.protocol.records.classic_groups import GroupMetadataKey

ORDERS_ID = b"orders-topic-id."
GROUP = "readers"
LATEST = 9
"""A version of OffsetCommit that has everything but ids of topics."""


class OffsetRig(CoordinatorPair[GroupShard]):
    def __init__(self, **options: Any) -> None:
        super().__init__("__consumer_offsets", GROUP_RECORDS, GroupShard, **options)

    @property
    def store(self) -> OffsetStore:
        return self.leader.machine.offsets

    def commit(
        self,
        offset: int,
        partition: int = 0,
        topic: str = "orders",
        *,
        group: str = GROUP,
        topic_id: bytes = ORDERS_ID,
        note: str | None = "",
        version: int = LATEST,
        **fields: Any,
    ) -> list[Any]:
        row = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_leader_epoch=4, committed_metadata=note
        )
        topics = [OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[row])]
        request = OffsetCommitRequest(group_id=group, topics=topics, **fields)
        return self.ask(lambda machine: machine.offsets.commit(request, topics, version), group)

    def commit_in_transaction(
        self, offset: int, partition: int = 0, topic: str = "orders", *, producer: int = 7, **fields: Any
    ) -> list[Any]:
        row = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=fields.pop("note", "")
        )
        topics = [TxnOffsetCommitRequestTopic(name=topic, partitions=[row])]
        request = TxnOffsetCommitRequest(group_id=fields.pop("group", GROUP), topics=topics, **fields)
        return self.ask(
            lambda machine: machine.offsets.commit_in_transaction(request, topics, 5),
            request.group_id,
            producer=ProducerBatchId(producer, 0),
        )

    def end_transaction(self, is_commit: bool, producer: int = 7) -> None:
        ended: list[TailraceError | None] = []
        self.leader.runtime.marker(0, ProducerBatchId(producer, 0), is_commit, 0, 1, ended.append)
        self.run()

    def committed(self, group: str = GROUP, topic: str = "orders", topic_id: bytes = bytes(16)) -> dict[int, int]:
        """What OffsetFetch shows at once, of partitions 0 to 3."""
        topics = [OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=list(range(4)))]
        asked = OffsetFetchRequestGroup(group_id=group, topics=topics)
        answer = self.store.fetch(asked, LATEST, requires_stable=False)
        return {row.partition_index: row.committed_offset for row in answer.topics[0].partitions}

    def all_committed(self, group: str = GROUP) -> dict[tuple[str, int], int]:
        asked = OffsetFetchRequestGroup(group_id=group, topics=None)
        answer = self.store.fetch(asked, LATEST, requires_stable=False)
        return {
            (topic.name, row.partition_index): row.committed_offset
            for topic in answer.topics
            for row in topic.partitions
        }

    def stable(self, group: str = GROUP, topic: str = "orders", partition: int = 0) -> list[Any]:
        """The row of one partition, when it has been answered; or the error."""
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
        asked = OffsetFetchRequestGroup(group_id=group, topics=topics)
        return self.ask(
            lambda machine: Outcome(
                response=machine.offsets.fetch(asked, LATEST, requires_stable=True).topics[0].partitions[0]
            ),
            group,
        )


class StubGroup(Group):
    """A group that answers what the test wants."""

    kind = GroupKind.CONSUMER
    protocol_type = "consumer"
    state_name = "Stable"
    is_empty = False

    def __init__(self, group_id: str = GROUP) -> None:
        super().__init__(group_id)
        self.refusal: TailraceError | None = None
        self.check: CommitCheck | None = None
        self.topics: set[str] = set()
        self.expires_since: int | None = None
        self.asked: list[Any] = []

    def _answer(self, *asked: Any) -> None:
        self.asked.append(asked)
        if self.refusal is not None:
            raise self.refusal

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, is_transactional: bool, api_version: int
    ) -> CommitCheck | None:
        self._answer(member_id, instance_id, epoch, is_transactional, api_version)
        return self.check

    def check_fetch(self, member_id: str | None, epoch: int, api_version: int) -> None:
        self._answer(member_id, epoch, api_version)

    def check_offset_delete(self) -> None:
        self._answer()

    def check_delete(self) -> None:
        self._answer()

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.topics

    def expires_from(self, commit_timestamp_ms: int) -> int | None:
        return self.expires_since

    def tombstones(self) -> list[CoordinatorRecord]:
        return [CoordinatorRecord(GroupMetadataKey(group=self.group_id), None)]

    def committed_by(self, member_id: str) -> None:
        self.asked.append(("committed", member_id))
