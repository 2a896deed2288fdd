"""What an assignor is given, and what it gives. Assignors are pure: the same group, the same assignment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tailrace.coordinator.consumer.partitions import Partitions


class MemberSpec(NamedTuple):
    instance_id: str | None
    topics: frozenset[bytes]
    """The ids of the topics that it is subscribed to and that exist."""
    assigned: Partitions
    """What it was given last time."""


class GroupSpec(NamedTuple):
    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]
    """Of every topic that some member is subscribed to."""
    is_uniform: bool
    """All members are subscribed to the same topics."""


Assignor = Callable[[GroupSpec], dict[str, Partitions]]
"""Gives every partition of every topic to one member that is subscribed to it."""
