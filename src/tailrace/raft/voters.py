"""Who votes in the metadata quorum.

With kraft.version 0 the voters are configured and known by their node ids. From kraft.version 1 on they are records of
the log (`VotersRecord`), each with the id of the directory in which it keeps the log: a node that has lost its disk is
another voter.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tailrace.model.ids import ZERO_DIRECTORY_ID, DirectoryId
from tailrace.protocol.records.control import Endpoint, KRaftVersionFeature, VotersRecord, VotersVoter

NO_NODE: Final = -1
"""In place of a node id: there is no leader, no vote, or no such replica."""
STATIC_VOTERS: Final = 0
DYNAMIC_VOTERS: Final = 1
"""The greatest kraft.version there is."""


class QuorumEndpoint(NamedTuple):
    """Where a voter is reached by the others: a controller listener."""

    name: str
    host: str
    port: int


class QuorumNode(NamedTuple):
    """This node. `directory_id` is that of the directory with its metadata log (meta.properties)."""

    node_id: int
    cluster_id: str
    directory_id: DirectoryId
    endpoints: tuple[QuorumEndpoint, ...] = ()

    @property
    def as_voter(self) -> Voter:
        return Voter(self.node_id, self.directory_id, self.endpoints)


class Voter(NamedTuple):
    """`directory_id` is zero for a voter that is known by its node id only."""

    node_id: int
    directory_id: DirectoryId = ZERO_DIRECTORY_ID
    endpoints: tuple[QuorumEndpoint, ...] = ()

    def __str__(self) -> str:
        return f"{self.node_id} in directory {self.directory_id}"

    def is_same_replica(self, other: Voter) -> bool:
        return self[:2] == other[:2]


def voters_of(record: VotersRecord) -> tuple[Voter, ...]:
    return tuple(
        Voter(
            voter.voter_id,
            DirectoryId(voter.voter_directory_id),
            tuple(QuorumEndpoint(each.name, each.host, each.port) for each in voter.endpoints),
        )
        for voter in record.voters
    )


def voters_record(voters: tuple[Voter, ...]) -> VotersRecord:
    return VotersRecord(
        version=0,
        voters=[
            VotersVoter(
                voter_id=voter.node_id,
                voter_directory_id=voter.directory_id,
                endpoints=[Endpoint(name=each.name, host=each.host, port=each.port) for each in voter.endpoints],
                kraft_version_feature=KRaftVersionFeature(
                    min_supported_version=STATIC_VOTERS, max_supported_version=DYNAMIC_VOTERS
                ),
            )
            for voter in voters
        ],
    )
