"""ElectLeaders, api key 43."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT8, INT16, INT32, STRING, array_of, field


class TopicPartitions(Struct):
    topic: str = field(STRING)
    partitions: list[int] = field(array_of(INT32))


class ElectLeadersRequest(Request, key=43, versions="0-2", flexible="2+"):
    election_type: int = field(INT8, "1+")
    topic_partitions: list[TopicPartitions] | None = field(array_of(TopicPartitions), nullable="0+")
    timeout_ms: int = field(INT32, default=60000)


class PartitionResult(Struct):
    partition_id: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")


class ReplicaElectionResult(Struct):
    topic: str = field(STRING)
    partition_result: list[PartitionResult] = field(array_of(PartitionResult))


class ElectLeadersResponse(Response, key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, "1+")
    replica_election_results: list[ReplicaElectionResult] = field(array_of(ReplicaElectionResult))
