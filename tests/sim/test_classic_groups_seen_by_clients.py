"""Classic groups as clients see them, in frames: all versions, restarts, deletion."""

from __future__ import annotations

from typing import Any

import pytest

from support.brokers.simulated import SimBroker, SimClient
from tailrace.coordinator.shard import ShardState
from tailrace.model.errors import (
    CoordinatorLoadInProgressError,
    GroupIdNotFoundError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    MemberIdRequiredError,
    NonEmptyGroupError,
    NotCoordinatorError,
    UnknownMemberIdError,
)
from tailrace.protocol.messages.delete_groups import DeleteGroupsRequest
from tailrace.protocol.messages.describe_groups import DescribeGroupsRequest
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tailrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tailrace.protocol.messages.list_groups import ListGroupsRequest
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

GROUP, TOPIC = "readers", "orders"
DELAY_MS, SESSION_MS = 3_000, 10_000
JOIN, SYNC, HEARTBEAT, LEAVE, DESCRIBE, LIST, DELETE = 9, 5, 4, 5, 6, 5, 2


def started(**settings: str) -> SimBroker:
    broker = SimBroker(offsets_topic_num_partitions="3", **settings).start()
    broker.client().ask(FindCoordinatorRequest(key=GROUP), 3)
    return broker


class Reader:
    """A member with a connection of its own."""

    def __init__(self, broker: SimBroker) -> None:
        self._broker = broker
        self.client: SimClient = broker.client()
        self.member_id = ""
        self.generation = -1

    def join_request(self, version: int, **fields: Any) -> JoinGroupRequest:
        values: dict[str, Any] = {
            "group_id": GROUP,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": 60_000,
            "member_id": self.member_id,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\1\0\6orders\0\0\0\0")],
        }
        return JoinGroupRequest(**(values | fields))

    def join(self, version: int = JOIN, delay_ms: int = DELAY_MS) -> Any:
        sent = self.client.post(self.join_request(version), version)
        self._broker.pass_time(0)
        answer = self.client.read().get(sent)
        if answer is not None and answer.error_code == MemberIdRequiredError.code:
            self.member_id = answer.member_id
            return self.join(version, delay_ms)
        self._broker.pass_time(delay_ms)
        answer = self.client.read().pop(sent)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def sync(self, version: int = SYNC) -> Any:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=self.member_id, assignment=b"all")],
        )
        if version >= 5:
            request.protocol_type, request.protocol_name = "consumer", "range"
        return self.client.ask(request, version)

    def heartbeat(self, version: int = HEARTBEAT) -> int:
        request = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
        return self.client.ask(request, version).error_code  # type: ignore[no-any-return]

    def leave(self, version: int = LEAVE, group_id: str = GROUP) -> Any:
        if version < 3:
            return self.client.ask(LeaveGroupRequest(group_id=group_id, member_id=self.member_id), version)
        members = [MemberIdentity(member_id=self.member_id)]
        return self.client.ask(LeaveGroupRequest(group_id=group_id, members=members), version)

    def commit(self, offset: int) -> int:
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[part])],
        )
        return self.client.ask(request, 9).topics[0].partitions[0].error_code  # type: ignore[no-any-return]

    def committed(self) -> list[int]:
        answer = self.client.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)]), 9)
        return [part.committed_offset for topic in answer.groups[0].topics for part in topic.partitions]

    def described(self, group_id: str = GROUP, version: int = DESCRIBE, **fields: bool) -> Any:
        (row,) = self.client.ask(DescribeGroupsRequest(groups=[group_id], **fields), version).groups
        return row

    def delete(self, *group_ids: str) -> dict[str, int]:
        answer = self.client.ask(DeleteGroupsRequest(groups_names=list(group_ids)), DELETE)
        return {row.group_id: row.error_code for row in answer.results}

    def listed(self, **filters: list[str]) -> list[tuple[str, str, str, str]]:
        answer = self.client.ask(ListGroupsRequest(**filters), LIST)
        assert answer.error_code == 0
        return [(row.group_id, row.protocol_type, row.group_state, row.group_type) for row in answer.groups]


