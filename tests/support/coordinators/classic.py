"""Members of a classic group, and the coordinator that they talk to: commands go straight to its runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from support.coordinators.replica_pair import CoordinatorPair
from tailrace.coordinator.classic.caller import Caller
from tailrace.coordinator.classic.group import ClassicGroup
from tailrace.coordinator.classic.held_reply import HeldReply
from tailrace.coordinator.groups.shard import GroupShard
from tailrace.coordinator.records import GROUP_RECORDS
from tailrace.model.errors import TailraceError
from tailrace.model.internal_topics import CONSUMER_OFFSETS
from tailrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tailrace.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000
ONE_STEP, TWO_STEPS, LATEST = 3, 4, 9


class Awaited:
    """An answer that may come later."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def __call__(self, answer: Any) -> None:
        self.answers.append(answer)

    @property
    def is_there(self) -> bool:
        return bool(self.answers)

    @property
    def answer(self) -> Any:
        """The one that came."""
        (answer,) = self.answers
        return answer

    @property
    def code(self) -> int:
        answer = self.answer
        return answer.code if isinstance(answer, TailraceError) else answer.error_code


class ClassicRig:
    def __init__(self, *, in_sync: Sequence[int] = (1,), **settings: Any) -> None:
        """One broker in sync: everything is committed when it is written."""
        self.pair: CoordinatorPair[GroupShard] = CoordinatorPair(
            CONSUMER_OFFSETS, GROUP_RECORDS, GroupShard, in_sync=in_sync, **settings
        )

    @property
    def group(self) -> ClassicGroup:
        group = self.pair.leader.machine.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def written(self) -> int:
        """How many records there are."""
        return self.pair.leader.log.log_end_offset

    def pass_time(self, ms: int) -> None:
        self.pair.pass_time(ms)

    def submit(self, command: Any, group_id: str = GROUP) -> Awaited:
        awaited = Awaited()
        self.pair.leader.runtime.submit("test", group_id, command, awaited, awaited)
        self.pair.run()
        return awaited

    # Requests

    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: Mapping[str, bytes] | None = None,
        protocol_type: str = "consumer",
        version: int = ONE_STEP,
        client_id: str = "me",
        group_id: str = GROUP,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
    ) -> Awaited:
        """In a version that needs one step, unless it is said otherwise."""
        offered = {"range": b"subscription"} if protocols is None else protocols
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in offered.items()],
        )
        caller = Caller(client_id, "/10.0.0.1", version)
        awaited = Awaited()
        held: HeldReply[JoinGroupResponse] = HeldReply(awaited)
        self.pair.leader.runtime.submit(
            "join",
            group_id,
            lambda machine: machine.classic.join(caller, request, held),
            held,
            lambda error: held(JoinGroupResponse(error_code=error.code)),
        )
        self.pair.run()
        return awaited

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        group_id: str = GROUP,
    ) -> Awaited:
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=data)
                for each, data in (assignments or {}).items()
            ],
        )
        awaited = Awaited()
        held: HeldReply[SyncGroupResponse] = HeldReply(awaited)
        self.pair.leader.runtime.submit(
            "sync",
            group_id,
            lambda machine: machine.classic.sync(request, held),
            held,
            lambda error: held(SyncGroupResponse(error_code=error.code)),
        )
        self.pair.run()
        return awaited

    def heartbeat(self, member_id: str, generation: int, *, instance_id: str | None = None) -> int:
        awaited = self.post_heartbeat(member_id, generation, instance_id=instance_id)
        assert isinstance(awaited.answer, HeartbeatResponse | TailraceError)
        return awaited.code

    def post_heartbeat(self, member_id: str, generation: int, *, instance_id: str | None = None) -> Awaited:
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        return self.submit(lambda machine: machine.classic.heartbeat(request))

    def leave(self, *members: tuple[str, str | None]) -> list[int]:
        """The error codes of the members, given by member and instance id."""
        response = self.post_leave(*members).answer
        assert isinstance(response, LeaveGroupResponse)
        assert not response.error_code
        return [row.error_code for row in response.members]

    def post_leave(self, *members: tuple[str, str | None]) -> Awaited:
        identities = [MemberIdentity(member_id=each, group_instance_id=instance) for each, instance in members]
        request = LeaveGroupRequest(group_id=GROUP, members=identities)
        return self.submit(lambda machine: machine.classic.leave(request))

    # Often used

    def stable(self, count: int = 2, *, static: bool = False, **options: Any) -> list[str]:
        """A group of `count` members in generation 1, the leader first."""
        joins = [
            self.join(instance_id=f"i{number}" if static else None, client_id=f"c{number}", **options)
            for number in range(count)
        ]
        self.pass_time(DELAY_MS)
        if count > 1:
            self.pass_time(DELAY_MS)
        answers = [join.answer for join in joins]
        assert [answer.error_code for answer in answers] == [0] * count
        assert {answer.generation_id for answer in answers} == {1}
        leader = answers[0].leader
        members = sorted((answer.member_id for answer in answers), key=lambda each: each != leader)
        followers = [self.sync(each, 1) for each in members[1:]]
        self.sync(leader, 1, {each: f"of {each}".encode() for each in members})
        assert all(sync.code == 0 for sync in followers)
        assert self.group.state_name == "Stable"
        return members
