"""What a classic group answers to those who commit, fetch, delete and look for what has expired."""

from __future__ import annotations

import struct

import pytest

from tailrace.coordinator.classic.group import ClassicGroup
from tailrace.coordinator.classic.member import ClassicMember
from tailrace.coordinator.classic.protocol_votes import ProtocolVotes
from tailrace.coordinator.classic.state import ClassicState
from tailrace.coordinator.classic.subscription import subscribed_topics
from tailrace.model.errors import (
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    GroupIdNotFoundError,
    IllegalGenerationError,
    NonEmptyGroupError,
    RebalanceInProgressError,
    TailraceError,
    UnknownMemberIdError,
)
from tailrace.model.invariant import InvariantError
from tailrace.protocol.codec import encode
from tailrace.protocol.records.consumer_protocol import ConsumerProtocolSubscription

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = ClassicState


def subscription(*topics: str, version: int = 1) -> bytes:
    return struct.pack(">h", version) + encode(ConsumerProtocolSubscription(topics=list(topics)), version)


def group_in(state: ClassicState, protocol_type: str = "consumer", metadata: bytes | None = None) -> ClassicGroup:
    group = ClassicGroup("g", state, state_since_ms=1000)
    group.generation = 5
    if state is not EMPTY:
        group.add(
            ClassicMember(
                "m",
                instance_id="i",
                client_id="c",
                client_host="/h",
                rebalance_timeout_ms=1,
                session_timeout_ms=1,
                protocol_type=protocol_type,
                protocols={"range": subscription("read") if metadata is None else metadata},
            )
        )
        group.protocol_name = "range"
        group.subscribed_topics = group.topics_of_members()
    return group


def refusal(group: ClassicGroup, member: str, instance: str | None, epoch: int, *, txn: bool = False) -> object:
    try:
        return group.check_commit(member, instance, epoch, is_transactional=txn, api_version=9)
    except TailraceError as error:
        return type(error)


@pytest.mark.spec("CO-04")
def test_who_may_commit() -> None:
    assert refusal(group_in(EMPTY), "", None, -1) is None
    assert refusal(group_in(EMPTY), "m", None, 5) is UnknownMemberIdError
    assert refusal(group_in(DEAD), "m", None, 5) is CoordinatorNotAvailableError
    for state in (PREPARING, STABLE):
        group = group_in(state)
        assert refusal(group, "m", None, 5) is None
        assert refusal(group, "m", "i", 5) is None
        assert refusal(group, "m", None, 4) is IllegalGenerationError
        assert refusal(group, "m", None, -1) is IllegalGenerationError
        assert refusal(group, "x", None, 5) is UnknownMemberIdError
        assert refusal(group, "x", "i", 5) is FencedInstanceIdError
        assert refusal(group, "x", "j", 5) is UnknownMemberIdError
        assert refusal(group, "", None, -1) is UnknownMemberIdError
        assert refusal(group, "", None, -1, txn=True) is None  # older transactional producers do not say who they are
    assert refusal(group_in(COMPLETING), "m", None, 5) is RebalanceInProgressError
    assert refusal(group_in(COMPLETING), "m", None, 5, txn=True) is None


@pytest.mark.spec("CO-06")
def test_which_groups_can_be_deleted() -> None:
    group_in(EMPTY).check_delete()
    for state in (PREPARING, COMPLETING, STABLE):
        with pytest.raises(NonEmptyGroupError):
            group_in(state).check_delete()
    with pytest.raises(GroupIdNotFoundError):
        group_in(DEAD).check_delete()


@pytest.mark.spec("CO-06")
def test_which_groups_let_single_offsets_be_deleted() -> None:
    group_in(EMPTY).check_offset_delete()
    group_in(STABLE).check_offset_delete()  # of topics that nobody reads
    with pytest.raises(NonEmptyGroupError):
        group_in(STABLE, "connect").check_offset_delete()
    with pytest.raises(GroupIdNotFoundError):
        group_in(DEAD).check_offset_delete()
    with pytest.raises(GroupIdNotFoundError):
        group_in(DEAD).check_fetch("m", 5, 9)
    group_in(STABLE).check_fetch("x", 9, 9)


@pytest.mark.spec("CO-06")
def test_what_members_read() -> None:
    group = group_in(STABLE)
    assert group.is_subscribed_to("read")
    assert not group.is_subscribed_to("other")
    assert group_in(STABLE, metadata=b"?").is_subscribed_to("other")  # nothing is known: it might be
    assert not group_in(STABLE, "connect").is_subscribed_to("read")
    assert not ClassicGroup("g").is_subscribed_to("read")


@pytest.mark.spec("CO-06")
def test_from_when_offsets_expire() -> None:
    assert ClassicGroup("g", state_since_ms=7).expires_from(3) == 3  # nobody ever joined it
    emptied = group_in(EMPTY)
    emptied.protocol_type = "consumer"
    assert emptied.expires_from(3) == 1000
    emptied.state_since_ms = None
    assert emptied.expires_from(3) == 3
    assert group_in(STABLE).expires_from(3) == 3  # of topics that nobody reads any more
    for state in (PREPARING, COMPLETING):
        assert group_in(state).expires_from(3) is None
    assert group_in(STABLE, metadata=b"?").expires_from(3) is None
    assert group_in(STABLE, "connect").expires_from(3) is None


def test_states_follow_each_other() -> None:
    with pytest.raises(InvariantError):
        group_in(EMPTY).move_to(STABLE, 1)
    group = group_in(STABLE)
    group.move_to(PREPARING, 8)
    assert (group.state, group.previous_state, group.state_since_ms) == (PREPARING, STABLE, 8)
    with pytest.raises(InvariantError):
        group.move_to(PREPARING, 9)


def test_topics_are_read_out_of_every_version() -> None:
    assert subscribed_topics([subscription("a", "b", version=v) for v in range(4)]) == {"a", "b"}
    later = struct.pack(">h", 99) + encode(ConsumerProtocolSubscription(topics=["c"]), 0) + b"more"
    assert subscribed_topics([later]) == {"c"}
    assert subscribed_topics([]) == frozenset()


@pytest.mark.parametrize(
    "data",
    [b"", b"\0", b"\0\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\x05", b"\0\0\x7f\xff\xff\xff", b"\0\0\0\0\0\1\0\1\xff"],
)
def test_nonsense_is_no_subscription(data: bytes) -> None:
    assert subscribed_topics([subscription("a"), data]) is None


def test_votes() -> None:
    votes = ProtocolVotes()
    ballots = [["a", "b"], ["b", "a"], ["b", "c", "a"]]
    for ballot in ballots:
        votes.add(ballot)
    assert votes.winner(ballots) == "b"
    assert votes.any_common(["c", "a"], 3)
    assert not votes.any_common(["c"], 3)
    votes.remove(ballots.pop())
    assert votes.winner(ballots) == "a"  # one each: the first
    votes.remove(ballots.pop())
    votes.add(["c"])
    assert votes.winner([*ballots, ["c"]]) is None
    assert ProtocolVotes().winner([]) is None
