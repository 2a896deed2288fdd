"""UpdateFeatures: decided by the controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.forwarding import to_controller
from tailrace.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node, context: RequestContext, request: UpdateFeaturesRequest, reply: Callable[[UpdateFeaturesResponse], None]
) -> None:
    to_controller(node, context, request, reply)
