"""ListGroups: the groups of a shard, of all kinds, by state and kind."""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.coordinator.groups.group import Group
from tailrace.protocol.messages.list_groups import ListedGroup


def list_groups(groups: Iterable[Group], states: Iterable[str], kinds: Iterable[str]) -> list[ListedGroup]:
    """Names of states and kinds in any case; none at all are all of them. A kind that does not exist has no groups."""
    wanted_states = {state.lower().strip() for state in states}
    wanted_kinds = {kind.lower() for kind in kinds}
    return [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state_name,
            group_type=group.kind.value,
        )
        for group in groups
        if (not wanted_states or group.state_name.lower() in wanted_states)
        and (not wanted_kinds or group.kind.value in wanted_kinds)
    ]
