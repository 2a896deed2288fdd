"""Requests that the controller decides and the broker has no part in: the handler of many APIs.

On a broker listener they are forwarded to the active controller, on a controller listener the local one decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tailrace.broker.context import RequestContext
from tailrace.broker.forwarding import to_controller
from tailrace.protocol.message import Request

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(node: Node, context: RequestContext, request: Request, reply: Callable[[Any], None]) -> None:
    to_controller(node, context, request, reply)
