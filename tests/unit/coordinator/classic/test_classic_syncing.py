"""SyncGroup: assignments are handed out when they are kept."""

from __future__ import annotations

import pytest

from support.coordinators.classic import DELAY_MS, REBALANCE_MS, Awaited, ClassicRig
from tailrace.config.log import LogConfig
from tailrace.model.errors import (
    CoordinatorNotAvailableError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnknownServerError,
)

pytestmark = pytest.mark.spec("CO-04")


def joined(rig: ClassicRig) -> tuple[str, str]:
    """Two members that have not asked for their assignments yet: the leader and another one."""
    first, second = rig.join(), rig.join()
    rig.pass_time(2 * DELAY_MS)
    return first.answer.member_id, second.answer.member_id


def test_all_are_answered_with_their_own_when_the_leader_has_come() -> None:
    rig = ClassicRig()
    leader, follower = joined(rig)
    waiting = rig.sync(follower, 1)
    assert not waiting.is_there
    leading = rig.sync(leader, 1, {leader: b"1", follower: b"2", "stranger": b"3"})
    assert leading.answer.assignment == b"1"
    assert waiting.answer.assignment == b"2"
    assert (waiting.answer.protocol_type, waiting.answer.protocol_name) == ("consumer", "range")
    assert rig.sync(follower, 1).answer == waiting.answer
    assert rig.group.state_name == "Stable"


def test_whoever_the_leader_forgets_gets_an_empty_assignment() -> None:
    rig = ClassicRig()
    leader, follower = joined(rig)
    waiting = rig.sync(follower, 1)
    rig.sync(leader, 1, {leader: b"1"})
    assert (waiting.code, waiting.answer.assignment) == (0, b"")


def test_assignments_of_somebody_who_does_not_lead_do_not_count() -> None:
    rig = ClassicRig()
    leader, follower = joined(rig)
    waiting = rig.sync(follower, 1, {leader: b"wrong", follower: b"wrong"})
    rig.sync(leader, 1, {leader: b"1", follower: b"2"})
    assert waiting.answer.assignment == b"2"


def test_who_may_not_ask() -> None:
    rig = ClassicRig()
    assert rig.sync("nobody", 1).code == UnknownMemberIdError.code
    leader, follower = joined(rig)
    assert rig.sync("nobody", 1).code == UnknownMemberIdError.code
    assert rig.sync(leader, 0).code == IllegalGenerationError.code
    assert rig.sync(leader, 1, protocol_type="connect").code == InconsistentGroupProtocolError.code
    assert rig.sync(leader, 1, protocol_name="other").code == InconsistentGroupProtocolError.code
    assert rig.sync(leader, 1, protocol_type="consumer", protocol_name="range").code == 0
    rig.join(leader)
    assert rig.sync(follower, 1).code == RebalanceInProgressError.code


def test_an_empty_group_knows_nobody() -> None:
    rig = ClassicRig()
    (member_id,) = rig.stable(1)
    rig.leave((member_id, None))
    assert rig.sync(member_id, 2).code == UnknownMemberIdError.code


def test_whoever_asks_twice_is_answered_once_for_each() -> None:
    rig = ClassicRig()
    leader, follower = joined(rig)
    first = rig.sync(follower, 1)
    second = rig.sync(follower, 1)
    assert first.code == RebalanceInProgressError.code
    rig.sync(leader, 1, {follower: b"2"})
    assert second.answer.assignment == b"2"
    assert len(first.answers) == 1


def test_assignments_are_handed_out_when_they_are_committed() -> None:
    rig = ClassicRig(in_sync=(1, 2))
    leader, follower = joined(rig)
    rig.pair.replicate()
    waiting = rig.sync(follower, 1)
    leading = rig.sync(leader, 1, {follower: b"2"})
    assert not waiting.is_there
    assert not leading.is_there
    assert rig.group.state_name == "CompletingRebalance"
    rig.pair.replicate()
    assert (leading.code, waiting.answer.assignment) == (0, b"2")
    assert rig.group.state_name == "Stable"


def test_a_leader_that_comes_twice_brings_nothing_new() -> None:
    """Otherwise a restart would bring back what nobody was given."""
    rig = ClassicRig(in_sync=(1, 2))
    leader, _ = joined(rig)
    rig.pair.replicate()
    first = rig.sync(leader, 1, {leader: b"1"})
    written = rig.written
    second = rig.sync(leader, 1, {leader: b"2"})
    assert rig.written == written
    rig.pair.replicate()
    assert first.code == RebalanceInProgressError.code
    assert second.answer.assignment == b"1"
    rig.pair.fail_over()
    assert rig.group.members[leader].assignment == b"1"


def in_trouble(rig: ClassicRig) -> tuple[str, str, Awaited, Awaited]:
    leader, follower = joined(rig)
    waiting = rig.sync(follower, 1)
    return leader, follower, waiting, rig.sync(leader, 1, {leader: b"x" * 500, follower: b"2"})


def test_assignments_that_cannot_be_written_begin_a_rebalance() -> None:
    rig = ClassicRig(log_config=LogConfig(max_message_bytes=600))
    leader, follower, waiting, leading = in_trouble(rig)
    assert leading.code == waiting.code == UnknownServerError.code
    assert rig.group.state_name == "PreparingRebalance"
    assert rig.group.members[follower].assignment == b""
    assert rig.written == 1  # only that there is a group
    again = rig.join(follower)
    rig.join(leader)
    assert again.answer.generation_id == 2
    waiting = rig.sync(follower, 2)
    rig.sync(leader, 2, {follower: b"3"})
    assert waiting.answer.assignment == b"3"


def test_assignments_that_the_replicas_do_not_take_begin_a_rebalance() -> None:
    rig = ClassicRig(in_sync=(1, 2), offsets_commit_timeout_ms="5000")
    _, _, waiting, leading = in_trouble(rig)
    rig.pass_time(5_000)
    assert leading.code == waiting.code == CoordinatorNotAvailableError.code
    assert rig.group.state_name == "PreparingRebalance"


def test_assignments_that_come_too_late_are_not_handed_out() -> None:
    rig = ClassicRig(in_sync=(1, 2), offsets_commit_timeout_ms="60000")
    leader, _, waiting, leading = in_trouble(rig)
    newcomer = rig.join()
    assert leading.code == waiting.code == RebalanceInProgressError.code
    rig.pair.replicate()
    assert rig.group.state_name == "PreparingRebalance"
    assert rig.group.members[leader].assignment == b""
    assert not newcomer.is_there
    rig.pass_time(REBALANCE_MS)
    assert newcomer.answer.generation_id == 2
