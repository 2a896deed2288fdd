"""The answer to a request that failed as a whole: each kind has its own place for errors."""

from __future__ import annotations

from typing import Any

from tailrace.model.errors import TailraceError
from tailrace.protocol.apis import api_of
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages import alter_configs, incremental_alter_configs
from tailrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from tailrace.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from tailrace.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from tailrace.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from tailrace.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from tailrace.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def error_response(request: Request, version: int, error: TailraceError) -> Response:
    code, message = error.code, str(error) or None
    match request:
        case CreateTopicsRequest(topics=topics):
            return CreateTopicsResponse(
                topics=[CreatableTopicResult(name=t.name, error_code=code, error_message=message) for t in topics]
            )
        case DeleteTopicsRequest():
            return _delete_topics(request, code, message)
        case CreatePartitionsRequest(topics=asked):
            results = [CreatePartitionsTopicResult(name=t.name, error_code=code, error_message=message) for t in asked]
            return CreatePartitionsResponse(results=results)
        case alter_configs.AlterConfigsRequest(resources=resources):
            kind = alter_configs.AlterConfigsResourceResponse
            return alter_configs.AlterConfigsResponse(
                responses=[kind(**_of(r), error_code=code, error_message=message) for r in resources]
            )
        case incremental_alter_configs.IncrementalAlterConfigsRequest(resources=changed):
            incremental = incremental_alter_configs.AlterConfigsResourceResponse
            return incremental_alter_configs.IncrementalAlterConfigsResponse(
                responses=[incremental(**_of(r), error_code=code, error_message=message) for r in changed]
            )
        case ElectLeadersRequest():
            return _elect_leaders(request, version, code, message)
        case AlterPartitionReassignmentsRequest():
            return _alter_reassignments(request, code, message)
        case ListPartitionReassignmentsRequest():
            return _list_reassignments(request, code, message)
    response = api_of(request.KEY).response()
    fields = {field.name for field in response.__fields__}
    assert "error_code" in fields, f"{type(response).__name__} has no place for an error"
    response.error_code = code  # type: ignore[attr-defined]
    if "error_message" in fields:
        response.error_message = message  # type: ignore[attr-defined]
    return response


def _of(resource: Any) -> dict[str, Any]:
    return {"resource_type": resource.resource_type, "resource_name": resource.resource_name}


def _delete_topics(request: DeleteTopicsRequest, code: int, message: str | None) -> DeleteTopicsResponse:
    by_name = [DeletableTopicResult(name=n, error_code=code, error_message=message) for n in request.topic_names]
    by_either = [
        DeletableTopicResult(name=t.name, topic_id=t.topic_id, error_code=code, error_message=message)
        for t in request.topics
    ]
    return DeleteTopicsResponse(responses=by_name + by_either)


def _elect_leaders(request: ElectLeadersRequest, version: int, code: int, message: str | None) -> ElectLeadersResponse:
    """Version 0 says it of each partition only."""
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=code, error_message=message)
                for index in topic.partitions
            ],
        )
        for topic in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=code if version >= 1 else 0, replica_election_results=results)


def _alter_reassignments(
    request: AlterPartitionReassignmentsRequest, code: int, message: str | None
) -> AlterPartitionReassignmentsResponse:
    results = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(partition_index=p.partition_index, error_code=code, error_message=message)
                for p in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=message, responses=results)


def _list_reassignments(
    request: ListPartitionReassignmentsRequest, code: int, message: str | None
) -> ListPartitionReassignmentsResponse:
    topics = [
        OngoingTopicReassignment(
            name=topic.name,
            partitions=[OngoingPartitionReassignment(partition_index=index) for index in topic.partition_indexes],
        )
        for topic in request.topics or ()
    ]
    return ListPartitionReassignmentsResponse(error_code=code, error_message=message, topics=topics)
