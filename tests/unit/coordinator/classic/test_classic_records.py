"""The record of a classic group: what Kafka writes, and whatever an old or broken log may hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.coordinator.classic.group import ClassicGroup
from tailrace.coordinator.classic.member import ClassicMember
from tailrace.coordinator.classic.records import VALUE_VERSION, group_of_record, group_record, new_group_record
from tailrace.coordinator.classic.state import ClassicState
from tailrace.protocol.codec import decode, encode
from tailrace.protocol.records.classic_groups import GroupMetadataKey, GroupMetadataValue, MemberMetadata


def member(name: str, **fields: object) -> ClassicMember:
    values = {
        "instance_id": None,
        "client_id": "c",
        "client_host": "/h",
        "rebalance_timeout_ms": 5,
        "session_timeout_ms": 7,
        "protocol_type": "consumer",
        "protocols": {"range": b"r", "sticky": b"s"},
        "assignment": b"before",
    }
    return ClassicMember(name, **(values | fields))  # type: ignore[arg-type]


@pytest.mark.spec("CO-04")
def test_the_bytes_are_kafkas() -> None:
    """As Kafka 4.3.1 writes them for the same group."""
    group = ClassicGroup("g", state_since_ms=0x0102030405060708)
    group.add(member("m", instance_id="i"))
    group.generation, group.protocol_name = 3, "range"
    key, value, version = group_record(group, {"m": b"a"})
    assert isinstance(key, GroupMetadataKey)
    assert key.group == "g"
    assert version == VALUE_VERSION == 3
    assert value is not None
    assert encode(value, version) == (
        b"\0\x08consumer"
        b"\0\0\0\x03"
        b"\0\x05range"
        b"\0\x01m"
        b"\x01\x02\x03\x04\x05\x06\x07\x08"
        b"\0\0\0\x01"
        b"\0\x01m\0\x01i\0\x01c\0\x02/h"
        b"\0\0\0\x05\0\0\0\x07"
        b"\0\0\0\x01r\0\0\0\x01a"
    )


def test_a_new_group_has_nothing_yet() -> None:
    group = ClassicGroup("g", state_since_ms=1)
    group.add(member("m"))
    value = new_group_record(group).value
    assert value == GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=1)


@pytest.mark.parametrize("version", range(5))
def test_all_versions_are_read(version: int) -> None:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m",
        members=[MemberMetadata(member_id="m", session_timeout=9, subscription=b"s", assignment=b"a")],
    )
    group = group_of_record("g", decode(GroupMetadataValue, version, encode(value, version)))
    assert (group.state, group.generation, group.leader_id) == (ClassicState.STABLE, 4, "m")
    assert group.state_since_ms is None
    found = group.members["m"]
    assert found.rebalance_timeout_ms == found.session_timeout_ms == 9  # the old ones have only one
    assert (found.protocols, found.assignment) == ({"range": b"s"}, b"a")


texts = st.text(max_size=3)
values = st.builds(
    GroupMetadataValue,
    protocol_type=texts,
    generation=st.integers(-(2**31), 2**31 - 1),
    protocol=st.none() | texts,
    leader=st.none() | texts,
    current_state_timestamp=st.integers(-(2**63), 2**63 - 1),
    members=st.lists(
        st.builds(
            MemberMetadata,
            member_id=texts,
            group_instance_id=st.none() | texts,
            subscription=st.binary(max_size=12),
            assignment=st.binary(max_size=3),
        ),
        max_size=4,
    ),
)


@given(values)
def test_no_record_makes_a_group_that_contradicts_itself(value: GroupMetadataValue) -> None:
    group = group_of_record("g", value)
    assert group.leader_id is None or group.leader_id in group.members
    assert (group.leader_id is None) == (not group.members)
    assert set(group.static_members.values()) <= set(group.members)
    assert group.is_empty == (not value.members)
    if group.members:
        group.elected_protocol()
        group.members_for_leader()
        assignments = {each.member_id: each.assignment for each in group.members.values()}
        again = group_record(group, assignments).value
        assert isinstance(again, GroupMetadataValue)
        assert group_record(group_of_record("g", again), assignments).value == again
