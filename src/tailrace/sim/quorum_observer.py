"""Sees what the quorum of a node reports to its node, as events for checkers: commits, snapshots and leaders.

It is in front of the node's loader. Checkers look after the step at which an event happened; the image and the quorum
that they find may be ahead of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tailrace.broker.node import Node
from tailrace.controller.controller import Controller
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import TailraceError
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.raft.listener import QuorumListener
from tailrace.raft.quorum import Quorum
from tailrace.sim.process import Process


class Committed(NamedTuple):
    """A batch that a node knows to be committed. `records` are empty for a batch of the quorum."""

    member: QuorumObserver
    last_offset: int
    epoch: int
    records: list[VersionedRecord]


class Installed(NamedTuple):
    """The state of a node is that of a snapshot which ends at this offset."""

    member: QuorumObserver
    last_offset: int
    epoch: int


class LeaderChange(NamedTuple):
    member: QuorumObserver
    epoch: int
    log_end_offset: int


class QuorumObserver:
    """Of one process: implements `QuorumListener`, and is what checkers know of the node."""

    def __init__(self, process: Process, node: Node) -> None:
        """Before the node starts."""
        self.process = process
        self.machine = process.machine.name
        self.node_id = node.node_id
        self._node = node
        self._loader: QuorumListener = node.metadata.listener
        self._log = process.machine.universe.log
        node.metadata.listener = self

    @property
    def image(self) -> MetadataImage:
        return self._node.image

    @property
    def controller(self) -> Controller | None:
        """None on a broker."""
        return self._node.local_controller

    @property
    def quorum(self) -> Quorum:
        return self._node.quorum

    def prepare(self, records: Iterator[VersionedRecord]) -> Any:
        return self._loader.prepare(records)

    def loaded(self, prepared: Any, offset: int, epoch: int, timestamp_ms: int) -> None:
        self._loader.loaded(prepared, offset, epoch, timestamp_ms)
        text = f"offset {offset} of epoch {epoch}"
        self._log.add(self.machine, "snapshot", text, data=Installed(self, offset, epoch))

    def committed(self, records: list[VersionedRecord], last_offset: int, epoch: int, timestamp_ms: int) -> None:
        self._loader.committed(records, last_offset, epoch, timestamp_ms)
        text = f"offset {last_offset} of epoch {epoch}, {len(records)} records"
        self._log.add(self.machine, "commit", text, data=Committed(self, last_offset, epoch, records))

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        text = f"{leader_id if leader_id is not None else 'no node'} leads epoch {epoch}"
        self._log.add(self.machine, "leader", text, data=LeaderChange(self, epoch, self.quorum.log_end_offset))
        self._loader.leader_changed(leader_id, epoch)

    def became_leader(self, epoch: int) -> None:
        self._log.add(
            self.machine, "leads", f"epoch {epoch}", data=LeaderChange(self, epoch, self.quorum.log_end_offset)
        )
        self._loader.became_leader(epoch)

    def resigned(self) -> None:
        self._log.add(self.machine, "resigned", "", data=self)
        self._loader.resigned()

    def failed(self, error: TailraceError) -> None:
        self._log.add(self.machine, "failed", str(error))
        self._loader.failed(error)