@pytest.mark.spec("CO-04")
@pytest.mark.parametrize("version", range(JOIN + 1))
def test_a_member_of_any_version(version: int) -> None:
    reader = Reader(started())
    joined = reader.join(version)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    assert joined.leader == joined.member_id == joined.members[0].member_id
    synced = reader.sync(min(version, SYNC))
    assert (synced.error_code, synced.assignment) == (0, b"all")
    assert reader.heartbeat(min(version, HEARTBEAT)) == 0
    left = reader.leave(min(version, LEAVE))
    assert left.error_code == 0
    assert [row.error_code for row in left.members] == ([0] if version >= 3 else [])
    assert reader.heartbeat(min(version, HEARTBEAT)) == UnknownMemberIdError.code


@pytest.mark.spec("CO-04")
def test_in_the_first_version_a_rebalance_takes_as_long_as_a_session() -> None:
    broker = started()
    reader = Reader(broker)
    reader.join(0)
    group: Any = next(machine.groups[GROUP] for machine in broker.node.groups.machines() if GROUP in machine.groups)
    assert group.rebalance_timeout_ms == SESSION_MS


@pytest.mark.spec("CO-04")
@pytest.mark.parametrize("is_killed", [True, False])
def test_a_member_goes_on_after_a_restart(is_killed: bool) -> None:
    broker = started()
    broker.client().create_topic(TOPIC)
    reader = Reader(broker)
    reader.join()
    reader.sync()
    assert reader.commit(5) == 0
    if is_killed:
        broker.kill()
    else:
        broker.stop()
    broker.start()
    reader.client = broker.client()
    assert reader.heartbeat() == 0
    assert reader.sync().assignment == b"all"
    assert reader.committed() == [5]
    assert reader.commit(6) == 0
    reader.generation += 1
    assert reader.commit(7) == IllegalGenerationError.code
    assert reader.join(delay_ms=0).generation_id == 2
    broker.pass_time(SESSION_MS)
    assert reader.described().group_state == "Empty"


@pytest.mark.spec("CO-06")
def test_groups_are_listed_and_described() -> None:
    broker = started()
    broker.client().create_topic(TOPIC)
    reader = Reader(broker)
    assert reader.listed() == []
    assert reader.commit(3) == 0
    assert reader.listed() == [(GROUP, "", "Empty", "classic")]
    reader.join()
    assert reader.described().protocol_data == ""
    reader.sync()
    stable = [(GROUP, "consumer", "Stable", "classic")]
    assert reader.listed() == stable
    assert reader.listed(states_filter=["STABLE"], types_filter=["Classic"]) == stable
    assert reader.listed(states_filter=["Empty"]) == []
    assert reader.listed(types_filter=["consumer"]) == []
    assert reader.listed(types_filter=["nonsense"]) == []
    row = reader.described(include_authorized_operations=True)
    assert (row.group_state, row.protocol_type, row.protocol_data) == ("Stable", "consumer", "range")
    assert row.authorized_operations == 3400
    (member,) = row.members
    assert (member.client_id, member.client_host) == ("sim", "/10.0.0.1")
    assert member.member_metadata.startswith(b"\0\0")
    assert member.member_assignment == b"all"
    assert reader.described("nope", 5).group_state == "Dead"
    missing = reader.described("nope")
    assert (missing.error_code, missing.group_state) == (GroupIdNotFoundError.code, "Dead")
    assert missing.error_message == "group nope does not exist"


@pytest.mark.spec("CO-06")
def test_a_group_is_deleted_with_its_offsets_for_good() -> None:
    broker = started()
    broker.client().create_topic(TOPIC)
    reader = Reader(broker)
    reader.join()
    reader.sync()
    assert reader.commit(5) == 0
    assert reader.delete(GROUP, "nope") == {GROUP: NonEmptyGroupError.code, "nope": GroupIdNotFoundError.code}
    assert reader.committed() == [5]
    reader.leave()
    assert reader.delete(GROUP, GROUP) == {GROUP: 0}
    assert reader.listed() == []
    assert reader.committed() == []
    broker.stop()
    broker.start()
    reader.client = broker.client()
    assert reader.listed() == []
    assert reader.committed() == []
    assert reader.delete(GROUP) == {GROUP: GroupIdNotFoundError.code}


