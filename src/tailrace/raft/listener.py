"""What the metadata quorum reports to its node: committed records, leaders and failures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from tailrace.model.errors import TailraceError
from tailrace.protocol.record_frame import VersionedRecord


class QuorumListener(Protocol):
    """All methods except `prepare` are called on the node's thread, in the order of the log, nothing twice.

    Leadership of this node is a period from `became_leader` to `resigned`:

        leader_changed(this node, epoch), became_leader(epoch), committed …, resigned(), leader_changed(…)

    Within it the listener may append from any of these methods; the records are reported after the present call.
    `resigned` is not called during an append. Of the batches that this node appended and that were not committed before
    `resigned`, the callbacks are dropped; if a later leader commits them they are reported by `committed` like any
    others.
    """

    def prepare(self, records: Iterator[VersionedRecord]) -> Any:
        """Make of a snapshot's records what `loaded` needs. Called by a job, on any thread, while the node works.

        `records` reads the file; it may raise an error of the file, which the listener must not catch. Raises
        InconsistentMetadataError for records that contradict each other. The result may never be used.
        """

    def loaded(self, prepared: Any, offset: int, epoch: int, timestamp_ms: int) -> None:
        """A snapshot: the state up to and including `offset`. It replaces everything that was known.

        Called at the start if there is a snapshot, and later if a follower is so far behind that its leader sends one;
        never between `became_leader` and `resigned`. `prepared` is the result of `prepare`.
        """

    def committed(self, records: list[VersionedRecord], last_offset: int, epoch: int, timestamp_ms: int) -> None:
        """One whole batch. It is empty if the batch was the quorum's own and only offset and epoch move.

        Raises InconsistentMetadataError for records that contradict the preceding ones: the quorum then fails.
        """

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """The epoch or its leader changed. `leader_id`: None while the leader of the epoch is unknown."""

    def became_leader(self, epoch: int) -> None:
        """This node leads. All records of earlier epochs were reported before; from now on `append` is allowed."""

    def resigned(self) -> None:
        """This node no longer leads: `append` raises NotControllerError until the next `became_leader`."""

    def failed(self, error: TailraceError) -> None:
        """The log takes no more records: the process must stop. Reported once."""
