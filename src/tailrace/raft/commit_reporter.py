"""Reports what is committed to the listener of the quorum, batch by batch, in the order of the log.

Batches that this node appended as leader are kept until then; all others are read from the log, where they lie in the
page cache as a rule.

Who may call. The driver, on the node's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from tailrace.model.invariant import invariant
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.raft.listener import QuorumListener
from tailrace.raft.metadata_log import MetadataLog
from tailrace.raft.snapshot import SnapshotId


class LogPosition(NamedTuple):
    """The last record of a batch."""

    offset: int
    epoch: int
    timestamp_ms: int


class PreparedSnapshot(NamedTuple):
    """`prepared` is what the listener has made of the records."""

    id: SnapshotId
    timestamp_ms: int
    prepared: Any


class Appended(NamedTuple):
    base_offset: int
    position: LogPosition
    size_bytes: int
    records: list[VersionedRecord]
    done: Callable[[int], None]


class CommitReporter:
    def __init__(self, listener: QuorumListener) -> None:
        self._listener = listener
        self._appended: deque[Appended] = deque()
        self.reported = LogPosition(-1, 0, -1)
        """What the listener knows."""
        self.bytes_since_snapshot = 0

    @property
    def is_idle(self) -> bool:
        """Nothing that this node appended waits for its commit."""
        return not self._appended

    def appended(self, entry: Appended) -> None:
        self._appended.append(entry)

    def position_of(self, last_offset: int) -> LogPosition | None:
        """Of the batch that ends there, if it was the last reported one or is not reported yet."""
        if self.reported.offset == last_offset:
            return self.reported
        return next((each.position for each in self._appended if each.position.offset == last_offset), None)

    def drop_appended(self) -> None:
        """The leadership is lost: what a later leader commits of it is read from the log."""
        self._appended.clear()

    def load(self, snapshot: PreparedSnapshot) -> None:
        """The state is that of a snapshot."""
        self.reported = LogPosition(snapshot.id.offset - 1, snapshot.id.epoch, snapshot.timestamp_ms)
        self.bytes_since_snapshot = 0
        self._listener.loaded(snapshot.prepared, *self.reported)

    def report(self, log: MetadataLog, end_offset: int) -> None:
        """Everything below `end_offset`, which is committed, that was not reported yet."""
        while self.reported.offset + 1 < end_offset:
            next_offset = self.reported.offset + 1
            if self._appended and self._appended[0].base_offset == next_offset:
                if self._appended[0].position.offset >= end_offset:
                    return
                entry = self._appended.popleft()
                self._report(entry.position, entry.records, entry.size_bytes)
                entry.done(entry.position.offset)
                continue
            until = min(end_offset, self._appended[0].base_offset if self._appended else end_offset)
            self._report_stored(log, next_offset, until)
            if self.reported.offset + 1 < until:
                return  # what is committed ends within a batch: its leader says more later

    def _report_stored(self, log: MetadataLog, start: int, end: int) -> None:
        invariant(start >= log.log.log_start_offset, f"the log has what follows offset {start - 1}")
        for batch in log.batches(start, end):
            if batch.last_offset >= end:
                return
            position = LogPosition(batch.last_offset, batch.epoch, batch.timestamp_ms)
            self._report(position, batch.records, batch.size_bytes)

    def _report(self, position: LogPosition, records: list[VersionedRecord], size_bytes: int) -> None:
        self.reported = position
        self.bytes_since_snapshot += size_bytes
        self._listener.committed(records, *position)
