"""Who uses the quorum: the controller and, in the same process, the broker's copy of the metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from tailrace.model.errors import TailraceError
from tailrace.protocol.record_frame import VersionedRecord


class QuorumListener(Protocol):
    """All are called on the node's thread, in the order of the log; nothing is given twice.

    From `became_leader` on a listener may append from any of them: what it appends is told after what it is being told.
    """

    def loaded(self, records: Iterator[VersionedRecord], offset: int, epoch: int, timestamp_ms: int) -> None:
        """The state up to and with `offset`, at the start, where there is a snapshot; replaces all that was known.

        `records` reads the file as it is asked, and only during the call; it may raise an error of the file, which the
        listener lets pass.
        """

    def committed(self, records: list[VersionedRecord], last_offset: int, epoch: int, timestamp_ms: int) -> None:
        """One batch, all of it. It is empty where the batch was the quorum's own and only offset and epoch move."""

    def became_leader(self, epoch: int) -> None:
        """Everything of earlier epochs was given before; from now on `append` is allowed."""

    def failed(self, error: TailraceError) -> None:
        """The log takes nothing any more: the process must stop. Told once."""
