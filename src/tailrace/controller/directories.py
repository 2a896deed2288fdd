"""Replicas and the directories of their brokers: AssignReplicasToDirs, and directories that fail."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.controller.decision import Decision
from tailrace.controller.partition_change import Election
from tailrace.controller.partition_index import PartitionKey
from tailrace.controller.state import ClusterState
from tailrace.metadata.broker_registration import BrokerRegistration
from tailrace.metadata.partition_registration import is_online_directory
from tailrace.metadata.topic_image import TopicImage
from tailrace.metadata.versions import has_directories
from tailrace.model.errors import (
    NotLeaderOrFollowerError,
    RefusedRequestError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from tailrace.model.ids import DirectoryId
from tailrace.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.brokers import BrokerRegistrationChangeRecord


def directories_offline(
    state: ClusterState, broker: BrokerRegistration, offline: Sequence[DirectoryId]
) -> list[VersionedRecord]:
    """The broker's replicas in these directories, which were online, lead nothing and leave their ISRs."""
    partitions = [key for directory in offline for key in state.index.in_directory(directory)]
    records = state.broker_changes(dict.fromkeys(partitions), leaving=broker.id)
    left = [directory for directory in broker.directories if directory not in offline]
    change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=[*left])
    records.append(VersionedRecord(change, 2))
    return records


def assign_replicas(state: ClusterState, request: AssignReplicasToDirsRequest) -> Decision:
    if not has_directories(state.image.metadata_version):
        raise UnsupportedVersionError("Directory assignment is not supported yet.")
    state.check_broker_epoch(request.broker_id, request.broker_epoch)
    broker = state.image.brokers[request.broker_id]
    records: list[VersionedRecord] = []
    assigned: set[PartitionKey] = set()
    response = AssignReplicasToDirsResponse()
    for directory in request.directories:
        directory_result = ResponseDirectoryData(id=directory.id)
        response.directories.append(directory_result)
        for topic_data in directory.topics:
            topic = state.image.topic_by_id(topic_data.topic_id)
            topic_result = ResponseTopicData(topic_id=topic_data.topic_id)
            directory_result.topics.append(topic_result)
            for partition in topic_data.partitions:
                index = partition.partition_index
                error_code = _assignment_error(topic, index, broker.id)
                if error_code == 0 and topic is not None:
                    if (topic.id, index) in assigned:  # two records from one state of the partition would disagree
                        error_code = RefusedRequestError.code
                    else:
                        assigned.add((topic.id, index))
                        record = _assigned(state, topic, index, broker, directory.id)
                        records += [record] if record is not None else []
                topic_result.partitions.append(ResponsePartitionData(partition_index=index, error_code=error_code))
    return Decision(response, records)


def _assigned(
    state: ClusterState, topic: TopicImage, index: int, broker: BrokerRegistration, directory: bytes
) -> VersionedRecord | None:
    """The replica leaves the ISR if the directory is offline. If it is online, the replica may lead again.

    Kafka decides by the directory that the replica had: a partition without a leader waits for another election.
    """
    change = state.change(topic, index)
    change.directories[broker.id] = directory
    if not is_online_directory(directory, broker.directories):
        change.without((broker.id,))
        if state.allows_unclean(topic.name):
            change.election = Election.UNCLEAN
    return change.record()


def _assignment_error(topic: TopicImage | None, index: int, broker_id: int) -> int:
    if topic is None:
        return UnknownTopicIdError.code
    partition = topic.partitions.get(index)
    if partition is None:
        return UnknownTopicOrPartitionError.code
    return 0 if broker_id in partition.replicas else NotLeaderOrFollowerError.code
