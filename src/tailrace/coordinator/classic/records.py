"""A classic group as the record that keeps it over restarts, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tailrace.coordinator.classic.group import ClassicGroup
from tailrace.coordinator.classic.member import ClassicMember
from tailrace.coordinator.classic.state import ClassicState
from tailrace.coordinator.outcome import CoordinatorRecord
from tailrace.protocol.records.classic_groups import GroupMetadataKey, GroupMetadataValue, MemberMetadata

VALUE_VERSION: Final = 3
"""The last one that releases before flexible records can read; Kafka 4.3 writes the same."""

_UNKNOWN: Final = -1


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
    """The group with these assignments, which it does not have itself until they are committed."""
    return _record(
        group,
        GroupMetadataValue(
            protocol_type=group.protocol_type,
            generation=group.generation,
            protocol=group.protocol_name,
            leader=group.leader_id,
            current_state_timestamp=_UNKNOWN if group.state_since_ms is None else group.state_since_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=group.metadata_of(member),
                    assignment=assignments[member.member_id],
                )
                for member in group.members.values()
            ],
        ),
    )


def new_group_record(group: ClassicGroup) -> CoordinatorRecord:
    """A group that has just come to be: nobody has joined it yet for good."""
    since_ms = _UNKNOWN if group.state_since_ms is None else group.state_since_ms
    value = GroupMetadataValue(protocol_type="", protocol=None, leader=None, current_state_timestamp=since_ms)
    return _record(group, value)


def _record(group: ClassicGroup, value: GroupMetadataValue) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group=group.group_id), value, VALUE_VERSION)


def group_of_record(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group as it was when the record was written: at rest. Nobody waits, no session has begun."""
    since_ms = None if value.current_state_timestamp == _UNKNOWN else value.current_state_timestamp
    state = ClassicState.STABLE if value.members else ClassicState.EMPTY
    group = ClassicGroup(group_id, state, state_since_ms=since_ms)
    group.generation = value.generation
    group.protocol_type = value.protocol_type
    group.protocol_name = value.protocol
    group.leader_id = value.leader
    for member in value.members:
        if member.member_id in group.members or member.group_instance_id in group.static_members:
            continue  # nobody writes such a record
        group.add(
            ClassicMember(
                member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=(
                    member.session_timeout if member.rebalance_timeout == _UNKNOWN else member.rebalance_timeout
                ),
                session_timeout_ms=member.session_timeout,
                protocol_type=value.protocol_type,
                protocols={value.protocol or "": member.subscription},
                assignment=member.assignment,
            )
        )
    if group.leader_id not in group.members:
        group.leader_id = next(iter(group.members), None)
    group.subscribed_topics = group.topics_of_members()
    return group
