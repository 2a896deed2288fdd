"""StreamsGroupHeartbeat: how a thread of an application becomes a member of its group, stays one, and leaves.

Epoch 0 joins, −1 leaves. Any other is the epoch that the member has reached: one that is behind by a lost answer is
forgiven, everybody else is fenced and has to join again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from tailrace.coordinator.classic.caller import Caller
from tailrace.coordinator.consumer.member import JOINING_EPOCH, LEAVING_EPOCH
from tailrace.coordinator.outcome import CoordinatorRecord, Outcome
from tailrace.coordinator.shard import Shard
from tailrace.coordinator.streams import records
from tailrace.coordinator.streams.balancing import Balancing, Beat, check_tasks
from tailrace.coordinator.streams.clocks import Clocks
from tailrace.coordinator.streams.configured import ConfiguredTopology, InternalTopic
from tailrace.coordinator.streams.endpoints import partitions_by_endpoint
from tailrace.coordinator.streams.group import StreamsGroup
from tailrace.coordinator.streams.member import StreamsMember
from tailrace.coordinator.streams.requests import reported_tasks, updated_member
from tailrace.coordinator.streams.status import Status, StatusCode
from tailrace.coordinator.streams.tasks import TaskSet, are_the_same, is_within
from tailrace.coordinator.streams.topology import Topology, check_topology, topology_value
from tailrace.model.errors import (
    FencedMemberEpochError,
    GroupMaxSizeReachedError,
    RefusedRequestError,
    TailraceError,
)
from tailrace.protocol.messages.streams_group_heartbeat import (
    ResponseTaskIds,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

_log = logging.getLogger(__name__)

FindGroup = Callable[[str, bool, list[CoordinatorRecord]], StreamsGroup]
"""The group of an id, made where it is missing and that is wanted; the records that this takes are added."""


class HeartbeatAnswer(NamedTuple):
    response: StreamsGroupHeartbeatResponse
    missing_topics: tuple[InternalTopic, ...] = ()
    """To be made for the application, while its members wait."""


class Heartbeats:
    def __init__(self, shard: Shard, find_group: FindGroup, balancing: Balancing, clocks: Clocks) -> None:
        self._shard = shard
        self._find_group = find_group
        self._balancing = balancing
        self._clocks = clocks

    def heartbeat(self, caller: Caller, request: StreamsGroupHeartbeatRequest) -> Outcome:
        """Of a request that `check_request` has let through. Gives a HeartbeatAnswer."""
        if request.member_epoch == LEAVING_EPOCH:
            return self._leave(request)
        if request.topology is not None:
            check_topology(request.topology)
        beat = self._received(caller, request)
        group = beat.group
        topology, metadata_hash = self._balancing.configure(beat)
        if topology.is_ready:
            check_tasks(beat.reported, topology)
        epoch = self._balancing.raise_epoch(beat, topology, metadata_hash)
        settings = self._shard.group_settings(group.group_id)
        if group.is_empty:
            self._clocks.delay_first_assignment(group.group_id, settings.streams_initial_rebalance_delay_ms)
        member = self._balancing.step(beat, self._balancing.target(beat, epoch, topology))
        self._clocks.renew_session(group.group_id, member.id)
        if request.shutdown_application:
            request_shutdown(group, member.id)
        response = StreamsGroupHeartbeatResponse(
            member_id=member.id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=settings.streams_heartbeat_interval_ms,
        )
        self._tell_tasks(response, beat, member, request)
        response.status = [status.as_message() for status in (*beat.statuses, *_statuses_of(group, topology))]
        return Outcome(beat.records, HeartbeatAnswer(response, topology.missing))

    def _received(self, caller: Caller, request: StreamsGroupHeartbeatRequest) -> Beat:
        """Whose heartbeat it is, and what the member is by it."""
        written: list[CoordinatorRecord] = []
        joins = request.member_epoch == JOINING_EPOCH
        group = self._find_group(request.group_id, joins, written)
        reported = reported_tasks(request)
        if joins:
            size = self._shard.config.group_streams_max_size
            if len(group.members) >= size:
                raise GroupMaxSizeReachedError(f"group {group.group_id} has {size} members already")
            old = group.members.get(request.member_id) or StreamsMember(request.member_id)
        else:
            old = group.member(request.member_id)
            check_epoch(old, request.member_epoch, reported)
        new = updated_member(old, caller, request)
        if new != old:
            written.append(records.member_record(group.group_id, new))
        beat = Beat(group, old, new, _topology(group, request, written), reported, written)
        if group.topology is not None and new.topology_epoch < group.topology.epoch:
            detail = f"the member has topology epoch {new.topology_epoch}, the group {group.topology.epoch}"
            beat.statuses.append(Status(StatusCode.STALE_TOPOLOGY, detail))
        return beat

    def _tell_tasks(
        self,
        response: StreamsGroupHeartbeatResponse,
        beat: Beat,
        member: StreamsMember,
        request: StreamsGroupHeartbeatRequest,
    ) -> None:
        """When they have changed, and when what the member says shows that it has missed an answer.

        Kafka 4.3.1 does not tell them again: who has missed an answer has to wait until it is fenced, or longer.
        """
        group = beat.group
        is_news = request.member_epoch == JOINING_EPOCH or member.owned != beat.old.owned
        if is_news or (beat.reported is not None and not are_the_same(beat.reported, member.owned)):
            response.active_tasks = _task_ids(member.owned.active)
            response.standby_tasks = _task_ids(member.owned.standby)
            response.warmup_tasks = _task_ids(member.owned.warmup)
        if is_news and member.endpoint is not None:
            group.endpoint_epoch += 1
        if group.endpoint_epoch != request.endpoint_information_epoch:
            response.partitions_by_user_endpoint = partitions_by_endpoint(group, member, self._shard.image)
        # A group that is only now being made begins to count when it is there, and its members are told again.
        response.endpoint_information_epoch = 0 if group.topology is None else group.endpoint_epoch

    # Leaving

    def _leave(self, request: StreamsGroupHeartbeatRequest) -> Outcome:
        group = self._find_group(request.group_id, False, [])
        member = group.member(request.member_id)
        if request.shutdown_application:
            request_shutdown(group, member.id)
        response = StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        return self.remove(group, member, HeartbeatAnswer(response))

    def remove(self, group: StreamsGroup, member: StreamsMember, answer: HeartbeatAnswer | None = None) -> Outcome:
        """What it has is free at once: whoever is out has lost it, whether it knows or not."""
        group_id = group.group_id
        written = records.member_tombstones(group_id, member.id)
        written.append(
            records.epoch_record(
                group_id,
                group.epoch + 1,
                group.metadata_hash,
                group.validated_topology_epoch,
                group.assignment_settings,
            )
        )

        def then(error: TailraceError | None) -> None:
            if error is None and member.id not in group.members:
                self._clocks.forget_member(group_id, member.id)

        return Outcome(written, answer, then)


def request_shutdown(group: StreamsGroup, member_id: str) -> None:
    """All members are told, until the last has left."""
    if group.shutdown_requested_by is None:
        _log.info("member %s asks all members of group %s to shut down", member_id, group.group_id)
        group.shutdown_requested_by = member_id


def check_epoch(member: StreamsMember, epoch: int, reported: TaskSet | None) -> None:
    if epoch == member.epoch:
        return
    if epoch > member.epoch:
        raise FencedMemberEpochError(f"member {member.id} says epoch {epoch}, but has reached only {member.epoch}")
    if epoch != member.previous_epoch or reported is None or not is_within(reported, member.owned):
        raise FencedMemberEpochError(f"member {member.id} says epoch {epoch}, but has reached {member.epoch} since")


def _topology(group: StreamsGroup, request: StreamsGroupHeartbeatRequest, written: list[CoordinatorRecord]) -> Topology:
    """The group's; the first member that joins brings it."""
    held = group.topology
    if request.topology is None:
        if held is None:
            raise RefusedRequestError(f"group {group.group_id} has no topology: its members have to join again")
        return held
    if held is not None and request.topology.epoch < held.epoch:
        return held
    brought = Topology(topology_value(request.topology))
    if held is None:
        written.append(records.topology_record(group.group_id, brought.value))
        return brought
    if not brought.is_the_same_as(held):
        raise RefusedRequestError(
            f"group {group.group_id} has another topology, which cannot be changed: delete the group first"
        )
    return held


def _statuses_of(group: StreamsGroup, topology: ConfiguredTopology) -> list[Status]:
    statuses = [] if topology.problem is None else [topology.problem]
    if group.shutdown_requested_by is not None:
        detail = f"member {group.shutdown_requested_by} asked the whole application to shut down"
        statuses.append(Status(StatusCode.SHUTDOWN_APPLICATION, detail))
    return statuses


def _task_ids(tasks: Mapping[str, Collection[int]]) -> list[ResponseTaskIds]:
    return [ResponseTaskIds(subtopology_id=key, partitions=sorted(indexes)) for key, indexes in sorted(tasks.items())]
