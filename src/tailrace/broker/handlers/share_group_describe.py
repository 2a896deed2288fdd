"""ShareGroupDescribe: share groups with their members and what they may read, from their coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.described_groups import describe_groups
from tailrace.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node,
    context: RequestContext,
    request: ShareGroupDescribeRequest,
    reply: Callable[[ShareGroupDescribeResponse], None],
) -> None:
    describe_groups(
        node,
        request,
        DescribedGroup,
        lambda group_id, machine: machine.share.describe(group_id),
        lambda rows: reply(ShareGroupDescribeResponse(groups=rows)),
        is_enabled=node.shares.is_enabled,
    )
