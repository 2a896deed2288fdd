"""ConsumerGroupDescribe: consumer groups with their members and assignments, from their coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.consumer_protocol import is_consumer_protocol_enabled
from tailrace.broker.context import RequestContext
from tailrace.broker.described_groups import describe_groups
from tailrace.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node,
    context: RequestContext,
    request: ConsumerGroupDescribeRequest,
    reply: Callable[[ConsumerGroupDescribeResponse], None],
) -> None:
    describe_groups(
        node,
        request,
        DescribedGroup,
        lambda group_id, machine: machine.consumer.describe(group_id),
        lambda rows: reply(ConsumerGroupDescribeResponse(groups=rows)),
        is_enabled=is_consumer_protocol_enabled(node),
    )
