"""OffsetForLeaderEpoch, api key 23."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, INT64, STRING, array_of, field


class OffsetForLeaderPartition(Struct):
    partition: int = field(INT32)
    current_leader_epoch: int = field(INT32, "2+", default=-1, ignorable=True)
    leader_epoch: int = field(INT32)


class OffsetForLeaderTopic(Struct):
    topic: str = field(STRING)
    partitions: list[OffsetForLeaderPartition] = field(array_of(OffsetForLeaderPartition))


class OffsetForLeaderEpochRequest(Request, key=23, versions="2-4", flexible="4+"):
    replica_id: int = field(INT32, "3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = field(array_of(OffsetForLeaderTopic))


class EpochEndOffset(Struct):
    error_code: int = field(INT16)
    partition: int = field(INT32)
    leader_epoch: int = field(INT32, "1+", default=-1, ignorable=True)
    end_offset: int = field(INT64, default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = field(STRING)
    partitions: list[EpochEndOffset] = field(array_of(EpochEndOffset))


class OffsetForLeaderEpochResponse(Response, key=23, versions="2-4", flexible="4+"):
    throttle_time_ms: int = field(INT32, "2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = field(array_of(OffsetForLeaderTopicResult))
