"""What a change of a member asks of its group: a new epoch, a new assignment, a step of the member towards it.

    1. epoch     the topics that the group is subscribed to have changed, or their partitions: the group's epoch rises
    2. target    the group's epoch is ahead of its assignment's: the assignor divides the partitions anew
    3. step      the member is led towards its target

Each gives records; nothing is changed until they are replayed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tailrace.coordinator.consumer import records
from tailrace.coordinator.consumer.assignors import ASSIGNORS, configured_assignors
from tailrace.coordinator.consumer.group import ConsumerGroup
from tailrace.coordinator.consumer.member import ConsumerMember
from tailrace.coordinator.consumer.partitions import NO_PARTITIONS
from tailrace.coordinator.consumer.pattern_resolver import PatternResolver, Resolved
from tailrace.coordinator.consumer.patterns import compiled
from tailrace.coordinator.consumer.reconciliation import Reported, Target, reconciled
from tailrace.coordinator.consumer.subscriptions import Subscriptions
from tailrace.coordinator.consumer.target import new_targets, target_records
from tailrace.coordinator.metadata_hash import MetadataHashes
from tailrace.coordinator.outcome import CoordinatorRecord
from tailrace.coordinator.shard import Shard

_log = logging.getLogger(__name__)

FRESH_MS: Final = 0x7FFF_FFFF
"""The metadata are looked at again when a topic of the group changes; and after so long anyway."""


@dataclass(slots=True)
class Change:
    """What a request does to a member, and so to its group."""

    group: ConsumerGroup
    old: ConsumerMember
    """As it was; a new one without anything for who joins."""
    new: ConsumerMember
    records: list[CoordinatorRecord]
    epoch: int
    """The group's, after the change."""
    subscriptions: Subscriptions
    """The group's, after the change."""
    topics_changed: bool = False
    pattern_changed: bool = False
    pattern_is_resolved: bool = False
    """The new pattern is one that was resolved before, or there is none any more."""

    @property
    def subscription_changed(self) -> bool:
        return self.topics_changed or self.pattern_changed


