from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.brokers.coordinating import CoordinatingBroker, FakeMember
from support.brokers.scripted import HANG_UP, Log, Pauses
from tailrace.client.cluster import Cluster
from tailrace.client.errors import ClientError, class_of
from tailrace.client.group_consumer import GroupConsumer
from tailrace.client.group_membership import MembershipLostError
from tailrace.client.offsets import LATEST
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tailrace.protocol.messages.offset_commit import OffsetCommitRequest
from tailrace.protocol.messages.offset_fetch import OffsetFetchRequest
from tailrace.record.builder import batch_of

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def broker() -> Iterator[CoordinatingBroker]:
    with CoordinatingBroker() as broker:
        for at, log in enumerate(broker.add_topic("orders", 2)):
            fill(log, 5, at)
        yield broker


@pytest.fixture
def other(broker: CoordinatingBroker, pauses: Pauses) -> Iterator[Cluster]:
    with Cluster(broker.address, timeout_s=10, pause=pauses, client_id="other") as cluster:
        yield cluster


class Story:
    """What a consumer was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[int]]] = []

    def consumer(self, cluster: Cluster, **options: object) -> GroupConsumer:
        def told(what: str) -> object:
            return lambda partitions: self.told.append((what, [each.partition for each in partitions]))

        listeners = {f"on_{what}": told(what) for what in ("assigned", "revoked", "lost")}
        consumer = GroupConsumer(cluster, "g", **{**listeners, **options})  # type: ignore[arg-type]
        consumer.subscribe(["orders"])
        return consumer


def fill(log: Log, count: int, mark: int = 0) -> None:
    log.append(batch_of([(1, None, b"%d:%d" % (mark, at)) for at in range(count)]))


def polled(consumer: GroupConsumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < count:
        found += [record.value for run in consumer.poll(0.2) for record in run.records()]
    return sorted(found, key=str)


def settle(*consumers: GroupConsumer) -> None:
    """Until each has an equal share."""
    while {len(each.assignment) for each in consumers} != {2 // len(consumers)}:
        for each in consumers:
            each.poll(0)


def test_a_group_goes_on_where_it_has_committed(broker: CoordinatingBroker, cluster: Cluster) -> None:
    with Story().consumer(cluster) as consumer:
        assert len(polled(consumer, 10)) == 10
        assert consumer.has_joined
        assert consumer.assignment == {ZERO, ONE}
    assert broker.groups["g"].offsets == {("orders", 0): 5, ("orders", 1): 5}
    assert broker.groups["g"].members == {}
    fill(broker.topics["orders"][1], 3, 7)
    with Story().consumer(cluster) as consumer:
        assert polled(consumer, 3) == [b"7:0", b"7:1", b"7:2"]
    assert broker.groups["g"].offsets == {("orders", 0): 5, ("orders", 1): 8}


def test_the_first_heartbeat_tells_all_and_the_next_what_has_changed(
    broker: CoordinatingBroker, cluster: Cluster
) -> None:
    with Story().consumer(cluster, rack="west", assignor="range", instance_id="i") as consumer:
        settle(consumer)
        consumer.poll(0)
        consumer.poll(0)
        consumer.subscribe(pattern="ord.*")
        consumer.poll(0)
        consumer.subscribe(["orders"])
        consumer.poll(0)
    first, second, third, fourth, fifth, leaving = broker.requests(ConsumerGroupHeartbeatRequest)[:6]
    assert (first.member_epoch, first.rack_id, first.server_assignor, first.instance_id) == (0, "west", "range", "i")
    assert (first.subscribed_topic_names, first.topic_partitions) == (["orders"], [])
    assert first.rebalance_timeout_ms == 300_000
    assert (second.member_epoch, second.rack_id, second.rebalance_timeout_ms) == (1, None, -1)
    assert (second.subscribed_topic_names, [each.partitions for each in second.topic_partitions or ()]) == (
        None,
        [[0, 1]],
    )
    assert (third.subscribed_topic_names, third.topic_partitions) == (None, None)
    assert (fourth.subscribed_topic_names, fourth.subscribed_topic_regex) == ([], "ord.*")
    assert (fifth.subscribed_topic_names, fifth.subscribed_topic_regex) == (["orders"], "")
    assert (leaving.member_epoch, leaving.instance_id) == (-2, "i")


def test_partitions_go_from_one_member_to_another(broker: CoordinatingBroker, cluster: Cluster, other: Cluster) -> None:
    first, second = Story(), Story()
    with first.consumer(cluster) as one:
        polled(one, 10)
        with second.consumer(other) as two:
            settle(one, two)
            assert one.assignment | two.assignment == {ZERO, ONE}
            assert [what for what, _ in first.told] == ["assigned", "revoked"]
            (revoked,) = first.told[1][1]
            assert second.told == [("assigned", [revoked])]
            assert broker.groups["g"].offsets["orders", revoked] == 5  # committed before it went
            assert two.positions == {TopicPartition("orders", revoked): 5}
        settle(one)
        assert first.told[2:] == [("assigned", [revoked])]


def test_only_what_is_committed_counts_without_automatic_commits(broker: CoordinatingBroker, cluster: Cluster) -> None:
    with Story().consumer(cluster, commit_every_s=None) as consumer:
        polled(consumer, 10)
        assert consumer.committed() == {}
        consumer.commit({ZERO: 2})
        assert {each: at.offset for each, at in consumer.committed([ZERO, ONE]).items()} == {ZERO: 2}
    assert broker.groups["g"].offsets == {("orders", 0): 2}
    (committed,) = broker.requests(OffsetCommitRequest)
    assert (committed.member_id, committed.generation_id_or_member_epoch) == (*consumer.member[:1], 1)


def test_commits_come_by_themselves(broker: CoordinatingBroker) -> None:
    now = [0.0]
    with (
        Cluster(broker.address, clock=lambda: now[0], pause=lambda _: None) as cluster,
        Story().consumer(cluster, commit_every_s=5.0) as consumer,
    ):
        while len(consumer.assignment) < 2:
            consumer._tend()
        consumer._consumer.seek(ZERO, 3)
        now[0] += 4.9
        consumer._tend()
        assert broker.groups["g"].offsets == {}
        now[0] += 0.2
        consumer._tend()
        assert broker.groups["g"].offsets == {("orders", 0): 3, ("orders", 1): 0}
        now[0] += 5
        consumer._tend()
        assert len(broker.requests(OffsetCommitRequest)) == 1  # nothing new


def test_where_a_group_begins_that_has_committed_nothing(broker: CoordinatingBroker, cluster: Cluster) -> None:
    with Story().consumer(cluster, start=LATEST) as consumer:
        settle(consumer)
        assert consumer.positions == consumer.ends() == {ZERO: 5, ONE: 5}
        fill(broker.topics["orders"][0], 1, 9)
        assert polled(consumer, 1) == [b"9:0"]


@pytest.mark.parametrize("code", [25, 110])
def test_a_member_that_is_out_joins_again(broker: CoordinatingBroker, cluster: Cluster, code: int) -> None:
    story = Story()
    with story.consumer(cluster) as consumer:
        polled(consumer, 10)
        member_id = consumer.member.member_id
        broker.heartbeat_errors = [code]
        broker.groups["g"].members.clear()
        while story.told[-1:] != [("assigned", [0, 1])] or len(story.told) < 3:
            consumer._tend()
        assert [what for what, _ in story.told] == ["assigned", "lost", "assigned"]
        assert consumer.member.member_id == member_id
        assert len(polled(consumer, 10)) == 10  # it had committed nothing


def test_a_commit_of_one_who_is_out(broker: CoordinatingBroker, cluster: Cluster) -> None:
    story = Story()
    with story.consumer(cluster, commit_every_s=None) as consumer:
        settle(consumer)
        broker.groups["g"].members.clear()
        with pytest.raises(MembershipLostError):
            consumer.commit()
        assert (consumer.assignment, consumer.positions, consumer.has_joined) == (frozenset(), {}, False)
        assert story.told == [("assigned", [0, 1]), ("lost", [0, 1])]
        settle(consumer)


def test_a_commit_in_an_epoch_that_has_passed_is_tried_again(broker: CoordinatingBroker, cluster: Cluster) -> None:
    broker.heartbeat_interval_ms = 60_000
    with Story().consumer(cluster) as consumer:
        settle(consumer)
        member = broker.groups["g"].members[consumer.member.member_id]
        passed = iter([True])
        broker.answers[OffsetCommitRequest] = lambda request: self_correcting(broker, member, request, passed)
        consumer.commit({ZERO: 4})
        assert broker.groups["g"].offsets == {("orders", 0): 4}
        assert len(broker.requests(OffsetCommitRequest)) == 2


def self_correcting(
    broker: CoordinatingBroker, member: FakeMember, request: OffsetCommitRequest, passed: Iterator[bool]
) -> object:
    """The epoch is another one when the first commit comes, and the heartbeat behind it tells."""
    if next(passed, False):
        member.epoch += 1
        response = broker.commit(request)
        member.epoch -= 1
        return response
    return broker.commit(request)


def test_errors_that_pass(broker: CoordinatingBroker, cluster: Cluster, pauses: Pauses) -> None:
    broker.find_errors = [15]
    broker.heartbeat_errors = [14, 16, 15]
    with Story().consumer(cluster) as consumer:
        settle(consumer)
        lost = iter([HANG_UP])
        broker.answers[ConsumerGroupHeartbeatRequest] = lambda request: next(lost, None) or broker.heartbeat(request)
        while consumer.poll(0.01):
            pass
        fill(broker.topics["orders"][1], 2, 7)
        assert polled(consumer, 2) == [b"7:0", b"7:1"]
    assert len(pauses.seconds) >= 4


def test_errors_that_last(broker: CoordinatingBroker, cluster: Cluster) -> None:
    broker.heartbeat_errors = [112]
    with Story().consumer(cluster) as consumer, pytest.raises(class_of(112), match="group g: said it"):
        consumer.poll(1)
    broker.heartbeat_errors = [14] * 1000
    with Cluster(broker.address, timeout_s=0.05) as impatient, Story().consumer(impatient) as consumer:
        with pytest.raises(class_of(14)):
            consumer.poll(30)
        broker.heartbeat_errors = []


def test_a_topic_that_grows(broker: CoordinatingBroker, cluster: Cluster) -> None:
    with Story().consumer(cluster) as consumer:
        settle(consumer)
        broker.topics["orders"].append(Log())
        while len(consumer.assignment) < 3:
            consumer.poll(0)


def test_a_topic_that_is_gone_before_it_has_a_name(broker: CoordinatingBroker, cluster: Cluster) -> None:
    """The coordinator may know a topic before the broker that we ask for names does."""
    logs = broker.topics.pop("orders")
    broker.topics["orders"] = logs
    metadata, hidden = broker.metadata, [True]
    broker.metadata = lambda request, codes=(): metadata(request, [3] if hidden[0] else codes)  # type: ignore[method-assign]
    with Story().consumer(cluster) as consumer:
        consumer.poll(0)
        assert (consumer.has_joined, consumer.assignment) == (True, frozenset())
        hidden[0] = False
        settle(consumer)


def test_one_who_waits_for_partitions_asks_more_often_at_first(broker: CoordinatingBroker, cluster: Cluster) -> None:
    broker.heartbeat_interval_ms = 60_000
    broker.topics.clear()
    with Story().consumer(cluster) as consumer:
        consumer.poll(0)
        assert 0 < consumer._membership.due_in_s <= 0.25
        for _ in range(25):
            consumer._membership.heartbeat()
        assert consumer._membership.due_in_s > 50


def test_wrong_use(cluster: Cluster) -> None:
    with pytest.raises(ClientError, match="not empty"):
        GroupConsumer(cluster, "")
    consumer = GroupConsumer(cluster, "g")
    with pytest.raises(ClientError, match="subscribe first"):
        consumer.poll(0)
    with pytest.raises(ClientError, match="neither"):
        consumer.subscribe()
    consumer.close()
    consumer.close()
    with pytest.raises(ClientError, match="closed"):
        consumer.poll(0)


def test_an_error_of_the_caller_commits_nothing(broker: CoordinatingBroker, cluster: Cluster) -> None:
    def fails() -> None:
        with Story().consumer(cluster) as consumer:
            polled(consumer, 10)
            raise KeyError("of the caller")

    with pytest.raises(KeyError):
        fails()
    assert broker.groups["g"].offsets == {}
    assert broker.groups["g"].members == {}


def test_offsets_are_asked_for_as_a_member(broker: CoordinatingBroker, cluster: Cluster) -> None:
    with Story().consumer(cluster) as consumer:
        settle(consumer)
        (request,) = broker.requests(OffsetFetchRequest)
        (group,) = request.groups
        assert (group.member_id, group.member_epoch, request.require_stable) == (*consumer.member[:2], True)
