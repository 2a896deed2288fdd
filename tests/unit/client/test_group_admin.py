from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.brokers.coordinating import CoordinatingBroker, FakeGroup, FakeMember
from support.brokers.scripted import Log, Pauses
from tailrace.client.cluster import Cluster
from tailrace.client.errors import ClientError, class_of
from tailrace.client.group_admin import GroupAdmin
from tailrace.client.group_descriptions import CLASSIC, CONSUMER, KINDS, SHARE, STREAMS
from tailrace.client.offset_reset import Exactly, Point, Shift, Target, plan_reset
from tailrace.client.offsets import EARLIEST, LATEST
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.describe_groups import DescribeGroupsRequest
from tailrace.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tailrace.record.builder import batch_of

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
GONE = TopicPartition("gone", 3)


@pytest.fixture
def broker() -> Iterator[CoordinatingBroker]:
    with CoordinatingBroker() as broker:
        for log in broker.add_topic("orders", 2):
            fill(log, 10)
        for kind in KINDS:
            member = FakeMember(4, ["orders"], {("orders", 0)})
            broker.groups[kind] = FakeGroup(kind.capitalize(), 4, {"m": member}, {("orders", 0): 7})
        yield broker


@pytest.fixture
def admin(cluster: Cluster) -> GroupAdmin:
    return GroupAdmin(cluster)


def fill(log: Log, count: int) -> None:
    log.append(batch_of([(1, None, b"x") for _ in range(count)]))


def test_groups_of_all_kinds(admin: GroupAdmin) -> None:
    assert [(each.group_id, each.kind, each.state) for each in admin.groups()] == [
        (kind, kind, "Stable") for kind in sorted(KINDS)
    ]
    assert admin.kind_of("share") == SHARE
    assert admin.kind_of("nobody") is None


def test_a_coordinator_that_loads_is_waited_for(broker: CoordinatingBroker, admin: GroupAdmin, pauses: Pauses) -> None:
    errors = [14, 14]
    broker.answers[ListGroupsRequest] = lambda request: (
        ListGroupsResponse(error_code=errors.pop()) if errors else broker.list_groups(request)
    )
    assert len(admin.groups()) == 4
    assert len(pauses.seconds) == 2


@pytest.mark.parametrize("kind", [CLASSIC, CONSUMER, SHARE])
def test_members_and_what_they_have(admin: GroupAdmin, kind: str) -> None:
    described = admin.describe(kind)
    (member,) = described.members
    assert (described.kind, described.state, described.coordinator) == (kind, "Stable", 1)
    assert (member.member_id, member.host, member.subscription) == ("m", "10.0.0.7", ("orders",))
    assert (member.partitions, member.is_classic) == ((ZERO,), kind == CLASSIC)
    assert member.epoch == (None if kind == CLASSIC else 4)
    assert member.wanted == ((ZERO, ONE) if kind == CONSUMER else None)


def test_tasks_of_a_streams_group(admin: GroupAdmin) -> None:
    described = admin.describe(STREAMS)
    assert described.members[0].tasks == ("0_0", "0_1", "[1_2]")
    assert (described.epoch, described.assignment_epoch) == (5, 4)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x00\xff\xff", b"\x00\x03" + b"\x7f" * 8, b"\xff\xff" + bytes(9)])
def test_members_whose_bytes_are_not_those_of_a_consumer(
    broker: CoordinatingBroker, admin: GroupAdmin, data: bytes
) -> None:
    def odd(request: DescribeGroupsRequest) -> object:
        response = broker.describe_classic(request)
        response.groups[0].members[0].member_assignment = data
        response.groups[0].members[0].member_metadata = data
        return response

    broker.answers[DescribeGroupsRequest] = odd
    (member,) = admin.describe(CLASSIC).members
    assert (member.partitions, member.subscription) == ((), ())


def test_a_group_that_is_not_there(broker: CoordinatingBroker, admin: GroupAdmin) -> None:
    for attempt in (lambda: admin.describe("nobody"), lambda: admin.delete("nobody")):
        with pytest.raises(class_of(69)):
            attempt()
    assert admin.offsets("nobody") == {}
    broker.versions[15] = (0, 5)  # older brokers call it dead

    def dead(request: DescribeGroupsRequest) -> object:
        response = broker.describe_classic(request)
        response.groups[0].group_state = "Dead"
        return response

    broker.answers[DescribeGroupsRequest] = dead
    with pytest.raises(class_of(69)):
        admin.describe(CLASSIC)


