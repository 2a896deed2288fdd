"""Members of a consumer group that use the classic protocol: their JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

They are members like all others, whose steps are hidden in what they know: REBALANCE_IN_PROGRESS makes them give up
what they were told to and join, joining is a step towards their target and says what they own now, and SyncGroup
fetches the assignment, which the coordinator has made. Their generation is their member epoch, and none of them ever
leads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tailrace.coordinator.classic.caller import Caller
from tailrace.coordinator.classic.joining import protocols_of
from tailrace.coordinator.consumer.balancing import Balancing, Change
from tailrace.coordinator.consumer.departures import Departures
from tailrace.coordinator.consumer.embedded import (
    assignment_bytes,
    partitions_by_id,
    subscription_of,
    version_of,
)
from tailrace.coordinator.consumer.group import CONSUMER_PROTOCOL, ConsumerGroup
from tailrace.coordinator.consumer.heartbeats import check_size, new_member_id, replaced_static
from tailrace.coordinator.consumer.member import ConsumerMember, MemberState
from tailrace.coordinator.consumer.migration import Migration
from tailrace.coordinator.consumer.timeouts import Timeouts
from tailrace.coordinator.outcome import CoordinatorRecord, Outcome
from tailrace.coordinator.shard import Shard
from tailrace.model.errors import (
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidDataError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    TailraceError,
    UnknownMemberIdError,
    UnknownServerError,
)
from tailrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tailrace.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tailrace.protocol.records.consumer_groups import ClassicMemberMetadata, ClassicProtocol
from tailrace.protocol.records.consumer_protocol import ConsumerProtocolSubscription

_FIRST_VERSION_OF_TWO_STEPS: Final = 4
"""From here on a newcomer is given its member id first and joins with it then."""


class ClassicMembers:
    def __init__(
        self, shard: Shard, balancing: Balancing, migration: Migration, departures: Departures, timeouts: Timeouts
    ) -> None:
        self._shard = shard
        self._balancing = balancing
        self._migration = migration
        self._departures = departures
        self._timeouts = timeouts

    # Joining

    def join(self, group: ConsumerGroup, caller: Caller, request: JoinGroupRequest) -> Outcome:
        """To a group that has members."""
        if self._migration.is_disabled:
            raise InconsistentGroupProtocolError(
                f"nobody of the classic protocol may join group {group.group_id}: group.consumer.migration.policy"
            )
        member_id = request.member_id or new_member_id(self._shard)
        check_size(self._shard, group, member_id)
        protocols = protocols_of(request)
        if not group.supports_protocols(request.protocol_type, protocols):
            raise InconsistentGroupProtocolError(f"{member_id} has no protocol in common with group {group.group_id}")
        instance_id = request.group_instance_id
        if not request.member_id and instance_id is None and caller.api_version >= _FIRST_VERSION_OF_TWO_STEPS:
            return Outcome(response=JoinGroupResponse(member_id=member_id, error_code=MemberIdRequiredError.code))

        written: list[CoordinatorRecord] = []
        replaced = group.static_member(instance_id)
        old = self._joining(group, request, member_id, written)
        subscription = _subscription(protocols)
        new = _updated(old, caller, request, protocols, subscription)
        change = self._balancing.change(group, old, new, written)
        self._balancing.raise_epoch(change, is_due=change.subscription_changed)
        if replaced is not None and self._migration.can_replace(group, replaced):
            return self._downgrade(change, subscription)
        member = self._balancing.step(change, self._balancing.target(change), self._reported(subscription))

        def then(error: TailraceError | None) -> None:
            if error is None or group.members.get(member_id) == member:  # written, and only committed late
                self._timeouts.has_joined(group.group_id, member_id)
                self._timeouts.renew_session(group.group_id, member_id, request.session_timeout_ms)
                self._timeouts.expect_sync(group.group_id, member_id, request.rebalance_timeout_ms)

        return Outcome(written, _joined(member), then)

    def _joining(
        self, group: ConsumerGroup, request: JoinGroupRequest, member_id: str, written: list[CoordinatorRecord]
    ) -> ConsumerMember:
        instance_id = request.group_instance_id
        existing = group.static_member(instance_id)
        if instance_id is not None and request.member_id:
            return group.classic_member(member_id, instance_id)
        if existing is not None:
            return replaced_static(group, existing, member_id, written)
        return group.members.get(member_id) or ConsumerMember(member_id)

    def _downgrade(self, change: Change, subscription: ConsumerProtocolSubscription) -> Outcome:
        """The last member of the consumer protocol has come back with the classic one."""
        group, member = change.group, change.new
        reason = None
        if group.assignment_epoch < change.epoch:
            reason = f"{member.id} has come with the classic protocol, and the assignment is old"
        else:
            member = self._balancing.step(change, group.target(member), self._reported(subscription))
        classic = self._migration.downgrade(group, (), member, change.records)
        return Outcome(change.records, _joined(member), self._departures.downgraded(group, classic, reason))

    def _reported(self, subscription: ConsumerProtocolSubscription) -> Mapping[bytes, frozenset[int]]:
        owned = ((each.topic, each.partitions) for each in subscription.owned_partitions)
        return partitions_by_id(owned, self._shard.image)

    # Members

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest) -> Outcome:
        member = self._member(group, request.member_id, request.group_instance_id, request.generation_id)
        classic = member.classic
        assert classic is not None
        spoken = classic.supported_protocols[0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL) or request.protocol_name not in (None, spoken.name):
            raise InconsistentGroupProtocolError(
                f"member {member.id} speaks {CONSUMER_PROTOCOL} {spoken.name}, "
                f"not {request.protocol_type} {request.protocol_name}"
            )
        if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._timeouts.expect_join(group.group_id, member)
            raise RebalanceInProgressError(f"group {group.group_id} has been assigned anew: {member.id} has to join")

        def then(error: TailraceError | None) -> None:
            if error is None:
                self._timeouts.has_synced(group.group_id, member.id)
                self._timeouts.renew_session(group.group_id, member.id, classic.session_timeout_ms)

        owned = {topic_id: frozenset(indexes) for topic_id, indexes in member.owned.items()}
        assignment = assignment_bytes(owned, self._shard.image, version_of(spoken.metadata))
        response = SyncGroupResponse(
            protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment
        )
        return Outcome((), response, then)

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> Outcome:
        member = self._member(group, request.member_id, request.group_instance_id, request.generation_id)
        assert member.classic is not None
        self._timeouts.renew_session(group.group_id, member.id, member.classic.session_timeout_ms)
        if not self._has_to_join(group, member):
            return Outcome(response=HeartbeatResponse())
        self._timeouts.expect_join(group.group_id, member)
        return Outcome(response=HeartbeatResponse(error_code=RebalanceInProgressError.code))

    def _has_to_join(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        """There is a newer assignment, or it has to give something up, or what it waits for is free."""
        if member.epoch < group.assignment_epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
            return True
        if group.all_classic_without(()) and self._balancing.is_due(group):
            return True  # no heartbeat of theirs looks at the metadata or makes an assignment: a join does
        return member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)

    def _member(self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
        member = group.classic_member(member_id, instance_id)
        if not member.uses_classic_protocol:
            raise UnknownMemberIdError(f"member {member.id} of group {group.group_id} uses the consumer protocol")
        if generation != member.epoch:
            raise IllegalGenerationError(f"member {member.id} is in epoch {member.epoch}, not {generation}")
        return member

    def leave(self, group: ConsumerGroup, request: LeaveGroupRequest) -> Outcome:
        leaving: dict[str, ConsumerMember] = {}
        rows: list[MemberResponse] = []
        for identity in request.members:
            row = MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id)
            try:
                member = _leaving(group, identity)
                leaving[member.id] = member
            except TailraceError as error:
                row.error_code = error.code
            rows.append(row)
        return self._departures.remove(group, list(leaving.values()), LeaveGroupResponse(members=rows))


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    """An administrator names only the instance."""
    if identity.group_instance_id is None or identity.member_id:
        return group.classic_member(identity.member_id, identity.group_instance_id)
    member = group.static_member(identity.group_instance_id)
    if member is None:
        raise UnknownMemberIdError(f"instance {identity.group_instance_id} is not in group {group.group_id}")
    return member


def _subscription(protocols: Mapping[str, bytes]) -> ConsumerProtocolSubscription:
    """It is the same in all its protocols."""
    try:
        return subscription_of(next(iter(protocols.values())))
    except InvalidDataError as error:
        raise UnknownServerError(f"what the member tells the others cannot be understood: {error}") from None


def _updated(
    old: ConsumerMember,
    caller: Caller,
    request: JoinGroupRequest,
    protocols: Mapping[str, bytes],
    subscription: ConsumerProtocolSubscription,
) -> ConsumerMember:
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        old,
        instance_id=request.group_instance_id or old.instance_id,
        rack_id=subscription.rack_id or old.rack_id,
        rebalance_timeout_ms=old.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topics=frozenset(subscription.topics),
        pattern="",
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=bytes(data)) for name, data in protocols.items()],
        ),
    )


def _joined(member: ConsumerMember) -> JoinGroupResponse:
    assert member.classic is not None
    return JoinGroupResponse(
        member_id=member.id,
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=member.classic.supported_protocols[0].name,
    )
