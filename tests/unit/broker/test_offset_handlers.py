"""OffsetCommit, OffsetFetch and OffsetDelete as clients send them, in every version; and what is shown of it."""

from __future__ import annotations

from typing import Any

import pytest

from support.brokers.simulated import SimBroker, SimClient
from support.logs.builders import batch
from tailrace.broker import group_metrics
from tailrace.broker.handlers import offset_fetch
from tailrace.coordinator.groups.shard import GroupShard
from tailrace.coordinator.shard import ShardState
from tailrace.metrics.gauge import Gauge
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest
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
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID = 3, 100
LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
INVALID_GROUP_ID, GROUP_ID_NOT_FOUND = 24, 69
NO_ID = bytes(range(16))


class Offsets:
    """A broker with two topics of two partitions each, and a client of it."""

    def __init__(self, **settings: str) -> None:
        self.broker = SimBroker(
            **{"offsets_topic_num_partitions": "1", "offsets_topic_replication_factor": "1", **settings}
        ).start()
        self.client: SimClient = self.broker.client()
        self.ids = {name: self.client.create_topic(name, 2).topic_id for name in ("orders", "bills")}
        self.client.ask(FindCoordinatorRequest(coordinator_keys=["readers"], key_type=0), 4)
        self.broker.run()

    def commit(self, version: int, *topics: tuple[str | bytes, dict[int, int]], **fields: Any) -> list[Any]:
        """Name or id of each topic in the answer, with the codes by partition, in order."""
        asked = [
            OffsetCommitRequestTopic(
                **({"name": topic} if isinstance(topic, str) else {"topic_id": topic}),
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="n")
                    for index, offset in partitions.items()
                ],
            )
            for topic, partitions in topics
        ]
        request = OffsetCommitRequest(**{"group_id": "readers", **fields}, topics=asked)
        answer = self.client.ask(request, version)
        return [
            (topic.name or topic.topic_id, [(row.partition_index, row.error_code) for row in topic.partitions])
            for topic in answer.topics
        ]

    def delete(self, *topics: tuple[str, tuple[int, ...]], group: str = "readers") -> tuple[int, list[Any]]:
        asked = [
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
            )
            for name, partitions in topics
        ]
        answer = self.client.ask(OffsetDeleteRequest(group_id=group, topics=asked), 0)
        rows = [
            (topic.name, [(row.partition_index, row.error_code) for row in topic.partitions]) for topic in answer.topics
        ]
        return answer.error_code, rows

    def fetch_one(self, version: int, topics: dict[str, tuple[int, ...]] | None, group: str = "readers") -> Any:
        asked = None
        if topics is not None:
            asked = [OffsetFetchRequestTopic(name=name, partition_indexes=list(rows)) for name, rows in topics.items()]
        return self.client.ask(OffsetFetchRequest(group_id=group, topics=asked), version)

    def fetch(self, version: int, *groups: OffsetFetchRequestGroup, stable: bool = False) -> Any:
        return self.client.ask(OffsetFetchRequest(groups=list(groups), require_stable=stable), version).groups


@pytest.fixture
def offsets() -> Offsets:
    return Offsets()


def rows(topics: Any) -> dict[str | bytes, dict[int, tuple[int, int]]]:
    """Offset and error code."""
    return {
        topic.name or topic.topic_id: {
            row.partition_index: (row.committed_offset, row.error_code) for row in topic.partitions
        }
        for topic in topics
    }


@pytest.mark.parametrize("version", range(2, 10))
def test_what_does_not_exist_is_refused_and_the_rest_is_committed(offsets: Offsets, version: int) -> None:
    answer = offsets.commit(version, ("orders", {0: 5, 9: 6}), ("nowhere", {0: 7}), ("bills", {1: 8}))
    assert answer == [
        ("orders", [(9, UNKNOWN_TOPIC_OR_PARTITION), (0, 0)]),
        ("nowhere", [(0, UNKNOWN_TOPIC_OR_PARTITION)]),
        ("bills", [(1, 0)]),
    ]
    shown = rows(offsets.fetch_one(7, None).topics)
    assert shown == {"orders": {0: (5, 0)}, "bills": {1: (8, 0)}}


def test_topics_by_id(offsets: Offsets) -> None:
    orders, bills = offsets.ids["orders"], offsets.ids["bills"]
    answer = offsets.commit(10, (NO_ID, {0: 4, 1: 4}), (orders, {1: 5, 7: 5}), (bytes(16), {0: 4}), (bills, {0: 6}))
    assert answer == [
        (NO_ID, [(0, UNKNOWN_TOPIC_ID), (1, UNKNOWN_TOPIC_ID)]),
        (orders, [(7, UNKNOWN_TOPIC_OR_PARTITION), (1, 0)]),
        (bytes(16), [(0, UNKNOWN_TOPIC_ID)]),
        (bills, [(0, 0)]),
    ]
    asked = [OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0, 1]) for each in (orders, NO_ID, bills)]
    some, everything = offsets.fetch(
        10,
        OffsetFetchRequestGroup(group_id="readers", topics=asked),
        OffsetFetchRequestGroup(group_id="readers", topics=None),
    )
    unknown = (-1, UNKNOWN_TOPIC_ID)
    assert rows(some.topics) == {
        orders: {0: (-1, 0), 1: (5, 0)},
        bills: {0: (6, 0), 1: (-1, 0)},
        NO_ID: {0: unknown, 1: unknown},
    }
    assert rows(everything.topics) == {orders: {1: (5, 0)}, bills: {0: (6, 0)}}


