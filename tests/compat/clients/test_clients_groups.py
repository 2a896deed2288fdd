"""Members of a group come, go and die while records keep coming: each is handled, each partition has one owner."""

from __future__ import annotations

import struct
import time
import uuid
from typing import Any

import pytest
from client_servers import Server
from group_members import PATIENCE_S, Feeder, Kind, Members

from support.clients.raw_client import RawClient
from support.conversations.classic_members import NOT_READY
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tailrace.protocol.messages.describe_groups import DescribeGroupsRequest
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tailrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

pytestmark = pytest.mark.compat

PARTITIONS = 6
MEMBER_ID_REQUIRED = 79
CLASSIC = Kind("confluent-kafka")
COOPERATIVE = Kind("confluent-kafka", {"partition.assignment.strategy": "cooperative-sticky"})
CONSUMER = Kind("confluent-kafka", {"group.protocol": "consumer"})
RANGE_OF_KAFKA_PYTHON = Kind("kafka-python", {"assignor": "range"})
RANGE_OF_AIOKAFKA = Kind("aiokafka", {"assignor": "range"})

# The first three join, the first of them dies and the second leaves; then the fourth joins.
CASTS = {
    "confluent classic": (CLASSIC,) * 4,
    "confluent consumer": (CONSUMER,) * 4,
    "kafka-python": (Kind("kafka-python"),) * 4,
    "aiokafka": (Kind("aiokafka"),) * 4,
    "kafkajs": (Kind("kafkajs"),) * 4,
}
LONG_CASTS = {
    "confluent cooperative": (COOPERATIVE,) * 4,
    "confluent consumer range": (Kind("confluent-kafka", {**CONSUMER.settings, "group.remote.assignor": "range"}),) * 4,
    "kafka-python sticky": (Kind("kafka-python", {"assignor": "sticky"}),) * 4,
    "three libraries": (CLASSIC, RANGE_OF_KAFKA_PYTHON, RANGE_OF_AIOKAFKA, RANGE_OF_KAFKA_PYTHON),
    "upgraded": (CLASSIC, RANGE_OF_KAFKA_PYTHON, CONSUMER, CONSUMER),
    "downgraded": (CONSUMER, CONSUMER, CLASSIC, RANGE_OF_KAFKA_PYTHON),
}


@pytest.mark.parametrize(
    "cast",
    [
        *(pytest.param(cast, id=name) for name, cast in CASTS.items()),
        *(pytest.param(cast, id=name, marks=pytest.mark.long) for name, cast in LONG_CASTS.items()),
    ],
)
def test_three_join_one_dies_one_leaves_one_joins(
    cast: tuple[Kind, ...], name: str, helper: Any, server: Server
) -> None:
    helper.create_topic(name, partitions=PARTITIONS)
    feeder = Feeder(server.address, name, PARTITIONS)
    try:
        with Members(server.address, f"g-{uuid.uuid4().hex[:8]}", name) as members:
            first, second, third = (members.join(kind) for kind in cast[:3])
            members.wait_until_owners_are([first, second, third], PARTITIONS)
            first.kill()
            members.wait_until_owners_are([second, third], PARTITIONS)
            second.leave()
            members.wait_until_owners_are([third], PARTITIONS)
            fourth = members.join(cast[3])
            members.wait_until_owners_are([third, fourth], PARTITIONS)
            counts = feeder.stop()
            members.wait_until_handled(counts, [third, fourth])
            members.leave([third, fourth])
            assert members.faults(counts) == []
    finally:
        feeder.stop()


@pytest.mark.parametrize("kind", [CLASSIC, RANGE_OF_KAFKA_PYTHON], ids=lambda kind: kind.library)
def test_a_member_joins_again_when_its_group_is_upgraded_during_its_join(
    kind: Kind, name: str, helper: Any, server: Server
) -> None:
    """The coordinator answers its JoinGroup with REBALANCE_IN_PROGRESS, as Kafka does."""
    helper.create_topic(name, partitions=PARTITIONS)
    group = f"g-{uuid.uuid4().hex[:8]}"
    with Members(server.address, group, name) as members, RawClient(server.address) as client:
        leader = join_alone(client, group, name)
        member = members.join(kind)
        wait_until_state_is(client, group, "PreparingRebalance")  # until the leader joins, too, which it does not
        consumer_heartbeat(client, group, epoch=0, topics=[name])
        left = client.ask(LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=leader)]), 4)
        assert left.error_code == 0  # type: ignore[attr-defined]
        consumer_heartbeat(client, group, epoch=-1, topics=None)
        members.wait_until_owners_are([member], PARTITIONS)
        members.leave([member])


def join_alone(client: RawClient, group: str, topic: str) -> str:
    """The id of a member that leads a classic group without assigning anything."""
    subscription = bytes(2) + struct.pack(">ih", 1, len(topic)) + topic.encode() + struct.pack(">i", -1)
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=2 * PATIENCE_S * 1000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
    )
    deadline = time.monotonic() + PATIENCE_S
    joined: Any = client.ask(request, 5)
    while joined.error_code in (*NOT_READY, MEMBER_ID_REQUIRED) and time.monotonic() < deadline:
        if joined.error_code == MEMBER_ID_REQUIRED:
            request.member_id = joined.member_id
        else:  # the first question creates the topic of the coordinators
            client.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4)
            time.sleep(0.1)
        joined = client.ask(request, 5)
    assert (joined.error_code, joined.leader) == (0, joined.member_id)
    assigned = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(6) + struct.pack(">i", -1))
    sync = SyncGroupRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, assignments=[assigned]
    )
    synced: Any = client.ask(sync, 3)
    assert synced.error_code == 0
    return str(joined.member_id)


def wait_until_state_is(client: RawClient, group: str, state: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        (described,) = client.ask(DescribeGroupsRequest(groups=[group]), 5).groups  # type: ignore[attr-defined]
        if described.group_state == state:
            return
        assert time.monotonic() < deadline, described
        time.sleep(0.05)


def consumer_heartbeat(client: RawClient, group: str, *, epoch: int, topics: list[str] | None) -> None:
    """Of a member of the consumer protocol that joins or leaves."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="upgrades-the-group",
        member_epoch=epoch,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=topics,
        topic_partitions=None if topics is None else [],
    )
    assert client.ask(request, 1).error_code == 0  # type: ignore[attr-defined]