@pytest.mark.spec("CO-04")
def test_bad_requests() -> None:
    broker = started()
    reader = Reader(broker)
    ask = reader.client.ask
    invalid = InvalidGroupIdError.code
    reader.member_id = "somebody"
    answer = ask(reader.join_request(JOIN, group_id=""), JOIN)
    assert (answer.error_code, answer.member_id, answer.protocol_name) == (invalid, "somebody", None)
    assert ask(reader.join_request(6, group_id=""), 6).protocol_name == ""
    for timeout_ms in (5_999, 1_800_001, -1):
        request = reader.join_request(JOIN, session_timeout_ms=timeout_ms)
        assert ask(request, JOIN).error_code == InvalidSessionTimeoutError.code
    assert ask(SyncGroupRequest(group_id=""), 4).error_code == invalid
    assert ask(SyncGroupRequest(group_id=GROUP), 5).error_code == InconsistentGroupProtocolError.code
    assert ask(HeartbeatRequest(group_id=""), 4).error_code == invalid
    assert reader.leave(LEAVE, "").error_code == invalid
    assert reader.leave(2, "").error_code == invalid
    left = reader.leave()
    assert left.error_code == 0
    assert [row.error_code for row in left.members] == [UnknownMemberIdError.code]
    assert reader.leave(2).error_code == UnknownMemberIdError.code
    assert ask(DescribeGroupsRequest(groups=[]), DESCRIBE).groups == []
    assert ask(DeleteGroupsRequest(groups_names=[]), DELETE).results == []


@pytest.mark.spec("CO-04")
def test_a_group_that_is_named_often_is_described_once() -> None:
    """Else a small request has an answer of any size."""
    reader = Reader(started())
    asked = DescribeGroupsRequest(groups=[GROUP, "other"] + [GROUP] * 1000)
    assert [row.group_id for row in reader.client.ask(asked, DESCRIBE).groups] == [GROUP, "other"]


@pytest.mark.spec("CO-04")
def test_a_broker_that_coordinates_nothing_says_so() -> None:
    reader = Reader(SimBroker().start())
    code = NotCoordinatorError.code
    assert reader.client.ask(reader.join_request(JOIN), JOIN).error_code == code
    assert reader.client.ask(SyncGroupRequest(group_id=GROUP), 4).error_code == code
    assert reader.heartbeat() == code
    assert reader.leave().error_code == code
    assert reader.described().error_code == code
    assert reader.delete(GROUP) == {GROUP: code}
    assert reader.listed() == []


@pytest.mark.spec("CO-03", "CO-04")
def test_while_groups_are_loaded_nobody_is_put_out() -> None:
    broker = started()
    reader = Reader(broker)
    reader.join()
    reader.sync()
    broker.stop()
    broker.start()
    reader.client = broker.client()
    shard = broker.node.groups.shard(broker.node.groups.partition_for(GROUP))
    assert shard is not None
    shard.state = ShardState.LOADING
    reader.generation += 1
    assert reader.heartbeat() == 0  # whatever it says: nothing is known yet
    code = CoordinatorLoadInProgressError.code
    assert reader.client.ask(reader.join_request(JOIN), JOIN).error_code == code
    assert reader.sync().error_code == code
    assert reader.leave().error_code == code
    assert reader.described().error_code == code
    assert reader.delete(GROUP) == {GROUP: code}
    assert reader.client.ask(ListGroupsRequest(), LIST).error_code == code
    shard.state = ShardState.ACTIVE
    assert reader.heartbeat() == IllegalGenerationError.code


def test_nothing_special_happens_when_a_connection_goes_away() -> None:
    broker = started()
    reader = Reader(broker)
    reader.client.post(reader.join_request(3), 3)
    reader.client.leave()
    broker.pass_time(DELAY_MS)
    other = Reader(broker)
    (member,) = other.described().members
    broker.pass_time(SESSION_MS)
    assert other.described().members == []
    assert member.client_id == "sim"