def test_a_request_without_anything_that_exists_asks_no_group(offsets: Offsets) -> None:
    assert offsets.commit(9) == []
    assert offsets.commit(9, ("orders", {}), generation_id_or_member_epoch=7) == []
    assert offsets.commit(9, ("nowhere", {}), group_id="new") == [("nowhere", [])]
    assert offsets.broker.node.groups.shard(0) is not None
    (machine,) = offsets.broker.node.groups.machines()
    assert machine.groups == {}


def test_the_refusal_of_a_group_is_the_code_of_each_partition(offsets: Offsets) -> None:
    answer = offsets.commit(
        9, ("orders", {0: 1, 9: 1, 1: 1}), generation_id_or_member_epoch=3, member_id="m", group_id="nobody"
    )
    assert answer == [("orders", [(9, UNKNOWN_TOPIC_OR_PARTITION), (0, GROUP_ID_NOT_FOUND), (1, GROUP_ID_NOT_FOUND)])]


@pytest.mark.parametrize("group", ["", "g" * 10_000, "g" * 32_767])
def test_group_ids_of_any_length_have_offsets(offsets: Offsets, group: str) -> None:
    assert offsets.commit(9, ("orders", {0: 5}), group_id=group) == [("orders", [(0, 0)])]
    assert rows(offsets.fetch_one(7, None, group).topics) == {"orders": {0: (5, 0)}}


@pytest.mark.parametrize("version", range(1, 8))
def test_one_group_in_old_versions(offsets: Offsets, version: int) -> None:
    offsets.commit(6, ("orders", {0: 5}))
    answer = offsets.fetch_one(version, {"orders": (0, 1), "nowhere": (3,)})
    assert (answer.error_code, rows(answer.topics)) == (
        0,
        {"orders": {0: (5, 0), 1: (-1, 0)}, "nowhere": {3: (-1, 0)}},
    )
    assert answer.topics[0].partitions[0].metadata == "n"
    nobody = offsets.fetch_one(version, {"orders": (0,)}, "nobody")
    assert (nobody.error_code, rows(nobody.topics)) == (0, {"orders": {0: (-1, 0)}})
    if version > 1:
        assert rows(offsets.fetch_one(version, None).topics) == {"orders": {0: (5, 0)}}


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("stable", [False, True])
def test_many_groups_are_answered_in_their_order(offsets: Offsets, version: int, stable: bool) -> None:
    offsets.commit(8, ("orders", {0: 5}))
    offsets.commit(8, ("orders", {0: 6}), group_id="others")
    asked = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("others", "nobody", "readers", "others")]
    answer = offsets.fetch(version, *asked, stable=stable)
    assert [(group.group_id, group.error_code, rows(group.topics)) for group in answer] == [
        ("others", 0, {"orders": {0: (6, 0)}}),
        ("nobody", 0, {}),
        ("readers", 0, {"orders": {0: (5, 0)}}),
        ("others", 0, {"orders": {0: (6, 0)}}),
    ]
    assert offsets.fetch(version, stable=stable) == []


def test_an_answer_has_an_end(offsets: Offsets, monkeypatch: pytest.MonkeyPatch) -> None:
    offsets.commit(8, ("orders", {0: 5, 1: 5}))
    monkeypatch.setattr(offset_fetch, "MAX_PARTITIONS", 3)
    asked = [OffsetFetchRequestGroup(group_id="readers", topics=None)] * 4
    assert [group.error_code for group in offsets.fetch(9, *asked)] == [0, 0, 42, 42]


# The coordinator is loading, or elsewhere


@pytest.mark.spec("CO-03")
@pytest.mark.parametrize(("is_loading", "code"), [(True, LOADING), (False, NOT_COORDINATOR)])
def test_a_coordinator_that_is_loading_or_elsewhere(offsets: Offsets, is_loading: bool, code: int) -> None:
    offsets.commit(8, ("orders", {0: 5}))
    shard = offsets.broker.node.groups.shard(0)
    assert shard is not None
    if is_loading:
        shard.state = ShardState.LOADING
    else:
        shard.close()
    assert offsets.commit(8, ("orders", {0: 6})) == [("orders", [(0, code)])]
    assert rows(offsets.fetch_one(1, {"orders": (0,)}).topics) == {"orders": {0: (-1, code)}}
    assert (offsets.fetch_one(2, None).error_code, offsets.fetch_one(7, None).topics) == (code, [])
    for stable in (False, True):
        (group,) = offsets.fetch(9, OffsetFetchRequestGroup(group_id="readers", topics=None), stable=stable)
        assert (group.error_code, group.topics) == (code, [])
    assert offsets.delete(("orders", (0,))) == (code, [])


