"""Members of streams groups that come, go, are late, and meet a new coordinator."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.conversations.streams_members import subtopology, topology
from support.coordinators.streams import WORDS, StreamsRig, StreamsThread
from tailrace.coordinator.groups.group import GroupKind
from tailrace.coordinator.streams.group import StreamsGroup
from tailrace.coordinator.streams.heartbeats import HeartbeatAnswer
from tailrace.coordinator.streams.member import MemberState, StreamsMember
from tailrace.coordinator.streams.reconciliation import Target, reconciled
from tailrace.coordinator.streams.status import StatusCode
from tailrace.coordinator.streams.tasks import OwnedTaskSet, TaskSet
from tailrace.model.errors import (
    FencedMemberEpochError,
    NonEmptyGroupError,
    RefusedRequestError,
    StaleMemberEpochError,
    UnknownMemberIdError,
)
from tailrace.protocol.messages.streams_group_heartbeat import KeyValue, RequestEndpoint

ALL = {("0", 0), ("0", 1), ("0", 2), ("0", 3), ("1", 0), ("1", 1)}


def settle(*threads: StreamsThread) -> None:
    for _ in range(4):
        for thread in threads:
            thread.beat()


def test_a_session_ends_and_the_tasks_go_to_the_others() -> None:
    rig = StreamsRig()
    a, b = StreamsThread(rig, "a"), StreamsThread(rig, "b")
    settle(a, b)
    assert len(a.tasks()) == len(b.tasks()) == 3
    rig.pass_time(44_000)
    b.beat()
    rig.pass_time(2_000)
    assert list(rig.streams.members) == ["b"]
    settle(b)
    assert b.tasks() == ALL
    assert isinstance(a.beat(), UnknownMemberIdError)


def test_who_does_not_give_up_in_time_is_out() -> None:
    rig = StreamsRig()
    a, b = StreamsThread(rig, "a", rebalance_timeout_ms=10_000), StreamsThread(rig, "b")
    a.beat()
    before = {kind: dict(tasks) for kind, tasks in a.held.items()}
    b.beat()
    a.beat()
    assert rig.streams.members["a"].state is MemberState.UNREVOKED_TASKS
    for _ in range(4):
        rig.pass_time(3_000)
        a.held = before
        b.beat()
    assert list(rig.streams.members) == ["b"]


def test_giving_up_in_time_stops_the_clock() -> None:
    rig = StreamsRig()
    a, b = StreamsThread(rig, "a", rebalance_timeout_ms=10_000), StreamsThread(rig, "b")
    a.beat()
    b.beat()
    settle(a, b)
    rig.pass_time(20_000)
    assert sorted(rig.streams.members) == ["a", "b"]


def test_a_new_coordinator_knows_everything() -> None:
    rig = StreamsRig(in_sync=(1, 2))
    threads = [
        StreamsThread(
            rig,
            "a",
            rack_id="r",
            client_tags=[KeyValue(key="zone", value="1")],
            user_endpoint=RequestEndpoint(host="h", port=1),
        ),
        StreamsThread(rig, "b"),
    ]
    for _ in range(5):
        for thread in threads:
            awaited = rig.send_beat(thread.member_id, thread.epoch, held=thread.held, **_said(thread))
            rig.pair.replicate()
            rig.pair.replicate()
            answer = awaited.answer
            assert isinstance(answer, HeartbeatAnswer)
            thread._take(answer.response)
    before = rig.streams
    rig.reload()
    after = rig.streams
    assert after is not before
    for name in ("epoch", "metadata_hash", "validated_topology_epoch", "assignment_epoch", "assignment_settings"):
        assert getattr(after, name) == getattr(before, name), name
    assert after.members == before.members
    assert after.targets == before.targets
    assert after.topology is not None
    assert before.topology is not None
    assert after.topology.is_the_same_as(before.topology)
    assert after.state_name == "Stable"


def _said(thread: StreamsThread) -> dict[str, object]:
    return thread.fields if thread.epoch == 0 else {}


def test_a_new_coordinator_expects_everybody() -> None:
    rig = StreamsRig()
    a, b = StreamsThread(rig, "a", rebalance_timeout_ms=10_000), StreamsThread(rig, "b")
    a.beat()
    b.beat()
    a.beat()
    rig.pass_time(9_000)
    rig.reload()
    rig.pass_time(9_000)
    assert sorted(rig.streams.members) == ["a", "b"]
    rig.pass_time(2_000)
    assert list(rig.streams.members) == ["b"]
    rig.pass_time(40_000)
    assert rig.streams.is_empty


def test_a_member_that_missed_its_tasks_is_told_again() -> None:
    rig = StreamsRig()
    a = StreamsThread(rig, "a")
    a.beat()
    rig.extend("t", 5)
    a.beat(loses_answer=True)
    assert ("0", 4) not in a.tasks()
    a.beat()
    assert ("0", 4) in a.tasks()


def test_a_group_becomes_empty_and_can_be_deleted() -> None:
    rig = StreamsRig()
    a = StreamsThread(rig, "a")
    a.beat()
    group = rig.streams
    with pytest.raises(NonEmptyGroupError):
        group.check_delete()
    assert group.is_subscribed_to("t")
    assert not group.is_subscribed_to("u-store")
    a.leave()
    assert group.state_name == "Empty"
    assert not group.is_subscribed_to("t")
    group.check_delete()
    for offset, record in enumerate(group.tombstones()):
        rig.pair.leader.machine.replay(record, offset, None)
    assert "g" not in rig.pair.leader.machine.groups
    rig.extend("t", 9)  # nobody is interested any more


def test_the_first_assignment_waits_for_others() -> None:
    rig = StreamsRig(group_streams_initial_rebalance_delay_ms="3000")
    a, b = StreamsThread(rig, "a"), StreamsThread(rig, "b")
    a.beat()
    assert a.statuses == [StatusCode.ASSIGNMENT_DELAYED]
    assert a.tasks() == set()
    rig.pass_time(1_000)
    b.beat()
    rig.pass_time(2_500)
    assert rig.streams.assignment_epoch == rig.streams.epoch
    a.beat()
    b.beat()
    assert a.statuses == b.statuses == []
    assert a.tasks() | b.tasks() == ALL
    assert len(a.tasks()) == 3


def test_the_first_delay_of_a_group_that_is_gone_ends_in_nothing() -> None:
    rig = StreamsRig(group_streams_initial_rebalance_delay_ms="3000")
    a = StreamsThread(rig, "a")
    a.beat()
    a.leave()
    rig.pass_time(5_000)
    assert rig.streams.assignment_epoch == 1
    a.beat()
    assert StatusCode.ASSIGNMENT_DELAYED in a.statuses


def test_assignments_follow_each_other_after_a_while() -> None:
    rig = StreamsRig(group_streams_assignment_interval_ms="1000")
    a, b = StreamsThread(rig, "a"), StreamsThread(rig, "b")
    a.beat()
    b.beat()
    assert b.statuses == [StatusCode.ASSIGNMENT_DELAYED]
    rig.pass_time(1_000)
    settle(a, b)
    assert len(b.tasks()) == 3


def test_topics_that_are_missing_have_to_be_made() -> None:
    rig = StreamsRig({"t": 4, "u": 2})
    a = StreamsThread(rig, "a")
    a.beat()
    assert a.statuses == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert a.last is not None
    assert [(topic.name, topic.partitions) for topic in a.last.missing_topics] == [("u-store", 2)]
    assert rig.streams.state_name == "NotReady"
    rig.create("u-store", 2)
    a.beat()
    assert a.statuses == []
    assert a.last.missing_topics == ()
    assert a.tasks() == ALL
    assert rig.streams.state_name == "Stable"
    rig.delete("t")
    a.beat()
    assert a.statuses == [StatusCode.MISSING_SOURCE_TOPICS]
    assert a.tasks() == set()


def test_the_end_of_an_application() -> None:
    rig = StreamsRig()
    a, b = StreamsThread(rig, "a"), StreamsThread(rig, "b")
    settle(a, b)
    a.leave(shutdown_application=True)
    b.beat()
    assert b.statuses == [StatusCode.SHUTDOWN_APPLICATION]
    b.leave()
    assert rig.streams.shutdown_requested_by is None
    a.beat()
    assert a.statuses == []


def test_a_failed_write_changes_nothing() -> None:
    rig = StreamsRig()
    a, b = StreamsThread(rig, "a"), StreamsThread(rig, "b")
    settle(a)
    group = rig.streams
    state = (group.epoch, group.assignment_epoch, dict(group.members), dict(group.targets))
    rig.pair.leader.log.close()
    assert b.beat() is not None
    rig.extend("t", 6)
    assert a.beat() is not None
    assert (group.epoch, group.assignment_epoch, dict(group.members), dict(group.targets)) == state


def test_commits_of_tasks() -> None:
    rig = StreamsRig()
    a = StreamsThread(rig, "a")
    settle(a)
    old = a.epoch
    rig.extend("t", 5)
    settle(a)
    group = rig.streams

    def check(epoch: int, topic: str, index: int, version: int = 9) -> None:
        found = group.check_commit("a", None, epoch, is_transactional=False, api_version=version)
        if found is not None:
            found(topic, bytes(16), index)

    check(a.epoch, "t", 4)
    check(old, "t", 3)
    for topic, index in (("t", 4), ("t", 9), ("x", 0)):
        with pytest.raises(StaleMemberEpochError):
            check(old, topic, index)
    with pytest.raises(StaleMemberEpochError):
        check(a.epoch + 1, "t", 0)
    assert group.check_commit("", None, -1, is_transactional=True, api_version=3) is None
    with pytest.raises(UnknownMemberIdError):
        group.check_commit("x", None, a.epoch, is_transactional=True, api_version=3)


def test_a_state_of_a_later_release_is_left_with_empty_hands() -> None:
    owned = OwnedTaskSet({"0": {0: 1}})
    member = StreamsMember("a", 1, 1, MemberState.UNKNOWN, process_id="p", owned=owned)
    target = Target(2, TaskSet({"0": frozenset({1})}))
    owners = StreamsGroup("g").owners
    for reported in (None, TaskSet({"0": frozenset({0})})):
        with pytest.raises(FencedMemberEpochError):
            reconciled(member, target, reported, owners)
    assert reconciled(member, target, TaskSet(), owners).owned.active == {"0": {1: 2}}


def test_a_classic_group_with_offsets_only_becomes_a_streams_group() -> None:
    rig = StreamsRig()
    rig.pair.leader.machine.classic.get_or_make("g")
    StreamsThread(rig, "a").beat()
    assert rig.streams.kind is GroupKind.STREAMS


def test_a_group_without_a_topology_has_to_be_joined_again() -> None:
    """A cleaned log may have lost it to a tombstone, and its members not."""
    rig = StreamsRig()
    a = StreamsThread(rig, "a")
    settle(a)
    rig.streams.topology = None
    assert isinstance(a.beat(), RefusedRequestError)
    a.beat()
    assert a.tasks() == ALL


@given(data=st.data())
def test_no_request_breaks_the_coordinator(data: st.DataObject) -> None:
    """Whatever the fields: an answer or an error that is meant."""
    rig = StreamsRig()
    StreamsThread(rig, "a").beat()
    text = st.sampled_from(["", "a", "t", "u", "0", "1", " ", "é", "x" * 300])
    tasks = st.dictionaries(text, st.lists(st.integers(-1, 5), max_size=3), max_size=2)
    for _ in range(5):
        held = {kind: data.draw(tasks) for kind in ("active", "standby", "warmup")}
        rig.send_beat(
            data.draw(text),
            data.draw(st.integers(-3, 4)),
            held=held if data.draw(st.booleans()) else None,
            rebalance_timeout_ms=data.draw(st.sampled_from([-1, 0, 1_000])),
            process_id=data.draw(st.none() | text),
            topology=data.draw(
                st.sampled_from([None, WORDS, topology(epoch=-1), topology(subtopology("0"), subtopology("0"))])
            ),
            shutdown_application=data.draw(st.booleans()),
            endpoint_information_epoch=data.draw(st.integers(-1, 3)),
            user_endpoint=data.draw(st.none() | st.just(RequestEndpoint(host="h", port=1))),
            client_tags=data.draw(st.none() | st.lists(st.builds(KeyValue, key=text, value=text), max_size=2)),
        )
    assert isinstance(rig.describe_streams().group_state, str)


def test_threads_of_an_instance_have_one_row_of_partitions() -> None:
    rig = StreamsRig()
    endpoint = RequestEndpoint(host="h", port=1)
    a, b = (StreamsThread(rig, name, "P", user_endpoint=endpoint) for name in "ab")
    other = StreamsThread(rig, "c", "Q", user_endpoint=RequestEndpoint(host="h", port=2))
    settle(a, b, other)
    a.beat(endpoint_information_epoch=-1)
    assert a.last is not None
    rows = a.last.response.partitions_by_user_endpoint
    assert rows is not None
    shown = {
        row.user_endpoint.port: {(each.topic, index) for each in row.active_partitions for index in each.partitions}
        for row in rows
    }
    topics = {"0": "t", "1": "u"}
    assert shown[1] == {(topics[key], index) for key, index in a.tasks() | b.tasks()}
    assert shown[2] == {(topics[key], index) for key, index in other.tasks()}
    a.beat(endpoint_information_epoch=a.last.response.endpoint_information_epoch)
    assert a.last.response.partitions_by_user_endpoint is None
