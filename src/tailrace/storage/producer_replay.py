"""Producer state from the log itself: batches that are in it already are believed and played in order."""

from __future__ import annotations

from collections.abc import Callable, Container

from tailrace.env import Buffer
from tailrace.model.errors import InvalidRecordError
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.record.control import ControlRecord, control_of
from tailrace.record.shallow import ShallowBatch, next_batch
from tailrace.storage.origin import Origin
from tailrace.storage.producer_append import EndTxnMarker
from tailrace.storage.producer_entry import CompletedTxn
from tailrace.storage.producer_state import ProducerStateManager
from tailrace.storage.segment import LogSegment
from tailrace.storage.segments import LogSegments
from tailrace.storage.transaction_index import AbortedTxn


def replay_batch(
    state: ProducerStateManager, batch: ShallowBatch, place: LogOffsetMetadata | None, marker: EndTxnMarker | None
) -> CompletedTxn | None:
    """Play one batch of a producer; the transaction it ends is the caller's to complete."""
    info = state.prepare_update(batch.producer_id, Origin.REPLICATION)
    completed = info.append(batch, place, marker)
    state.update(info)
    return completed


def marker_of(buffer: Buffer, batch: ShallowBatch) -> EndTxnMarker | None:
    """The end-of-transaction marker in a control batch; None for other control records and emptied batches."""
    control = control_of(buffer, batch)
    return _as_marker(control) if control is not None else None


def _as_marker(control: ControlRecord) -> EndTxnMarker | None:
    return control if control.ends_transaction else None  # type: ignore[return-value]  # has a coordinator epoch then


def _marker_in(segment: LogSegment, position: int, batch: ShallowBatch) -> EndTxnMarker | None:
    buffer = segment.records.read(position, batch.size)
    whole = next_batch(buffer, 0, len(buffer))
    if whole is None:
        raise InvalidRecordError(f"control batch at offset {batch.base_offset} of {segment!r} is not whole")
    return marker_of(buffer, whole)


def replay_segment(
    state: ProducerStateManager,
    segment: LogSegment,
    start: int,
    end: int,
    aborted: Callable[[AbortedTxn], None] | None = None,
) -> None:
    """Play the batches of a segment that lie in `start` ≤ offset < `end`; aborted transactions go to `aborted`."""
    found = segment.translate(start)
    if found is None:
        return
    for position, batch in segment.records.headers(found[0]):
        if batch.last_offset >= end:
            return
        if batch.has_producer_id:
            marker = _marker_in(segment, position, batch) if batch.is_control else None
            place = LogOffsetMetadata(batch.base_offset, segment.base_offset, position)
            completed = replay_batch(state, batch, place, marker)
            if completed is not None:
                if completed.is_aborted and aborted is not None:
                    aborted(AbortedTxn(*completed[:3], state.last_stable_offset(completed)))
                state.complete_txn(completed)
        state.update_map_end_offset(batch.next_offset)


TakeSnapshot = Callable[[ProducerStateManager], object]
"""What to do where a snapshot is due: write it, or capture it to be written when the log below it is durable."""


def replay_log(
    state: ProducerStateManager,
    segments: LogSegments,
    log_start: int,
    end: int,
    snapshot_at: Container[int] = (),
    take_snapshot: TakeSnapshot = ProducerStateManager.take_snapshot,
) -> None:
    """Bring producer state from where it stands to offset `end`, with a snapshot before each segment of these bases."""
    if state.map_end_offset < end:
        for segment in segments.covering(state.map_end_offset, end):
            start = max(segment.base_offset, state.map_end_offset, log_start)
            state.update_map_end_offset(start)
            if segment.base_offset in snapshot_at:
                take_snapshot(state)
            replay_segment(state, segment, start, end)
    state.update_map_end_offset(end)


def rebuild(
    state: ProducerStateManager,
    segments: LogSegments,
    log_start: int,
    end: int,
    now_ms: int,
    *,
    was_clean: bool,
    take_snapshot: TakeSnapshot = ProducerStateManager.take_snapshot,
) -> None:
    """Bring producer state to offset `end`, the end of the log: from the newest good snapshot, and the log after it.

    A log that was shut down cleanly and has no snapshot comes from a version that wrote none: nothing in it needs
    state, so snapshots are written instead of a scan. The last two segments get one each, so that the next
    recovery begins there.

    What lies below the log start in the first segment is played too: its producers are as active as any.
    """
    active, first = segments.active, segments.first
    begin = log_start if first is None else min(first.base_offset, log_start)
    snapshot_at = {end}
    if active is not None:
        snapshot_at.add(active.base_offset)
        before = segments.lower(active.base_offset)
        if before is not None:
            snapshot_at.add(before.base_offset)
    if was_clean and state.latest_snapshot_offset is None:
        for offset in sorted(each for each in snapshot_at if each <= end):
            state.update_map_end_offset(offset)
            take_snapshot(state)
        return
    state.truncate_and_reload(begin, end, now_ms)
    replay_log(state, segments, begin, end, snapshot_at, take_snapshot)
    take_snapshot(state)