@pytest.mark.spec("CO-03")
def test_offsets_are_there_again_after_a_restart(offsets: Offsets) -> None:
    for offset in range(30):
        offsets.commit(9, ("orders", {0: offset, 1: 2 * offset}))
    offsets.commit(10, (offsets.ids["bills"], {0: 7}))
    offsets.delete(("orders", (1,)))
    offsets.broker.stop()
    offsets.broker.start()
    offsets.client = offsets.broker.client()
    offsets.broker.run()
    assert rows(offsets.fetch_one(7, None).topics) == {"orders": {0: (29, 0)}, "bills": {0: (7, 0)}}


# Deleting


@pytest.mark.spec("CO-06")
def test_offsets_are_deleted(offsets: Offsets) -> None:
    offsets.commit(8, ("orders", {0: 5, 1: 6}), ("bills", {0: 7}))
    answer = offsets.delete(("orders", (0, 9)), ("nowhere", (0,)), ("bills", (1,)))
    unknown = UNKNOWN_TOPIC_OR_PARTITION
    assert answer == (0, [("orders", [(9, unknown), (0, 0)]), ("nowhere", [(0, unknown)]), ("bills", [(1, 0)])])
    assert rows(offsets.fetch_one(7, None).topics) == {"orders": {1: (6, 0)}, "bills": {0: (7, 0)}}


@pytest.mark.spec("CO-06")
def test_a_group_that_does_not_exist_is_told_before_anything_else(offsets: Offsets) -> None:
    assert offsets.delete(("nowhere", (0,)), group="nobody") == (GROUP_ID_NOT_FOUND, [])
    assert offsets.delete(group="nobody") == (GROUP_ID_NOT_FOUND, [])
    assert offsets.delete(("orders", (0,)), group="") == (INVALID_GROUP_ID, [])


@pytest.mark.spec("CO-06")
def test_the_offsets_of_a_deleted_topic_are_gone(offsets: Offsets) -> None:
    offsets.commit(8, ("orders", {0: 5}), ("bills", {0: 7}))
    offsets.client.ask(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 5)
    offsets.broker.pass_time(10)
    assert rows(offsets.fetch_one(7, None).topics) == {"bills": {0: (7, 0)}}


@pytest.mark.spec("CO-06")
def test_offsets_expire() -> None:
    offsets = Offsets(offsets_retention_minutes="1", offsets_retention_check_interval_ms="1000")
    offsets.commit(8, ("orders", {0: 5}))
    for _ in range(58):
        offsets.broker.pass_time(1_000)
    assert rows(offsets.fetch_one(7, None).topics) == {"orders": {0: (5, 0)}}
    for _ in range(4):
        offsets.broker.pass_time(1_000)
    assert rows(offsets.fetch_one(7, None).topics) == {}


# Transactions


@pytest.mark.parametrize("version", range(6))
def test_offsets_of_a_transaction_need_a_group_and_topics_that_exist(offsets: Offsets, version: int) -> None:
    def commit(group: str, *names: str) -> list[Any]:
        row = [TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=3) for index in (0, 8)]
        topics = [TxnOffsetCommitRequestTopic(name=name, partitions=list(row)) for name in names]
        request = TxnOffsetCommitRequest(transactional_id="x", group_id=group, producer_id=5, topics=topics)
        answer = offsets.client.ask(request, version)
        return [(each.name, [(r.partition_index, r.error_code) for r in each.partitions]) for each in answer.topics]

    unknown = UNKNOWN_TOPIC_OR_PARTITION
    assert commit("", "orders") == [("orders", [(8, unknown), (0, INVALID_GROUP_ID)])]
    assert commit("", "nowhere") == [("nowhere", [(0, unknown), (8, unknown)])]


# What is shown


def test_the_lag_of_each_group_and_partition(offsets: Offsets, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        offsets.client.produce("orders", batch(4))
    offsets.commit(8, ("orders", {0: 5, 1: 1}))
    offsets.commit(8, ("orders", {0: 12}), group_id="others")
    (machine,) = offsets.broker.node.groups.machines()
    assert isinstance(machine, GroupShard)
    seen = {
        (each.name, *(value for _, value in each.tags)): each.value
        for each in offsets.broker.node.metrics.read()
        if isinstance(each, Gauge) and each.group in ("coordinator.group", "server")
    }
    assert seen["Lag", "readers", "orders", "0"] == 7
    assert seen["CommittedOffset", "readers", "orders", "0"] == 5
    assert seen["Lag", "readers", "orders", "1"] == 0
    assert seen["Lag", "others", "orders", "0"] == 0
    assert (seen["NumOffsets",], seen["NumGroups",], seen["NumGroupsEmpty",], seen["NotShown",]) == (3, 2, 2, 0)
    assert (seen["group-count", "classic"], seen["group-count", "share"]) == (2, 0)
    assert (seen["offset-commit-count",], seen["offset-deletion-count",]) == (3, 0)
    monkeypatch.setattr(group_metrics, "MOST_ROWS", 2)
    few = [each for each in offsets.broker.node.metrics.read() if each.name in ("Lag", "NotShown")]
    assert [each.value for each in few if isinstance(each, Gauge)] == [7, 0, 1]
