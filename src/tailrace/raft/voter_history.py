"""What the log and its newest snapshot say of the voters, by offset.

The last record of each kind counts, committed or not. A snapshot has what counted at its end, which may be less than
what counts now. So the sets of the past stay until a later one is committed.
"""

from __future__ import annotations

from typing import NamedTuple

from tailrace.model.errors import InconsistentVoterSetError, UnsupportedVersionError
from tailrace.protocol.records.control import KRaftVersionRecord, VotersRecord
from tailrace.raft.consensus.effects import VotersChanged
from tailrace.raft.consensus.messages import VoterChange
from tailrace.raft.consensus.voter_log import VoterLog, VoterSet
from tailrace.raft.metadata_log import MetadataLog
from tailrace.raft.voters import DYNAMIC_VOTERS, STATIC_VOTERS, QuorumNode, Voter, voters_of


class StoredVoters(NamedTuple):
    """What `RaftCore` gets of it. `base`: the newest snapshot's voters, None unless its kraft.version is 1."""

    base: VoterChange | None
    changes: tuple[VoterChange, ...]

    @classmethod
    def read(cls, metadata_log: MetadataLog) -> StoredVoters:
        """Reads every control batch after the newest snapshot."""
        base: VoterChange | None = None
        start = metadata_log.log.log_start_offset
        newest = metadata_log.latest_snapshot
        if newest is not None:
            head = metadata_log.reader(newest).head()
            if head.kraft_version > STATIC_VOTERS:
                base = VoterChange(newest.offset - 1, head.kraft_version, head.voters)
            start = newest.offset
        changes: list[VoterChange] = []
        for batch in metadata_log.batches(start, metadata_log.log.log_end_offset, only_controls=True):
            for offset, record in batch.controls:
                if isinstance(record, KRaftVersionRecord):
                    changes.append(VoterChange(offset, kraft_version=record.kraft_version))
                elif isinstance(record, VotersRecord):
                    changes.append(VoterChange(offset, voters=voters_of(record)))
        return cls(base, tuple(changes))


class VoterHistory:
    def __init__(self, configured: tuple[Voter, ...] = (), stored: StoredVoters | None = None) -> None:
        """`configured` are the voters while kraft.version is 0."""
        self._log = VoterLog.configured(configured)
        if stored is not None:
            if stored.base is not None:
                self.restart_at(stored.base.offset + 1, stored.base.kraft_version or 0, stored.base.voters or ())
            for change in stored.changes:
                self._log.append(change)

    @property
    def latest(self) -> VoterSet:
        return self._log.latest

    def changed(self, effect: VotersChanged) -> None:
        """The core has appended, truncated or replaced voter records: this set counts now."""
        sets = self._log.sets
        while len(sets) > 1 and sets[-1].offset >= effect.offset:
            sets.pop()
        newest = VoterSet(effect.offset, effect.kraft_version, effect.voters)
        if sets[-1].offset >= effect.offset:
            sets[-1] = newest
        else:
            sets.append(newest)

    def restart_at(self, offset: int, kraft_version: int, voters: tuple[Voter, ...]) -> None:
        """The log is a snapshot that ends at `offset`."""
        self._log.replace(VoterSet(offset - 1, kraft_version, voters))

    def below(self, offset: int) -> VoterSet:
        """What counted before the record at `offset`. Sets that nothing can ask for any longer are forgotten."""
        self._log.trim(offset)
        return self._log.sets[0]

    def check(self, node: QuorumNode, *, is_alone: bool) -> None:
        """Refuses a log of a later release, and one whose voters this node could only wait for.

        `is_alone`: this node cannot take part in a quorum with other voters.
        """
        version, voters = self.latest.kraft_version, self.latest.voters
        if not STATIC_VOTERS <= version <= DYNAMIC_VOTERS:
            raise UnsupportedVersionError(
                f"the metadata log has kraft.version {version}; up to {DYNAMIC_VOTERS} is known"
            )
        is_only = len(voters) == 1 and voters[0].is_same_replica(node.as_voter)
        is_lost = len(voters) == 1 and voters[0].node_id == node.node_id
        if version > STATIC_VOTERS and not is_only and (is_alone or is_lost):
            named = ", ".join(str(voter) for voter in voters) or "no node"
            raise InconsistentVoterSetError(
                f"the metadata log names as voters {named}; this is node {node.as_voter}, which must be the only one"
            )
