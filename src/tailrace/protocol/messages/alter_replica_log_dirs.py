"""AlterReplicaLogDirs, api key 34."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, STRING, array_of, field


class AlterReplicaLogDirTopic(Struct):
    name: str = field(STRING)
    partitions: list[int] = field(array_of(INT32))


class AlterReplicaLogDir(Struct):
    path: str = field(STRING)
    topics: list[AlterReplicaLogDirTopic] = field(array_of(AlterReplicaLogDirTopic))


class AlterReplicaLogDirsRequest(Request, key=34, versions="1-2", flexible="2+"):
    dirs: list[AlterReplicaLogDir] = field(array_of(AlterReplicaLogDir))


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = field(STRING)
    partitions: list[AlterReplicaLogDirPartitionResult] = field(array_of(AlterReplicaLogDirPartitionResult))


class AlterReplicaLogDirsResponse(Response, key=34, versions="1-2", flexible="2+"):
    throttle_time_ms: int = field(INT32)
    results: list[AlterReplicaLogDirTopicResult] = field(array_of(AlterReplicaLogDirTopicResult))
