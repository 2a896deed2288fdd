"""Values of the control records of a quorum's log and of its snapshots."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Record, Struct
from tailrace.protocol.schema import INT16, INT32, INT64, STRING, UINT16, UUID, array_of, field


class LeaderChangeVoter(Struct):
    voter_id: int = field(INT32)
    voter_directory_id: bytes = field(UUID, "1+")


class LeaderChangeMessage(Record, versions="0-1", flexible="0+"):
    version: int = field(INT16)
    leader_id: int = field(INT32)
    voters: list[LeaderChangeVoter] = field(array_of(LeaderChangeVoter))
    granting_voters: list[LeaderChangeVoter] = field(array_of(LeaderChangeVoter))


class SnapshotHeaderRecord(Record, versions="0", flexible="0+"):
    version: int = field(INT16)
    last_contained_log_timestamp: int = field(INT64)


class SnapshotFooterRecord(Record, versions="0", flexible="0+"):
    version: int = field(INT16)


class KRaftVersionRecord(Record, versions="0", flexible="0+"):
    version: int = field(INT16)
    kraft_version: int = field(INT16)


class Endpoint(Struct):
    name: str = field(STRING)
    host: str = field(STRING)
    port: int = field(UINT16)


class KRaftVersionFeature(Struct):
    min_supported_version: int = field(INT16)
    max_supported_version: int = field(INT16)


class VotersVoter(Struct):
    voter_id: int = field(INT32)
    voter_directory_id: bytes = field(UUID)
    endpoints: list[Endpoint] = field(array_of(Endpoint))
    kraft_version_feature: KRaftVersionFeature = field(KRaftVersionFeature)


class VotersRecord(Record, versions="0", flexible="0+"):
    version: int = field(INT16)
    voters: list[VotersVoter] = field(array_of(VotersVoter))
