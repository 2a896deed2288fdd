"""Metadata: brokers, topics, and which broker leads which partition.

A client asks for all topics (no list; in version 0 an empty one), for none (an empty list), by name or by id. Where a
request has ids, names in it are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.broker.endpoints import ListenerView
from tailrace.broker.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from tailrace.metadata.partition_registration import NO_LEADER, PartitionRegistration
from tailrace.metadata.topic_image import TopicImage
from tailrace.model.errors import (
    InvalidRequestError,
    InvalidTopicError,
    LeaderNotAvailableError,
    ReplicaNotAvailableError,
    TailraceError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from tailrace.model.ids import ZERO_TOPIC_ID
from tailrace.model.internal_topics import INTERNAL_TOPICS
from tailrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tailrace.storage.names import topic_problem

if TYPE_CHECKING:
    from tailrace.broker.node import Node

IDS_FROM: Final = 12
"""Ids are in requests since version 10, but two releases of servers did not look at them."""
LISTENER_ERRORS_FROM: Final = 6
FIRST_ERROR_CODE_VERSION: Final = 13
NO_CONTROLLER: Final = -1


def handle(
    node: Node, context: RequestContext, request: MetadataRequest, reply: Callable[[MetadataResponse], None]
) -> None:
    error = _refusal(request, context.version)
    if error is not None:
        reply(_refused(request, context.version, error))
        return
    new = _to_create(node, request, context.version)
    if new:
        node.auto_topics.create(new, lambda: reply(_described(node, context, request)))
    else:
        reply(_described(node, context, request))


def _to_create(node: Node, request: MetadataRequest, version: int) -> list[str]:
    """Names of topics that come into being by being asked about."""
    if not request.allow_auto_topic_creation or not node.config.auto_create_topics_enable:
        return []
    return [name for name in _wanted(node, request, version)[1] if topic_problem(name) is None]


def _described(node: Node, context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    view = ListenerView(node.image, context.listener)
    topics = _unknown_ids(node, request)
    found, missing = _wanted(node, request, context.version)
    described = [_topic(view, topic, context.version) for topic in found]
    described += [_missing(name) for name in missing]
    if request.include_topic_authorized_operations:
        for topic in described:
            topic.topic_authorized_operations = TOPIC_OPERATIONS
    # Without any that is not fenced, the last one is shutting down: a client that is told of none forgets this one too,
    # and would not be back when it is.
    brokers = view.brokers() or view.brokers(with_fenced=True)
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=b.id, host=b.host, port=b.port, rack=b.rack) for b in brokers],
        cluster_id=node.cluster_id,
        # Any broker passes on what is meant for the controller: the load of administration is spread.
        controller_id=node.env.random.choice(brokers).id if brokers else NO_CONTROLLER,
        topics=topics + described,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _refusal(request: MetadataRequest, version: int) -> type[TailraceError] | None:
    """What is wrong with the whole request."""
    topics = request.topics or ()
    if version < IDS_FROM:
        if any(topic.name is None or topic.topic_id != ZERO_TOPIC_ID for topic in topics):
            return InvalidRequestError
    elif any(topic.name is None for topic in topics) and all(topic.topic_id == ZERO_TOPIC_ID for topic in topics):
        return TailraceError
    return None


def _refused(request: MetadataRequest, version: int, error: type[TailraceError]) -> MetadataResponse:
    topics = [
        MetadataResponseTopic(error_code=error.code, name=topic.name or "", topic_id=topic.topic_id)
        for topic in request.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=error.code if version >= FIRST_ERROR_CODE_VERSION else 0)


def _ids(request: MetadataRequest) -> dict[bytes, None]:
    return dict.fromkeys(t.topic_id for t in request.topics or () if t.topic_id != ZERO_TOPIC_ID)


def _unknown_ids(node: Node, request: MetadataRequest) -> list[MetadataResponseTopic]:
    return [
        MetadataResponseTopic(error_code=UnknownTopicIdError.code, name=None, topic_id=topic_id)
        for topic_id in _ids(request)
        if node.image.topic_by_id(topic_id) is None
    ]


def _wanted(node: Node, request: MetadataRequest, version: int) -> tuple[list[TopicImage], list[str]]:
    """The topics that exist, and the names of those that do not."""
    image = node.image
    if request.topics is None or (version == 0 and not request.topics):
        return list(image.topics.values()), []
    ids = _ids(request)
    if ids:
        return [topic for topic in map(image.topic_by_id, ids) if topic is not None], []
    names = list(dict.fromkeys(topic.name for topic in request.topics if topic.name is not None))
    return [image.topics[name] for name in names if name in image.topics], [n for n in names if n not in image.topics]


def _missing(name: str) -> MetadataResponseTopic:
    is_legal = topic_problem(name) is None
    return MetadataResponseTopic(
        error_code=UnknownTopicOrPartitionError.code if is_legal else InvalidTopicError.code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
    )


def _topic(view: ListenerView, topic: TopicImage, version: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(view, index, partition, version) for index, partition in topic.partitions.items()],
    )


def _partition(
    view: ListenerView, index: int, partition: PartitionRegistration, version: int
) -> MetadataResponsePartition:
    leader = view.leader(partition)
    replicas, isr = list(partition.replicas), list(partition.isr)
    if version == 0:
        # It leaves out brokers that cannot be reached, and says so by an error.
        replicas, isr = view.alive(replicas), view.alive(isr)
    error_code = 0
    if leader == NO_LEADER:
        names_listeners = version >= LISTENER_ERRORS_FROM
        error_code = view.missing_leader_code(partition) if names_listeners else LeaderNotAvailableError.code
    elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
        error_code = ReplicaNotAvailableError.code
    return MetadataResponsePartition(
        error_code=error_code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=view.offline_replicas(partition),
    )
