"""DescribeQuorum: answered by the leader of the metadata quorum."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.forwarding import to_controller
from tailrace.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node, context: RequestContext, request: DescribeQuorumRequest, reply: Callable[[DescribeQuorumResponse], None]
) -> None:
    to_controller(node, context, request, reply)