def test_lag(broker: CoordinatingBroker, admin: GroupAdmin) -> None:
    broker.groups[CONSUMER].offsets |= {("gone", 3): 5, ("orders", 1): 99}
    broker.groups[CONSUMER].members["n"] = FakeMember(4, ["orders"], {("more", 0)})
    broker.add_topic("more")
    lags = admin.lag(admin.describe(CONSUMER))
    assert [(each.partition, each.offset, each.end, each.lag) for each in lags] == [
        (GONE, 5, None, None),
        (TopicPartition("more", 0), None, 0, None),
        (ZERO, 7, 10, 3),
        (ONE, 99, 10, 0),
    ]
    assert [each.member.member_id if each.member else None for each in lags] == [None, "n", "m", None]
    (shared,) = admin.lag(admin.describe(SHARE))
    assert (shared.offset, shared.lag) == (7, 3)


def test_offsets_are_changed_where_nobody_reads(broker: CoordinatingBroker, admin: GroupAdmin) -> None:
    with pytest.raises(class_of(25)):
        admin.alter_offsets(CONSUMER, {ZERO: 1})
    broker.groups[CONSUMER].members.clear()
    admin.alter_offsets(CONSUMER, {ZERO: 1, ONE: 2})
    assert broker.groups[CONSUMER].offsets == {("orders", 0): 1, ("orders", 1): 2}
    admin.alter_offsets(SHARE, {ZERO: 3})
    assert {each: at.offset for each, at in admin.offsets(SHARE).items()} == {ZERO: 3}
    admin.alter_offsets("new", {ZERO: 4})
    assert admin.kind_of("new") == CLASSIC


def test_offsets_are_deleted_by_topic(broker: CoordinatingBroker, admin: GroupAdmin) -> None:
    with pytest.raises(class_of(86)):
        admin.delete_offsets(CONSUMER, ["orders"])
    broker.groups[CONSUMER].members.clear()
    broker.groups[CONSUMER].offsets["more", 0] = 1
    assert admin.delete_offsets(CONSUMER, ["orders", "unknown"]) == [ZERO]
    assert broker.groups[CONSUMER].offsets == {("more", 0): 1}
    assert admin.delete_offsets(SHARE, ["orders"]) == [ZERO]
    assert broker.groups[SHARE].offsets == {}


def test_deleting(broker: CoordinatingBroker, admin: GroupAdmin) -> None:
    with pytest.raises(class_of(68)):
        admin.delete(CONSUMER)
    broker.groups[CONSUMER].members.clear()
    admin.delete(CONSUMER)
    assert CONSUMER not in broker.groups


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (Point(EARLIEST), [(2, 2), (0, 0)]),
        (Point(LATEST), [(10, 10), (10, 10)]),
        (Point(1_700_000_000_000), [(10, 10), (10, 10)]),  # nothing is so late: the end
        (Exactly(5), [(5, 5), (5, 5)]),
        (Exactly(1), [(2, 1), (1, 1)]),
        (Exactly(50), [(10, 50), (10, 50)]),
        (Exactly({ZERO: 3, ONE: 4}), [(3, 3), (4, 4)]),
        (Shift(2), [(9, 9), (3, 3)]),
        (Shift(-100), [(2, -93), (0, -99)]),
    ],
)
def test_where_offsets_go(
    broker: CoordinatingBroker, cluster: Cluster, target: Target, expected: list[tuple[int, int]]
) -> None:
    broker.topics["orders"][0].start = 2
    changes = plan_reset(cluster, {ZERO: 7, ONE: 1}, [ONE, ZERO], target)
    assert [(each.after, each.asked) for each in changes] == expected
    assert [each.before for each in changes] == [7, 1]


def test_offsets_that_cannot_be_told(cluster: Cluster) -> None:
    assert plan_reset(cluster, {}, [], Shift(1)) == []
    with pytest.raises(ClientError, match="orders-0 has no committed offset"):
        plan_reset(cluster, {}, [ZERO], Shift(1))
    with pytest.raises(ClientError, match="no offset is given for orders-1"):
        plan_reset(cluster, {}, [ZERO, ONE], Exactly({ZERO: 1}))
