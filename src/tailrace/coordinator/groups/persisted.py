"""The group that a record is about, when records are replayed."""

from __future__ import annotations

import logging
from typing import TypeVar

from tailrace.coordinator.classic.group import ClassicGroup
from tailrace.coordinator.groups.group import Group
from tailrace.protocol.message import Record

_log = logging.getLogger(__name__)

G = TypeVar("G", bound=Group)


def persisted(groups: dict[str, Group], group_id: str, value: Record | None, kind: type[G]) -> G | None:
    """None for a tombstone of a group that is gone.

    Any record makes the group, because each may be the first that a cleaned log still has. A classic group in its place
    has no record of its own: somebody has only committed offsets under its id.
    """
    group = groups.get(group_id)
    if isinstance(group, kind):
        return group
    if value is None:
        return None
    if group is not None and (not isinstance(group, ClassicGroup) or group.members):
        _log.warning(
            "a record makes a %s group of %s, which was a %s group", kind.kind.value, group_id, group.kind.value
        )
    made = groups[group_id] = kind(group_id)
    return made
