"""DescribeGroups: what a classic group is to those who look at it from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tailrace.coordinator.classic.group import ClassicGroup
from tailrace.coordinator.classic.member import ClassicMember
from tailrace.coordinator.classic.state import ClassicState
from tailrace.coordinator.groups.group import Group
from tailrace.model.errors import GroupIdNotFoundError
from tailrace.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember

_FIRST_VERSION_WITH_NOT_FOUND: Final = 6
"""Older ones are told of a dead group."""


def describe(groups: Mapping[str, Group], group_id: str, api_version: int) -> DescribedGroup:
    group = groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        fault = "does not exist" if group is None else "is of another kind than classic"
        return _not_found(group_id, GroupIdNotFoundError(f"group {group_id} {fault}"), api_version)
    is_stable = group.state is ClassicState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[_member(member, group.metadata_of(member) if is_stable else b"") for member in group.members.values()],
    )


def _not_found(group_id: str, error: GroupIdNotFoundError, api_version: int) -> DescribedGroup:
    row = DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value)
    if api_version >= _FIRST_VERSION_WITH_NOT_FOUND:
        row.error_code, row.error_message = error.code, str(error)
    return row


def _member(member: ClassicMember, metadata: bytes) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=metadata,
        member_assignment=member.assignment,
    )