class Balancing:
    def __init__(self, shard: Shard, hashes: MetadataHashes, patterns: PatternResolver) -> None:
        self._shard = shard
        self._hashes = hashes
        self._patterns = patterns

    def change(
        self, group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember, written: list[CoordinatorRecord]
    ) -> Change:
        """Note that `old` becomes `new`, behind the records that were `written` already."""
        change = Change(group, old, new, written, group.epoch, group.subscriptions)
        if new != old:
            written.append(records.member_record(group.group_id, new))
            change.topics_changed = new.topics != old.topics
        is_new_pattern = self._change_pattern(change)
        self._patterns.look_after(group, old, new, is_new=is_new_pattern)
        if change.subscription_changed:
            change.subscriptions = group.subscriptions.copy()
            change.subscriptions.replace_member(old, new)
            change.subscriptions.drop_unused_patterns()
        return change

    def _change_pattern(self, change: Change) -> bool:
        """Whether the member brings a pattern that nobody had. Raises InvalidRegularExpressionError."""
        old, new, group = change.old.pattern, change.new.pattern, change.group
        if old == new:
            return False
        change.pattern_changed = True
        if old and group.subscriptions.patterns[old] == 1:
            change.records.append(records.pattern_tombstone(group.group_id, old))
        if not new:
            change.pattern_is_resolved = bool(old)
            return False
        if new not in group.subscriptions.patterns:
            compiled(new)
            return True
        change.pattern_is_resolved = new in group.subscriptions.resolved
        return False

    # 1. The epoch

    def raise_epoch(self, change: Change, *, is_due: bool) -> None:
        """If `is_due`, or the partitions of the group's topics are not what they were."""
        group, now_ms = change.group, self._shard.clock.now_ms()
        if not is_due and not group.is_stale(now_ms):
            return
        metadata_hash = self._hashes.of(change.subscriptions.topics)
        if is_due or metadata_hash != group.metadata_hash:
            change.epoch += 1
            change.records.append(records.epoch_record(group.group_id, change.epoch, metadata_hash))
            _log.info("group %s is in epoch %d", group.group_id, change.epoch)
        group.keep_fresh(now_ms + FRESH_MS, change.epoch)
        if group.has_partition_metadata:
            change.records.append(records.partition_metadata_tombstone(group.group_id))

    def without(
        self, group: ConsumerGroup, members: Iterable[ConsumerMember], dropped: list[CoordinatorRecord]
    ) -> CoordinatorRecord:
        """The group's epoch when these have gone; tombstones of patterns that only they had are `dropped`."""
        subscriptions = group.subscriptions.copy()
        for member in members:
            subscriptions.replace_member(member, None)
        dropped += (
            records.pattern_tombstone(group.group_id, pattern)
            for pattern in group.subscriptions.patterns
            if pattern not in subscriptions.patterns
        )
        subscriptions.drop_unused_patterns()
        return records.epoch_record(group.group_id, group.epoch + 1, self._hashes.of(subscriptions.topics))

    def resolved(self, group: ConsumerGroup, found: Resolved) -> list[CoordinatorRecord]:
        """The group's patterns match these topics now."""
        subscriptions = group.subscriptions.copy()
        written: list[CoordinatorRecord] = []
        is_due = False
        for pattern, now in found.items():
            if pattern not in group.subscriptions.patterns:
                continue
            before = group.subscriptions.resolved.get(pattern)
            is_due = is_due or now.topics != (frozenset() if before is None else before.topics)
            subscriptions.resolve(pattern, now)
            written.append(records.pattern_record(group.group_id, pattern, now))
        metadata_hash = self._hashes.of(subscriptions.topics)
        if is_due or metadata_hash != group.metadata_hash:
            written.append(records.epoch_record(group.group_id, group.epoch + 1, metadata_hash))
            group.keep_fresh(self._shard.clock.now_ms() + FRESH_MS, group.epoch + 1)
        return written

    # 2. The target

    def target(self, change: Change) -> Target:
        """The member's, of a new assignment where the group needs one and it is time."""
        group = change.group
        if group.assignment_epoch >= change.epoch or not self._may_assign(group):
            return group.target(change.new)
        name = group.preferred_assignor(change.old, change.new)
        assignor = ASSIGNORS.get(name or "", ASSIGNORS[self.default_assignor])
        targets = new_targets(group, change.new, change.subscriptions, assignor, self._shard.image)
        change.records += target_records(group, targets, change.epoch, self._shard.clock.now_ms())
        return Target(change.epoch, targets.get(change.new.id, NO_PARTITIONS))

    @property
    def default_assignor(self) -> str:
        return configured_assignors(self._shard.config.group_consumer_assignors)[0]

    def is_due(self, group: ConsumerGroup) -> bool:
        """Whether the group may need a new assignment, and it is time for one."""
        is_old = group.assignment_epoch < group.epoch or group.is_stale(self._shard.clock.now_ms())
        return is_old and self._may_assign(group)

    def _may_assign(self, group: ConsumerGroup) -> bool:
        """Many members that come together shall not each cause an assignment."""
        interval_ms = self._shard.group_settings(group.group_id).consumer_assignment_interval_ms
        if group.assignment_timestamp_ms == 0 or interval_ms == 0:
            return True
        return self._shard.clock.now_ms() >= group.assignment_timestamp_ms + interval_ms

    # 3. The step

    def step(self, change: Change, target: Target, reported: Reported | None) -> ConsumerMember:
        """The member afterwards."""
        member, group = change.new, change.group
        if not change.subscription_changed and member.is_reconciled_to(target.epoch):
            return member
        topics = self._shard.image.topics
        subscribed = {topics[name].id for name in change.subscriptions.topics_of(member) if name in topics}
        stepped = reconciled(
            member, target, subscribed, reported, group.is_owned, subscription_changed=change.subscription_changed
        )
        if stepped != member:
            change.records.append(records.assignment_record(group.group_id, stepped))
        return stepped
