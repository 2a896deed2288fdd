"""Members of a classic group, each with a connection of its own to any server, and those who look at the group.

What they are answered is noted in a `Talk`, with the names of the story for the member ids that the server has made.
"""

from __future__ import annotations

import re
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from support.clients.raw_client import TIMEOUT_SECONDS, RawClient
from support.conversations.conversation import Talk
from support.requests.case import DATA
from tailrace.protocol.frame import decode_response
from tailrace.protocol.message import Request, Struct
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
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SESSION_MS = 30_000
REBALANCE_MS = 20_000
JOIN, SYNC, HEARTBEAT, LEAVE, DESCRIBE, LIST, DELETE = 9, 5, 4, 5, 6, 5, 2
COMMIT = 9
NOT_READY = (14, 15, 16)
MADE_ID = re.compile(".+-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Protocols = Mapping[str, bytes]
RANGE: Protocols = {"range": b"\0\0\0\0\0\1\0\4data\xff\xff\xff\xff"}


class Member:
    """A connection of its own, and the name that its member id has in the story."""

    def __init__(self, party: Party, name: str, instance_id: str | None = None) -> None:
        self._party = party
        self._name = name
        self._client = RawClient("{}:{}".format(*party.address))
        self._socket: socket.socket | None = None
        self._posted: list[tuple[str, Request, int]] = []
        self.id = ""
        self.instance_id = instance_id
        self.generation = -1
        self.protocols = RANGE
        self.protocol_name = "range"

    def post(self, name: str, request: Request, version: int) -> None:
        """Send, and do not wait."""
        if self._socket is None:
            self._socket = socket.create_connection(self._client.address, TIMEOUT_SECONDS)
        self._socket.sendall(self._client.frame_of(request, version))
        self._posted.append((f"{self._name} {name}", request, version))

    def take(self) -> Any:
        """The next answer."""
        assert self._socket is not None
        name, request, version = self._posted.pop(0)
        (size,) = struct.unpack(">i", self._received(4))
        _, answer = decode_response(request.KEY, version, self._received(size))
        self._learn(answer)
        self._party.note(name, answer, request, version)
        return answer

    def is_answered(self) -> bool:
        """Within a moment."""
        assert self._socket is not None
        self._socket.settimeout(0.3)
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except TimeoutError:
            return False
        finally:
            self._socket.settimeout(TIMEOUT_SECONDS)

    def _received(self, size: int) -> bytes:
        assert self._socket is not None
        data = b""
        while len(data) < size:
            data += self._socket.recv(size - len(data)) or self._closed()
        return data

    def _closed(self) -> bytes:
        raise ConnectionResetError(f"{self._name} was put out")

    def _learn(self, answer: Any) -> None:
        if hasattr(answer, "generation_id"):
            if answer.member_id and answer.member_id not in self._party.names:
                self._party.names[answer.member_id] = f"{self._name}{len(self._party.names)}"
            if answer.member_id and answer.error_code in (0, 79):
                self.id = answer.member_id
            if not answer.error_code:
                self.generation, self.protocol_name = answer.generation_id, answer.protocol_name

    def close(self) -> None:
        self._client.close()
        if self._socket is not None:
            self._socket.close()

    # What it says

    def join(self, name: str = "joins", version: int = JOIN, **fields: Any) -> None:
        self.post(name, self.join_request(version, **fields), version)

    def join_request(self, version: int = JOIN, **fields: Any) -> JoinGroupRequest:
        protocols = fields.pop("protocols", self.protocols)
        values: dict[str, Any] = {
            "group_id": self._party.group_id,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "member_id": self.id,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol(name=each, metadata=data) for each, data in protocols.items()],
        }
        if version >= 5:
            values["group_instance_id"] = self.instance_id
        return JoinGroupRequest(**(values | fields))

    def sync(self, name: str = "syncs", version: int = SYNC, of: Sequence[Member] = (), **fields: Any) -> None:
        values: dict[str, Any] = {
            "group_id": self._party.group_id,
            "generation_id": self.generation,
            "member_id": self.id,
            "assignments": [
                SyncGroupRequestAssignment(member_id=each.id, assignment=b"for " + each._name.encode()) for each in of
            ],
        }
        if version >= 3:
            values["group_instance_id"] = self.instance_id
        if version >= 5:
            values |= {"protocol_type": "consumer", "protocol_name": self.protocol_name}
        self.post(name, SyncGroupRequest(**(values | fields)), version)

    def heartbeat(self, name: str = "beats", version: int = HEARTBEAT, **fields: Any) -> Any:
        values = {"group_id": self._party.group_id, "generation_id": self.generation, "member_id": self.id}
        if version >= 3:
            values["group_instance_id"] = self.instance_id
        self.post(name, HeartbeatRequest(**(values | fields)), version)
        return self.take()

    def hears_of_rebalance(self) -> None:
        """Whatever the others have sent has come to the coordinator."""
        for _ in range(100):
            request = HeartbeatRequest(
                group_id=self._party.group_id,
                generation_id=self.generation,
                member_id=self.id,
                group_instance_id=self.instance_id,
            )
            answer: Any = self._client.ask(request, HEARTBEAT)
            if answer.error_code:
                return
            time.sleep(0.02)
        raise AssertionError("nothing is balanced")

    def leave(self, name: str = "leaves", version: int = LEAVE, **fields: Any) -> Any:
        if version < 3:
            request = LeaveGroupRequest(group_id=self._party.group_id, member_id=self.id)
        else:
            identity = {"member_id": self.id, "group_instance_id": self.instance_id} | fields
            request = LeaveGroupRequest(group_id=self._party.group_id, members=[MemberIdentity(**identity)])
        self.post(name, request, version)
        return self.take()

    def commit(self, name: str = "commits", **fields: Any) -> Any:
        parts = [OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="note")]
        values: dict[str, Any] = {
            "group_id": self._party.group_id,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance_id,
            "topics": [OffsetCommitRequestTopic(name=DATA, partitions=parts)],
        }
        self.post(name, OffsetCommitRequest(**(values | fields)), COMMIT)
        return self.take()


