"""The pieces of a folder put together: what no task could know, since it saw only its own.

    stitching_edges       offsets, epochs and time indexes where two pieces meet
    stitching_producers   producers and their transactions over all pieces

Pieces come in the order of offsets. The findings are the same however the log was cut.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.places import Folder
from tailrace.spark.auditing.job.stitching_edges import Edges
from tailrace.spark.auditing.job.stitching_producers import ProducerStates, TakeStates
from tailrace.spark.auditing.pieces import PieceResult
from tailrace.spark.auditing.rules import HANGING_TRANSACTION
from tailrace.spark.auditing.task.findings import Findings
from tailrace.spark.auditing.task.producer_findings import log_path
from tailrace.spark.auditing.task.producer_judging import Judged, judged_of
from tailrace.storage.producer_state import LATE_TRANSACTION_GRACE_MS

MAX_TRANSACTION_MS: Final = 900_000
"""No transaction may be open for longer, unless brokers are told otherwise."""


def stitch(
    folder: Folder,
    results: Iterable[PieceResult],
    *,
    max_transaction_ms: int = MAX_TRANSACTION_MS,
    take_states: TakeStates | None = None,
) -> list[Finding]:
    """Findings at the seams of the pieces of one folder, and about the log as a whole.

    `results` are by base offset and position. Segments that could not be read are left out: nothing is judged across.
    `take_states` hears of the producers at every snapshot of the folder at which the log tells of them.
    """
    stitching = Stitching(folder, max_transaction_ms, take_states)
    for result in results:
        stitching.add(result)
    stitching.end()
    return stitching.findings.all()


class Stitching:
    def __init__(self, folder: Folder, max_transaction_ms: int, take_states: TakeStates | None) -> None:
        self.findings = Findings()
        self._folder = folder
        self._max_transaction_ms = max_transaction_ms
        self._take_states = take_states
        self._snapshots = [*reversed(folder.snapshots)]
        self._edges = Edges(self.findings, frozenset(folder.snapshots))
        self._producers: ProducerStates | None = None
        self._last: PieceResult | None = None
        self._bases: list[int] = []
        self._paths: list[str] = []
        self._ends: list[int] = []  # of segments: behind the last batch that was judged

    def add(self, result: PieceResult) -> None:
        """The next piece. Behind the high watermark there is none that says anything."""
        piece, seam = result.piece, result.seam
        if self._last is not None and self._last.seam.ends_unjudged and seam.first_offset is None:
            return
        if not self._bases or piece.base_offset != self._bases[-1]:
            self._bases.append(piece.base_offset)
            self._paths.append(log_path(piece))
            self._ends.append(piece.base_offset)
        self._ends[-1] = self._ends[-1] if seam.next_offset is None else seam.next_offset
        came_to = self._edges.next_offset
        continues = self._edges.meet(result)
        if self._producers is None:
            is_whole = continues and piece.is_first and piece.base_offset == seam.first_offset == 0
            self._producers = ProducerStates(self.findings, is_whole=is_whole)
        elif not continues:
            self._producers.lose()
        judged = judged_of(piece)
        if seam.first_offset is not None:
            self._tell_states(came_to, seam.first_offset, judged)
            if came_to is not None and came_to < seam.first_offset:
                self._producers.skip(seam.first_offset)
        for stretch in seam.producers:
            self._producers.play(piece, stretch, judged)
            if stretch.end_offset is not None:
                self._tell_states(stretch.end_offset, stretch.end_offset, judged)
        self._last = result

    def end(self) -> None:
        """There are no more."""
        last = self._last
        if last is None:
            return
        if self._edges.next_offset is not None:
            self._tell_states(self._edges.next_offset, self._edges.next_offset, judged_of(last.piece))
            self._edges.check_end(self._folder.judged_to)
        if last.seam.ends_unjudged or last.piece.next_base is None:
            self._find_hanging(last)

    def _tell_states(self, came_to: int | None, offset: int, judged: Judged) -> None:
        """There is no batch between two offsets: producers are the same at all snapshots there."""
        while self._snapshots and self._snapshots[-1] <= offset:
            snapshot = self._snapshots.pop()
            if self._take_states is None or self._producers is None:
                continue
            if came_to is not None and came_to <= snapshot:
                self._take_states(snapshot, self._producers.witnessed(judged))

    def _find_hanging(self, last: PieceResult) -> None:
        """Transactions that no coordinator can have left open for so long."""
        alive_ms = self._folder.alive_ms
        late_ms = alive_ms - self._max_transaction_ms - LATE_TRANSACTION_GRACE_MS
        for producer_id, state, told_ms in self._producers.open_transactions() if self._producers else ():
            first = state.transaction
            # Compaction stops before transactions that are open, so that none is open where it has been.
            if first is None or not 0 <= told_ms < late_ms or state.offset < last.piece.cleaned_to:
                continue
            is_last = state.offset + 1 >= self._ends[self._place(state.offset)]
            written_ms = max(told_ms, self._folder.not_written_before_ms(state.offset, is_last=is_last))
            if written_ms >= late_ms:
                continue
            words = (
                f"producer {producer_id}: transaction of epoch {state.epoch} has no marker; its last batch, at offset "
                f"{state.offset}, is {(alive_ms - written_ms) // 60_000} minutes before the newest sign of life"
            )
            partition = str(self._folder.partition)
            self.findings(Finding(self._paths[self._place(first)], partition, first, HANGING_TRANSACTION, words))

    def _place(self, offset: int) -> int:
        """Which segment the offset is in."""
        return max(bisect_right(self._bases, offset) - 1, 0)
