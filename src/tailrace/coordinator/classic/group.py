"""A classic group: its members, its generation, who of them is awaited. Decisions only: nothing here waits or writes.

What a restart brings back is what the group's record says (`records.py`): generation, leader, the chosen protocol and
the members with their assignments, as they were when the leader last handed assignments out. Everything else is soft:
a rebalance that a restart interrupts begins anew.

Who may call: the classic groups' manager, and those who turn groups of one kind into another; on the node's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tailrace.coordinator.classic.held_reply import HeldReply
from tailrace.coordinator.classic.member import NO_ASSIGNMENT, ClassicMember
from tailrace.coordinator.classic.protocol_votes import ProtocolVotes
from tailrace.coordinator.classic.state import COMES_FROM, ClassicState
from tailrace.coordinator.classic.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from tailrace.coordinator.groups.group import CommitCheck, Group, GroupKind
from tailrace.coordinator.outcome import CoordinatorRecord
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
from tailrace.model.invariant import invariant
from tailrace.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from tailrace.protocol.messages.sync_group import SyncGroupResponse
from tailrace.protocol.records.classic_groups import GroupMetadataKey

_WITH_MEMBERS = (ClassicState.PREPARING, ClassicState.COMPLETING, ClassicState.STABLE)


class ClassicGroup(Group):
    kind = GroupKind.CLASSIC

    def __init__(
        self, group_id: str, state: ClassicState = ClassicState.EMPTY, *, state_since_ms: int | None = None
    ) -> None:
        """`state_since_ms` is None only for groups out of records that are older than this field."""
        super().__init__(group_id)
        self.state = state
        self.previous_state = ClassicState.DEAD
        self.state_since_ms = state_since_ms
        self.generation = 0
        self._protocol_type = ""
        self.protocol_name: str | None = None
        """The one that the members of this generation speak."""
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by group instance id."""
        self.pending_joins: set[str] = set()
        """Member ids that were given out, and whose owners have not joined with them yet."""
        self.pending_syncs: set[str] = set()
        """Members of this generation that have not asked for their assignment yet."""
        self.joining_count = 0
        """Members that wait for the others to join."""
        self.keeps_assignments = False
        """Those of this generation are on their way into the log. A leader that brings others meanwhile is not heard:
        what is handed out must be what a restart brings back."""
        self.has_newcomers = False
        """Somebody joined while the first rebalance was being put off: wait a little longer."""
        self.subscribed_topics: frozenset[str] | None = None
        """None: the members do not say so in a way that is understood here."""
        self.renew_session: Callable[[ClassicMember], None] | None = None
        self._votes = ProtocolVotes()

    def __repr__(self) -> str:
        return f"ClassicGroup({self.group_id}, {self.state.value}, generation {self.generation}, {list(self.members)})"

    # What all kinds of groups answer

    @property
    def protocol_type(self) -> str:
        """Empty for a group that nobody ever joined: it only keeps offsets."""
        return self._protocol_type

    @protocol_type.setter
    def protocol_type(self, protocol_type: str) -> None:
        self._protocol_type = protocol_type

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, is_transactional: bool, api_version: int
    ) -> CommitCheck | None:
        if self.state is ClassicState.DEAD:
            raise CoordinatorNotAvailableError(f"group {self.group_id} is not here any more")
        if epoch < 0 and self.state is ClassicState.EMPTY:
            return None  # an administrator, or a consumer that does without groups
        if epoch >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            self.check_generation(epoch)
        elif not is_transactional and self.state is not ClassicState.EMPTY:
            raise UnknownMemberIdError(f"group {self.group_id} has members: only they may commit")
        if not is_transactional and self.state is ClassicState.COMPLETING:
            raise RebalanceInProgressError(f"group {self.group_id} is waiting for assignments")
        return None

    def check_fetch(self, member_id: str | None, epoch: int, api_version: int) -> None:
        self._check_alive()

    def check_offset_delete(self) -> None:
        self._check_alive()
        if self.state in _WITH_MEMBERS and not self.is_of_consumers:
            raise NonEmptyGroupError(f"group {self.group_id} has members")

    def check_delete(self) -> None:
        self._check_alive()
        if self.state in _WITH_MEMBERS:
            raise NonEmptyGroupError(f"group {self.group_id} has members")

    def _check_alive(self) -> None:
        if self.state is ClassicState.DEAD:
            raise GroupIdNotFoundError(f"group {self.group_id} has ended")

    def is_subscribed_to(self, topic: str) -> bool:
        return self.is_of_consumers if self.subscribed_topics is None else topic in self.subscribed_topics

    def expires_from(self, commit_timestamp_ms: int) -> int | None:
        if not self.protocol_type:
            return commit_timestamp_ms
        if self.state is ClassicState.EMPTY:
            return commit_timestamp_ms if self.state_since_ms is None else self.state_since_ms
        if self.state is ClassicState.STABLE and self.is_of_consumers and self.subscribed_topics is not None:
            return commit_timestamp_ms
        return None

    def tombstones(self) -> list[CoordinatorRecord]:
        return [CoordinatorRecord(GroupMetadataKey(group=self.group_id), None)]

    def committed_by(self, member_id: str) -> None:
        member = self.members.get(member_id)
        in_session = self.state in (ClassicState.STABLE, ClassicState.PREPARING)
        if member is not None and in_session and self.renew_session is not None:
            self.renew_session(member)

    # State

    @property
    def is_of_consumers(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def can_rebalance(self) -> bool:
        return self.state in COMES_FROM[ClassicState.PREPARING]

    @property
    def is_first_rebalance(self) -> bool:
        """The group was empty: it is being given time for more members."""
        return self.state is ClassicState.PREPARING and self.previous_state is ClassicState.EMPTY

    def move_to(self, state: ClassicState, now_ms: int) -> None:
        invariant(self.state in COMES_FROM[state], f"group {self.group_id} goes from {self.state} to {state}")
        self.previous_state, self.state = self.state, state
        self.keeps_assignments = False
        self.state_since_ms = now_ms

    def begin_generation(self, now_ms: int) -> None:
        """Everybody who will has joined: choose the protocol, and wait for the leader's assignments."""
        self.generation += 1
        self.protocol_name = self.elected_protocol() if self.members else None
        self.subscribed_topics = self.topics_of_members()
        self.move_to(ClassicState.COMPLETING if self.members else ClassicState.EMPTY, now_ms)
        self.pending_syncs.clear()

    # Members

    def add(self, member: ClassicMember, reply: HeldReply[JoinGroupResponse] | None = None) -> None:
        invariant(
            member.instance_id is None or member.instance_id not in self.static_members,
            f"{member.instance_id} is in group {self.group_id} twice",
        )
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._votes.add(member.protocols)
        self._hold_join(member, reply)
        self.pending_joins.discard(member.member_id)

    def update(
        self,
        member: ClassicMember,
        protocols: Mapping[str, bytes],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        reply: HeldReply[JoinGroupResponse] | None,
    ) -> None:
        """The member has joined again."""
        self._votes.remove(member.protocols)
        member.protocols = protocols
        self._votes.add(protocols)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self._hold_join(member, reply)

    def _hold_join(self, member: ClassicMember, reply: HeldReply[JoinGroupResponse] | None) -> None:
        """In the place of a reply that it may hold already: whoever joins again has given up the first request."""
        given_up = member.join_reply
        self.joining_count += (reply is not None) - member.is_joining
        member.join_reply = reply
        if given_up is not None and given_up is not reply:
            given_up(JoinGroupResponse(member_id=member.member_id, error_code=RebalanceInProgressError.code))

    def hold_sync(self, member: ClassicMember, reply: HeldReply[SyncGroupResponse]) -> None:
        """Until there are assignments. Whoever asks again has given up the first request."""
        self.answer_sync(member, SyncGroupResponse(error_code=RebalanceInProgressError.code))
        member.sync_reply = reply

    def remove(self, member_id: str) -> None:
        """A member, or one that was only given its id. Where it led the group, another member does.

        If it waits it is told that it is unknown: it may try again.
        """
        member = self.members.pop(member_id, None)
        if member is not None:
            self._votes.remove(member.protocols)
            self.answer_join(member, JoinGroupResponse(error_code=UnknownMemberIdError.code))
            self.answer_sync(member, SyncGroupResponse(error_code=UnknownMemberIdError.code))
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)

    def replace_static(self, instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        """A static member has come again under a new member id. Whoever waits under the old one is fenced."""
        old = self.members[old_id]
        fenced = FencedInstanceIdError.code
        self.answer_join(old, JoinGroupResponse(member_id=old_id, protocol_name=None, error_code=fenced))
        self.answer_sync(old, SyncGroupResponse(error_code=fenced))
        del self.members[old_id]
        member = self.members[new_id] = old.renamed(new_id)
        if self.leader_id == old_id:
            self.leader_id = new_id
        if old_id in self.pending_syncs:
            self.pending_syncs.remove(old_id)
            self.pending_syncs.add(new_id)
        self.static_members[instance_id] = new_id
        return member

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        if instance_id is not None:
            known_as = self.static_members.get(instance_id)
            if known_as is None:
                raise UnknownMemberIdError(f"{instance_id} is no static member of group {self.group_id}")
            if known_as != member_id:
                raise FencedInstanceIdError(f"{instance_id} of group {self.group_id} is {known_as}, not {member_id}")
        if member_id not in self.members:
            raise UnknownMemberIdError(f"{member_id} is no member of group {self.group_id}")

    def check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise IllegalGenerationError(f"group {self.group_id} is in generation {self.generation}, not {generation}")

    @property
    def rebalance_timeout_ms(self) -> int:
        """Of the slowest member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_have_joined(self) -> bool:
        return len(self.members) == self.joining_count and not self.pending_joins

    def not_yet_joined(self) -> list[ClassicMember]:
        return [member for member in self.members.values() if not member.is_joining]

    def elect_joined_leader(self) -> bool:
        """Make a leader of somebody who has joined, where the old one has not. False when nobody has."""
        if self.leader_id is None:
            return False
        if not self.members[self.leader_id].is_joining:
            joined = next((member for member in self.members.values() if member.is_joining), None)
            if joined is None:
                return False
            self.leader_id = joined.member_id
        return True

    # Protocols

    def speaks(self, protocol_type: str, protocols: Mapping[str, bytes]) -> bool:
        """Whether somebody with these protocols fits into the group."""
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and self._votes.any_common(protocols, len(self.members))

    def elected_protocol(self) -> str:
        """By the members' votes, among those that all of them speak."""
        elected = self._votes.winner([member.protocols for member in self.members.values()])
        invariant(elected is not None, f"the members of group {self.group_id} speak no protocol in common")
        assert elected is not None
        return elected

    def topics_of_members(self) -> frozenset[str] | None:
        if not self.is_of_consumers:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        return subscribed_topics(self.metadata_of(member) for member in self.members.values())

    def metadata_of(self, member: ClassicMember) -> bytes:
        """What a member says to the others, in the protocol of this generation."""
        return member.protocols[self.protocol_name or ""]

    # Who waits

    def answer_join(self, member: ClassicMember, response: JoinGroupResponse) -> bool:
        """False when the member was not waiting."""
        reply = member.join_reply
        if reply is None:
            return False
        member.join_reply = None
        self.joining_count -= 1
        reply(response)
        return True

    def answer_sync(self, member: ClassicMember, response: SyncGroupResponse) -> bool:
        """False when the member was not waiting."""
        reply, member.sync_reply = member.sync_reply, None
        if reply is None:
            return False
        reply(response)
        return True

    def answer_all(self, error: TailraceError) -> None:
        """Everybody who waits."""
        for member in list(self.members.values()):
            self.answer_join(member, JoinGroupResponse(member_id=member.member_id, error_code=error.code))
            self.answer_sync(member, SyncGroupResponse(error_code=error.code))

    def joined(self, member_id: str) -> JoinGroupResponse:
        """What a member of this generation is told; the leader is told of all the others."""
        is_leader = member_id == self.leader_id
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type or None,
            protocol_name=self.protocol_name,
            leader=self.leader_id or "",
            member_id=member_id,
            members=self.members_for_leader() if is_leader else [],
        )

    def members_for_leader(self) -> list[JoinGroupResponseMember]:
        return [
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=self.metadata_of(member)
            )
            for member in self.members.values()
        ]

    def assigned(self, member: ClassicMember) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=self.protocol_type or None,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )

    def forget_assignments(self) -> None:
        for member in self.members.values():
            member.assignment = NO_ASSIGNMENT
