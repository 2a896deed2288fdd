"""Offsets that nobody has used for `offsets.retention.minutes`, and groups that have nothing left, are deleted.

From when the retention counts is the group's affair: a group with members keeps the offsets of topics that they read,
an empty one all of them as long as it has not been empty for so long. A commit that has set its own time expires then,
under the same conditions. What a transaction has an offset for is kept.

A look at all groups is done in steps: each takes so many entries, and writes tombstones of so many bytes at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.coordinator.groups.group import Group, GroupKind
from tailrace.coordinator.offsets.entry import CommittedOffset
from tailrace.coordinator.offsets.offset_records import tombstone
from tailrace.coordinator.outcome import CoordinatorRecord, Outcome
from tailrace.model.errors import TailraceError

if TYPE_CHECKING:
    from tailrace.coordinator.offsets.store import OffsetStore

MS_A_MINUTE: Final = 60_000
ENTRIES_A_STEP: Final = 5_000
BYTES_A_BATCH: Final = 256 << 10
"""Of tombstones in one batch: well below what a log takes."""
RECORD_BYTES: Final = 40
"""Of a tombstone besides its names, at most."""
_TIMER: Final = "offset-expiry"


class TombstoneBatch:
    """Tombstones that still fit one batch."""

    def __init__(self) -> None:
        self.records: list[CoordinatorRecord] = []
        self.offset_count = 0
        """Of the tombstones, those that are of offsets."""
        self._left_bytes = BYTES_A_BATCH

    @property
    def is_full(self) -> bool:
        return self._left_bytes <= 0

    def add(self, group_id: str, topic: str, partition: int) -> None:
        self.records.append(tombstone(group_id, topic, partition))
        self.offset_count += 1
        self._left_bytes -= len(group_id) + len(topic) + RECORD_BYTES

    def add_group(self, records: list[CoordinatorRecord], group_id: str) -> None:
        self.records += records
        self._left_bytes -= len(records) * (len(group_id) + RECORD_BYTES)


class OffsetExpiry:
    def __init__(self, store: OffsetStore) -> None:
        self._store = store
        self._shard = store.shard
        self._group_ids: list[str] = []
        self._next = 0
        """The place in `_group_ids` from which to go on."""

    def start(self) -> None:
        self._shard.timers.schedule(_TIMER, self._shard.config.offsets_retention_check_interval_ms, self._look)

    def _look(self) -> Outcome | None:
        """At all groups that there are now."""
        store = self._store
        known = store.groups
        self._group_ids = [*known, *(each for each in store.table.group_ids() if each not in known)]
        self._next = 0
        return self._step()

    def _step(self) -> Outcome | None:
        batch, place, looked_at = TombstoneBatch(), self._next, 0
        while place < len(self._group_ids) and looked_at < ENTRIES_A_STEP:
            looked_at += self._expire(self._group_ids[place], batch)
            if batch.is_full:
                break  # what this group may still have is for the next step
            place += 1
        if not batch.records:
            self._go_on(place)
            return None

        def written(error: TailraceError | None) -> None:
            if error is None:
                self._store.counts.expirations += batch.offset_count
                self._go_on(place)

        return Outcome(batch.records, then=written)

    def _go_on(self, place: int) -> None:
        self._next = place
        if place < len(self._group_ids):
            self._shard.timers.schedule(_TIMER, 0, self._step)
        else:
            self._group_ids = []
            self.start()

    def _expire(self, group_id: str, batch: TombstoneBatch) -> int:
        """Add the tombstones of one group, and those of the group itself if it ends. Returns how much was looked at."""
        store = self._store
        group = store.groups.get(group_id)
        if group is not None and group.kind is GroupKind.SHARE:
            return 1
        looked_at, keeps_any = 1, store.pending.has_group(group_id)
        now_ms = self._shard.clock.now_ms()
        for topic, partitions in store.table.of_group(group_id).items():
            looked_at += len(partitions)
            if group is not None and group.is_subscribed_to(topic):
                keeps_any = True
                continue
            for partition, entry in partitions.items():
                if self._has_expired(group, entry, now_ms) and not store.pending.has(group_id, (topic, partition)):
                    batch.add(group_id, topic, partition)
                    if batch.is_full:
                        return looked_at
                else:
                    keeps_any = True
        if not keeps_any and group is not None and group.is_empty:
            batch.add_group(group.tombstones(), group_id)
        return looked_at

    def _has_expired(self, group: Group | None, entry: CommittedOffset, now_ms: int) -> bool:
        since_ms = entry.committed_ms if group is None else group.expires_from(entry.committed_ms)
        if since_ms is None:
            return False
        if entry.has_own_expiry:
            return now_ms >= entry.expires_ms
        return now_ms - since_ms >= self._shard.config.offsets_retention_minutes * MS_A_MINUTE
