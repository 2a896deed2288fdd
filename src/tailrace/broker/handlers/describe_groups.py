"""DescribeGroups: classic groups with their members, from their coordinator."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.operations import GROUP_OPERATIONS
from tailrace.coordinator.classic.describing import describe
from tailrace.coordinator.groups.shard import GroupShard
from tailrace.model.errors import TailraceError
from tailrace.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node,
    context: RequestContext,
    request: DescribeGroupsRequest,
    reply: Callable[[DescribeGroupsResponse], None],
) -> None:
    group_ids = list(dict.fromkeys(request.groups))  # named again and again, one group would fill any memory
    rows: list[DescribedGroup] = []

    def add(row: DescribedGroup) -> None:
        if request.include_authorized_operations and not row.error_code:
            row.authorized_operations = GROUP_OPERATIONS
        rows.append(row)
        if len(rows) == len(group_ids):
            reply(DescribeGroupsResponse(groups=rows))

    def failed(group_id: str, error: TailraceError) -> None:
        add(DescribedGroup(group_id=group_id, error_code=error.code))

    if not group_ids:
        reply(DescribeGroupsResponse())
    for group_id in group_ids:
        node.groups.read(group_id, partial(_described, group_id, context.version), add, partial(failed, group_id))


def _described(group_id: str, version: int, machine: GroupShard) -> DescribedGroup:
    return describe(machine.groups, group_id, version)
