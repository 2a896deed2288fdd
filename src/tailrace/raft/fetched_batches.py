"""Record batches that a leader has sent: validated as a whole before the first one is appended.

A response is refused, and asked for again, unless every batch in it

- is of magic 2 and has the CRC that it states,
- begins where the one before it ends, and has as many records as offsets,
- has the epoch of the one before it, or begins a later one with control records,
- has control records that can be read, if it is a control batch.

The last batch may be cut off: the sender reads as many bytes as were asked for.
"""

from __future__ import annotations

from typing import NamedTuple

from tailrace.model.errors import (
    CorruptMessageError,
    InvalidDataError,
    MessageTooLargeError,
    UnsupportedVersionError,
)
from tailrace.model.invariant import invariant
from tailrace.protocol.records.control import KRaftVersionRecord, VotersRecord
from tailrace.raft.consensus.messages import LogRun, VoterChange
from tailrace.raft.control_batch import control_records
from tailrace.raft.voters import voters_of
from tailrace.record.shallow import ShallowBatch, batches, check_integrity


class FetchedBatches(NamedTuple):
    """`ends` are the offset and the position after each batch of `data`; `runs` describe them for the core."""

    data: bytes
    ends: tuple[tuple[int, int], ...]
    runs: tuple[LogRun, ...]

    def below(self, end_offset: int) -> memoryview:
        """The bytes of the batches below an offset at which one of them ends."""
        position = next((position for offset, position in self.ends if offset == end_offset), None)
        invariant(position is not None, f"a fetched batch ends at offset {end_offset}")
        return memoryview(self.data)[:position]


NO_BATCHES = FetchedBatches(b"", (), ())


def validated(data: bytes) -> FetchedBatches:
    """One of the errors in `REFUSED` if the response is to be refused."""
    ends: list[tuple[int, int]] = []
    runs: list[LogRun] = []
    for batch in batches(data):
        _check(data, batch, ends[-1][0] if ends else batch.base_offset, runs[-1].epoch if runs else None)
        changes = voter_changes_of(data, batch) if batch.is_control else ()
        ends.append((batch.next_offset, batch.end))
        if runs and runs[-1].epoch == batch.leader_epoch:
            run = runs.pop()
            runs.append(run._replace(end_offset=batch.next_offset, changes=(*run.changes, *changes)))
        else:
            runs.append(LogRun(batch.base_offset, batch.next_offset, batch.leader_epoch, changes))
    if data and not ends:
        raise CorruptMessageError(f"{len(data)} bytes of records have no whole batch")
    return FetchedBatches(data, tuple(ends), tuple(runs))


def _check(data: bytes, batch: ShallowBatch, base_offset: int, epoch: int | None) -> None:
    if not batch.is_v2:
        raise CorruptMessageError(f"a batch of magic {batch.magic} is not of a metadata log")
    check_integrity(data, batch)
    if batch.base_offset != base_offset or batch.record_count != batch.next_offset - base_offset or base_offset < 0:
        raise CorruptMessageError(
            f"a batch of {batch.record_count} records from offset {batch.base_offset} to {batch.last_offset} does not "
            f"continue the log at offset {base_offset}"
        )
    is_successor = epoch is None or batch.leader_epoch == epoch or (batch.leader_epoch > epoch and batch.is_control)
    if batch.record_count < 1 or batch.leader_epoch < 0 or not is_successor:
        raise CorruptMessageError(f"a batch of epoch {batch.leader_epoch} does not follow epoch {epoch}")


def voter_changes_of(data: bytes, batch: ShallowBatch) -> tuple[VoterChange, ...]:
    """What the records of a control batch say of the voters."""
    changes = []
    for offset, record in control_records(data, batch):
        if isinstance(record, KRaftVersionRecord):
            changes.append(VoterChange(offset, kraft_version=record.kraft_version))
        elif isinstance(record, VotersRecord):
            changes.append(VoterChange(offset, voters=voters_of(record)))
    return tuple(changes)


REFUSED = (InvalidDataError, MessageTooLargeError, UnsupportedVersionError)
"""The errors of `validated`."""
