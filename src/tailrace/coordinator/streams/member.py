"""A member of a streams group, as the records about it say: a thread of an application.

Values are immutable: a change makes a new one. Its epoch is that of the target assignment which it has reached.

    STABLE            has its target
    UNREVOKED_TASKS   must give up tasks before it may reach the next epoch
    UNRELEASED_TASKS  has reached the epoch, and waits for tasks that others have not given up yet
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final, NamedTuple

from tailrace.coordinator.consumer.member import LEAVING_EPOCH
from tailrace.coordinator.consumer.partitions import partitions_of
from tailrace.coordinator.streams.tasks import NOTHING_OWNED, OwnedTasks, OwnedTaskSet
from tailrace.protocol.records.streams_groups import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupCurrentMemberAssignmentValueTaskIds,
    StreamsGroupMemberMetadataValue,
)


class MemberState(IntEnum):
    """As records number them."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127

    @classmethod
    def of(cls, number: int) -> MemberState:
        return _STATES.get(number, MemberState.UNKNOWN)


_STATES: Final[Mapping[int, MemberState]] = {state.value: state for state in MemberState}


class UserEndpoint(NamedTuple):
    """Where an application answers questions about its state, to its own instances."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamsMember:
    id: str
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    """Of the process that it is a thread of: a process has one state directory, and a task only once."""
    endpoint: UserEndpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    owned: OwnedTaskSet = NOTHING_OWNED
    revoked: OwnedTaskSet = NOTHING_OWNED
    """What it has to give up, and has not given up yet."""

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def moved_to(
        self, epoch: int, state: MemberState, owned: OwnedTaskSet, revoked: OwnedTaskSet = NOTHING_OWNED
    ) -> StreamsMember:
        return replace(self, epoch=epoch, previous_epoch=self.epoch, state=state, owned=owned, revoked=revoked)

    def with_metadata(self, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
        endpoint = value.user_endpoint
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            endpoint=None if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
            client_tags={tag.key: tag.value for tag in value.client_tags},
        )

    def with_assignment(self, value: StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
        epoch = value.member_epoch
        return replace(
            self,
            epoch=epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            owned=_owned(value.active_tasks, value.standby_tasks, value.warmup_tasks, epoch),
            revoked=_owned(
                value.active_tasks_pending_revocation,
                value.standby_tasks_pending_revocation,
                value.warmup_tasks_pending_revocation,
                epoch,
            ),
        )

    def without_assignment(self) -> StreamsMember:
        return replace(
            self, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, owned=NOTHING_OWNED, revoked=NOTHING_OWNED
        )


_TaskIds = list[StreamsGroupCurrentMemberAssignmentValueTaskIds]


def _owned(active: _TaskIds, standby: _TaskIds, warmup: _TaskIds, member_epoch: int) -> OwnedTaskSet:
    return OwnedTaskSet(
        _with_epochs(active, member_epoch),
        partitions_of((each.subtopology_id, each.partitions) for each in standby),
        partitions_of((each.subtopology_id, each.partitions) for each in warmup),
    )


def _with_epochs(tasks: _TaskIds, member_epoch: int) -> OwnedTasks:
    """Records of Kafka before 4.3 do not say since when a task is owned."""
    owned: dict[str, Mapping[int, int]] = {}
    for each in tasks:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [member_epoch] * len(each.partitions)
        if each.partitions:
            owned[each.subtopology_id] = dict(zip(each.partitions, epochs, strict=True))
    return owned
