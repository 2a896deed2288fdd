"""AllocateProducerIds: a broker gets a block of producer ids from the controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.forwarding import to_controller
from tailrace.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node,
    context: RequestContext,
    request: AllocateProducerIdsRequest,
    reply: Callable[[AllocateProducerIdsResponse], None],
) -> None:
    to_controller(node, context, request, reply)
