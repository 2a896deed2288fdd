from __future__ import annotations

import errno

import pytest

from support.brokers.handler_calls import ask, begin, versions_of
from support.brokers.nodes import LogNode
from support.brokers.stub import broker, topic, topic_id
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tailrace.protocol.records.topics import PartitionChangeRecord, RemoveTopicRecord

OUT_OF_RANGE, UNKNOWN_TOPIC, NOT_LEADER, TIMED_OUT, INVALID_TOPIC, POLICY_VIOLATION, STORAGE = 1, 3, 6, 7, 17, 44, 56
UP_TO_HIGH_WATERMARK = -1


def request(offset: int, *, name: str = "orders", index: int = 0, timeout_ms: int = 1000) -> DeleteRecordsRequest:
    wanted = DeleteRecordsPartition(partition_index=index, offset=offset)
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=[wanted])], timeout_ms=timeout_ms)


def one(node: LogNode, asked: DeleteRecordsRequest, version: int | None = None) -> tuple[int, int]:
    (answered,) = ask(node, asked, version).topics
    (row,) = answered.partitions
    return row.error_code, row.low_watermark


@pytest.fixture
def node() -> LogNode:
    node = LogNode()
    node.learn(*topic("orders", 2))
    node.produce("orders", timestamps=range(1000, 1010))
    return node


@pytest.mark.parametrize("version", versions_of(DeleteRecordsRequest))
def test_the_log_begins_at_the_offset(node: LogNode, version: int) -> None:
    assert one(node, request(3), version) == (0, 3)
    assert node.replicas.partition("orders", 0).log.log_start_offset == 3


def test_below_the_start_nothing_changes(node: LogNode) -> None:
    one(node, request(3))
    assert one(node, request(2)) == (0, 3)


def test_everything_that_is_committed(node: LogNode) -> None:
    assert one(node, request(UP_TO_HIGH_WATERMARK)) == (0, 10)


@pytest.mark.parametrize("offset", [11, -2, -100])
def test_an_offset_that_is_not_there(node: LogNode, offset: int) -> None:
    assert one(node, request(offset)) == (OUT_OF_RANGE, -1)


def test_partitions_whose_records_cannot_be_deleted(node: LogNode) -> None:
    node.learn(*topic("__consumer_offsets"), *topic("elsewhere", replicas=(2,)), *topic("compacted"))
    log = node.replicas.partition("compacted", 0).log
    log.use_config(type(log.config)(cleanup_policy=("compact",)))
    assert one(node, request(0, index=9)) == (UNKNOWN_TOPIC, -1)
    assert one(node, request(0, name="bad/name")) == (UNKNOWN_TOPIC, -1)
    assert one(node, request(0, name="__consumer_offsets")) == (INVALID_TOPIC, -1)
    assert one(node, request(0, name="elsewhere")) == (NOT_LEADER, -1)
    assert one(node, request(0, name="compacted")) == (POLICY_VIOLATION, -1)


def test_each_partition_has_its_own_answer_and_the_last_word_counts(node: LogNode) -> None:
    def of(*wanted: tuple[int, int]) -> DeleteRecordsTopic:
        partitions = [DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in wanted]
        return DeleteRecordsTopic(name="orders", partitions=partitions)

    asked = DeleteRecordsRequest(topics=[of((0, 99), (1, 5)), of((0, 4))], timeout_ms=1000)
    (answered,) = ask(node, asked).topics
    rows = {row.partition_index: (row.error_code, row.low_watermark) for row in answered.partitions}
    assert rows == {0: (0, 4), 1: (OUT_OF_RANGE, -1)}


def test_nothing_asked_nothing_answered(node: LogNode) -> None:
    assert ask(node, DeleteRecordsRequest()).topics == []


def test_the_answer_waits_until_the_start_is_on_disk(node: LogNode) -> None:
    answers = begin(node, request(3), 2)
    assert answers == []
    assert len(node.purgatory) == 1
    node.run()
    assert answers[0].topics[0].partitions[0].low_watermark == 3
    assert len(node.purgatory) == 0


@pytest.mark.parametrize("timeout_ms", [0, -1, 1])
@pytest.mark.parametrize("offset", [3, UP_TO_HIGH_WATERMARK])
def test_the_leaders_disk_is_not_part_of_the_timeout(node: LogNode, timeout_ms: int, offset: int) -> None:
    """As in Kafka, which has deleted the records when it responds. Its response promises less: they may come back."""
    answers = begin(node, request(offset, timeout_ms=timeout_ms), 2)
    node.pass_time(100)
    node.run()
    (row,) = answers[0].topics[0].partitions
    assert (row.error_code, row.low_watermark) == (0, 10 if offset < 0 else 3)
    assert len(node.purgatory) == 0


