"""The disk of a simulated replica: what is durable, what a crash keeps of the rest, and operations that take time."""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass, field
from typing import NamedTuple

from tailrace.model.ids import DirectoryId
from tailrace.raft.consensus import StoredLog, VoterChange
from tailrace.raft.quorum_state import QuorumState
from tailrace.raft.snapshot import SnapshotId
from tailrace.raft.voters import Voter


class Entry(NamedTuple):
    """A record. `chain` is a hash of it and of everything below it. Its batch, all or nothing, ends at `batch_end`."""

    epoch: int
    payload: str
    chain: int
    batch_end: int
    change: VoterChange | None = None


class Snapshot(NamedTuple):
    id: SnapshotId
    chain: int
    kraft_version: int
    voters: tuple[Voter, ...]


@dataclass
class Log:
    """Entries from `start` on; `chain` is that of everything below `start`."""

    start: int = 0
    chain: int = 0
    entries: list[Entry] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + len(self.entries)

    def at(self, offset: int) -> Entry:
        return self.entries[offset - self.start]

    def chain_below(self, offset: int) -> int:
        return self.chain if offset == self.start else self.at(offset - 1).chain

    def append(self, epoch: int, payload: str, change: VoterChange | None = None, batch_end: int = -1) -> Entry:
        chain = zlib.crc32(f"{epoch}:{payload}".encode(), self.chain_below(self.end))
        entry = Entry(epoch, payload, chain, max(batch_end, self.end + 1), change)
        self.entries.append(entry)
        return entry

    def truncate(self, end: int) -> None:
        del self.entries[max(end - self.start, 0) :]

    def copy(self) -> Log:
        return Log(self.start, self.chain, list(self.entries))


class Operation(NamedTuple):
    """`log` is what a flush makes durable; `end` is where a truncation cuts."""

    number: int
    due_ms: float
    election: QuorumState | None = None
    log: Log | None = None
    end: int = -1
    snapshot: Snapshot | None = None


class SimDisk:
    """Election states and log operations each end in the order in which they began."""

    def __init__(self, directory_id: DirectoryId) -> None:
        self.directory_id = directory_id
        self.election: QuorumState | None = None
        self.log = Log()
        self.snapshots: list[Snapshot] = []
        self.elections: list[Operation] = []
        self.log_operations: list[Operation] = []

    def finish(self, operation: Operation) -> None:
        if operation.election is not None:
            self.election = operation.election
        elif operation.log is not None:
            self.log = operation.log
        elif operation.snapshot is not None:
            self.install(operation.snapshot)
        else:
            self.log.truncate(operation.end)

    def install(self, snapshot: Snapshot) -> None:
        self.snapshots = [snapshot]
        self.log = Log(snapshot.id.offset, snapshot.chain)

    def crash(self, rng: random.Random) -> None:
        """Of what was not durable, any beginning may be there."""
        for queue in (self.elections, self.log_operations):
            for operation in queue:
                if rng.random() < 0.5:
                    if operation.log is not None:
                        self._tear(operation.log, rng)
                    break
                self.finish(operation)
            queue.clear()

    def _tear(self, written: Log, rng: random.Random) -> None:
        """The flush was under way: some of what it adds to the file is there."""
        if written.start == self.log.start and written.end > self.log.end:
            end = rng.randint(self.log.end, written.end)
            while end > self.log.end and written.at(end - 1).batch_end > end:
                end -= 1
            is_continued = written.chain_below(self.log.end) == self.log.chain_below(self.log.end)
            if is_continued:
                self.log = Log(written.start, written.chain, written.entries[: end - written.start])

    def stored(self) -> StoredLog:
        epochs: list[tuple[int, int]] = []
        changes = []
        for offset, entry in enumerate(self.log.entries, self.log.start):
            if not epochs or epochs[-1][0] < entry.epoch:
                epochs.append((entry.epoch, offset))
            if entry.change is not None:
                changes.append(entry.change)
        base = None
        if self.snapshots and self.snapshots[-1].kraft_version > 0:
            newest = self.snapshots[-1]
            base = VoterChange(newest.id.offset - 1, newest.kraft_version, newest.voters)
            changes = [change for change in changes if change.offset >= newest.id.offset]
        ids = tuple(snapshot.id for snapshot in self.snapshots)
        return StoredLog(self.log.start, self.log.end, tuple(epochs), ids, base, tuple(changes))
