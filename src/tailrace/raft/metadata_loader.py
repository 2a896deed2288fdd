"""Applies committed records to the image of the cluster, and passes the quorum's events on in a fixed order.

    committed records ─▶ image ─▶ controller ─▶ `on_changed` with the delta

The controller is notified before `on_changed`, so that a component of the node that reacts to a change with a request
finds a controller that knows of the change. A node without a controller has the image and `on_changed` only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.replacement import adopt_image, replace_image, snapshot_delta
from tailrace.model.errors import TailraceError
from tailrace.model.listeners import Listeners
from tailrace.protocol.record_frame import VersionedRecord


class ControllerEvents(Protocol):
    """What a controller is notified of. See QuorumListener; the image is up to date when they are called."""

    def prepare(self, image: MetadataImage) -> Any:
        """Called by a job, on any thread; `image` is that of a snapshot."""

    def loaded(self, prepared: Any, delta: MetadataDelta) -> None:
        """The committed image is that of a snapshot. `delta`: what differs from the image before."""

    def committed(
        self,
        records: list[VersionedRecord],
        delta: MetadataDelta,
        last_offset: int,
        epoch: int,
        timestamp_ms: int,
    ) -> None: ...

    def leader_changed(self, leader_id: int | None, epoch: int) -> None: ...

    def became_leader(self, epoch: int) -> None: ...

    def resigned(self) -> None: ...

    def failed(self, error: TailraceError) -> None: ...


class PreparedMetadata(NamedTuple):
    """A snapshot before it becomes the image: all of it as new, and what the controller makes of it."""

    delta: MetadataDelta
    controller: Any


class MetadataLoader:
    """The QuorumListener of a node."""

    def __init__(self, failed: Callable[[TailraceError], None]) -> None:
        """`failed` is called when the metadata log or the controller cannot continue: the process must stop."""
        self.image = MetadataImage()
        """With the committed records, and no others. The same object for the life of the node."""
        self.controller: ControllerEvents | None = None
        self.on_changed: Listeners[MetadataDelta] = Listeners()
        """The image changed; never with an empty delta."""
        self.on_leader_changed: Listeners[()] = Listeners()
        """Another node leads the quorum, or this one does and its controller is active, or no leader is known."""
        self.on_preparing: Listeners[()] = Listeners()
        """A job begins to create the objects of a snapshot. Listeners are called on the job's thread."""
        self.on_prepared: Listeners[()] = Listeners()
        """The job has ended, also on the job's thread."""
        self._failed = failed

    def prepare(self, records: Iterator[VersionedRecord]) -> PreparedMetadata:
        self.on_preparing()
        try:
            known, controller = self.image, self.controller
            delta = snapshot_delta(records, known)
            if not known.is_new:
                delta = MetadataDelta(delta.image)  # what only `adopt_image` needs is freed here, not by the owner
            return PreparedMetadata(delta, controller.prepare(delta.image) if controller is not None else None)
        finally:
            self.on_prepared()

    def loaded(self, prepared: PreparedMetadata, offset: int, epoch: int, timestamp_ms: int) -> None:
        delta = prepared.delta
        delta.image.offset, delta.image.epoch, delta.image.timestamp_ms = offset, epoch, timestamp_ms
        is_first = self.image.is_new
        delta = adopt_image(self.image, delta) if is_first else replace_image(self.image, delta.image)
        if self.controller is not None:
            self.controller.loaded(prepared.controller, delta)
        self._changed(delta)

    def committed(self, records: list[VersionedRecord], last_offset: int, epoch: int, timestamp_ms: int) -> None:
        delta = MetadataDelta(self.image)
        for each in records:
            delta.replay(each.record)
        self.image.offset, self.image.epoch, self.image.timestamp_ms = last_offset, epoch, timestamp_ms
        if self.controller is not None:
            self.controller.committed(records, delta, last_offset, epoch, timestamp_ms)
        self._changed(delta)

    def _changed(self, delta: MetadataDelta) -> None:
        if not delta.is_empty:
            self.on_changed(delta)

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        if self.controller is not None:
            self.controller.leader_changed(leader_id, epoch)
        self.on_leader_changed()

    def became_leader(self, epoch: int) -> None:
        if self.controller is None:
            return
        try:
            self.controller.became_leader(epoch)
        except TailraceError as error:  # the log has a metadata.version that this release does not know
            self.failed(error)
        else:
            self.on_leader_changed()

    def resigned(self) -> None:
        if self.controller is not None:
            self.controller.resigned()

    def failed(self, error: TailraceError) -> None:
        if self.controller is not None:
            self.controller.failed(error)
        self._failed(error)