def test_a_disk_that_refuses_after_the_timeout(node: LogNode) -> None:
    node.world.disk.fail_next("create", lambda path: "log-start-offset-checkpoint" in path, errno.EIO)
    answers = begin(node, request(3, timeout_ms=0), 2)
    node.purgatory.expire_due(node.world.clock.monotonic_ms())
    assert answers == []
    node.run()
    assert answers[0].topics[0].partitions[0].error_code == STORAGE
    assert len(node.purgatory) == 0


def test_a_disk_that_refuses(node: LogNode) -> None:
    node.world.disk.fail_next("create", lambda path: "log-start-offset-checkpoint" in path, errno.EIO)
    assert one(node, request(3))[0] == STORAGE


# Followers


@pytest.fixture
def pair() -> LogNode:
    node = LogNode()
    node.learn(broker(2), *topic("pair", replicas=(1, 2)))
    node.produce("pair", timestamps=(1000, 2000, 3000))
    follow(node, start=0)
    return node


def follow(node: LogNode, start: int) -> None:
    partition = node.replicas.partition("pair", 0)
    partition.update_follower(2, LogOffsetMetadata(3), start, leader_end=3)


@pytest.mark.spec("RP-28")
def test_the_answer_waits_for_live_followers(pair: LogNode) -> None:
    answers = begin(pair, request(2, name="pair"), 2)
    pair.run()
    assert answers == []
    follow(pair, start=1)
    assert answers == []
    follow(pair, start=2)
    assert answers[0].topics[0].partitions[0].low_watermark == 2
    assert answers[0].topics[0].partitions[0].error_code == 0


@pytest.mark.spec("RP-28")
def test_a_follower_that_is_fenced_is_not_waited_for(pair: LogNode) -> None:
    pair.learn(broker(2, fenced=True))
    assert one(pair, request(2, name="pair")) == (0, 2)


def test_time_runs_out(pair: LogNode) -> None:
    answers = begin(pair, request(2, name="pair", timeout_ms=500), 2)
    pair.run()
    pair.pass_time(499)
    assert answers == []
    pair.pass_time(1)
    assert answers[0].topics[0].partitions[0].error_code == TIMED_OUT
    follow(pair, start=2)
    assert len(answers) == 1


def test_a_timeout_below_zero_is_none_at_all(pair: LogNode) -> None:
    answers = begin(pair, request(2, name="pair", timeout_ms=-5), 2)
    pair.run()
    pair.pass_time(0)
    assert answers[0].topics[0].partitions[0].error_code == TIMED_OUT


def test_partitions_whose_followers_are_late_time_out_alone(pair: LogNode) -> None:
    pair.learn(*topic("orders"))
    pair.produce("orders", timestamps=(1000, 2000))
    asked = request(2, name="pair", timeout_ms=0)
    asked.topics += request(1).topics
    answers = begin(pair, asked, 2)
    pair.purgatory.expire_due(pair.world.clock.monotonic_ms())
    assert answers == []
    pair.run()
    rows = {each.name: (each.partitions[0].error_code, each.partitions[0].low_watermark) for each in answers[0].topics}
    assert rows == {"pair": (TIMED_OUT, -1), "orders": (0, 1)}


def test_a_follower_that_falls_behind_after_the_timeout_is_not_waited_for(pair: LogNode) -> None:
    answers = begin(pair, request(2, name="pair", timeout_ms=0), 2)
    follow(pair, start=2)
    pair.purgatory.expire_due(pair.world.clock.monotonic_ms())
    assert answers == [], "only the leader's disk is late"
    follow(pair, start=1)
    pair.run()
    assert answers[0].topics[0].partitions[0].error_code == TIMED_OUT
    assert len(pair.purgatory) == 0


def test_the_lead_goes_to_another(pair: LogNode) -> None:
    answers = begin(pair, request(2, name="pair"), 2)
    pair.run()
    pair.learn(PartitionChangeRecord(topic_id=topic_id("pair"), partition_id=0, leader=2))
    assert answers[0].topics[0].partitions[0].error_code == NOT_LEADER


def test_the_topic_is_deleted(pair: LogNode) -> None:
    answers = begin(pair, request(2, name="pair"), 2)
    pair.run()
    pair.learn(RemoveTopicRecord(topic_id=topic_id("pair")))
    assert answers[0].topics[0].partitions[0].error_code == NOT_LEADER
