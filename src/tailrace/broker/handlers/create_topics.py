"""CreateTopics: decided by the controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.forwarding import to_controller_and_logs
from tailrace.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node, context: RequestContext, request: CreateTopicsRequest, reply: Callable[[CreateTopicsResponse], None]
) -> None:
    to_controller_and_logs(node, context, request, reply)
