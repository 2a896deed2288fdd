"""What must hold after every step of every replica, checked incrementally."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.consensus.sim_replica import SimReplica, check
from tailrace.model.ids import ZERO_DIRECTORY_ID
from tailrace.raft.consensus.effects import HighWatermarkMoved, RoleChanged, RoleName
from tailrace.raft.consensus.voter_log import VoterSet, key_of
from tailrace.raft.voters import Voter

if TYPE_CHECKING:
    from tailrace.raft.consensus import RaftCore


class Checker:
    """`committed` has, by offset, epoch and chain of every record that any replica has seen committed."""

    def __init__(self, replicas: dict[int, SimReplica]) -> None:
        self._replicas = replicas
        self.committed: list[tuple[int, int]] = []
        self.leaders: dict[int, tuple[int, int]] = {}
        self.elections = 0
        self.acknowledged = 0
        self._chains: dict[tuple[int, int], int] = {}
        self._votes: dict[tuple[int, bytes, int], int] = {}
        self._epochs: dict[int, int] = {}
        self._ends: dict[int, tuple[int, int]] = {}
        self._voters_checked: dict[int, object] = {}
        self._voters: dict[int, VoterSet] = {}
        self._offered: dict[tuple[int, int], list[int]] = {}

    def started(self, replica: SimReplica) -> None:
        self._epochs[replica.node_id] = 0
        self._ends.pop(replica.node_id, None)
        self._voters.pop(replica.node_id, None)

    def crashed(self, replica: SimReplica) -> None:
        """What a crash leaves on the disk still has everything that this replica has promised; see `_check_commit`."""

    def offered(self, replica: SimReplica, count: int) -> None:
        """The leader has appended this many records for clients."""
        key = (replica.node_id, replica.incarnation)
        self._offered.setdefault(key, []).extend(range(replica.log.end - count, replica.log.end))

    def stepped(self, replica: SimReplica) -> None:
        core = replica.core
        assert core is not None
        self._check_epoch(replica, core)
        self._check_log(replica)
        for effect in replica.notified:
            if isinstance(effect, RoleChanged) and effect.role is RoleName.LEADER:
                self._check_leader(replica, effect.epoch)
            elif isinstance(effect, HighWatermarkMoved):
                self._check_commit(replica, core, effect.offset)
        self._check_voters(replica, core)
        self._check_new_voters(replica, core)
        self._check_vote(replica)

    def _check_epoch(self, replica: SimReplica, core: RaftCore) -> None:
        check(core.epoch >= self._epochs[replica.node_id], f"the epoch of node {replica.node_id} goes back")
        self._epochs[replica.node_id] = core.epoch
        if replica.log.entries:
            is_in_epoch = replica.log.entries[-1].epoch <= core.epoch
            check(is_in_epoch, f"the log of node {replica.node_id} ends in an epoch that it has not entered")

    def _check_leader(self, replica: SimReplica, epoch: int) -> None:
        life = (replica.node_id, replica.incarnation)
        check(self.leaders.setdefault(epoch, life) == life, f"epoch {epoch} has two leaders")
        self.elections += 1
        may_lead = any(_names(voters, replica) for voters in _voter_sets(replica)[:2])
        check(may_lead, f"node {replica.node_id} leads, and is neither a voter nor one that is being removed")
        for offset in range(replica.log.start, len(self.committed)):
            check(offset < replica.log.end, f"leader {replica.node_id} lacks offset {offset}, which is committed")
            self._check_committed(replica, offset)

    def _check_committed(self, replica: SimReplica, offset: int) -> None:
        entry = replica.log.at(offset)
        is_same = self.committed[offset] == (entry.epoch, entry.chain)
        check(is_same, f"node {replica.node_id} has another record at offset {offset} than the one committed")

    def _check_log(self, replica: SimReplica) -> None:
        """Log matching: equal offset and epoch, equal log up to there."""
        log = replica.log
        last = (log.end, log.entries[-1].chain if log.entries else log.chain)
        end, chain = self._ends.setdefault(replica.node_id, (log.start, log.chain))
        if last == (end, chain):
            return
        is_continued = log.start <= end <= log.end and log.chain_below(end) == chain
        for offset in range(end if is_continued else log.start, log.end):
            entry = log.at(offset)
            known = self._chains.setdefault((offset, entry.epoch), entry.chain)
            check(known == entry.chain, f"two logs differ below offset {offset}, epoch {entry.epoch}")
        self._ends[replica.node_id] = last

    def _check_commit(self, replica: SimReplica, core: RaftCore, high_watermark: int) -> None:
        check(high_watermark > replica.high_watermark, f"the high watermark of node {replica.node_id} goes back")
        check(high_watermark <= replica.log.end, "the high watermark is in the log")
        for offset in range(max(replica.high_watermark, replica.log.start), high_watermark):
            if offset == len(self.committed):
                entry = replica.log.at(offset)
                self.committed.append((entry.epoch, entry.chain))
            elif offset < len(self.committed):
                self._check_committed(replica, offset)
        if replica.log.entries and core.role is RoleName.LEADER:
            self._check_majority(replica, core, high_watermark)
        replica.high_watermark = high_watermark
        key = (replica.node_id, replica.incarnation)
        for offset in self._offered.pop(key, []):
            if offset < high_watermark:
                self.acknowledged += core.may_append
            elif core.may_append:
                self._offered.setdefault(key, []).append(offset)

    def _check_majority(self, leader: SimReplica, core: RaftCore, high_watermark: int) -> None:
        """A majority of the newest voters has it on its disks, and it ends in the leader's epoch."""
        check(leader.log.at(high_watermark - 1).epoch == core.epoch, "a leader commits first in its own epoch")
        chain = leader.log.chain_below(high_watermark)
        voters = _newest_voters(leader)
        holders = [voter for voter in voters if self._has_durably(voter, high_watermark, chain)]
        check(
            2 * len(holders) > len(voters), f"offset {high_watermark} is committed on {len(holders)} of {len(voters)}"
        )

    def _has_durably(self, voter: Voter, end: int, chain: int) -> bool:
        """Also on a disk that has been lost since: its voter counts as failed."""
        replica = self._replicas[voter.node_id]
        for disk in (replica.disk, *replica.lost_disks):
            log = disk.log
            is_there = log.start > end or (log.end >= end and log.chain_below(end) == chain)
            if is_there and voter.directory_id in (ZERO_DIRECTORY_ID, disk.directory_id):
                return True
        return False

    def _check_voters(self, replica: SimReplica, core: RaftCore) -> None:
        """Once the log has all that the core knows of."""
        if replica.log.end != core.end_offset:
            return
        key = (replica.node_id, replica.incarnation, replica.log.start, self._ends[replica.node_id], core.voters)
        if key == self._voters_checked.get(replica.node_id):
            return
        self._voters_checked[replica.node_id] = key
        is_same = [voter[:2] for voter in _newest_voters(replica)] == [voter[:2] for voter in core.voters.voters]
        check(is_same, f"node {replica.node_id} has other voters than its log")

    def _check_new_voters(self, leader: SimReplica, core: RaftCore) -> None:
        """A leader adds only who supports the kraft.version and has all of the log up to the leader's epoch."""
        before, after = self._voters.get(leader.node_id), core.voters
        self._voters[leader.node_id] = after
        if before is None or before == after or core.role is not RoleName.LEADER or leader.log.end <= after.offset:
            return
        if before.kraft_version == 0 or leader.log.at(after.offset).epoch != core.epoch:
            return
        for voter in after.voters:
            if before.has(key_of(voter)):
                continue
            replica = self._replicas[voter.node_id]
            check(after.kraft_version <= replica.max_kraft_version, f"voter {voter} lacks the kraft.version")
            epoch_start = min(offset for offset, epoch in self._chains if epoch == core.epoch)  # perhaps trimmed
            disks = (replica.disk, *replica.lost_disks)
            ends = [disk.log.end for disk in disks if disk.directory_id == voter.directory_id]
            is_caught_up = max(ends, default=0) > epoch_start
            check(is_caught_up, f"voter {voter} is added before it has caught up")

    def _check_vote(self, replica: SimReplica) -> None:
        stored = replica.disk.election
        if stored is None or stored.voted_id < 0:
            return
        key = (replica.node_id, bytes(replica.disk.directory_id), stored.leader_epoch)
        known = self._votes.setdefault(key, stored.voted_id)
        check(known == stored.voted_id, f"node {replica.node_id} votes twice in epoch {stored.leader_epoch}")


def _newest_voters(replica: SimReplica) -> tuple[Voter, ...]:
    return _voter_sets(replica)[0]


def _voter_sets(replica: SimReplica) -> list[tuple[Voter, ...]]:
    """The newest one first: those of the log, that of the newest snapshot, or of the configuration."""
    changes = (entry.change for entry in reversed(replica.log.entries))
    sets = [change.voters for change in changes if change is not None and change.voters is not None]
    if replica.disk.snapshots and replica.disk.snapshots[-1].kraft_version > 0:
        return [*sets, replica.disk.snapshots[-1].voters]
    return [*sets, replica.config.static_voters]


def _names(voters: tuple[Voter, ...], replica: SimReplica) -> bool:
    ids = (ZERO_DIRECTORY_ID, replica.disk.directory_id)
    return any(voter.node_id == replica.node_id and voter.directory_id in ids for voter in voters)
