"""ElectLeaders: the preferred replica is to lead, or any at all where no complete one is left."""

from __future__ import annotations

from typing import Final

from tailrace.controller.decision import Decision
from tailrace.controller.limits import check_records
from tailrace.controller.partition_change import Election
from tailrace.controller.state import ClusterState
from tailrace.metadata.topic_names import MAX_NAME_LENGTH
from tailrace.model.errors import (
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    PreferredLeaderNotAvailableError,
    RefusedRequestError,
    TailraceError,
    UnknownTopicOrPartitionError,
)
from tailrace.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from tailrace.protocol.record_frame import VersionedRecord

_ELECTIONS: Final = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def elect_leaders(state: ClusterState, request: ElectLeadersRequest, version: int) -> Decision:
    """Of the partitions that are named, or of all; then those that need no election are not answered for."""
    election = _ELECTIONS.get(request.election_type if version > 0 else 0)
    if election is None:
        raise RefusedRequestError(f"Unknown election type {request.election_type}")
    names_all = request.topic_partitions is None
    asked = (
        [(topic.name, list(topic.partitions)) for topic in state.image.topics.values()]
        if request.topic_partitions is None
        else [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    )
    records, results = list[VersionedRecord](), []
    for name, partitions in asked:
        result = ReplicaElectionResult(topic=name)
        results.append(result)
        for index in partitions:
            try:
                records.append(elected(state, name, index, election))
                result.partition_result.append(PartitionResult(partition_id=index, error_message=None))
            except TailraceError as error:
                if not (names_all and isinstance(error, ElectionNotNeededError)):
                    result.partition_result.append(
                        PartitionResult(partition_id=index, error_code=error.code, error_message=str(error))
                    )
    check_records(records)
    return Decision(ElectLeadersResponse(replica_election_results=results), records)


def elected(state: ClusterState, name: str, index: int, election: Election) -> VersionedRecord:
    """Raises the error that says why there is no election."""
    topic = state.image.topics.get(name)
    if topic is None:
        # Of a name that no topic can have the beginning is enough: it is told for each of its partitions.
        raise UnknownTopicOrPartitionError(f"No such topic as {name:.{MAX_NAME_LENGTH}}")
    partition = topic.partitions.get(index)
    if partition is None:
        raise UnknownTopicOrPartitionError(f"No such partition as {name}-{index}")
    if election is Election.PREFERRED:
        is_settled = partition.leader == partition.preferred_leader
    else:
        is_settled = partition.has_leader
    if is_settled:
        raise ElectionNotNeededError("Leader election not needed for topic partition.")
    change = state.change(topic, index)
    change.election = election
    record = change.record()
    if record is not None:
        return record
    if election is Election.PREFERRED:
        raise PreferredLeaderNotAvailableError("The preferred leader was not available.")
    raise EligibleLeadersNotAvailableError("Eligible topic partition leaders are not available.")


def rebalanced(state: ClusterState, limit: int) -> list[VersionedRecord]:
    """Elections for partitions that another than the preferred replica leads."""
    records: list[VersionedRecord] = []
    for topic_id, index in state.index.not_preferred():
        if len(records) >= limit:
            break
        change = state.change(state.image.topics_by_id[topic_id], index)
        change.election = Election.PREFERRED
        record = change.record()
        if record is not None:
            records.append(record)
    return records


def unclean_where_allowed(state: ClusterState, limit: int) -> list[VersionedRecord]:
    """Elections for partitions without a leader that may lose records rather than stay away."""
    records: list[VersionedRecord] = []
    for topic_id, index in state.index.leaderless():
        if len(records) >= limit:
            break
        topic = state.image.topics_by_id[topic_id]
        if state.allows_unclean(topic.name):
            change = state.change(topic, index)
            change.election = Election.UNCLEAN
            record = change.record()
            if record is not None:
                records.append(record)
    return records
