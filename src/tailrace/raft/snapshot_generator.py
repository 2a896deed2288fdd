"""Decides when the committed image is written as a snapshot, on leaders, followers and observers alike.

Every node bounds its log by snapshots, whether it leads or not. The quorum counts bytes and time
(`Quorum.snapshot_is_due`); an open metadata transaction delays the snapshot, because its records are not in the image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from tailrace.env.clock import Clock
from tailrace.metadata.image import MetadataImage
from tailrace.protocol.record_frame import VersionedRecord


class SnapshotLog(Protocol):
    """The part of the quorum that writes snapshots."""

    def snapshot_is_due(self, now_ms: int) -> bool: ...

    def snapshot(
        self, records: Iterator[VersionedRecord], done: Callable[[], None], last_offset: int | None = None
    ) -> None: ...


class SnapshotGenerator:
    def __init__(self, log: SnapshotLog, image: MetadataImage, clock: Clock) -> None:
        self._log = log
        self._image = image
        self._clock = clock
        self._is_writing = False

    def tick(self) -> None:
        """Start a snapshot if one is due. Called on the node's thread, at least a few times a second."""
        if self._is_writing or self._image.held_back is not None:
            return
        if self._log.snapshot_is_due(self._clock.now_ms()):
            self._is_writing = True
            self._log.snapshot(self._image.records(), self._written, self._image.offset)

    def _written(self) -> None:
        self._is_writing = False
