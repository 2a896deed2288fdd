"""What coordinators refuse although Kafka would try it, and what their answers leave out: memory has an end."""

from __future__ import annotations

from typing import Any

import pytest

from support.brokers.simulated import SimBroker, SimClient
from support.requests.case import DATA
from tailrace.protocol.frame import encode_request
from tailrace.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tailrace.protocol.messages.describe_groups import DescribeGroupsRequest
from tailrace.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tailrace.protocol.messages.share_group_describe import ShareGroupDescribeRequest

UNKNOWN_SERVER_ERROR, MESSAGE_TOO_LARGE, GROUP_ID_NOT_FOUND, MEMBER_ID_REQUIRED = -1, 10, 69, 79
LARGEST = 1_048_588
LONGEST = "x" * 32_767


@pytest.fixture
def client() -> SimClient:
    client = SimBroker(offsets_topic_num_partitions="1", transaction_state_log_num_partitions="1").start().client()
    client.create_topic(DATA, 3)
    for kind in (0, 1):
        client.ask(FindCoordinatorRequest(key="any", key_type=kind), 3)
    return client


def join(*sizes: int, **fields: Any) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol(name=f"p{number}", metadata=bytes(size)) for number, size in enumerate(sizes)]
    return JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, protocol_type="consumer", protocols=protocols, **fields
    )


def described(client: SimClient) -> Any:
    return client.ask(DescribeGroupsRequest(groups=["g"]), 5).groups[0]


@pytest.mark.parametrize("sizes", [(LARGEST + 1,), (LARGEST, 1)])
def test_a_member_that_says_more_than_its_group_could_keep_is_refused(
    client: SimClient, sizes: tuple[int, ...]
) -> None:
    assert client.ask(join(*sizes), 3).error_code == MESSAGE_TOO_LARGE
    assert client.ask(join(*sizes, group_instance_id="i"), 9).error_code == MESSAGE_TOO_LARGE
    given = client.ask(join(*sizes), 4)
    assert given.error_code == MEMBER_ID_REQUIRED, "nothing of it is held yet"
    assert client.ask(join(*sizes, member_id=given.member_id), 4).error_code == MESSAGE_TOO_LARGE
    assert described(client).members == []


def test_more_offsets_than_a_batch_can_take_are_refused_before_they_are_made(client: SimClient) -> None:
    parts = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)] * 100_000
    request = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name=DATA, partitions=parts)])
    answer = client.ask(request, 9)
    assert {part.error_code for part in answer.topics[0].partitions} == {UNKNOWN_SERVER_ERROR}
    fetched = client.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), 9)
    assert fetched.groups[0].topics == []


def test_who_is_named_again_and_again_is_described_once(client: SimClient) -> None:
    names = ["a", "b", "a", "a"]
    classic = client.ask(DescribeGroupsRequest(groups=names), 6)
    consumer = client.ask(ConsumerGroupDescribeRequest(group_ids=names), 1)
    share = client.ask(ShareGroupDescribeRequest(group_ids=names), 1)
    for answer in (classic, consumer, share):
        assert [group.group_id for group in answer.groups] == ["a", "b"]
    transactions = client.ask(DescribeTransactionsRequest(transactional_ids=names), 0)
    assert [row.transactional_id for row in transactions.transaction_states] == ["a", "b"]


def test_a_group_with_the_longest_name_is_not_found_either(client: SimClient) -> None:
    """What is said of it has to fit into an answer."""
    for request, version in (
        (DescribeGroupsRequest(groups=[LONGEST]), 6),
        (ConsumerGroupDescribeRequest(group_ids=[LONGEST]), 1),
    ):
        (group,) = client.ask(request, version).groups
        assert (group.error_code, group.group_id) == (GROUP_ID_NOT_FOUND, LONGEST)
        assert 0 < len(group.error_message) <= 2000


def test_a_client_with_the_longest_name_can_be_a_member() -> None:
    """Its member id begins with its name, has more behind it, and has to fit into answers."""
    broker = SimBroker(offsets_topic_num_partitions="1", group_initial_rebalance_delay_ms="0").start()
    broker.client().ask(FindCoordinatorRequest(key="any"), 3)
    for number, name in enumerate((LONGEST, "ü" * 16_000)):
        client = broker.client()
        request = join(1, rebalance_timeout_ms=60_000)
        request.group_id = f"g{number}"
        client._sent[1] = (request.KEY, 3)
        client.write(b"".join(bytes(part) for part in encode_request(request, 3, 1, name)))
        broker.pass_time(0)
        joined = client.read().pop(1)
        assert joined.error_code == 0
        assert len(joined.member_id.encode()) <= len(LONGEST)
        assert joined.member_id.startswith(name[:15_000])
        (group,) = broker.client().ask(DescribeGroupsRequest(groups=[request.group_id]), 5).groups
        assert [member.member_id for member in group.members] == [joined.member_id]
