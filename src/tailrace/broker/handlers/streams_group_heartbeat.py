"""StreamsGroupHeartbeat: join a streams group, stay in it, follow its assignment of tasks, leave it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.broker.group_caller import caller_of
from tailrace.broker.streams_protocol import is_streams_protocol_enabled
from tailrace.coordinator.streams.heartbeats import HeartbeatAnswer
from tailrace.coordinator.streams.requests import check_request
from tailrace.coordinator.streams.status import StatusCode
from tailrace.model.errors import TailraceError, UnsupportedVersionError
from tailrace.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node

SHOWN_FAILURES: Final = 3
HEARTBEATS_OF_A_FAILURE: Final = 2
"""A topic that could not be made is tried again after so many intervals."""


def handle(
    node: Node,
    context: RequestContext,
    request: StreamsGroupHeartbeatRequest,
    reply: Callable[[StreamsGroupHeartbeatResponse], None],
) -> None:
    def failed(error: TailraceError) -> None:
        reply(StreamsGroupHeartbeatResponse(error_code=error.code, error_message=str(error)))

    def answered(answer: HeartbeatAnswer) -> None:
        if answer.missing_topics:
            _create(node, answer)
        reply(answer.response)

    if not is_streams_protocol_enabled(node):
        reply(StreamsGroupHeartbeatResponse(error_code=UnsupportedVersionError.code))
        return
    try:
        check_request(request)
    except TailraceError as error:
        failed(error)
        return
    caller = caller_of(context)
    node.groups.submit(
        "streams-group-heartbeat",
        request.group_id,
        lambda machine: machine.streams.heartbeat(caller, request),
        answered,
        failed,
    )


def _create(node: Node, answer: HeartbeatAnswer) -> None:
    response = answer.response
    node.streams_topics.create(answer.missing_topics, response.heartbeat_interval_ms * HEARTBEATS_OF_A_FAILURE)
    failures = (
        f"{topic.name} ({failure})"
        for topic in answer.missing_topics
        if (failure := node.streams_topics.failure(topic.name)) is not None
    )
    shown = ", ".join(islice(failures, SHOWN_FAILURES))
    for status in response.status or ():
        if shown and status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; they could not be created: {shown}"
