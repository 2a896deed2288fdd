"""Strangers who make groups, members and transactional ids by the thousand, or say very much at once.

Nothing bounds how many there are, as in Kafka; but each takes little, what a request can hold on to is bounded, and
everybody else is served meanwhile. The long test takes 10,000 of each.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tailrace
from support.clients.raw_client import NoAnswer, RawClient
from support.hostile.request_load import SETTINGS, RequestStorm, rss_bytes
from support.requests.case import DATA
from tailrace.protocol.message import Request
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tailrace.protocol.messages.describe_groups import DescribeGroupsRequest
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tailrace.protocol.messages.list_groups import ListGroupsRequest
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

SOME, MANY = 500, 10_000
MAX_BYTES_EACH = 8 << 10
PATIENCE_MS = 3000
"""On a busy machine."""
MEMBER_ID_REQUIRED, MESSAGE_TOO_LARGE, UNKNOWN_SERVER_ERROR = 79, 10, -1
LARGE_BYTES = 10 << 20


def join(group: str, size_bytes: int = 100) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=bytes(size_bytes))]
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=1_800_000,
        rebalance_timeout_ms=1_800_000,
        protocol_type="consumer",
        protocols=protocols,
    )


def commit(group: str, count: int = 1) -> OffsetCommitRequest:
    parts = [OffsetCommitRequestPartition(partition_index=index % 3, committed_offset=1) for index in range(count)]
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=DATA, partitions=parts)])


def consumer(group: str, member: str = "m") -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member, rebalance_timeout_ms=1000, subscribed_topic_names=[DATA], topic_partitions=[]
    )


def sharer(group: str) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(group_id=group, member_id="m" * 22, subscribed_topic_names=[DATA])


FLOODS: dict[str, tuple[Callable[[int], Request], int, int]] = {
    "groups with offsets": (lambda number: commit(f"offsets-{number}"), 9, 0),
    "classic groups": (lambda number: join(f"classic-{number}"), 9, MEMBER_ID_REQUIRED),
    "members of a classic group": (lambda number: join("classic"), 9, MEMBER_ID_REQUIRED),
    "consumer groups": (lambda number: consumer(f"consumer-{number}"), 1, 0),
    "share groups": (lambda number: sharer(f"share-{number}"), 1, 0),
    "transactional ids": (
        lambda number: InitProducerIdRequest(transactional_id=f"id-{number}", transaction_timeout_ms=1000),
        4,
        0,
    ),
}


class Flood:
    """A broker that coordinates, and what it says to many."""

    def __init__(self, broker: tailrace.Broker) -> None:
        self.broker = broker
        self.client = RawClient(broker.bootstrap_servers)
        for kind, version in ((0, 3), (1, 3)):
            found: Any = self.client.ask(FindCoordinatorRequest(key="any", key_type=kind), version)
            assert found.error_code == 0, found
        for _ in range(100):
            described: Any = self.client.ask(DescribeGroupsRequest(groups=["any"]), 5)
            if not described.groups[0].error_code:
                break
            time.sleep(0.1)

    def codes(self, requests: Iterator[Request], version: int, storm: RequestStorm) -> Counter[int]:
        found: Counter[int] = Counter()
        for number, request in enumerate(requests):
            answer: Any = self.client.ask(request, version)
            rows = answer.topics[0].partitions if isinstance(request, OffsetCommitRequest) else [answer]
            found[rows[0].error_code] += 1
            if number % 100 == 0:
                storm.check()
        return found


def flooded(count: int) -> None:
    with tailrace.Broker(SETTINGS) as broker, RequestStorm(broker, 0) as storm:
        flood = Flood(broker)
        for name, (make, version, expected) in FLOODS.items():
            before = rss_bytes(broker)
            codes = flood.codes((make(number) for number in range(count)), version, storm)
            assert codes == {expected: count}, name
            grown = (rss_bytes(broker) - before) // count
            assert grown < MAX_BYTES_EACH, f"{name}: {grown} bytes each"
        listed: Any = flood.client.ask(ListGroupsRequest(), 5)
        assert len(listed.groups) == 4 * count + 1
        assert storm.tally.slowest_check_ms < PATIENCE_MS
        flood.client.close()
        storm.hang_up()
        broker.stop()
        broker.start()
        storm.check()
        assert storm.trouble() == []


def test_some_groups_and_transactional_ids() -> None:
    flooded(SOME)


@pytest.mark.long
def test_many_groups_and_transactional_ids() -> None:
    flooded(MANY)


def test_what_one_request_says_is_bounded() -> None:
    """More than the coordinator's log would take is refused, and nothing of it is held."""
    with tailrace.Broker(SETTINGS) as broker, RequestStorm(broker, 0) as storm:
        flood = Flood(broker)
        joins = (join(f"large-{number}", LARGE_BYTES) for number in range(16))
        for _ in range(4):  # the copies of one request, and the allocator's share of them, are there then
            flood.client.ask(next(joins), 3)
        before = rss_bytes(broker)
        assert flood.codes(joins, 3, storm) == {MESSAGE_TOO_LARGE: 12}
        assert rss_bytes(broker) - before < 2 * LARGE_BYTES
        assert flood.codes(iter([commit("many", 190_000)]), 9, storm) == {UNKNOWN_SERVER_ERROR: 1}
        with pytest.raises(NoAnswer, match="closed"):
            flood.client.ask(commit("many", 200_001), 9)
        storm.check()
        assert storm.trouble() == []
