"""Defects of the image of a node, and of the snapshots that are made of it; see `node_defects`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tailrace.broker.cluster_metadata import ClusterMetadata
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.settings import ConfigRecord
from tailrace.protocol.records.topics import PartitionRecord, TopicRecord
from tailrace.raft.metadata_loader import MetadataLoader, PreparedMetadata
from tailrace.raft.snapshot_generator import SnapshotGenerator

Records = Iterator[VersionedRecord]


def _in_snapshots(change: Callable[[SnapshotGenerator, Records], Records], patch: pytest.MonkeyPatch) -> None:
    tick = SnapshotGenerator.tick

    class Log:
        def __init__(self, generator: SnapshotGenerator, log: Any) -> None:
            self._generator, self._log = generator, log

        def snapshot_is_due(self, now_ms: int) -> bool:
            is_due: bool = self._log.snapshot_is_due(now_ms)
            return is_due

        def snapshot(self, records: Records, done: Callable[[], None], last_offset: int | None = None) -> None:
            self._log.snapshot(change(self._generator, records), done, last_offset)

    def changed(generator: SnapshotGenerator) -> None:
        if not isinstance(generator._log, Log):
            generator._log = Log(generator, generator._log)
        tick(generator)

    patch.setattr(SnapshotGenerator, "tick", changed)


# Committed records


def skips_config_changes(patch: pytest.MonkeyPatch) -> None:
    """Committed settings are not in the image of a node."""
    committed = MetadataLoader.committed

    def without_configs(loader: MetadataLoader, records: list[VersionedRecord], *position: int) -> None:
        committed(loader, [each for each in records if not isinstance(each.record, ConfigRecord)], *position)

    patch.setattr(MetadataLoader, "committed", without_configs)


# Snapshots


def snapshots_keep_deleted_topics(patch: pytest.MonkeyPatch) -> None:
    """A snapshot has the topics of the preceding one as well, also those that were deleted since."""
    topics: dict[SnapshotGenerator, dict[bytes, VersionedRecord]] = {}

    def with_deleted(generator: SnapshotGenerator, records: Records) -> Records:
        known = topics.setdefault(generator, {})
        listed = list(records)
        new = {bytes(each.record.topic_id): each for each in listed if isinstance(each.record, TopicRecord)}
        deleted = [each for topic_id, each in known.items() if topic_id not in new]
        known.update(new)
        return iter([*listed, *deleted])

    _in_snapshots(with_deleted, patch)


def snapshots_without_configs(patch: pytest.MonkeyPatch) -> None:
    """The settings of topics and brokers are not in snapshots."""

    def without(generator: SnapshotGenerator, records: Records) -> Records:
        return (each for each in records if not isinstance(each.record, ConfigRecord))

    _in_snapshots(without, patch)


def snapshots_without_partition_epochs(patch: pytest.MonkeyPatch) -> None:
    """Partitions begin again with epoch 0 in a snapshot."""

    def from_zero(generator: SnapshotGenerator, records: Records) -> Records:
        for each in records:
            if isinstance(each.record, PartitionRecord):
                each.record.leader_epoch = each.record.partition_epoch = 0
            yield each

    _in_snapshots(from_zero, patch)


def snapshots_of_what_is_appended(patch: pytest.MonkeyPatch) -> None:
    """The active controller makes snapshots of its state, with records that are not committed."""
    start = ClusterMetadata.start

    def with_controller(metadata: ClusterMetadata, ready: Callable[[], None]) -> None:
        controller: Any = metadata.loader.controller
        if controller is not None:
            image, committed = controller.image, metadata.image

            class Appended:
                held_back = None

                @property
                def offset(self) -> int:
                    return committed.offset

                def records(self) -> Records:
                    records: Records = image.records()
                    return records

            metadata._snapshots._image = Appended()  # type: ignore[assignment]
        start(metadata, ready)

    patch.setattr(ClusterMetadata, "start", with_controller)


def snapshots_are_added_to_the_image(patch: pytest.MonkeyPatch) -> None:
    """A snapshot that replaces the log adds to the image of a node what is new, and removes nothing."""
    loaded = MetadataLoader.loaded

    def added(loader: MetadataLoader, prepared: PreparedMetadata, *position: int) -> None:
        new = prepared.delta.image
        if not loader.image.is_new:
            for name, topic in loader.image.topics.items():
                new.topics.setdefault(name, topic)
                new.topics_by_id.setdefault(topic.id, topic)
        loaded(loader, prepared, *position)

    patch.setattr(MetadataLoader, "loaded", added)


def snapshots_are_not_installed(patch: pytest.MonkeyPatch) -> None:
    """A node that gets a snapshot from its leader keeps the image that it has, as of the offset of the snapshot."""
    loaded = MetadataLoader.loaded

    def kept(loader: MetadataLoader, prepared: PreparedMetadata, offset: int, epoch: int, timestamp_ms: int) -> None:
        if loader.image.is_new:
            loaded(loader, prepared, offset, epoch, timestamp_ms)
            return
        same = MetadataDelta(MetadataImage())
        for each in loader.image.records():
            same.replay(each.record)
        loaded(loader, prepared._replace(delta=same), offset, epoch, timestamp_ms)

    patch.setattr(MetadataLoader, "loaded", kept)
