"""CreatePartitions: more partitions for topics that exist. They can never become fewer."""

from __future__ import annotations

from collections import Counter

from tailrace.controller.decision import Decision
from tailrace.controller.limits import check_records
from tailrace.controller.new_partitions import chosen, named
from tailrace.controller.state import ClusterState
from tailrace.model.errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    RefusedRequestError,
    TailraceError,
    UnknownTopicOrPartitionError,
)
from tailrace.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from tailrace.protocol.record_frame import VersionedRecord


def create_partitions(state: ClusterState, request: CreatePartitionsRequest) -> Decision:
    counts = Counter(topic.name for topic in request.topics)
    duplicate = RefusedRequestError("Duplicate topic name.")
    results = [_result(name, duplicate) for name, count in counts.items() if count > 1]
    records: list[VersionedRecord] = []
    for topic in request.topics:
        if counts[topic.name] > 1:
            continue
        try:
            made = _added(state, topic, len(records))
            records += made
            results.append(_result(topic.name, None))
        except TailraceError as error:
            results.append(_result(topic.name, error))
    return Decision(CreatePartitionsResponse(results=results), () if request.validate_only else records)


def _result(name: str, error: TailraceError | None) -> CreatePartitionsTopicResult:
    if error is None:
        return CreatePartitionsTopicResult(name=name)
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=str(error) or None)


def _added(state: ClusterState, topic: CreatePartitionsTopic, records_before: int) -> list[VersionedRecord]:
    image = state.image.topics.get(topic.name)
    if image is None:
        raise UnknownTopicOrPartitionError()
    present = len(image.partitions)
    if topic.count == present:
        raise InvalidPartitionsError(f"Topic already has {present} partition(s).")
    if topic.count < present:
        raise InvalidPartitionsError(
            f"The topic {topic.name} currently has {present} partition(s); {topic.count} would not be an increase."
        )
    additional = topic.count - present
    if topic.assignments is not None and len(topic.assignments) != additional:
        raise InvalidReplicaAssignmentError(
            f"Attempted to add {additional} additional partition(s), but only {len(topic.assignments)} "
            "assignment(s) were specified."
        )
    check_records(range(records_before + additional))
    replication_factor = len(next(iter(image.partitions.values())).replicas)
    if topic.assignments is None:
        new = chosen(state, additional, replication_factor)
    else:
        new = [
            named(state, index, assignment.broker_ids, replication_factor)
            for index, assignment in enumerate(topic.assignments, present)
        ]
    level = state.image.metadata_version
    return [partition.to_record(image.id, index, level) for index, partition in enumerate(new, present)]
