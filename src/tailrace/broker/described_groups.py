"""What the requests that describe groups of one kind have in common: a row for each group that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from tailrace.broker.operations import GROUP_OPERATIONS
from tailrace.coordinator.groups.shard import GroupShard
from tailrace.model.errors import InvalidGroupIdError, TailraceError, UnsupportedVersionError

if TYPE_CHECKING:
    from tailrace.broker.node import Node


class DescribedRow(Protocol):
    error_code: int
    authorized_operations: int


class DescribingRequest(Protocol):
    group_ids: list[str]
    include_authorized_operations: bool


Row = TypeVar("Row", bound=DescribedRow)


def describe_groups(
    node: Node,
    request: DescribingRequest,
    make_row: Callable[..., Row],
    describe: Callable[[str, GroupShard], Row],
    done: Callable[[list[Row]], None],
    *,
    is_enabled: bool,
) -> None:
    """Ask the coordinator of each group. Nothing is described of a kind that is not `is_enabled` here."""
    group_ids = list(dict.fromkeys(request.group_ids))  # named again and again, one group would fill any memory
    rows: list[Row] = []

    def add(row: Row) -> None:
        if request.include_authorized_operations and not row.error_code:
            row.authorized_operations = GROUP_OPERATIONS
        rows.append(row)
        if len(rows) == len(group_ids):
            done(rows)

    def failed(group_id: str, error: TailraceError) -> None:
        add(make_row(group_id=group_id, error_code=error.code, error_message=str(error)))

    if not group_ids:
        done([])
    for group_id in group_ids:
        if not is_enabled:
            add(make_row(group_id=group_id, error_code=UnsupportedVersionError.code))
        elif not group_id:
            add(make_row(error_code=InvalidGroupIdError.code))
        else:
            node.groups.read(group_id, partial(describe, group_id), add, partial(failed, group_id))
