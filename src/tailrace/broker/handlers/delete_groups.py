"""DeleteGroups: groups without members, with everything they have committed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.share_deletion import delete_states_of_group
from tailrace.coordinator.groups.deletion import delete_group
from tailrace.model.errors import TailraceError
from tailrace.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node, context: RequestContext, request: DeleteGroupsRequest, reply: Callable[[DeleteGroupsResponse], None]
) -> None:
    group_ids = list(dict.fromkeys(request.groups_names))
    rows: list[DeletableGroupResult] = []

    def add(row: DeletableGroupResult) -> None:
        rows.append(row)
        if len(rows) == len(group_ids):
            reply(DeleteGroupsResponse(results=rows))

    def failed(group_id: str, error: TailraceError) -> None:
        add(DeletableGroupResult(group_id=group_id, error_code=error.code))

    if not group_ids:
        reply(DeleteGroupsResponse())

    def delete(group_id: str, error: TailraceError | None) -> None:
        if error is not None:
            failed(group_id, error)
            return
        node.groups.submit("delete-group", group_id, partial(delete_group, group_id), add, partial(failed, group_id))

    for group_id in group_ids:
        delete_states_of_group(node, group_id, partial(delete, group_id))
