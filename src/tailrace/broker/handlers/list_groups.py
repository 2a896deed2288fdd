"""ListGroups: all groups that this broker coordinates, of all kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.coordinator.groups.listing import list_groups
from tailrace.model.errors import CoordinatorLoadInProgressError
from tailrace.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node, context: RequestContext, request: ListGroupsRequest, reply: Callable[[ListGroupsResponse], None]
) -> None:
    """A list that may lack some is none: whoever asks tries again when all is loaded."""
    if node.groups.is_loading:
        reply(ListGroupsResponse(error_code=CoordinatorLoadInProgressError.code))
        return
    rows: list[ListedGroup] = []
    for machine in node.groups.machines():
        rows += list_groups(machine.groups.values(), request.states_filter, request.types_filter)
    reply(ListGroupsResponse(groups=rows))
