"""The state of one partition of `__share_group_state`: the share partitions whose keys hash to it.

The topic is neither compacted nor does it expire: records are forgotten from its beginning, up to the oldest snapshot
that is still the last of its share partition. One that is quiet would hold up all others, so its snapshot is written
again after a while.

Who may call: the node's thread, through the runtime.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from tailrace.coordinator.outcome import CoordinatorRecord, Outcome, ProducerBatchId
from tailrace.coordinator.shard import Shard
from tailrace.coordinator.share_state.batches import NO_OFFSET, DeliveryState, StateBatch
from tailrace.coordinator.share_state.key import SharePartitionKey
from tailrace.coordinator.share_state.state import (
    NO_EPOCH,
    UNKNOWN_COUNT,
    ShareState,
    StateChange,
    change_of,
    tombstone,
)
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import (
    FencedLeaderEpochError,
    FencedStateEpochError,
    RefusedRequestError,
    TailraceError,
    UnknownTopicOrPartitionError,
)
from tailrace.protocol.records.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)

_log = logging.getLogger(__name__)

PART_BYTES: Final = 256 << 10
_MOST_KEY_BYTES: Final = 100
_MOST_BATCH_BYTES: Final = 24
_PRUNE: Final = "prune"
_REPEAT: Final = "repeat-snapshots"
_WRITTEN_STATES: Final = frozenset({DeliveryState.AVAILABLE, DeliveryState.ACKNOWLEDGED, 3, DeliveryState.ARCHIVED})


class Summary(NamedTuple):
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


NO_SUMMARY: Final = Summary(0, 0, NO_OFFSET, UNKNOWN_COUNT)


class ShareStateShard:
    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.states: dict[SharePartitionKey, ShareState] = {}
        self._snapshots: dict[SharePartitionKey, int] = {}
        """Where the last snapshot of each is."""
        self._pruned_to = 0

    # Commands

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Outcome:
        """Begin anew: FencedStateEpochError where the state is of a later epoch."""
        self._check_key(key)
        known = self.states.get(key)
        if known is not None and NO_EPOCH != state_epoch < known.state_epoch:
            raise FencedStateEpochError(f"the state of {key} is of epoch {known.state_epoch}, not {state_epoch}")
        self._check_exists(key)
        now_ms = self.shard.clock.now_ms()
        state = ShareState(
            snapshot_epoch=0 if known is None else known.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=0,
            start_offset=start_offset,
            delivery_complete_count=UNKNOWN_COUNT if start_offset == NO_OFFSET else 0,
            created_ms=now_ms,
            written_ms=now_ms,
        )
        return Outcome([state.snapshot_record(key)], response=state)

    def read(self, key: SharePartitionKey, leader_epoch: int) -> Outcome:
        """The whole state, for the partition's leader: its epoch is noted, and fences those before."""
        self._check_key(key)
        known = self._known(key, "read")
        self._check_leader(key, known, leader_epoch)
        self._check_exists(key)
        if leader_epoch in (NO_EPOCH, known.leader_epoch):
            return Outcome(response=known)
        note = StateChange(NO_EPOCH, leader_epoch, known.start_offset, known.delivery_complete_count, ())
        return Outcome([self._record(key, known, note)], response=known)

    def write(self, key: SharePartitionKey, change: StateChange) -> Outcome:
        self._check_key(key)
        known = self._known(key, "write")
        self._check_leader(key, known, change.leader_epoch)
        if NO_EPOCH != change.state_epoch < known.state_epoch:
            raise FencedStateEpochError(f"the state of {key} is of epoch {known.state_epoch}, not {change.state_epoch}")
        self._check_exists(key)
        for batch in change.batches:
            _check_batch(key, batch)
        return Outcome([self._record(key, known, change._replace(leader_epoch=known.leader_epoch))], response=known)

    def delete(self, key: SharePartitionKey) -> Outcome:
        """Again is fine."""
        self._check_key(key)
        self._check_exists(key)
        return Outcome([tombstone(key)] if key in self.states else (), response=key)

    def summary(self, key: SharePartitionKey) -> Outcome:
        self._check_key(key)
        self._check_exists(key)
        known = self.states.get(key)
        if known is None:
            return Outcome(response=NO_SUMMARY)
        return Outcome(
            response=Summary(known.state_epoch, known.leader_epoch, known.start_offset, known.delivery_complete_count)
        )

    def _record(self, key: SharePartitionKey, known: ShareState, change: StateChange) -> CoordinatorRecord:
        if known.updates < self.shard.config.share_coordinator_snapshot_update_records_per_snapshot:
            return known.update_record(key, change)
        now_ms = self.shard.clock.now_ms()
        after = replace(
            known.changed(change), snapshot_epoch=known.snapshot_epoch + 1, created_ms=now_ms, written_ms=now_ms
        )
        return after.snapshot_record(key)

    def _known(self, key: SharePartitionKey, what: str) -> ShareState:
        known = self.states.get(key)
        if known is None:
            raise RefusedRequestError(f"{what} of {key}, whose state was never initialised")
        return known

    def _check_key(self, key: SharePartitionKey) -> None:
        if key.partition < 0:
            raise RefusedRequestError(f"partition {key.partition} is negative")

    def _check_leader(self, key: SharePartitionKey, known: ShareState, leader_epoch: int) -> None:
        if NO_EPOCH != leader_epoch < known.leader_epoch:
            raise FencedLeaderEpochError(f"{key} was led in epoch {known.leader_epoch}, the request in {leader_epoch}")

    def _check_exists(self, key: SharePartitionKey) -> None:
        topic = self.shard.image.topic_by_id(key.topic_id)
        if topic is None or key.partition not in topic.partitions:
            raise UnknownTopicOrPartitionError(f"there is no partition for {key}")

    # Replay

    def replay(self, record: CoordinatorRecord, offset: int, producer: ProducerBatchId | None) -> None:
        key, value = record.key, record.value
        if isinstance(key, ShareSnapshotKey):
            where = SharePartitionKey(key.group_id, key.topic_id, key.partition)
            if isinstance(value, ShareSnapshotValue):
                self.states[where] = ShareState.of_snapshot(value)
                self._snapshots[where] = offset
            else:
                self.states.pop(where, None)
                self._snapshots.pop(where, None)
        elif isinstance(key, ShareUpdateKey) and isinstance(value, ShareUpdateValue):
            where = SharePartitionKey(key.group_id, key.topic_id, key.partition)
            known = self.states.get(where)
            if known is not None and known.snapshot_epoch == value.snapshot_epoch:
                self.states[where] = known.changed(change_of(value))

    def replay_marker(self, producer_id: int, producer_epoch: int, is_commit: bool, offset: int) -> None:
        """There are no transactions here."""

    def loaded(self) -> None:
        self._prune_later()
        self._repeat_later()

    def unloaded(self, error: TailraceError) -> None:
        """Nobody waits here."""

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        gone = {topic.id for topic in delta.deleted_topics}
        if gone:
            keys = [key for key in self.states if key.topic_id in gone]
            self._submit_in_parts("share-topics-deleted", keys, self._forget)

    def _forget(self, keys: Sequence[SharePartitionKey]) -> Outcome:
        return Outcome([tombstone(key) for key in keys if key in self.states])

    def _submit_in_parts(
        self,
        name: str,
        keys: Iterable[SharePartitionKey],
        command: Callable[[Sequence[SharePartitionKey]], Outcome],
    ) -> None:
        """Records about any number of states, in batches that the log takes."""
        part: list[SharePartitionKey] = []
        size_bytes = 0
        for key in keys:
            part.append(key)
            size_bytes += _MOST_KEY_BYTES + 3 * len(key.group_id) + _MOST_BATCH_BYTES * len(self.states[key].batches)
            if size_bytes >= PART_BYTES:
                self.shard.submit(name, partial(command, part))
                part, size_bytes = [], 0
        if part:
            self.shard.submit(name, partial(command, part))

    # Old records

    def _prune_later(self) -> None:
        interval_ms = self.shard.config.share_coordinator_state_topic_prune_interval_ms
        self.shard.timers.schedule(_PRUNE, interval_ms, self._prune)

    def _prune(self) -> None:
        self._prune_later()
        needed_from = min(self._snapshots.values(), default=0)
        if needed_from > self._pruned_to:
            self.shard.forget_before(needed_from, self._pruned, self._not_pruned)

    def _pruned(self, offset: int) -> None:
        self._pruned_to = max(self._pruned_to, offset)

    def _not_pruned(self, error: TailraceError) -> None:
        _log.info("old records of share groups are kept for now: %s", error)

    def _repeat_later(self) -> None:
        interval_ms = self.shard.config.share_coordinator_cold_partition_snapshot_interval_ms
        self.shard.timers.schedule(_REPEAT, interval_ms, self._repeat)

    def _repeat(self) -> None:
        """Write the snapshots again that are old, as long as one of all was never repeated: else all are quiet."""
        self._repeat_later()
        if all(state.was_repeated for state in self.states.values()):
            return
        interval_ms = self.shard.config.share_coordinator_cold_partition_snapshot_interval_ms
        oldest_ms = self.shard.clock.now_ms() - interval_ms
        old = [key for key, state in self.states.items() if state.written_ms <= oldest_ms]
        self._submit_in_parts("repeat-snapshots", old, self._snapshots_again)

    def _snapshots_again(self, keys: Sequence[SharePartitionKey]) -> Outcome:
        now_ms = self.shard.clock.now_ms()
        states = ((key, self.states[key]) for key in keys if key in self.states)
        return Outcome(
            [
                replace(state, snapshot_epoch=state.snapshot_epoch + 1, written_ms=now_ms).snapshot_record(key)
                for key, state in states
            ]
        )


def _check_batch(key: SharePartitionKey, batch: StateBatch) -> None:
    if not 0 <= batch.first <= batch.last or batch.state not in _WRITTEN_STATES:
        raise RefusedRequestError(f"{batch} says nothing about {key}")
