"""A member of a classic group.

Who may call: the group and its manager, on the node's thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tailrace.coordinator.classic.held_reply import HeldReply
from tailrace.protocol.messages.join_group import JoinGroupResponse
from tailrace.protocol.messages.sync_group import SyncGroupResponse

NO_ASSIGNMENT: Final = b""


class ClassicMember:
    """`protocols` are the ones it can speak, with its metadata for each, the one it likes best first."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_reply",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_reply",
    )

    def __init__(
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Mapping[str, bytes],
        assignment: bytes = NO_ASSIGNMENT,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.join_reply: HeldReply[JoinGroupResponse] | None = None
        """Held while the member waits for the others to join."""
        self.sync_reply: HeldReply[SyncGroupResponse] | None = None
        """Held while the member waits for its assignment."""
        self.is_new = False
        """It has not yet been told its member id, and so cannot send heartbeats: its first join may time out."""

    def __repr__(self) -> str:
        return f"ClassicMember({self.member_id})"

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_joining(self) -> bool:
        return self.join_reply is not None

    @property
    def is_syncing(self) -> bool:
        return self.sync_reply is not None

    @property
    def lives_without_heartbeat(self) -> bool:
        """Whoever waits for the coordinator is not asked for signs of life."""
        return not self.is_new and (self.is_joining or self.is_syncing)

    def matches(self, protocols: Mapping[str, bytes]) -> bool:
        """Whether it joined with the same protocols in the same order, and the same metadata."""
        return list(self.protocols.items()) == list(protocols.items())

    def renamed(self, member_id: str) -> ClassicMember:
        """The same static member under another member id; it waits for nothing."""
        return ClassicMember(
            member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            protocol_type=self.protocol_type,
            protocols=self.protocols,
            assignment=self.assignment,
        )
