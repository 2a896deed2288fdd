"""What a heartbeat asks of its group: a new epoch, a new assignment, a step of the member towards it.

    1. topology  it is held against the metadata, if one of them has changed
    2. epoch     rises when a member, the topics, or the settings of assignments have changed
    3. target    the group's epoch is ahead of its assignment's: the assignor divides the tasks anew
    4. step      the member is led towards its target

Each gives records; what they say is not changed until they are replayed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tailrace.coordinator.consumer.balancing import FRESH_MS
from tailrace.coordinator.metadata_hash import MetadataHashes
from tailrace.coordinator.outcome import CoordinatorRecord
from tailrace.coordinator.shard import Shard
from tailrace.coordinator.streams import records
from tailrace.coordinator.streams.assignor import AssignableMember, assign
from tailrace.coordinator.streams.clocks import Clocks
from tailrace.coordinator.streams.configured import ConfiguredTopology, configured
from tailrace.coordinator.streams.group import StreamsGroup
from tailrace.coordinator.streams.member import StreamsMember
from tailrace.coordinator.streams.reconciliation import Target, reconciled
from tailrace.coordinator.streams.status import Status, StatusCode
from tailrace.coordinator.streams.tasks import NOTHING_ASSIGNED, TaskSet
from tailrace.coordinator.streams.topology import Topology
from tailrace.model.errors import RefusedRequestError

_log = logging.getLogger(__name__)

STANDBYS: Final = "num.standby.replicas"
"""The setting of assignments, as the group's record names it."""
NOT_VALIDATED: Final = -1


@dataclass(slots=True)
class Beat:
    """A heartbeat, as far as it has been followed."""

    group: StreamsGroup
    old: StreamsMember
    """As it was; a new one without anything for who joins."""
    new: StreamsMember
    topology: Topology
    """The group's, or the one that its first member brings."""
    reported: TaskSet | None
    records: list[CoordinatorRecord]
    statuses: list[Status] = field(default_factory=list)


