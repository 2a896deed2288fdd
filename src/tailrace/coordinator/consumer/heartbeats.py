"""ConsumerGroupHeartbeat: how somebody becomes a member of a consumer group, stays one, and leaves.

Epoch 0 joins, −1 leaves, −2 is a static member that will be back. Any other is the epoch that the member has reached:
one that is behind by a lost answer is forgiven, everybody else is fenced and has to join again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tailrace.coordinator.classic.caller import Caller
from tailrace.coordinator.consumer import records
from tailrace.coordinator.consumer.balancing import Balancing
from tailrace.coordinator.consumer.departures import Departures
from tailrace.coordinator.consumer.group import ConsumerGroup
from tailrace.coordinator.consumer.member import AWAY_EPOCH, JOINING_EPOCH, LEAVING_EPOCH, ConsumerMember
from tailrace.coordinator.consumer.partitions import NO_OWNED, OwnedPartitions
from tailrace.coordinator.consumer.reconciliation import Reported
from tailrace.coordinator.consumer.timeouts import Timeouts
from tailrace.coordinator.outcome import CoordinatorRecord, Outcome
from tailrace.coordinator.shard import Shard
from tailrace.model.errors import (
    FencedMemberEpochError,
    GroupMaxSizeReachedError,
    RefusedRequestError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
)
from tailrace.model.ids import Uuid
from tailrace.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)

CLIENTS_CHOOSE_IDS_FROM: Final = 1
"""From this version on a member brings its own id, so that it can leave before it has heard of one."""
NOT_SAID: Final = -1
BLANKS: Final = "".join(map(chr, range(0x21)))
"""Of them alone no id may consist."""

FindGroup = Callable[[str, bool, list[CoordinatorRecord]], ConsumerGroup]
"""The group of an id, made where it is missing and that is wanted; the records that this takes are added."""


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]) -> None:
    """Raise what is answered to a request that no group could accept."""
    needs_id = version >= CLIENTS_CHOOSE_IDS_FROM or request.member_epoch > 0 or request.member_epoch == LEAVING_EPOCH
    for name, value in (
        ("member", request.member_id if needs_id else None),
        ("group", request.group_id),
        ("instance", request.instance_id),
        ("rack", request.rack_id),
    ):
        if value is not None and not value.strip(BLANKS):
            raise RefusedRequestError(f"the {name} id is empty")
    if request.member_epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == NOT_SAID:
            raise RefusedRequestError("a member that joins has to say its rebalance timeout")
        if request.topic_partitions is None or request.topic_partitions:
            raise RefusedRequestError("a member that joins has to say that it owns no partitions")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise RefusedRequestError("a member that joins has to say its topics, or a pattern of them")
    elif request.member_epoch == AWAY_EPOCH:
        if request.instance_id is None:
            raise RefusedRequestError("only a static member can go away for a while")
    elif request.member_epoch < AWAY_EPOCH:
        raise RefusedRequestError(f"there is no member epoch {request.member_epoch}")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise UnsupportedAssignorError(
            f"there is no assignor {request.server_assignor} here, only {', '.join(assignors)}"
        )


class Heartbeats:
    def __init__(
        self, shard: Shard, find_group: FindGroup, balancing: Balancing, departures: Departures, timeouts: Timeouts
    ) -> None:
        self._shard = shard
        self._find_group = find_group
        self._balancing = balancing
        self._departures = departures
        self._timeouts = timeouts

    def heartbeat(self, caller: Caller, request: ConsumerGroupHeartbeatRequest) -> Outcome:
        """Of a request that `check_request` has let through."""
        if request.member_epoch in (LEAVING_EPOCH, AWAY_EPOCH):
            return self._leave(request)
        written: list[CoordinatorRecord] = []
        joins = request.member_epoch == JOINING_EPOCH
        group = self._find_group(request.group_id, joins, written)
        check_size(self._shard, group, request.member_id)
        member_id = request.member_id or new_member_id(self._shard)
        reported = _reported(request)
        if request.instance_id is None:
            old = self._dynamic(group, member_id, request.member_epoch, reported)
        else:
            old = self._static(group, member_id, request.instance_id, request.member_epoch, reported, written)
        change = self._balancing.change(group, old, _updated(old, caller, request), written)
        self._balancing.raise_epoch(change, is_due=change.topics_changed or change.pattern_is_resolved)
        target = self._balancing.target(change)
        member = self._balancing.step(change, target, reported)
        self._timeouts.renew_session(group.group_id, member_id)

        response = ConsumerGroupHeartbeatResponse(
            member_id=member.id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._shard.group_settings(group.group_id).consumer_heartbeat_interval_ms,
        )
        if joins or _is_full(request) or member.owned != old.owned:
            response.assignment = _assignment(member.owned)
        return Outcome(written, response)

    # Who sends it

    def _dynamic(self, group: ConsumerGroup, member_id: str, epoch: int, reported: Reported | None) -> ConsumerMember:
        member = group.members.get(member_id)
        if member is None and epoch == JOINING_EPOCH:
            return ConsumerMember(member_id)
        member = group.member(member_id)
        check_epoch(member, epoch, reported)
        return member

    def _static(
        self,
        group: ConsumerGroup,
        member_id: str,
        instance_id: str,
        epoch: int,
        reported: Reported | None,
        written: list[CoordinatorRecord],
    ) -> ConsumerMember:
        existing = group.static_member(instance_id)
        if epoch == JOINING_EPOCH:
            if existing is None:
                return group.members.get(member_id) or ConsumerMember(member_id)
            if not existing.uses_classic_protocol and existing.epoch != AWAY_EPOCH:
                raise UnreleasedInstanceIdError(
                    f"instance {instance_id} of group {group.group_id} is member {existing.id}, which has not left"
                )
            return replaced_static(group, existing, member_id, written)
        if existing is None:
            raise UnknownMemberIdError(f"instance {instance_id} is not a member of group {group.group_id}")
        group.check_instance(existing, member_id)
        check_epoch(existing, epoch, reported)
        return existing

    # Leaving

    def _leave(self, request: ConsumerGroupHeartbeatRequest) -> Outcome:
        group = self._find_group(request.group_id, False, [])
        response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        if request.instance_id is None:
            return self._departures.remove(group, [group.member(request.member_id)], response)
        member = group.static_member(request.instance_id)
        if member is None:
            raise UnknownMemberIdError(f"instance {request.instance_id} is not a member of group {group.group_id}")
        group.check_instance(member, request.member_id)
        if request.member_epoch == LEAVING_EPOCH:
            return self._departures.remove(group, [member], response)
        # What it owns counts from the beginning for whoever comes in its place, under a new member id.
        owned = {topic_id: dict.fromkeys(indexes, 0) for topic_id, indexes in member.owned.items()}
        away = replace(member, epoch=AWAY_EPOCH, owned=owned, revoked=NO_OWNED)
        return Outcome([records.assignment_record(group.group_id, away)], response)


def check_size(shard: Shard, group: ConsumerGroup, member_id: str) -> None:
    size = shard.config.group_consumer_max_size
    if len(group.members) >= size and member_id not in group.members:
        raise GroupMaxSizeReachedError(f"group {group.group_id} has {size} members already")


def check_epoch(member: ConsumerMember, epoch: int, reported: Reported | None) -> None:
    if epoch in (JOINING_EPOCH, member.epoch):
        return
    if epoch > member.epoch:
        raise FencedMemberEpochError(f"member {member.id} says epoch {epoch}, but has reached only {member.epoch}")
    if epoch != member.previous_epoch or not _is_within(reported, member.owned):
        raise FencedMemberEpochError(f"member {member.id} says epoch {epoch}, but has reached {member.epoch} since")


def replaced_static(
    group: ConsumerGroup, existing: ConsumerMember, member_id: str, written: list[CoordinatorRecord]
) -> ConsumerMember:
    """A static member comes back under a new id: it has everything of the old one, from epoch 0 on."""
    member = replace(existing, id=member_id, epoch=0, previous_epoch=0)
    written += records.member_tombstones(group.group_id, existing.id)
    written += (
        records.member_record(group.group_id, member),
        records.target_record(group.group_id, member_id, group.targets.get(existing.id, {})),
        records.assignment_record(group.group_id, member),
    )
    return member


def new_member_id(shard: Shard) -> str:
    return str(Uuid(shard.random.randbytes(16)))


def _updated(old: ConsumerMember, caller: Caller, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
    """What a request does not say stays as it was."""
    names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        old,
        instance_id=old.instance_id if request.instance_id is None else request.instance_id,
        rack_id=old.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=old.rebalance_timeout_ms if timeout_ms == NOT_SAID else timeout_ms,
        assignor=old.assignor if request.server_assignor is None else request.server_assignor,
        topics=old.topics if names is None else frozenset(names),
        pattern=old.pattern if pattern is None else pattern,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """The member says everything: it may have missed an answer, and is told its assignment."""
    has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != NOT_SAID and has_subscription and request.topic_partitions is not None


def _reported(request: ConsumerGroupHeartbeatRequest) -> Reported | None:
    if request.topic_partitions is None:
        return None
    reported: dict[bytes, set[int]] = {}
    for topic in request.topic_partitions:
        reported.setdefault(topic.topic_id, set()).update(topic.partitions)
    return reported


def _is_within(reported: Reported | None, owned: OwnedPartitions) -> bool:
    if reported is None:
        return False
    return all(
        topic_id in owned and all(index in owned[topic_id] for index in indexes)
        for topic_id, indexes in reported.items()
    )


def _assignment(owned: OwnedPartitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            ResponseTopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
            for topic_id, indexes in sorted(owned.items())
        ]
    )
