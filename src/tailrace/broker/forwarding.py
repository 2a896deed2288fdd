"""Requests that only the controller can decide.

On a broker listener they are passed on to the active controller, wherever it is. On a controller listener the sender
means this very controller: one that is not active says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tailrace.broker.context import RequestContext
from tailrace.model.errors import NotControllerError
from tailrace.protocol.message import Request

if TYPE_CHECKING:
    from tailrace.broker.node import Node

LONGEST_WAIT_MS: Final = 2000


def to_controller(node: Node, context: RequestContext, request: Request, reply: Callable[[Any], None]) -> None:
    """The controller's answer has the type that belongs to the request."""
    if not context.is_controller_listener:
        node.controller.send(request, context.version, reply)
    elif node.local_controller is None:
        raise NotControllerError(f"node {node.node_id} is no controller")
    else:
        node.local_controller.handle(request, context.version, context, reply)


def to_controller_and_logs(node: Node, context: RequestContext, request: Request, reply: Callable[[Any], None]) -> None:
    """The same for requests that make partitions: the answer waits a little for the logs of those.

    Kafka answers before, and who then writes at once is told to come again.
    """
    to_controller(node, context, request, lambda response: when_logs_are_there(node, lambda: reply(response)))


def when_logs_are_there(node: Node, done: Callable[[], None]) -> None:
    """Call `done` when the logs that are being made are there, or after LONGEST_WAIT_MS: thousands take their time."""
    waits = [True]

    def once() -> None:
        if waits:
            waits.clear()
            done()

    node.replicas.when_made(once)
    if waits:
        node.env.jobs.later("answer-without-logs", LONGEST_WAIT_MS, once)
