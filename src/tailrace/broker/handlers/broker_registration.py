"""BrokerRegistration: a broker announces itself to the controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.forwarding import to_controller
from tailrace.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node,
    context: RequestContext,
    request: BrokerRegistrationRequest,
    reply: Callable[[BrokerRegistrationResponse], None],
) -> None:
    to_controller(node, context, request, reply)
