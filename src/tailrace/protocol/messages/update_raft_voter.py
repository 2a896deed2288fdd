"""UpdateRaftVoter, api key 82."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, STRING, UINT16, UUID, array_of, field


class Listener(Struct):
    name: str = field(STRING)
    host: str = field(STRING)
    port: int = field(UINT16)


class KRaftVersionFeature(Struct):
    min_supported_version: int = field(INT16)
    max_supported_version: int = field(INT16)


class UpdateRaftVoterRequest(Request, key=82, versions="0", flexible="0+"):
    cluster_id: str | None = field(STRING, nullable="0+")
    current_leader_epoch: int = field(INT32)
    voter_id: int = field(INT32)
    voter_directory_id: bytes = field(UUID)
    listeners: list[Listener] = field(array_of(Listener))
    kraft_version_feature: KRaftVersionFeature = field(KRaftVersionFeature)


class CurrentLeader(Struct):
    leader_id: int = field(INT32, default=-1)
    leader_epoch: int = field(INT32, default=-1)
    host: str = field(STRING)
    port: int = field(INT32)


class UpdateRaftVoterResponse(Response, key=82, versions="0", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    current_leader: CurrentLeader | None = field(CurrentLeader, tag=0)
