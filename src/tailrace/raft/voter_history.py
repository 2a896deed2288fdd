"""What the log and its newest snapshot say of the voters: the last record of each kind counts, committed or not."""

from __future__ import annotations

from typing import NamedTuple

from tailrace.model.errors import InconsistentVoterSetError, UnsupportedVersionError
from tailrace.protocol.records.control import KRaftVersionRecord, VotersRecord
from tailrace.raft.metadata_log import MetadataLog
from tailrace.raft.voters import DYNAMIC_VOTERS, STATIC_VOTERS, QuorumNode, Voter, voters_of


class VoterHistory(NamedTuple):
    """`voters_offset` is where the last VotersRecord stands; −1 when the log itself has none yet."""

    kraft_version: int = STATIC_VOTERS
    voters: tuple[Voter, ...] = ()
    voters_offset: int = -1

    @classmethod
    def read(cls, metadata_log: MetadataLog) -> VoterHistory:
        """Reads every control batch behind the newest snapshot."""
        history = cls()
        start = metadata_log.log.log_start_offset
        newest = metadata_log.latest_snapshot
        if newest is not None:
            head = metadata_log.reader(newest).head()
            history = cls(head.kraft_version, head.voters, newest.offset - 1)
            start = newest.offset
        for batch in metadata_log.batches(start, metadata_log.log.log_end_offset, only_controls=True):
            for offset, record in batch.controls:
                if isinstance(record, KRaftVersionRecord):
                    history = history._replace(kraft_version=record.kraft_version)
                elif isinstance(record, VotersRecord):
                    history = history._replace(voters=voters_of(record), voters_offset=offset)
        return history

    def as_only_voter(self, node: QuorumNode) -> Voter:
        """How the quorum knows this node; InconsistentVoterSetError unless it is the one that votes."""
        if not STATIC_VOTERS <= self.kraft_version <= DYNAMIC_VOTERS:
            raise UnsupportedVersionError(
                f"the metadata log has kraft.version {self.kraft_version}; up to {DYNAMIC_VOTERS} is known"
            )
        if self.kraft_version == STATIC_VOTERS:
            return Voter(node.node_id, endpoints=node.endpoints)
        if len(self.voters) != 1 or not self.voters[0].is_same_replica(node.as_voter):
            named = ", ".join(str(voter) for voter in self.voters) or "nobody"
            raise InconsistentVoterSetError(
                f"the metadata log names as voters {named}; this is node {node.as_voter}, which must be the only one"
            )
        return self.voters[0]._replace(endpoints=node.endpoints or self.voters[0].endpoints)

    def needs_record(self, voter: Voter) -> bool:
        """Whether a new leader has to write the voters down: never done yet in the log, or it is reached elsewhere."""
        is_known = self.voters_offset >= 0 and self.voters == (voter,)
        return self.kraft_version > STATIC_VOTERS and not is_known
