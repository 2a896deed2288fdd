"""Producers over all pieces of a folder: the steps that tasks could not judge are played on the state before them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from heapq import nlargest
from itertools import accumulate, islice
from typing import Final, NamedTuple

from tailrace.spark.auditing.finding import Report
from tailrace.spark.auditing.job.snapshot_states import LoggedProducer
from tailrace.spark.auditing.pieces import AuditPiece
from tailrace.spark.auditing.task.producer_findings import finding_of
from tailrace.spark.auditing.task.producer_judging import LOST, NEW, Judged, after, continues, extended, faults
from tailrace.spark.auditing.task.producer_seam import (
    ABORT,
    DATA,
    NONE,
    UNKNOWN,
    ProducerSeam,
    ProducerState,
    ProducerStretch,
)

MOST_KNOWN: Final = 200_000
"""Producers of a folder whose state is held. Of more than that only those that wrote last are."""
MOST_WITNESSED: Final = 20_000
"""Producers that are held against one snapshot."""

TakeStates = Callable[[int, Mapping[int, LoggedProducer]], None]
"""Gets the offset of a snapshot, and all producers of whose state there the log is a good witness."""


class OpenTransaction(NamedTuple):
    producer_id: int
    state: ProducerState
    told_ms: int
    """When its last batch was written, as far as the log tells. Producers may give batches times of long ago; no marker
    before the batch is younger than it, and markers have the times of brokers. `Folder.not_written_before_ms` may know
    more."""


class ProducerStates:
    """The producers of a log, as of where its pieces have come to."""

    def __init__(self, report: Report, *, is_whole: bool) -> None:
        """`is_whole`: the log begins with its very first batch."""
        self._report = report
        self._known: dict[int, ProducerState] = {}
        self._whole_from = 0  # behind the last gap
        self._other = NEW if is_whole else LOST
        """Any producer that is not known."""

    def lose(self) -> None:
        """Batches are missing or damaged here."""
        self._known.clear()
        self._other = LOST

    def skip(self, offset: int) -> None:
        """Compaction took what was before this offset, and behind the pieces so far."""
        self._whole_from = offset

    def play(self, piece: AuditPiece, stretch: ProducerStretch, judged: Judged) -> None:
        """The next stretch of the log."""
        ends = {
            producer_id: self._play(piece, producer_id, seam, judged) for producer_id, seam in stretch.producers.items()
        }
        self._whole_from = max(self._whole_from, stretch.whole_from)
        if stretch.has_break:
            self._known = {producer_id: state for producer_id, state in ends.items() if state is not LOST}
            self._other = LOST
        else:
            for producer_id in ends:
                self._known.pop(producer_id, None)  # who wrote last stands last
            self._known.update(ends)
        if len(self._known) > 2 * MOST_KNOWN:
            self._known = dict(nlargest(MOST_KNOWN, self._known.items(), key=_by_weight))
            self._other = LOST

    def open_transactions(self) -> list[OpenTransaction]:
        """Those of which it is certain, in the order in which they began."""
        marked = sorted((state.offset, state.ended_ms) for state in self._known.values() if state.kind >= ABORT)
        offsets = [offset for offset, _ in marked]
        newest_ms = [NONE, *accumulate((ended_ms for _, ended_ms in marked), max)]
        found = [
            OpenTransaction(
                producer_id, state, max(state.timestamp, state.ended_ms, newest_ms[bisect_left(offsets, state.offset)])
            )
            for producer_id, state in self._known.items()
            if state.is_open
        ]
        return sorted(found, key=lambda one: one.state.transaction or 0)

    def witnessed(self, judged: Judged) -> dict[int, LoggedProducer]:
        """Producers whose state is known in every part: all, or of very many those that wrote last."""
        found: dict[int, LoggedProducer] = {}
        for producer_id, state in islice(reversed(self._known.items()), MOST_WITNESSED):
            logged = _logged(state, max(judged.lost_to, self._whole_from))
            if logged is not None:
                found[producer_id] = logged
        return found

    def _play(self, piece: AuditPiece, producer_id: int, seam: ProducerSeam, judged: Judged) -> ProducerState:
        state = self._known.get(producer_id, self._other)
        for each in seam.steps:
            step = each if each.whole_from >= self._whole_from else each._replace(whole_from=self._whole_from)
            if continues(state, step, judged):
                state = extended(state, step)
                continue
            for fault in faults(state, step, judged):
                self._report(finding_of(piece, producer_id, step.offset, step.position, fault))
            state = after(state, step, judged)
        return state if seam.tail is None else seam.tail


def _by_weight(item: tuple[int, ProducerState]) -> tuple[bool, int]:
    return item[1].is_open, item[1].offset


def _logged(state: ProducerState, lost_to: int) -> LoggedProducer | None:
    epoch, sequence, coordinator_epoch = state.epoch, state.sequence, state.coordinator_epoch
    if coordinator_epoch == UNKNOWN and state.kind == DATA:
        coordinator_epoch = NONE  # a producer without transactions has no coordinator
    is_begin_known = state.transaction == NONE or (state.is_open and state.is_begin_known)
    is_known = None not in (epoch, sequence) and UNKNOWN not in (epoch, sequence, coordinator_epoch)
    if not is_known or not is_begin_known or state.sequence_offset + 1 < lost_to:
        return None
    assert epoch is not None
    assert sequence is not None
    assert coordinator_epoch is not None
    return LoggedProducer(
        epoch=epoch,
        last_sequence=sequence,
        last_offset=NONE if sequence == NONE else state.sequence_offset,
        coordinator_epoch=coordinator_epoch,
        open_from=state.transaction if state.is_open else None,
    )
