"""Entries by group, topic and partition. A group or a topic without entries has no place in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tailrace.coordinator.offsets.entry import CommittedOffset

Topics = dict[str, dict[int, CommittedOffset]]
_NONE: Final[Topics] = {}


class OffsetTable:
    __slots__ = ("_groups", "count")

    def __init__(self) -> None:
        self._groups: dict[str, Topics] = {}
        self.count = 0

    def group_ids(self) -> list[str]:
        return list(self._groups)

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        return self._groups.get(group_id, _NONE)

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        partitions = self._groups.get(group_id, _NONE).get(topic)
        return None if partitions is None else partitions.get(partition)

    def put(self, group_id: str, topic: str, partition: int, entry: CommittedOffset) -> CommittedOffset | None:
        """Returns what was there before."""
        topics = self._groups.get(group_id)
        if topics is None:
            topics = self._groups[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        before = partitions.get(partition)
        if before is None:
            self.count += 1
        partitions[partition] = entry
        return before

    def remove(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """Returns what was there."""
        topics = self._groups.get(group_id, _NONE)
        partitions = topics.get(topic)
        before = None if partitions is None else partitions.pop(partition, None)
        if before is None:
            return None
        self.count -= 1
        if not partitions:
            del topics[topic]
            if not topics:
                del self._groups[group_id]
        return before

    def entries(self) -> Iterator[tuple[str, str, int, CommittedOffset]]:
        for group_id, topics in self._groups.items():
            for topic, partitions in topics.items():
                for partition, entry in partitions.items():
                    yield group_id, topic, partition, entry

    def of_topic(self, topic: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """Group, partition and entry of all groups."""
        for group_id, topics in self._groups.items():
            partitions = topics.get(topic)
            if partitions is not None:
                for partition, entry in partitions.items():
                    yield group_id, partition, entry
