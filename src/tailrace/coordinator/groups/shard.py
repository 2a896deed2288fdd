"""The state of one partition of `__consumer_offsets`: the groups that hash to it, with their offsets.

Each kind of group has a manager, which knows its commands and replays its records. What they share is here: one group
an id, of one kind at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from tailrace.coordinator.classic.groups import ClassicGroups
from tailrace.coordinator.consumer.groups import ConsumerGroups
from tailrace.coordinator.groups.group import Group
from tailrace.coordinator.offsets.counts import OffsetCounts
from tailrace.coordinator.offsets.store import OffsetStore
from tailrace.coordinator.outcome import CoordinatorRecord, ProducerBatchId
from tailrace.coordinator.shard import Shard
from tailrace.coordinator.share_groups.manager import ShareGroups
from tailrace.coordinator.streams.groups import StreamsGroups
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import TailraceError
from tailrace.protocol.message import Record

_log = logging.getLogger(__name__)

Replayer = Callable[[CoordinatorRecord, int], None]


class GroupManager(Protocol):
    """Of one kind of group."""

    def replayers(self) -> Mapping[type[Record], Replayer]:
        """Who replays which record, by the class of its key."""

    def loaded(self) -> None: ...

    def unloaded(self, error: TailraceError) -> None: ...

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None: ...


class GroupShard:
    def __init__(self, shard: Shard, offset_counts: OffsetCounts | None = None) -> None:
        """`offset_counts` are kept by who makes the shards: a count goes on when a shard ends."""
        self.shard = shard
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore(self, offset_counts)
        self.classic = ClassicGroups(self)
        self.consumer = ConsumerGroups(self)
        self.share = ShareGroups(self)
        self.streams = StreamsGroups(self)
        self._managers: tuple[GroupManager, ...] = (
            self.offsets,
            self.classic,
            self.consumer,
            self.share,
            self.streams,
        )
        self._replayers: dict[type[Record], Replayer] = {}
        for manager in self._managers:
            self._replayers.update(manager.replayers())

    def replay(self, record: CoordinatorRecord, offset: int, producer: ProducerBatchId | None) -> None:
        replayer = self._replayers.get(type(record.key))
        if producer is not None and replayer == self.offsets.replay:
            self.offsets.replay(record, offset, producer)
        elif replayer is not None:
            replayer(record, offset)

    def replay_marker(self, producer_id: int, producer_epoch: int, is_commit: bool, offset: int) -> None:
        self.offsets.replay_marker(producer_id, is_commit, offset)

    def loaded(self) -> None:
        for manager in self._managers:
            manager.loaded()

    def unloaded(self, error: TailraceError) -> None:
        for manager in self._managers:
            manager.unloaded(error)

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        for manager in self._managers:
            manager.metadata_changed(delta, image)