class Party:
    """The members of one group, and those who look at it from outside."""

    def __init__(self, talk: Talk, group_id: str) -> None:
        self._talk = talk
        self.address = talk._client.address
        self.group_id = group_id
        self.names: dict[str, str] = {}
        self._members: list[Member] = []
        self._find_coordinator()

    def _find_coordinator(self) -> None:
        for _ in range(200):
            self._talk._client.ask(FindCoordinatorRequest(key=self.group_id), 2)
            described: Any = self._talk._client.ask(DescribeGroupsRequest(groups=[self.group_id]), 5)
            if described.groups[0].error_code not in NOT_READY:
                return
            time.sleep(0.1)

    def member(self, name: str, instance_id: str | None = None) -> Member:
        self._members.append(Member(self, name, instance_id))
        return self._members[-1]

    def note(self, name: str, answer: Any, request: Request, version: int) -> None:
        self._talk.note(name, self._named(answer), (request, version))

    def _named(self, value: Any) -> Any:
        """With the names of the story for the ids that the server has made."""
        if isinstance(value, Struct):
            for each in value.__fields__:
                setattr(value, each.name, self._named(getattr(value, each.name)))
        if isinstance(value, list):
            return sorted((self._named(each) for each in value), key=repr)
        if isinstance(value, str):
            return self.names.get(value) or MADE_ID.sub("somebody", value)
        return value

    def ask(self, name: str, request: Request, version: int) -> Any:
        answer = self._talk.ask(name, request, version)
        self._named(answer)
        return answer

    def describe(self, name: str, version: int = DESCRIBE) -> None:
        request = DescribeGroupsRequest(groups=[self.group_id], include_authorized_operations=version >= 3)
        self.ask(f"described {name}", request, version)

    def listed(self, name: str, version: int = LIST, **filters: Sequence[str]) -> None:
        request = ListGroupsRequest(**{key: list(names) for key, names in filters.items()})
        answer: Any = self._talk._client.ask(request, version)
        answer.groups = [group for group in answer.groups if group.group_id == self.group_id]
        self.note(f"listed {name}", answer, request, version)

    def close(self) -> None:
        for member in self._members:
            member.close()

    def stable(self, *names: str, static: bool = False) -> list[Member]:
        """Members with assignments, the leader first; one joins after the other."""
        members: list[Member] = []
        for name in names:
            newcomer = self.member(name, f"i-{name}" if static else None)
            newcomer.join("asks for an id" if not static else "joins")
            if not static:
                newcomer.take()
                newcomer.join()
            for each in members:
                each.hears_of_rebalance()
                each.join("joins again")
            members.append(newcomer)
            for each in members:
                each.take()
            for each in reversed(members):
                each.sync(of=members if each is members[0] else ())
            for each in members:
                each.take()
        return members


def story(group_id: str) -> Callable[[Callable[[Party], None]], Callable[[Talk], None]]:
    def told(tell: Callable[[Party], None]) -> Callable[[Talk], None]:
        def converse(talk: Talk) -> None:
            party = Party(talk, group_id)
            try:
                tell(party)
            finally:
                party.close()

        converse.__name__ = tell.__name__
        return converse

    return told
