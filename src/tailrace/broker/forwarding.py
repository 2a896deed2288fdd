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
        node.controller.forward(request, context, reply)
    elif node.local_controller is None:
        raise NotControllerError(f"node {node.node_id} is no controller")
    else:
        node.local_controller.handle(request, context.version, context, reply)


def to_controller_and_logs(node: Node, context: RequestContext, request: Request, reply: Callable[[Any], None]) -> None:
    """The same for requests that create partitions: on a broker listener the response waits for this broker's logs.

    Kafka responds before, and a client that writes at once gets an error that it must retry.
    """
    if context.is_controller_listener:
        to_controller(node, context, request, reply)
    else:
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
