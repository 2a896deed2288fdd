"""ShareAcknowledge: what a member of a share group says of the records that it has got."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.share_acknowledgements import AcknowledgementBatch, Acknowledging, Results, session_key
from tailrace.broker.share_rows import leader_instead
from tailrace.broker.share_sessions import FINAL_EPOCH, INITIAL_EPOCH, Place, SessionKey
from tailrace.coordinator.group_settings import settings_of_group
from tailrace.model.errors import InvalidShareSessionEpochError
from tailrace.model.noop import noop
from tailrace.protocol.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node

Reply = Callable[[ShareAcknowledgeResponse], None]


def handle(node: Node, context: RequestContext, request: ShareAcknowledgeRequest, reply: Reply) -> None:
    node.shares.check_enabled()
    key = session_key(request.group_id, request.member_id)
    epoch = request.share_session_epoch
    if epoch == INITIAL_EPOCH:
        raise InvalidShareSessionEpochError("a session cannot begin with acknowledgements")
    if epoch == FINAL_EPOCH:
        node.shares.sessions.get(key)
    else:
        node.shares.sessions.at(key, epoch).turn()

    def acknowledged(results: Results) -> None:
        if epoch == FINAL_EPOCH:
            node.shares.end_session(key, noop)
        reply(_response(node, context, key, results))

    wanted: dict[Place, Sequence[AcknowledgementBatch]] = {
        Place(topic.topic_id, part.partition_index): part.acknowledgement_batches
        for topic in request.topics
        for part in topic.partitions
    }
    Acknowledging(node, key, acknowledged).run(wanted, context.version, request.is_renew_ack)


def _response(node: Node, context: RequestContext, key: SessionKey, results: Results) -> ShareAcknowledgeResponse:
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    endpoints: dict[int, NodeEndpoint] = {}
    for place, error in results.items():
        row = PartitionData(partition_index=place.partition)
        topics.setdefault(place.topic_id, ShareAcknowledgeTopicResponse(topic_id=place.topic_id)).partitions.append(row)
        if error is None:
            continue
        row.error_code, row.error_message = error.code, str(error)
        leader = leader_instead(node, place, error.code, context.listener)
        if leader is not None:
            row.current_leader = LeaderIdAndEpoch(leader_id=leader.node_id, leader_epoch=leader.epoch)
            if leader.endpoint is not None:
                endpoints[leader.node_id] = NodeEndpoint(**leader.endpoint)
    settings = settings_of_group(node.config, node.image, key.group_id)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=settings.share_record_lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=list(endpoints.values()),
    )
