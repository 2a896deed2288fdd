"""Requests to the coordinator of classic groups, at a broker that coordinates none: each is told to look elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from support.requests.case import Case, ServerFacts, label, versions
from tailrace.protocol.messages.delete_groups import DeleteGroupsRequest
from tailrace.protocol.messages.describe_groups import DescribeGroupsRequest
from tailrace.protocol.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tailrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tailrace.protocol.messages.list_groups import ListGroupsRequest
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

NAMES = ("nobody", "", "x" * 10_000, "ünicode")

STATES_FROM = 4


def classic_members(facts: ServerFacts) -> Iterator[Case]:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"mine")]
    assignments = [SyncGroupRequestAssignment(member_id="m", assignment=b"yours")]
    for name in NAMES:
        for version in versions(JoinGroupRequest):
            join = JoinGroupRequest(
                group_id=name, session_timeout_ms=10_000, protocol_type="consumer", protocols=protocols
            )
            yield Case(f"of {label(name)}", join, version)
        for version in versions(SyncGroupRequest):
            sync = SyncGroupRequest(group_id=name, member_id="m", generation_id=1, assignments=assignments)
            yield Case(f"of {label(name)}", sync, version)
        for version in versions(HeartbeatRequest):
            yield Case(f"of {label(name)}", HeartbeatRequest(group_id=name, member_id="m", generation_id=1), version)
        for version in versions(LeaveGroupRequest):
            leave = LeaveGroupRequest(group_id=name)
            if version < 3:
                leave.member_id = "m"
            else:
                leave.members = [MemberIdentity(member_id="m"), MemberIdentity(group_instance_id="i")]
            yield Case(f"of {label(name)}", leave, version)


def groups_from_outside(facts: ServerFacts) -> Iterator[Case]:
    for version in versions(DescribeGroupsRequest):
        yield Case(
            "any", DescribeGroupsRequest(groups=list(NAMES), include_authorized_operations=version >= 3), version
        )
        yield Case("none", DescribeGroupsRequest(), version)
    for version in versions(ListGroupsRequest):
        if version >= STATES_FROM:  # these first: sessions of groups end at their own time on either side
            yield Case("of no state", ListGroupsRequest(states_filter=["none"]), version)
        yield Case("all", ListGroupsRequest(), version)
    for version in versions(DeleteGroupsRequest):
        yield Case("any", DeleteGroupsRequest(groups_names=list(NAMES)), version)
        yield Case("none", DeleteGroupsRequest(), version)
