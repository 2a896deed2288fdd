"""What a StreamsGroupHeartbeat says, and whether any group could accept it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tailrace.coordinator.classic.caller import Caller
from tailrace.coordinator.consumer.heartbeats import BLANKS, NOT_SAID
from tailrace.coordinator.consumer.member import AWAY_EPOCH, JOINING_EPOCH
from tailrace.coordinator.consumer.partitions import partitions_of
from tailrace.coordinator.streams.member import StreamsMember, UserEndpoint
from tailrace.coordinator.streams.partition_counts import shown_topics
from tailrace.coordinator.streams.tasks import Tasks, TaskSet
from tailrace.coordinator.streams.topology import all_topics, check_changelogs
from tailrace.metadata.topic_names import is_legal_topic_name
from tailrace.model.errors import RefusedRequestError, StreamsInvalidTopologyError
from tailrace.model.internal_topics import INTERNAL_TOPICS
from tailrace.protocol.messages.streams_group_heartbeat import (
    RequestTaskIds,
    StreamsGroupHeartbeatRequest,
    Topology,
)

_NOT_SUPPORTED: Final = (
    ("instance_id", "static members"),
    ("task_offsets", "offsets of tasks"),
    ("task_end_offsets", "end offsets of tasks"),
)
"""Fields that have to be null, as in Kafka 4.3.1."""
SHOWN: Final = 200
"""Characters of a name, in an error's message."""


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise what is answered to a request that no group could accept."""
    if request.topology is not None:
        _check_topics(request.topology)
    _check_supported(request)
    for name, value in (("member", request.member_id), ("group", request.group_id), ("rack", request.rack_id)):
        if value is not None and not value.strip(BLANKS):
            raise RefusedRequestError(f"the {name} id is empty")
    if request.member_epoch == JOINING_EPOCH:
        _check_join(request)
    elif request.member_epoch <= AWAY_EPOCH:
        raise RefusedRequestError(f"a member of a streams group cannot have epoch {request.member_epoch}")
    elif request.topology is not None:
        raise RefusedRequestError("only a member that joins may bring a topology")
    said = [tasks is not None for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks)]
    if any(said) and not all(said):
        raise RefusedRequestError("a member says its tasks of all kinds, or of none")
    if request.client_tags is not None and len({tag.key for tag in request.client_tags}) < len(request.client_tags):
        raise RefusedRequestError("a client tag comes twice")


def _check_topics(topology: Topology) -> None:
    topics = all_topics(topology)
    internal = [name for name in topics if name in INTERNAL_TOPICS]
    if internal:
        raise StreamsInvalidTopologyError(
            f"no application may use what belongs to the brokers: {shown_topics(internal)}"
        )
    illegal = [name for name in topics if not is_legal_topic_name(name)]
    if illegal:
        raise StreamsInvalidTopologyError(
            f"these cannot be names of topics: {shown_topics(name[:SHOWN] for name in illegal)}"
        )


def _check_supported(request: StreamsGroupHeartbeatRequest) -> None:
    for field, what in _NOT_SUPPORTED:
        if getattr(request, field) is not None:
            raise RefusedRequestError(f"{what} are not supported in streams groups")
    if request.warmup_tasks:
        raise RefusedRequestError("warm-up tasks are not supported in streams groups")
    if request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies):
        raise RefusedRequestError("regular expressions of source topics are not supported in streams groups")


def _check_join(request: StreamsGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == NOT_SAID:
        raise RefusedRequestError("a member that joins has to say its rebalance timeout")
    if request.active_tasks or request.standby_tasks or request.warmup_tasks:
        raise RefusedRequestError("a member that joins has no tasks")
    for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        if tasks is None:
            raise RefusedRequestError("a member that joins has to say that it has no tasks")
    if request.topology is None:
        raise RefusedRequestError("a member that joins has to bring its topology")
    check_changelogs(request.topology)


def reported_tasks(request: StreamsGroupHeartbeatRequest) -> TaskSet | None:
    """What the member says it has; None when it does not say."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return TaskSet(_tasks(request.active_tasks), _tasks(request.standby_tasks), _tasks(request.warmup_tasks))


def _tasks(said: list[RequestTaskIds]) -> Tasks:
    return partitions_of((each.subtopology_id, each.partitions) for each in said)


def updated_member(old: StreamsMember, caller: Caller, request: StreamsGroupHeartbeatRequest) -> StreamsMember:
    """What a request does not say stays as it was."""
    timeout_ms, endpoint = request.rebalance_timeout_ms, request.user_endpoint
    tags = request.client_tags
    return replace(
        old,
        rack_id=old.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=old.rebalance_timeout_ms if timeout_ms == NOT_SAID else timeout_ms,
        topology_epoch=old.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=old.process_id if request.process_id is None else request.process_id,
        endpoint=old.endpoint if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
        client_tags=old.client_tags if tags is None else {tag.key: tag.value for tag in tags},
        client_id=caller.client_id,
        client_host=caller.client_host,
    )
