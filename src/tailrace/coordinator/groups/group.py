"""A group, of whatever kind: what the coordinator asks of all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import ClassVar

from tailrace.coordinator.outcome import CoordinatorRecord


class GroupKind(Enum):
    """Named as ListGroups names it."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


CommitCheck = Callable[[str, bytes, int], None]
"""Of one partition, by topic, topic id (zeros where it is not known) and index: raises what its commit is answered."""


class Group(ABC):
    kind: ClassVar[GroupKind]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """As ListGroups and DescribeGroups show it."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """As ListGroups and the describing requests show it."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """No members: only offsets, if anything."""

    @abstractmethod
    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, is_transactional: bool, api_version: int
    ) -> CommitCheck | None:
        """Raise what OffsetCommit and TxnOffsetCommit answer to a member that may not commit.

        A member that is behind may still commit some partitions: then the check that is returned is asked for each.
        """

    @abstractmethod
    def check_fetch(self, member_id: str | None, epoch: int, api_version: int) -> None:
        """Raise what OffsetFetch answers to a member that names itself and is none of the group in this epoch."""

    @abstractmethod
    def check_offset_delete(self) -> None:
        """Raise what OffsetDelete answers when the whole request is refused."""

    @abstractmethod
    def check_delete(self) -> None:
        """Raise what DeleteGroups answers to a group that cannot be deleted."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member may be using the topic: its offsets do not expire and cannot be deleted."""

    @abstractmethod
    def expires_from(self, commit_timestamp_ms: int) -> int | None:
        """The time from which the retention of an offset counts that was committed at `commit_timestamp_ms`.

        None when it does not expire, whatever its age; `is_subscribed_to` has been asked before.
        """

    @abstractmethod
    def tombstones(self) -> list[CoordinatorRecord]:
        """What deletes the group, without its offsets."""

    def committed_by(self, member_id: str) -> None:  # noqa: B027 - most kinds have nothing to do
        """A member has committed offsets: a sign of life."""
