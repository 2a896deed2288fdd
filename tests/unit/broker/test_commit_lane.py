"""Offset commits that are alike: the short way does what the handler does, or leaves it to the handler."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from support.brokers.simulated import SimBroker
from tailrace.coordinator.groups.shard import GroupShard
from tailrace.coordinator.offsets.store import OffsetStore
from tailrace.coordinator.records import GROUP_RECORDS, decode_record
from tailrace.coordinator.shard import Shard
from tailrace.model.errors import NotEnoughReplicasError
from tailrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.offset_fetch import OffsetFetchRequest
from tailrace.record.reader import records_of
from tailrace.record.shallow import batches
from tailrace.replication.partition import Partition
from tailrace.storage.fetch import Isolation


class Committing:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = {"offsets_topic_num_partitions": "1", "offsets_topic_replication_factor": "1"}
        self.broker = SimBroker(**settings).start()
        self.client = self.broker.client()
        self.ids = {name: self.client.create_topic(name, 2).topic_id for name in ("orders", "bills")}
        self.client.ask(FindCoordinatorRequest(coordinator_keys=["readers"], key_type=0), 4)
        self.broker.run()
        self.short_ways = 0
        commit_prepared = OffsetStore.commit_prepared

        def spy(store: OffsetStore, *rest: Any) -> int | None:
            last = commit_prepared(store, *rest)
            self.short_ways += last is not None
            return last

        monkeypatch.setattr(OffsetStore, "commit_prepared", spy)

    def request(self, *offsets: int, note: str = "n", group: str = "readers", **fields: Any) -> OffsetCommitRequest:
        """The first two are of orders, the others of bills."""
        rows = [
            OffsetCommitRequestPartition(partition_index=place % 2, committed_offset=offset, committed_metadata=note)
            for place, offset in enumerate(offsets)
        ]
        topics = [
            OffsetCommitRequestTopic(name=name, topic_id=self.ids[name], partitions=some)
            for name, some in (("orders", rows[:2]), ("bills", rows[2:]))
            if some
        ]
        return OffsetCommitRequest(group_id=group, topics=topics, **fields)

    def commit(self, *offsets: int, version: int = 9, **fields: Any) -> list[int]:
        answer = self.client.ask(self.request(*offsets, **fields), version)
        return [row.error_code for topic in answer.topics for row in topic.partitions]

    def committed(self, group: str = "readers") -> list[int]:
        answer = self.client.ask(OffsetFetchRequest(group_id=group, topics=None), 7)
        return [row.committed_offset for topic in answer.topics for row in topic.partitions]

    def committed_of_another_client(self) -> list[int]:
        answer = self.broker.client().ask(OffsetFetchRequest(group_id="readers", topics=None), 7)
        return [row.committed_offset for topic in answer.topics for row in topic.partitions]

    @property
    def machine(self) -> GroupShard:
        (machine,) = self.broker.node.groups.machines()
        return machine

    def written(self) -> list[Any]:
        log = self.broker.node.replicas.partition("__consumer_offsets", 0).log
        assert log is not None
        data = log.read(log.log_start_offset, 1 << 20, Isolation.LOG_END).read()
        return [
            decode_record(GROUP_RECORDS, each.key, each.value) for b in batches(data) for each in records_of(data, b)
        ]


@pytest.fixture
def committing(monkeypatch: pytest.MonkeyPatch) -> Committing:
    return Committing(monkeypatch)


@pytest.mark.spec("CO-02", "CO-03")
@pytest.mark.parametrize("version", range(2, 11))
def test_the_short_way_writes_and_answers_as_the_long_one(committing: Committing, version: int) -> None:
    for offset in range(5):
        committing.broker.pass_time(10)
        assert committing.commit(offset, offset + 10, offset + 20, version=version) == [0, 0, 0]
    assert committing.short_ways == 3
    assert committing.committed() == [4, 14, 24]
    records = committing.written()
    for number, record in enumerate(records):
        first = records[number % 3]
        assert (record.key, record.value_version) == (first.key, first.value_version)
        late_ms = number // 3 * 10
        assert record.value.commit_timestamp == first.value.commit_timestamp + late_ms
        assert record.value.offset == first.value.offset + number // 3
        assert (record.value.metadata, record.value.topic_id) == (first.value.metadata, first.value.topic_id)
    entry = committing.machine.offsets.table.get("readers", "bills", 0)
    assert entry is not None
    assert (entry.offset, entry.record_offset, entry.metadata) == (24, 14, "n")
    committing.broker.stop()
    committing.broker.start()
    committing.client = committing.broker.client()
    assert committing.committed() == [4, 14, 24]


def test_both_ways_are_counted(committing: Committing) -> None:
    for offset in range(5):
        committing.commit(offset, 1)
    assert committing.machine.offsets.counts.commits == 10
    assert committing.broker.node.counters.api(8).requests[9] == 5


def test_a_group_that_refuses_is_asked_each_time(committing: Committing) -> None:
    for offset in range(4):
        assert committing.commit(offset) == [0]
    group = committing.machine.classic.get_or_make("readers")
    group.state = type(group.state).PREPARING
    assert committing.commit(9) == [25]
    assert (committing.committed(), committing.short_ways) == ([3], 2)
    group.state = type(group.state).EMPTY
    assert committing.commit(9) == [0]
    del committing.machine.groups["readers"]  # type: ignore[attr-defined]
    assert committing.commit(10) == [0]
    assert "readers" in committing.machine.groups


def test_a_topic_that_is_gone_or_new_is_noticed(committing: Committing) -> None:
    for offset in range(4):
        assert committing.commit(offset) == [0]
    committing.client.ask(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 5)
    committing.broker.pass_time(10)
    assert committing.commit(5) == [3]
    committing.ids["orders"] = committing.client.create_topic("orders", 2).topic_id
    assert committing.commit(6) == [0]
    entry = committing.machine.offsets.table.get("readers", "orders", 0)
    assert entry is not None
    assert (entry.offset, entry.topic_id) == (6, committing.ids["orders"])


def test_more_partitions_of_the_coordinators_topic_are_noticed(committing: Committing) -> None:
    for offset in range(4):
        assert committing.commit(offset) == [0]
    wanted = CreatePartitionsTopic(name="__consumer_offsets", count=50)
    committing.client.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=1000), 3)
    committing.broker.pass_time(10)
    runtime = committing.broker.node.groups
    shard = runtime.shard(runtime.partition_for("readers"))
    assert shard is not None
    assert committing.commit(9) == [0]
    assert isinstance(shard.machine, GroupShard)
    assert shard.machine.offsets.table.get("readers", "orders", 0) is not None


def test_a_shorter_limit_for_notes_is_noticed(committing: Committing, monkeypatch: pytest.MonkeyPatch) -> None:
    for offset in range(4):
        assert committing.commit(offset, note="12345") == [0]
    config = committing.broker.node.config
    object.__setattr__(config, "offset_metadata_max_bytes", 4)
    assert committing.commit(9, note="12345") == [12]
    assert committing.committed() == [3]


def test_notes_are_as_long_as_kafka_counts_them(committing: Committing) -> None:
    config = committing.broker.node.config
    object.__setattr__(config, "offset_metadata_max_bytes", 6)

    def commit(offset: int) -> list[int]:
        request = committing.request(offset, offset)
        request.topics[0].partitions[0].committed_metadata = "abcdef"
        request.topics[0].partitions[1].committed_metadata = "\N{GRINNING FACE}" * 4  # eight units of UTF-16
        answer = committing.client.ask(request, 9)
        return [row.error_code for topic in answer.topics for row in topic.partitions]

    assert [commit(offset) for offset in range(4)] == [[0, 12]] * 4
    assert committing.committed() == [3]


@pytest.mark.spec("CO-03")
def test_a_coordinator_that_ends_is_noticed(committing: Committing) -> None:
    for offset in range(4):
        assert committing.commit(offset) == [0]
    shard = committing.broker.node.groups.shard(0)
    assert shard is not None
    shard.close()
    assert committing.commit(9) == [16]


def test_a_coordinator_that_has_ended_is_let_go(committing: Committing) -> None:
    for offset in range(4):
        assert committing.commit(offset) == [0]
    ended = weakref.ref(committing.machine)
    node = committing.broker.node
    partition = node.replicas.partition("__consumer_offsets", 0)
    partition.leader_epoch += 1
    node.groups.role_changed(partition)
    committing.broker.run()
    gc.collect()
    assert ended() is None
    short_ways = committing.short_ways
    assert (committing.commit(9), committing.short_ways) == ([0], short_ways + 1)


@pytest.mark.spec("CO-02")
def test_a_log_that_refuses_is_told(committing: Committing, monkeypatch: pytest.MonkeyPatch) -> None:
    for offset in range(4):
        assert committing.commit(offset) == [0]

    def refuse(*_: Any) -> Any:
        raise NotEnoughReplicasError("not now")

    with monkeypatch.context() as patched:
        patched.setattr(Partition, "append", refuse)
        assert committing.commit(9) == [15]
    assert committing.committed() == [3]
    assert committing.commit(10) == [0]


@pytest.mark.spec("CO-02")
@pytest.mark.parametrize("code", [0, 15])
def test_an_answer_waits_until_it_is_committed(
    committing: Committing, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    for offset in range(4):
        assert committing.commit(offset) == [0]
    waiting: list[Any] = []
    with monkeypatch.context() as patched:
        patched.setattr(Partition, "is_committed", lambda *_: False)
        patched.setattr(committing.broker.node.groups, "when_committed", lambda *rest: waiting.append(rest[-1]))
        first = committing.client.post(committing.request(9), 9)
        second = committing.client.post(committing.request(10), 9)
        committing.broker.run()
        assert (committing.client.read(), committing.committed_of_another_client()) == ({}, [3])
    waiting.pop()(NotEnoughReplicasError("too few") if code else None)
    committing.broker.run()
    answers = committing.client.read()
    assert [row.error_code for topic in answers.pop(first).topics for row in topic.partitions] == [code]
    assert [row.error_code for topic in answers.pop(second).topics for row in topic.partitions] == [0]
    counters = committing.broker.node.counters.api(8)
    assert counters.errors == ({code: 1} if code else {})
    assert sum(counters.total_time_us.counts) == sum(counters.requests)


def test_what_never_comes_again_is_not_learnt_for_ever(committing: Committing, monkeypatch: pytest.MonkeyPatch) -> None:
    lessons: list[Any] = []
    monkeypatch.setattr("tailrace.broker.commit_lane.CommitShape.of", lambda *rest: lessons.append(rest))
    for number in range(30):
        committing.commit(number, group=f"group-{number:02}")
    assert len(lessons) == 8


def test_a_shard_at_work_takes_no_short_way(committing: Committing) -> None:
    machine = committing.machine
    shard: Shard = machine.shard
    seen: list[int | None] = []

    def turn() -> None:
        seen.append(shard.append_prepared(bytearray(), lambda offset: None))

    shard.submit("test", turn)
    assert seen == [None]
