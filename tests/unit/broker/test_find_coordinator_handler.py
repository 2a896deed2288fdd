"""FindCoordinator in a cluster of several brokers: every one names the same coordinator, also after a move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from support.brokers.handler_calls import ask
from support.brokers.stub import StubNode, broker, topic_id
from support.compaction.compacted_logs import offset_map
from support.coordinators.offsets import GROUP, OffsetRig
from support.coordinators.replica_pair import CoordinatorReplica, refusal
from tailrace.broker.coordinators import Coordinators
from tailrace.broker.purgatory import Purgatory
from tailrace.config.log import LogConfig
from tailrace.coordinator.groups.shard import GroupShard
from tailrace.coordinator.outcome import Outcome
from tailrace.metrics.metrics import Metrics
from tailrace.model.errors import NotCoordinatorError
from tailrace.model.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tailrace.protocol.message import Record
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.records.topics import PartitionChangeRecord, PartitionRecord, TopicRecord
from tailrace.storage.compaction.log_compaction import cleanable_of, compact
from tailrace.storage.steps import run_inline

GROUPS, TRANSACTIONS = 0, 1
NOT_AVAILABLE = 15

# Where Kafka 4.3.1 writes to when a group commits an offset, and when a transactional id gets its producer id; both
# topics have 50 partitions.
PARTITIONS_IN_KAFKA = {
    (GROUPS, ""): 0,
    (GROUPS, "a"): 47,
    (GROUPS, "readers"): 28,
    (GROUPS, "writers"): 24,
    (GROUPS, "group-1"): 49,
    (GROUPS, "console-consumer-4711"): 22,
    (GROUPS, "fencing"): 12,  # its hash is negative in Java
    (GROUPS, "polygenelubricants"): 0,  # its hash is the minimum of an int32
    (GROUPS, "ütf"): 20,
    (GROUPS, "😀"): 49,
    (GROUPS, "x" * 300): 14,
    (TRANSACTIONS, "fencing"): 12,
    (TRANSACTIONS, "polygenelubricants"): 0,
    (TRANSACTIONS, "ütf"): 20,
}


class Finder(StubNode):
    """A broker that knows the metadata and answers FindCoordinator."""

    def __init__(self, node_id: int, *records: Record) -> None:
        super().__init__()
        self.node_id = node_id
        self.purgatory = Purgatory(self.env.clock)
        self.metrics = Metrics()
        self.coordinators = Coordinators(self)  # type: ignore[arg-type]
        self.learn(*records)

    def found(self, key_type: int, *keys: str) -> list[tuple[int, int]]:
        """Error and broker of each key."""
        answer = ask(self, FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type), 4)
        assert [row.key for row in answer.coordinators] == list(keys)
        return [(row.error_code, row.node_id) for row in answer.coordinators]


def led_topic(name: str, leaders: Sequence[int]) -> list[Record]:
    """A topic whose partitions have these leaders."""
    partitions = [
        PartitionRecord(
            topic_id=topic_id(name), partition_id=index, replicas=[leader], isr=[leader], leader=leader,
            directories=[bytes(16)],
        )
        for index, leader in enumerate(leaders)
    ]  # fmt: skip
    return [TopicRecord(name=name, topic_id=topic_id(name)), *partitions]


@pytest.mark.spec("CO-01")
def test_the_coordinator_leads_the_partition_in_which_kafka_keeps_the_key() -> None:
    leaders = range(100, 150)
    topics = [*led_topic(CONSUMER_OFFSETS, leaders), *led_topic(TRANSACTION_STATE, leaders)]
    node = Finder(100, *map(broker, leaders), *topics)
    for key_type in (GROUPS, TRANSACTIONS):
        keys = [key for kind, key in PARTITIONS_IN_KAFKA if kind == key_type]
        assert node.found(key_type, *keys) == [(0, 100 + PARTITIONS_IN_KAFKA[key_type, key]) for key in keys]


@pytest.mark.spec("CO-01")
def test_without_a_leader_that_clients_can_reach_there_is_no_coordinator() -> None:
    node = Finder(1, broker(1), broker(2, fenced=True), *led_topic(CONSUMER_OFFSETS, [1, 2, 3, -1]))
    # a % 4 = 1, b % 4 = 2, c % 4 = 3, d % 4 = 0
    assert node.found(GROUPS, "d", "a", "b", "c") == [(0, 1), *[(NOT_AVAILABLE, -1)] * 3]


@pytest.mark.spec("CO-01", "CO-11")
def test_every_broker_names_the_same_coordinator_and_the_new_one_after_a_move() -> None:
    records = [broker(1), broker(2), broker(3), *led_topic(CONSUMER_OFFSETS, [1, 2])]
    nodes = [Finder(node_id, *records) for node_id in (1, 2, 3)]
    for node in nodes:
        assert node.found(GROUPS, "a", "b") == [(0, 2), (0, 1)]
        node.learn(PartitionChangeRecord(topic_id=topic_id(CONSUMER_OFFSETS), partition_id=1, leader=3))
        assert node.found(GROUPS, "a", "b") == [(0, 3), (0, 1)]


@pytest.mark.spec("CO-11")
@pytest.mark.parametrize("copies_compacted_log", [True, False])
def test_offsets_from_a_compacted_log_are_those_before_the_move(copies_compacted_log: bool) -> None:
    """The next coordinator has copied what the old one has compacted, or has compacted its copy itself."""
    config = LogConfig(cleanup_policy=("compact",), segment_bytes=2000)
    rig = OffsetRig(log_config=config, in_sync=(1,) if copies_compacted_log else (1, 2))
    for number in range(60):
        rig.commit(number, number % 3, note=f"at {number}")
        rig.commit(number, group=f"other-{number % 5}")
        if not copies_compacted_log:
            rig.replicate()
    rig.commit_in_transaction(500, 1)
    rig.end_transaction(is_commit=True)
    rig.commit(7, group="deleted")
    tombstones = rig.store.tombstones("deleted")
    rig.ask(lambda _: Outcome(tombstones))
    rig.commit(1, group="last")
    if not copies_compacted_log:
        rig.replicate()
        compact_log(rig.follower, rig.world.clock.now_ms())
    compact_log(rig.leader, rig.world.clock.now_ms())
    rig.replicate()
    groups = [GROUP, "deleted", "last", *(f"other-{number}" for number in range(5))]
    shown = {group: rig.all_committed(group) for group in groups}
    assert shown[GROUP] == {("orders", 0): 57, ("orders", 1): 500, ("orders", 2): 59}
    assert shown["deleted"] == {}
    old = rig.leader
    rig.fail_over()
    rig.replicate()
    assert {group: rig.all_committed(group) for group in groups} == shown
    answers: list[Any] = []
    old.runtime.submit("test", GROUP, lambda machine: Outcome(), answers.append, answers.append)
    assert refusal(answers) is NotCoordinatorError


def compact_log(replica: CoordinatorReplica[GroupShard], now_ms: int) -> None:
    log = replica.log
    size = log.local.size
    run_inline(compact(log, cleanable_of(log, None, now_ms).log, offset_map(), now_ms))
    assert log.local.size < size // 2
