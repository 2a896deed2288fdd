"""DeleteGroups: a group of any kind, with its offsets, in one batch."""

from __future__ import annotations

import logging

from tailrace.coordinator.groups.shard import GroupShard
from tailrace.coordinator.outcome import Outcome
from tailrace.model.errors import GroupIdNotFoundError
from tailrace.protocol.messages.delete_groups import DeletableGroupResult

_log = logging.getLogger(__name__)


def delete_group(group_id: str, machine: GroupShard) -> Outcome:
    """NonEmptyGroupError where it has members, GroupIdNotFoundError where there is none."""
    group = machine.groups.get(group_id)
    if group is None:
        raise GroupIdNotFoundError(f"there is no group {group_id}")
    group.check_delete()
    offsets = machine.offsets.tombstones(group_id)
    _log.info("group %s is deleted with %d committed offsets", group_id, len(offsets))
    return Outcome([*offsets, *group.tombstones()], DeletableGroupResult(group_id=group_id))
