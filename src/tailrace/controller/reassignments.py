"""AlterPartitionReassignments and ListPartitionReassignments: partitions move to other replicas, or stop doing so.

While a partition is being reassigned its replicas are the target, in the requested order, followed by those that are to
be removed. `adding_replicas` lists the new ones, `removing_replicas` those to remove. The reassignment ends with the
change that finds the target in the ISR (`PartitionChange`).

A reassignment replaces one that is in progress. Replicas that the previous one was adding stay adding replicas if they
are in the target. Kafka forgets them, and goes on removing replicas that a target without removals contains again.

To cancel takes the adding replicas out again. If the ISR has only adding replicas, the first of the original replicas
is put into it; because that one may lack records, the topic must allow unclean elections, and the leader is RECOVERING.
(Kafka does not mark it.)
"""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.controller.decision import Decision
from tailrace.controller.limits import check_records
from tailrace.controller.new_partitions import check_assignment
from tailrace.controller.partition_change import Election
from tailrace.controller.partition_index import PartitionKey
from tailrace.controller.state import ClusterState
from tailrace.metadata.partition_registration import PartitionRegistration
from tailrace.metadata.topic_image import TopicImage
from tailrace.metadata.topic_names import MAX_NAME_LENGTH
from tailrace.model.errors import (
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    NoReassignmentInProgressError,
    RefusedRequestError,
    TailraceError,
    UnknownTopicOrPartitionError,
)
from tailrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from tailrace.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from tailrace.protocol.record_frame import VersionedRecord


def alter_reassignments(state: ClusterState, request: AlterPartitionReassignmentsRequest) -> Decision:
    may_change_factor = request.allow_replication_factor_change
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_change_factor, error_message=None
    )
    records: list[VersionedRecord] = []
    changed: set[PartitionKey] = set()
    for asked in request.topics:
        result = ReassignableTopicResponse(name=asked.name)
        response.responses.append(result)
        for target in asked.partitions:
            row = ReassignablePartitionResponse(partition_index=target.partition_index, error_message=None)
            result.partitions.append(row)
            try:
                topic, partition = _find(state, asked.name, target.partition_index)
                key = topic.id, target.partition_index
                if key in changed:  # two records from one state of the partition would contradict each other
                    raise RefusedRequestError("the request has an earlier reassignment of the partition")
                if target.replicas is None:
                    record = _cancelled(state, topic, target.partition_index, partition)
                else:
                    record = _changed(state, topic, target, target.replicas, partition, may_change_factor)
                if record is not None:
                    changed.add(key)
                    records.append(record)
            except TailraceError as error:
                row.error_code, row.error_message = error.code, str(error)
            check_records(records)
    return Decision(response, records)


def _find(state: ClusterState, name: str, index: int) -> tuple[TopicImage, PartitionRegistration]:
    topic = state.image.topics.get(name)
    if topic is None:
        # The text is repeated for each partition: the beginning of a name that no topic can have is sufficient.
        raise UnknownTopicOrPartitionError(f"Unable to find a topic named {name:.{MAX_NAME_LENGTH}}.")
    partition = topic.partitions.get(index)
    if partition is None:
        raise UnknownTopicOrPartitionError(f"Unable to find partition {name}:{index}.")
    return topic, partition


def _changed(
    state: ClusterState,
    topic: TopicImage,
    target: ReassignablePartition,
    replicas: list[int],
    partition: PartitionRegistration,
    may_change_factor: bool,
) -> VersionedRecord | None:
    check_assignment(state, replicas, None)
    if not may_change_factor:
        _check_factor(partition, replicas)
    original = set(partition.replicas) - set(partition.adding_replicas)
    _check_replicating(state, partition, sorted(set(replicas) - original))
    change = state.change(topic, target.partition_index)
    change.removing = sorted(set(partition.replicas) - set(replicas))
    change.adding = sorted(set(replicas) - original)
    change.replicas = [*replicas, *change.removing]
    return change.record()


def _check_factor(partition: PartitionRegistration, replicas: list[int]) -> None:
    """Of a partition that is being reassigned, the factor is that of its present target."""
    present = len({*partition.replicas, *partition.adding_replicas} - set(partition.removing_replicas))
    if present != len(replicas):
        raise InvalidReplicationFactorError(f"The replication factor is changed from {present} to {len(replicas)}")


def _check_replicating(state: ClusterState, partition: PartitionRegistration, adding: list[int]) -> None:
    """A reassignment that no broker could carry out would stay in progress."""
    single = [broker_id for broker_id in adding if not state.can_replicate(broker_id)]
    if single:
        raise InvalidReplicaAssignmentError(
            f"Broker {single[0]} is a Tailrace broker, which holds single replicas only in this release: it cannot "
            "copy a partition from another broker."
        )
    if adding and not any(map(state.can_replicate, partition.replicas)):
        raise InvalidReplicaAssignmentError(
            f"Broker {partition.replicas[0]} is a Tailrace broker, which holds single replicas only in this release: "
            "other brokers cannot copy a partition from it."
        )


def _cancelled(
    state: ClusterState, topic: TopicImage, index: int, partition: PartitionRegistration
) -> VersionedRecord | None:
    if not partition.is_reassigning:
        raise NoReassignmentInProgressError("No partition reassignment is in progress.")
    replicas = [replica for replica in partition.replicas if replica not in partition.adding_replicas]
    isr = [replica for replica in partition.isr if replica not in partition.adding_replicas]
    if not replicas:
        raise InvalidReplicaAssignmentError("Invalid replica assignment: addingReplicas contains all replicas.")
    allows_unclean = state.allows_unclean(topic.name)
    if not isr:
        if not allows_unclean:
            raise InvalidReplicaAssignmentError(
                f"Unable to revert partition assignment for {topic.name}:{index} because it would require an unclean "
                "leader election."
            )
        isr = replicas[:1]
    change = state.change(topic, index)
    if allows_unclean:
        change.election = Election.UNCLEAN
    change.isr, change.replicas, change.removing, change.adding = isr, replicas, [], []
    if not set(isr) <= set(partition.isr):
        change.is_recovering = True
    return change.record()


def list_reassignments(state: ClusterState, request: ListPartitionReassignmentsRequest) -> Decision:
    """Of the partitions that are named, or of all, those that are being reassigned."""
    response = ListPartitionReassignmentsResponse(error_message=None)
    if request.topics is None:
        found: dict[bytes, list[int]] = {}
        for topic_id, index in state.index.reassigning():
            found.setdefault(topic_id, []).append(index)
        for topic_id, indexes in found.items():
            _list(response, state.image.topics_by_id[topic_id], indexes)
    else:
        for asked in request.topics:
            topic = state.image.topics.get(asked.name)
            if topic is not None:
                _list(response, topic, asked.partition_indexes)
    return Decision(response)


def _list(response: ListPartitionReassignmentsResponse, topic: TopicImage, indexes: Iterable[int]) -> None:
    rows = []
    for index in indexes:
        partition = topic.partitions.get(index)
        if partition is not None and partition.is_reassigning:
            rows.append(
                OngoingPartitionReassignment(
                    partition_index=index,
                    replicas=list(partition.replicas),
                    adding_replicas=list(partition.adding_replicas),
                    removing_replicas=list(partition.removing_replicas),
                )
            )
    if rows:
        response.topics.append(OngoingTopicReassignment(name=topic.name, partitions=rows))
