"""Offsets that are part of transactions: they count when their marker commits them, and never if it aborts them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tailrace.coordinator.offsets.entry import CommittedOffset
from tailrace.coordinator.offsets.table import OffsetTable
from tailrace.coordinator.offsets.unsettled import Place

_NONE: Final[dict[Place, set[int]]] = {}


class PendingOffsets:
    def __init__(self) -> None:
        self._tables: dict[int, OffsetTable] = {}
        """By producer id."""
        self._open: dict[str, dict[Place, set[int]]] = {}
        """By group and place, the producers whose transactions have an offset there."""

    def add(self, producer_id: int, group_id: str, place: Place, entry: CommittedOffset) -> None:
        self._tables.setdefault(producer_id, OffsetTable()).put(group_id, *place, entry)
        self._open.setdefault(group_id, {}).setdefault(place, set()).add(producer_id)

    def has_group(self, group_id: str) -> bool:
        return group_id in self._open

    def has(self, group_id: str, place: Place) -> bool:
        return place in self._open.get(group_id, _NONE)

    def places(self, group_id: str) -> list[Place]:
        return list(self._open.get(group_id, _NONE))

    def drop(self, group_id: str, place: Place) -> None:
        """The partition's offset is deleted: that of every transaction too."""
        for producer_id in self._open.get(group_id, _NONE).get(place, ()):
            table = self._tables[producer_id]
            table.remove(group_id, *place)
            if not table.count:
                del self._tables[producer_id]
        self._close(group_id, place)

    def take(self, producer_id: int) -> list[tuple[str, str, int, CommittedOffset]]:
        """The producer's transaction has ended: what was in it, by group, topic and partition."""
        table = self._tables.pop(producer_id, None)
        if table is None:
            return []
        taken = list(table.entries())
        for group_id, topic, partition, _ in taken:
            place = (topic, partition)
            producers = self._open[group_id][place]
            producers.discard(producer_id)
            if not producers:
                self._close(group_id, place)
        return taken

    def of_topic(self, topic: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """Group, partition and entry of all groups and transactions."""
        for table in self._tables.values():
            yield from table.of_topic(topic)

    def _close(self, group_id: str, place: Place) -> None:
        places = self._open.get(group_id, _NONE)
        places.pop(place, None)
        if not places:
            self._open.pop(group_id, None)