class Balancing:
    def __init__(self, shard: Shard, hashes: MetadataHashes, clocks: Clocks) -> None:
        self._shard = shard
        self._hashes = hashes
        self._clocks = clocks

    # 1. The topology

    def configure(self, beat: Beat) -> tuple[ConfiguredTopology, int]:
        """The topology as it stands, and the hash of its topics. Raises StreamsInvalidTopologyError."""
        group, now_ms = beat.group, self._shard.clock.now_ms()
        if group.topology is not None and group.configured is not None and not group.is_stale(now_ms):
            return group.configured, group.metadata_hash
        metadata_hash = self._hashes.of(beat.topology.topics)
        if group.topology is None or group.configured is None or metadata_hash != group.metadata_hash:
            group.configured = configured(beat.topology, self._partition_count)
            problem = group.configured.problem
            if problem is not None:
                _log.info("group %s is not ready: %s", group.group_id, problem.detail)
        return group.configured, metadata_hash

    def _partition_count(self, topic: str) -> int | None:
        found = self._shard.image.topics.get(topic)
        return None if found is None else len(found.partitions)

    # 2. The epoch

    def raise_epoch(self, beat: Beat, topology: ConfiguredTopology, metadata_hash: int) -> int:
        """If there is a reason to. The group's epoch afterwards."""
        group, epoch = beat.group, beat.group.epoch
        validated_epoch = topology.epoch if topology.is_ready else NOT_VALIDATED
        settings = self._assignment_settings(group.group_id)
        if (
            beat.new != beat.old
            or metadata_hash != group.metadata_hash
            or validated_epoch != group.validated_topology_epoch
            or settings != group.assignment_settings
        ):
            epoch += 1
            beat.records.append(records.epoch_record(group.group_id, epoch, metadata_hash, validated_epoch, settings))
            _log.info("group %s is in epoch %d", group.group_id, epoch)
        group.keep_fresh(self._shard.clock.now_ms() + FRESH_MS, epoch)
        return epoch

    def _assignment_settings(self, group_id: str) -> dict[str, str]:
        return {STANDBYS: str(self._shard.group_settings(group_id).streams_num_standby_replicas)}

    # 3. The target

    def target(self, beat: Beat, epoch: int, topology: ConfiguredTopology) -> Target:
        """The member's, of a new assignment where the group needs one and it is time."""
        group = beat.group
        if self._clocks.delays_assignment(group.group_id):
            beat.statuses.append(Status(StatusCode.ASSIGNMENT_DELAYED, "the group waits for its first members"))
            return Target(group.assignment_epoch)
        if group.assignment_epoch >= epoch:
            return group.target(beat.new.id)
        if not self._may_assign(group):
            beat.statuses.append(Status(StatusCode.ASSIGNMENT_DELAYED, "the last assignment was made just now"))
            return group.target(beat.new.id)
        members = {**group.members, beat.new.id: beat.new}
        targets = self._assign(group, members, topology, epoch, self._assignment_settings(group.group_id), beat.records)
        return Target(epoch, targets[beat.new.id])

    def delayed_targets(self, group: StreamsGroup) -> list[CoordinatorRecord]:
        """The first assignment, if there is anything to assign: otherwise the next heartbeat sees to it."""
        written: list[CoordinatorRecord] = []
        is_due = group.members and group.epoch > group.assignment_epoch and self._may_assign(group)
        if is_due and group.configured is not None:
            self._assign(group, group.members, group.configured, group.epoch, group.assignment_settings, written)
        return written

    def _assign(
        self,
        group: StreamsGroup,
        members: Mapping[str, StreamsMember],
        topology: ConfiguredTopology,
        epoch: int,
        settings: Mapping[str, str],
        written: list[CoordinatorRecord],
    ) -> dict[str, TaskSet]:
        """Without all topics there are no tasks for anybody."""
        if topology.is_ready:
            specs = {
                key: AssignableMember(member.process_id, group.targets.get(key, NOTHING_ASSIGNED))
                for key, member in members.items()
            }
            targets = assign(specs, topology.subtopologies, _standby_count(settings))
        else:
            targets = dict.fromkeys(members, NOTHING_ASSIGNED)
        written += (
            records.target_record(group.group_id, key, tasks)
            for key, tasks in targets.items()
            if group.targets.get(key) != tasks
        )
        written.append(records.target_epoch_record(group.group_id, epoch, self._shard.clock.now_ms()))
        return targets

    def _may_assign(self, group: StreamsGroup) -> bool:
        """Many members that come together shall not each cause an assignment."""
        interval_ms = self._shard.group_settings(group.group_id).streams_assignment_interval_ms
        if group.assignment_timestamp_ms == 0 or interval_ms == 0:
            return True
        return self._shard.clock.now_ms() >= group.assignment_timestamp_ms + interval_ms

    # 4. The step

    def step(self, beat: Beat, target: Target) -> StreamsMember:
        """The member afterwards."""
        member, group = beat.new, beat.group
        stepped = reconciled(member, target, beat.reported, group.owners)
        if stepped != member:
            beat.records.append(records.assignment_record(group.group_id, stepped))
        return stepped


def _standby_count(settings: Mapping[str, str]) -> int:
    text = settings.get(STANDBYS, "")
    return int(text) if text.isdecimal() else 0


def check_tasks(reported: TaskSet | None, topology: ConfiguredTopology) -> None:
    """Nobody can have a task that does not exist."""
    for tasks in reported or ():
        for key, indexes in tasks.items():
            subtopology = topology.subtopologies.get(key)
            if subtopology is None:
                raise RefusedRequestError(f"there is no subtopology {key}")
            if not all(0 <= index < subtopology.task_count for index in indexes):
                raise RefusedRequestError(
                    f"subtopology {key} has tasks 0 to {subtopology.task_count - 1}, not {sorted(indexes)}"
                )
