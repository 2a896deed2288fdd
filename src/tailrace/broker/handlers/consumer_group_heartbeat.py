"""ConsumerGroupHeartbeat: join a consumer group, stay in it, follow its assignment, leave it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.consumer_protocol import is_consumer_protocol_enabled
from tailrace.broker.context import RequestContext
from tailrace.broker.group_caller import caller_of
from tailrace.coordinator.consumer.assignors import configured_assignors
from tailrace.coordinator.consumer.heartbeats import check_request
from tailrace.model.errors import TailraceError, UnsupportedVersionError
from tailrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node,
    context: RequestContext,
    request: ConsumerGroupHeartbeatRequest,
    reply: Callable[[ConsumerGroupHeartbeatResponse], None],
) -> None:
    def failed(error: TailraceError) -> None:
        reply(ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=str(error)))

    if not is_consumer_protocol_enabled(node):
        reply(ConsumerGroupHeartbeatResponse(error_code=UnsupportedVersionError.code))
        return
    try:
        check_request(request, context.version, configured_assignors(node.config.group_consumer_assignors))
    except TailraceError as error:
        failed(error)
        return
    caller = caller_of(context)
    node.groups.submit(
        "consumer-group-heartbeat",
        request.group_id,
        lambda machine: machine.consumer.heartbeat(caller, request),
        reply,
        failed,
    )
