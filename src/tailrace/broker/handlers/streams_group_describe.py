"""StreamsGroupDescribe: streams groups with their topologies, members and tasks, from their coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.described_groups import describe_groups
from tailrace.broker.streams_protocol import is_streams_protocol_enabled
from tailrace.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node,
    context: RequestContext,
    request: StreamsGroupDescribeRequest,
    reply: Callable[[StreamsGroupDescribeResponse], None],
) -> None:
    describe_groups(
        node,
        request,
        DescribedGroup,
        lambda group_id, machine: machine.streams.describe(group_id),
        lambda rows: reply(StreamsGroupDescribeResponse(groups=rows)),
        is_enabled=is_streams_protocol_enabled(node),
    )
