"""The range assignor: of each topic, every subscriber gets a run of partitions next to each other.

Subscribers are in order of their instance ids, then of their member ids, and the first ones get one partition more
where it does not come out even: topics with the same number of partitions and the same subscribers are divided alike,
so that records with one key in both end up with one member. It remembers nothing; a member that comes or goes moves
many.
"""

from __future__ import annotations

from tailrace.coordinator.consumer.assignors.spec import GroupSpec
from tailrace.coordinator.consumer.partitions import Partitions


def assign_ranges(group: GroupSpec) -> dict[str, Partitions]:
    ordered = sorted(group.members, key=lambda member_id: _place(member_id, group.members[member_id].instance_id))
    subscribers: dict[bytes, list[str]] = {}
    for member_id in ordered:
        for topic_id in group.members[member_id].topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    assignment: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in ordered}
    for topic_id in sorted(subscribers):
        takers = subscribers[topic_id]
        share, left_over = divmod(group.partition_counts[topic_id], len(takers))
        first = 0
        for place, member_id in enumerate(takers):
            end = first + share + (place < left_over)
            if end == first:
                break
            assignment[member_id][topic_id] = frozenset(range(first, end))
            first = end
    return dict(assignment)


def _place(member_id: str, instance_id: str | None) -> tuple[bool, str]:
    return (False, instance_id) if instance_id is not None else (True, member_id)
