"""Coordinators that do not know their state yet say so in every API, and what they are told changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.brokers.simulated import SimBroker, SimClient
from support.conversations.conversation import offset_request
from support.requests.case import DATA, ServerFacts
from support.requests.consumer_groups import heartbeat, joining
from support.requests.offsets import commit, delete, fetch
from tailrace.coordinator.shard import Shard, ShardState
from tailrace.model.errors import CoordinatorLoadInProgressError
from tailrace.model.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tailrace.protocol.message import Request, Struct
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tailrace.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tailrace.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tailrace.protocol.messages.delete_groups import DeleteGroupsRequest
from tailrace.protocol.messages.describe_groups import DescribeGroupsRequest
from tailrace.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tailrace.protocol.messages.end_txn import EndTxnRequest
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tailrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tailrace.protocol.messages.list_groups import ListGroupsRequest
from tailrace.protocol.messages.list_transactions import ListTransactionsRequest
from tailrace.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from tailrace.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tailrace.protocol.messages.sync_group import SyncGroupRequest
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

GROUP, NAME = "readers", "writer"
LOADING = CoordinatorLoadInProgressError.code
LATEST = -1
ONE = ((DATA, (0,)),)


def requests_of_groups(facts: ServerFacts) -> Iterator[tuple[Request, int]]:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    yield (
        JoinGroupRequest(group_id=GROUP, session_timeout_ms=10_000, protocol_type="consumer", protocols=protocols),
        9,
    )
    yield SyncGroupRequest(group_id=GROUP, member_id="m", protocol_type="consumer", protocol_name="range"), 5
    yield LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id="m")]), 5
    yield DescribeGroupsRequest(groups=[GROUP]), 6
    yield ListGroupsRequest(), 5
    yield DeleteGroupsRequest(groups_names=[GROUP]), 2
    for version in range(2, 11):
        yield commit(facts, version, GROUP, 99, topics=ONE), version
    for version in range(1, 11):
        yield fetch(facts, version, GROUP, topics=ONE), version
    yield delete(GROUP, ONE), 0
    part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    topics = [TxnOffsetCommitRequestTopic(name=DATA, partitions=[part])]
    yield (
        TxnOffsetCommitRequest(transactional_id=NAME, group_id=GROUP, producer_id=5, producer_epoch=0, topics=topics),
        3,
    )
    for version in (0, 1):
        yield heartbeat(GROUP, "m", 0, joining()), version
        yield ConsumerGroupDescribeRequest(group_ids=[GROUP]), version
    yield ShareGroupHeartbeatRequest(group_id=GROUP, member_id="m", subscribed_topic_names=[DATA]), 1
    yield ShareGroupDescribeRequest(group_ids=[GROUP]), 1


def requests_of_transactions() -> Iterator[tuple[Request, int]]:
    producer: dict[str, Any] = {"transactional_id": NAME, "producer_id": 5, "producer_epoch": 0}
    for version in range(6):
        yield InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=1000), version
        yield EndTxnRequest(committed=True, **producer), version
    for version in range(4):
        topics = [AddPartitionsToTxnTopic(name=DATA, partitions=[0])]
        yield (
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=NAME,
                v3_and_below_producer_id=5,
                v3_and_below_producer_epoch=0,
                v3_and_below_topics=topics,
            ),
            version,
        )
        yield AddOffsetsToTxnRequest(group_id=GROUP, **producer), version
    yield DescribeTransactionsRequest(transactional_ids=[NAME]), 0
    yield ListTransactionsRequest(), 1


def codes(answer: Struct) -> set[int]:
    """Every error in it; 0 counts only where it is the only one, for many have it beside those of their rows."""
    found = set(_codes(answer))
    return found - {0} or found


def _codes(answer: Struct) -> Iterator[int]:
    for each in answer.__fields__:
        value = getattr(answer, each.name)
        if each.name in ("error_code", "partition_error_code"):
            yield value
        for row in value if isinstance(value, list) else (value,):
            if isinstance(row, Struct):
                yield from _codes(row)


class Loaded:
    """A broker with a group that has offsets, and a transactional id."""

    def __init__(self) -> None:
        self.broker = SimBroker(offsets_topic_num_partitions="1", transaction_state_log_num_partitions="1").start()
        self.client: SimClient = self.broker.client()
        topic = self.client.create_topic(DATA, 3)
        self.facts = ServerFacts("", {DATA: topic.topic_id})
        for kind in (0, 1):
            self.client.ask(FindCoordinatorRequest(key="any", key_type=kind), 3)
        assert codes(self.client.ask(commit(self.facts, 9, GROUP, 7, topics=ONE), 9)) == {0}
        assert codes(self.client.ask(InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=1000), 4)) == {
            0
        }

    def shards(self) -> list[Shard]:
        found = [runtime.shard(0) for runtime in (self.broker.node.groups, self.broker.node.transactions)]
        return [shard for shard in found if shard is not None]

    def ends(self) -> list[int]:
        """Of the coordinators' logs."""
        topics = (CONSUMER_OFFSETS, TRANSACTION_STATE)
        return [self.client.ask(offset_request(topic, LATEST), 8).topics[0].partitions[0].offset for topic in topics]

    def seen(self) -> list[Any]:
        return [
            self.client.ask(DescribeGroupsRequest(groups=[GROUP]), 6),
            self.client.ask(fetch(self.facts, 9, GROUP, topics=None), 9),
            self.client.ask(DescribeTransactionsRequest(transactional_ids=[NAME]), 0),
        ]


@pytest.mark.spec("CO-03")
def test_every_api_says_so_and_changes_nothing() -> None:
    loaded = Loaded()
    before, ends = loaded.seen(), loaded.ends()
    for shard in loaded.shards():
        shard.state = ShardState.LOADING
    for request, version in (*requests_of_groups(loaded.facts), *requests_of_transactions()):
        found = codes(loaded.client.ask(request, version))
        assert found == {LOADING}, f"{type(request).__name__} in version {version}: {found}"
    beat = loaded.client.ask(HeartbeatRequest(group_id=GROUP, member_id="m"), 4)
    assert beat.error_code == 0, "nobody is put out of a group that is not known yet"
    for shard in loaded.shards():
        shard.state = ShardState.ACTIVE
    assert loaded.ends() == ends
    assert loaded.seen() == before
