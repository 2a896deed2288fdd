"""Offsets through kills of the broker: what was acknowledged is there, and nothing that nobody committed."""

from __future__ import annotations

import random

import pytest

from support.brokers.simulated import SimBroker, SimClient
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
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
from tailrace.protocol.messages.offset_fetch import OffsetFetchRequest

GROUPS = ("readers", "writers", "others")
Committed = dict[tuple[str, int], int]


def connected(broker: SimBroker) -> SimClient:
    client = broker.client()
    for _ in range(20):
        answer = client.ask(FindCoordinatorRequest(coordinator_keys=list(GROUPS), key_type=0), 4)
        if not any(each.error_code for each in answer.coordinators):
            break
        broker.pass_time(50)
    broker.run()
    return client


def shown(client: SimClient) -> Committed:
    found: Committed = {}
    for group in GROUPS:
        answer = client.ask(OffsetFetchRequest(group_id=group, topics=None), 7)
        assert answer.error_code == 0
        found |= {(group, row.partition_index): row.committed_offset for t in answer.topics for row in t.partitions}
    return found


def commit_request(group: str, offsets: dict[int, int], note: str = "") -> OffsetCommitRequest:
    rows = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=note)
        for index, offset in offsets.items()
    ]
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name="orders", partitions=rows)])


@pytest.mark.spec("CO-02", "CO-03")
@pytest.mark.parametrize("seed", range(4))
def test_no_acknowledged_commit_is_lost_when_the_broker_is_killed(seed: int) -> None:
    dice = random.Random(seed)
    broker = SimBroker(seed, offsets_topic_num_partitions="2", offsets_topic_replication_factor="1").start()
    client = connected(broker)
    client.create_topic("orders", 3)
    expected: Committed = {}
    for _ in range(4):
        for _ in range(dice.randrange(30)):
            group = dice.choice(GROUPS)
            if dice.random() < 0.1:
                index = dice.randrange(3)
                topic = OffsetDeleteRequestTopic(
                    name="orders", partitions=[OffsetDeleteRequestPartition(partition_index=index)]
                )
                client.ask(OffsetDeleteRequest(group_id=group, topics=[topic]), 0)
                expected.pop((group, index), None)
                continue
            offsets = {index: dice.randrange(1 << 40) for index in range(dice.choice((1, 1, 1, 3)))}
            answer = client.ask(commit_request(group, offsets), 9)
            assert {row.error_code for topic in answer.topics for row in topic.partitions} == {0}
            expected |= {(group, index): offset for index, offset in offsets.items()}
        assert shown(client) == expected
        broker.kill()
        broker.start()
        client = connected(broker)
        assert shown(client) == expected


@pytest.mark.spec("CO-11")
def test_offsets_out_of_a_compacted_log_are_those_before() -> None:
    broker = SimBroker(
        offsets_topic_num_partitions="1",
        offsets_topic_replication_factor="1",
        offsets_topic_segment_bytes=str(1 << 20),
        log_cleaner_backoff_ms="1000",
        log_cleaner_min_cleanable_ratio="0.01",
    ).start()
    client = connected(broker)
    client.create_topic("orders", 3)
    for offset in range(300):
        client.ask(commit_request(GROUPS[offset % 3], {offset % 2: offset, 2: 1}, "n" * 4000), 9)
    topic = OffsetDeleteRequestTopic(name="orders", partitions=[OffsetDeleteRequestPartition(partition_index=2)])
    client.ask(OffsetDeleteRequest(group_id="others", topics=[topic]), 0)
    for offset in range(300, 400):
        client.ask(commit_request("readers", {0: offset}), 9)
    before = shown(client)
    log = broker.node.replicas.partition("__consumer_offsets", 0).log
    assert log is not None
    size = log.local.size
    for _ in range(20):
        broker.pass_time(1000)
    assert log.local.size < size // 2, "the log was compacted"
    broker.stop()
    broker.start()
    assert shown(connected(broker)) == before
