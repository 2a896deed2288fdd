"""How a partition goes on when something about it changes: its ISR, its replicas, who may lead.

A `PartitionChange` is given what is wanted and makes the one record that follows: it ends reassignments whose new
replicas have caught up, keeps the replicas that are eligible though out of sync (ELR, where that feature is on), elects
a leader where the present one cannot stay, and lists only what differs.

An election prefers in this order: the preferred replica (only when that is asked for), the present leader, replicas of
the ISR in the order of the assignment, of the ELR if the ISR is empty, the last known leader if both are, and only
where an unclean election is allowed any live replica. After an unclean one the leader is RECOVERING and alone in the
ISR. Without ELR the last member of an ISR stays in it, so that no other can be elected in its place.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tailrace.metadata.partition_registration import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    RECOVERED,
    RECOVERING,
    PartitionRegistration,
)
from tailrace.metadata.versions import bumps_leader_epoch_on_shrink, has_directories, partition_version
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.topics import PartitionChangeRecord


class Election(enum.Enum):
    PREFERRED = 0
    ONLINE = 1
    """From the ISR, or the ELR if that is empty."""
    UNCLEAN = 2
    """Rather a leader that has lost records than none."""


class ChangeRules(NamedTuple):
    """What holds for the partition around the change."""

    metadata_version: int
    may_lead: Callable[[int], bool]
    """Whether a broker is up, and its directory with this partition too."""
    default_directory: Callable[[int], bytes]
    """Where a replica that is new on a broker goes."""
    min_isr: int = 1
    has_elr: bool = False


class PartitionChange:
    def __init__(self, topic_id: bytes, index: int, partition: PartitionRegistration, rules: ChangeRules) -> None:
        self._topic_id = topic_id
        self._index = index
        self._partition = partition
        self._rules = rules
        self.isr = list(partition.isr)
        self.replicas = list(partition.replicas)
        self.removing = list(partition.removing_replicas)
        self.adding = list(partition.adding_replicas)
        self.directories = dict(zip(partition.replicas, partition.directories, strict=True))
        self.is_recovering = partition.is_recovering
        self.election = Election.ONLINE
        self.unclean_shutdown: frozenset[int] = frozenset()
        """Brokers that have come back without what they had last: no longer in the ISR nor in the ELR."""
        self._elr = list(partition.elr)

    def without(self, brokers: Iterable[int]) -> None:
        """Take them out of the ISR."""
        leaving = set(brokers)
        self.isr = [replica for replica in self.isr if replica not in leaving]

    def record(self) -> VersionedRecord | None:
        """None where nothing changes."""
        partition, rules = self._partition, self._rules
        change = PartitionChangeRecord(topic_id=self._topic_id, partition_id=self._index)
        self._finish_reassignment()
        self._find_elr()
        was_unclean = self._elect(change)
        if change.leader == NO_LEADER_CHANGE and not set(partition.replicas) <= set(self.replicas):
            change.leader = partition.leader  # the epoch goes up, which fences the replicas that left
        if was_unclean or not rules.has_elr:
            self._elr = []
        if tuple(self._elr) != partition.elr:
            change.eligible_leader_replicas = self._elr
        if change.isr is None and (self.isr or rules.has_elr) and tuple(self.isr) != partition.isr:
            change.isr = self.isr
        self._bump_epoch_on_shrink(change)
        self._remember_last_leader(change)
        self._list_assignment(change)
        if self.is_recovering != partition.is_recovering:
            change.leader_recovery_state = RECOVERING if self.is_recovering else RECOVERED
        if change == PartitionChangeRecord(topic_id=self._topic_id, partition_id=self._index):
            return None
        return VersionedRecord(change, partition_version(rules.metadata_version))

    def _finish_reassignment(self) -> None:
        if not (self.removing or self.adding):
            return
        isr = [replica for replica in self.isr if replica not in self.removing]
        replicas = [replica for replica in self.replicas if replica not in self.removing]
        if isr and replicas and set(replicas) <= set(isr):
            self.isr, self.replicas, self.removing, self.adding = isr, replicas, [], []

    def _find_elr(self) -> None:
        if not self._rules.has_elr:
            return
        if len(self.isr) >= self._rules.min_isr:
            self._elr = []
            return
        complete = dict.fromkeys([*self._elr, *self._partition.isr])
        gone = {*self.isr, *self.unclean_shutdown}
        self._elr = [each for each in complete if each in self.replicas and each not in gone]

    # Elections

    def _elect(self, change: PartitionChangeRecord) -> bool:
        """Put the new leader, if there is to be one, into the record. Returns whether it may lack records."""
        leader, is_unclean = self._winner()
        if leader == self._partition.leader:
            return False
        change.leader = leader
        if is_unclean:
            change.isr = [leader]
            if not self._partition.is_recovering:
                self.is_recovering = True
        elif leader in self._elr:
            self.isr = [leader]
            self._elr.remove(leader)
        return is_unclean

    def _winner(self) -> tuple[int, bool]:
        preferred = self.replicas[:1] if self.election is Election.PREFERRED else []
        for candidate in (*preferred, self._partition.leader, *self.replicas):
            if self._is_clean(candidate):
                return candidate, False
        if self._last_known_leader_is_all_there_is():
            return self._partition.last_known_elr[0], True
        if self.election is Election.UNCLEAN:
            for candidate in self.replicas:
                if self._rules.may_lead(candidate):
                    return candidate, True
        return NO_LEADER, False

    def _is_clean(self, candidate: int) -> bool:
        complete = self.isr or self._elr
        return candidate in complete and self._rules.may_lead(candidate)

    def _last_known_leader_is_all_there_is(self) -> bool:
        last_known = self._partition.last_known_elr
        return (
            self._rules.has_elr
            and not self.isr
            and not self._elr
            and len(last_known) == 1
            and self._rules.may_lead(last_known[0])
        )

    # What follows from the election

    def _bump_epoch_on_shrink(self, change: PartitionChangeRecord) -> None:
        if (
            bumps_leader_epoch_on_shrink(self._rules.metadata_version)
            and change.leader == NO_LEADER_CHANGE
            and change.isr is not None
            and not set(self._partition.isr) <= set(change.isr)
        ):
            change.leader = self._partition.leader

    def _remember_last_leader(self, change: PartitionChangeRecord) -> None:
        """The last leader is recorded when the partition loses it, and removed when there is a leader again."""
        if not self._rules.has_elr:
            return
        partition = self._partition
        if change.leader == NO_LEADER and partition.has_leader and not partition.last_known_elr:
            change.last_known_elr = [partition.leader]
        elif change.leader >= 0 and partition.last_known_elr:
            change.last_known_elr = []

    def _list_assignment(self, change: PartitionChangeRecord) -> None:
        partition, rules = self._partition, self._rules
        if self.replicas:
            directories = [
                self.directories[replica] if replica in self.directories else rules.default_directory(replica)
                for replica in self.replicas
            ]
            if has_directories(rules.metadata_version) and tuple(directories) != partition.directories:
                change.directories = directories
            if tuple(self.replicas) != partition.replicas:
                change.replicas = self.replicas
        if tuple(self.removing) != partition.removing_replicas:
            change.removing_replicas = self.removing
        if tuple(self.adding) != partition.adding_replicas:
            change.adding_replicas = self.adding
