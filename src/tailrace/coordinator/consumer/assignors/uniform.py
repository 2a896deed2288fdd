"""The uniform assignor: every member gets as many partitions as every other, and keeps what it has where it can.

Where all members are subscribed to the same topics, each may own `total // members` partitions, and as many members one
more as there are left over. Whoever owns more gives up the rest; what is free goes to those who own less. No fewer
partitions can move. Members with different subscriptions are in `mixed.py`.
"""

from __future__ import annotations

from tailrace.coordinator.consumer.assignors.mixed import assign_mixed
from tailrace.coordinator.consumer.assignors.spec import GroupSpec
from tailrace.coordinator.consumer.partitions import Partitions


def assign_uniformly(group: GroupSpec) -> dict[str, Partitions]:
    if not group.members:
        return {}
    return _assign_alike(group) if group.is_uniform else assign_mixed(group)


def _assign_alike(group: GroupSpec) -> dict[str, Partitions]:
    topics = sorted(next(iter(group.members.values())).topics)
    total = sum(group.partition_counts[topic_id] for topic_id in topics)
    share, larger_shares = divmod(total, len(group.members))

    unowned = {topic_id: set(range(group.partition_counts[topic_id])) for topic_id in topics}
    kept: dict[str, dict[bytes, set[int]]] = {}
    missing: list[tuple[str, int]] = []
    """Who owns too little, and how much."""
    members_left = len(group.members)
    for member_id, member in group.members.items():
        takes_larger = larger_shares > 0
        room = share + takes_larger
        own: dict[bytes, set[int]] = {}
        for topic_id in sorted(member.assigned):
            candidates = unowned.get(topic_id)
            if candidates is None or room == 0:
                continue
            keeps = [index for index in sorted(member.assigned[topic_id]) if index in candidates][:room]
            if keeps:
                own[topic_id] = set(keeps)
                candidates.difference_update(keeps)
                room -= len(keeps)
        # The larger shares go to those who have one already, unless nobody is left who could take it.
        if room > 0 and takes_larger and members_left > larger_shares:
            room -= 1
            takes_larger = False
        if room > 0:
            missing.append((member_id, room))
        larger_shares -= takes_larger
        members_left -= 1
        kept[member_id] = own

    free = ((topic_id, index) for topic_id in topics for index in sorted(unowned[topic_id]))
    for member_id, room in missing:
        own = kept[member_id]
        for _, (topic_id, index) in zip(range(room), free, strict=False):
            own.setdefault(topic_id, set()).add(index)
    return {
        member_id: {topic_id: frozenset(indexes) for topic_id, indexes in own.items()}
        for member_id, own in kept.items()
    }
