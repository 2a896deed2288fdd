"""BrokerHeartbeat: a broker tells the controller that it lives, and learns what the controller thinks of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.forwarding import to_controller
from tailrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node,
    context: RequestContext,
    request: BrokerHeartbeatRequest,
    reply: Callable[[BrokerHeartbeatResponse], None],
) -> None:
    to_controller(node, context, request, reply)
