"""Which offsets a group is to begin from anew: computed from what it has, what there is, and where it is to go.

    Point     EARLIEST, LATEST, or a time in milliseconds: the first record of that time or later, else the end
    Exactly   one offset for all, or for each its own
    Shift     so many forwards, or backwards where it is negative, from what is committed

No offset leaves what a partition has: what is before its beginning becomes its beginning, what is behind its end its
end. Nothing is changed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from tailrace.client.cluster import Cluster
from tailrace.client.errors import ClientError
from tailrace.client.offsets import EARLIEST, LATEST, NO_OFFSET, find_offsets
from tailrace.model.ids import TopicPartition


class Point(NamedTuple):
    point: int


class Exactly(NamedTuple):
    offsets: int | Mapping[TopicPartition, int]


class Shift(NamedTuple):
    by: int


Target: TypeAlias = Point | Exactly | Shift


class OffsetChange(NamedTuple):
    """`before` is None where nothing is committed. `asked` is what was wanted: not `after` where there is no such."""

    partition: TopicPartition
    before: int | None
    after: int
    asked: int


def plan_reset(
    cluster: Cluster, committed: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition], target: Target
) -> list[OffsetChange]:
    """By partition. ClientError where an offset is to be shifted, or taken from a list, that is not there."""
    wanted = sorted(set(partitions))
    if not wanted:
        return []
    first = find_offsets(cluster, dict.fromkeys(wanted, EARLIEST))
    ends = find_offsets(cluster, dict.fromkeys(wanted, LATEST))
    if isinstance(target, Point):
        found = find_offsets(cluster, dict.fromkeys(wanted, target.point))
        asked = {each: ends[each].offset if at.offset == NO_OFFSET else at.offset for each, at in found.items()}
    else:
        asked = {each: _asked(each, committed, target) for each in wanted}
    return [
        OffsetChange(
            each,
            committed.get(each),
            min(max(asked[each], first[each].offset), ends[each].offset),
            asked[each],
        )
        for each in wanted
    ]


def _asked(partition: TopicPartition, committed: Mapping[TopicPartition, int], target: Exactly | Shift) -> int:
    if isinstance(target, Shift):
        if partition not in committed:
            raise ClientError(f"{partition} has no committed offset to be shifted")
        return committed[partition] + target.by
    if isinstance(target.offsets, int):
        return target.offsets
    if partition not in target.offsets:
        raise ClientError(f"no offset is given for {partition}")
    return target.offsets[partition]
