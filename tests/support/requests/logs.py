"""Requests about offsets, producers and directories."""

from __future__ import annotations

from collections.abc import Iterator

from support.requests.case import COMPACTED, DATA, UNUSUAL_NAMES, Case, ServerFacts, label, versions
from tailrace.protocol.message import Request
from tailrace.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tailrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tailrace.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tailrace.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tailrace.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


def list_offsets(facts: ServerFacts) -> Iterator[Case]:
    def of(timestamp: int, name: str = DATA, index: int = 0, epoch: int = -1, **fields: int) -> Request:
        wanted = ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
        topics = [ListOffsetsTopic(name=name, partitions=[wanted])]
        return ListOffsetsRequest(replica_id=fields.pop("replica_id", -1), topics=topics, **fields)

    for version in versions(ListOffsetsRequest):
        for timestamp in (*range(-8, 1), 1030, 10**15):
            yield Case(f"at {timestamp}", of(timestamp), version)
        for name in UNUSUAL_NAMES:
            yield Case(f"of {label(name)}", of(-1, name), version)
        for index in (1, 9, -1):
            for timestamp in (-1, -3, 5):
                yield Case(f"partition {index} at {timestamp}", of(timestamp, index=index), version)
        for replica_id in (-2, 0, 1, 7):
            yield Case(f"replica {replica_id}", of(-1, replica_id=replica_id), version)
        if version >= 2:
            for isolation in (0, 1, 2, -1):
                yield Case(f"isolation {isolation}", of(-1, isolation_level=isolation), version)
        if version >= 4:
            for epoch in (-5, -2, 0, 1, 9):
                yield Case(f"epoch {epoch}", of(-1, epoch=epoch), version)
        twice = ListOffsetsRequest(replica_id=-1)
        for indexes in ((0, 0, 1), (1, 2), ()):
            partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in indexes]
            twice.topics.append(ListOffsetsTopic(name=DATA, partitions=partitions))
        yield Case("twice", twice, version)


def offset_for_leader_epoch(facts: ServerFacts) -> Iterator[Case]:
    def of(epoch: int, current: int = -1, name: str = DATA, index: int = 0) -> Request:
        wanted = OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
        return OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=name, partitions=[wanted])])

    for version in versions(OffsetForLeaderEpochRequest):
        for epoch in (-5, -1, 0, 1):
            yield Case(f"epoch {epoch}", of(epoch), version)
        for current in (-5, 0, 1):
            yield Case(f"current {current}", of(0, current), version)
        for name in UNUSUAL_NAMES:
            yield Case(f"of {label(name)}", of(0, name=name), version)
        yield Case("partition 9", of(0, index=9), version)


def delete_records(facts: ServerFacts) -> Iterator[Case]:
    def of(offset: int, name: str = DATA, index: int = 0) -> Request:
        wanted = DeleteRecordsPartition(partition_index=index, offset=offset)
        return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=[wanted])], timeout_ms=5000)

    for version in versions(DeleteRecordsRequest):
        for offset in (0, 3, 2, 99, -2):
            yield Case(f"below {offset}", of(offset), version)
        yield Case("all of an empty one", of(-1, index=1), version)
        for name in (*UNUSUAL_NAMES, COMPACTED):
            yield Case(f"of {label(name)}", of(0, name), version)
        yield Case("partition 9", of(0, index=9), version)
        yield Case("nothing", DeleteRecordsRequest(timeout_ms=0), version)


def describe_producers(facts: ServerFacts) -> Iterator[Case]:
    for name in (DATA, *UNUSUAL_NAMES):
        topics = [TopicRequest(name=name, partition_indexes=[0, 0, 9])]
        yield Case(f"of {label(name)}", DescribeProducersRequest(topics=topics), 0)


def init_producer_id(facts: ServerFacts) -> Iterator[Case]:
    for version in versions(InitProducerIdRequest):
        for timeout_ms in (1000, 0, -1):
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=timeout_ms)
            yield Case(f"idempotent {timeout_ms}", request, version)
        yield Case("empty id", InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000), version)
        for timeout_ms in (0, 900_001):
            request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=timeout_ms)
            yield Case(f"transactional {timeout_ms}", request, version)
        if version >= 3:
            for producer_id, epoch in ((5, 3), (5, -1), (-1, 3), (-7, 3)):
                request = InitProducerIdRequest(transactional_id=None, producer_id=producer_id, producer_epoch=epoch)
                yield Case(f"again {producer_id}/{epoch}", request, version)


def log_dirs(facts: ServerFacts) -> Iterator[Case]:
    def move(path: str, name: str = DATA, index: int = 0) -> Request:
        wanted = AlterReplicaLogDirTopic(name=name, partitions=[index])
        return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[wanted])])

    for version in versions(DescribeLogDirsRequest):
        some = [DescribableLogDirTopic(topic=DATA, partitions=[0, 9]), DescribableLogDirTopic(topic="nope")]
        yield Case("all", DescribeLogDirsRequest(topics=None), version)
        yield Case("some", DescribeLogDirsRequest(topics=some), version)
    for version in versions(AlterReplicaLogDirsRequest):
        yield Case("stays", move(facts.log_dir), version)
        yield Case("nowhere", move("/nowhere"), version)
        yield Case("with a slash", move(facts.log_dir + "/"), version)
        yield Case("partition 9", move(facts.log_dir, index=9), version)
        yield Case("nothing", AlterReplicaLogDirsRequest(), version)
        for name in UNUSUAL_NAMES:
            yield Case(f"{label(name)}", move(facts.log_dir, name), version)
            yield Case(f"{label(name)} nowhere", move("/nowhere", name), version)
