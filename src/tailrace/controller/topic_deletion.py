"""DeleteTopics, by name or by id. The partitions and the configuration go with their topic, in one record."""

from __future__ import annotations

from collections import Counter
from typing import Final

from tailrace.controller.decision import Decision
from tailrace.controller.limits import check_records
from tailrace.controller.state import ClusterState
from tailrace.metadata.topic_image import TopicImage
from tailrace.model.errors import (
    RefusedRequestError,
    TailraceError,
    TopicDeletionDisabledError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from tailrace.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.topics import RemoveTopicRecord

_NO_ID: Final = bytes(16)
_FIRST_WITH_OWN_ERROR: Final = 3
"""Version of the request whose clients know TOPIC_DELETION_DISABLED."""


def delete_topics(state: ClusterState, request: DeleteTopicsRequest, version: int) -> Decision:
    if not state.config.delete_topic_enable:
        if version < _FIRST_WITH_OWN_ERROR:
            raise RefusedRequestError("Topic deletion is disabled.")
        raise TopicDeletionDisabledError("Topic deletion is disabled.")
    results: list[DeletableTopicResult] = []
    names, ids = _named(request, results)
    found: dict[bytes, TopicImage] = {}
    for topic_id in ids:
        topic = state.image.topic_by_id(topic_id)
        if topic is None:
            results.append(_refused(None, topic_id, UnknownTopicIdError("This server does not host this topic ID.")))
        else:
            found[topic_id] = topic
    for name in names:
        topic = state.image.topics.get(name)
        if topic is None:
            error: TailraceError = UnknownTopicOrPartitionError("This server does not host this topic-partition.")
            results.append(_refused(name, _NO_ID, error))
        elif topic.id in found:
            del found[topic.id]
            error = RefusedRequestError("The provided topic name maps to an ID that was already supplied.")
            results.append(_refused(name, topic.id, error))
        else:
            found[topic.id] = topic
    check_records(found)
    results += (DeletableTopicResult(name=topic.name, topic_id=topic.id) for topic in found.values())
    records = [VersionedRecord(RemoveTopicRecord(topic_id=topic_id), 0) for topic_id in found]
    return Decision(DeleteTopicsResponse(responses=results), records)


def _named(request: DeleteTopicsRequest, results: list[DeletableTopicResult]) -> tuple[list[str], list[bytes]]:
    """The names and ids that are given once each; the others get their errors."""
    names, ids = Counter(request.topic_names), Counter[bytes]()
    for topic in request.topics:
        if topic.name is None and topic.topic_id == _NO_ID:
            error = RefusedRequestError("Neither topic name nor id were specified.")
            results.append(_refused(None, _NO_ID, error))
        elif topic.name is None:
            ids[topic.topic_id] += 1
        elif topic.topic_id == _NO_ID:
            names[topic.name] += 1
        else:
            error = RefusedRequestError("You may not specify both topic name and topic id.")
            results.append(_refused(topic.name, topic.topic_id, error))
    duplicate_name, duplicate_id = (
        RefusedRequestError("Duplicate topic name."),
        RefusedRequestError("Duplicate topic id."),
    )
    results += (_refused(name, _NO_ID, duplicate_name) for name, count in names.items() if count > 1)
    results += (_refused(None, topic_id, duplicate_id) for topic_id, count in ids.items() if count > 1)
    return [name for name, count in names.items() if count == 1], [each for each, count in ids.items() if count == 1]


def _refused(name: str | None, topic_id: bytes, error: TailraceError) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=str(error))
