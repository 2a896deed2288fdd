"""Producers and transactions within a piece: each step of each producer is judged once all of its state is known.

What comes before that, and what a piece leaves behind, goes to the driver (`producer_seam`). Memory is bounded: of more
producers than MOST_PRODUCERS in a piece only those are remembered that wrote last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import nlargest
from typing import Final

import numpy as np

from tailrace.spark.auditing.finding import Report
from tailrace.spark.auditing.pieces import AuditPiece
from tailrace.spark.auditing.task.block import Block, Numbers
from tailrace.spark.auditing.task.producer_findings import finding_of
from tailrace.spark.auditing.task.producer_judging import (
    INHERITED,
    LOST,
    after,
    extended,
    faults,
    given_up,
    goes_on,
    is_settled,
    joined,
    judged_of,
)
from tailrace.spark.auditing.task.producer_seam import (
    ABORT,
    NONE,
    TXN_DATA,
    UNKNOWN,
    ProducerSeam,
    ProducerState,
    ProducerStep,
    ProducerStretch,
)
from tailrace.spark.auditing.task.producer_steps import steps_of

MOST_PRODUCERS: Final = 20_000
"""Of a stretch that go to the driver."""
MOST_STEPS: Final = 8
"""Of a producer that go to the driver. Three are enough but where fault follows fault."""


IsIndexed = Callable[[int], bool]
"""Whether the transaction index names an abort whose marker stands at this offset; True where it cannot be asked."""
BeganAt = Callable[[int], int]
"""Where the transaction began that is aborted at this offset, as the index says; UNKNOWN where it cannot be asked."""


class _Producer:
    """One in a stretch. Steps that merely continue are put into its state when that is asked for."""

    __slots__ = ("_settled", "generation", "is_judged", "last", "state", "steps")

    def __init__(self, generation: int, state: ProducerState, *, is_judged: bool) -> None:
        self.generation = generation
        self.state = state
        self.is_judged = is_judged
        """From here on; until then its steps are for the driver."""
        self.steps: list[ProducerStep] = []
        self.last: ProducerStep | None = None
        self._settled: ProducerStep | None = None  # the last one that is in `state` and `steps`

    def settle(self) -> None:
        """Bring `state` and `steps` to the last step."""
        if self.last is not None and self.last is not self._settled:
            self.state = extended(self.state, self.last)
            if not self.is_judged:
                self.steps[-1] = joined(self.steps[-1], self.last)
            self._settled = self.last

    def take(self, state: ProducerState, step: ProducerStep) -> None:
        """A step that does not merely continue, and what it leads to."""
        self.state = state
        self.last = self._settled = step


class ProducerRule:
    """A `PieceRule`. Without `is_indexed` nothing is held against the transaction index."""

    def __init__(
        self,
        piece: AuditPiece,
        report: Report,
        is_indexed: IsIndexed | None = None,
        began_at: BeganAt | None = None,
    ) -> None:
        self._piece = piece
        self._report = report
        self._is_indexed = is_indexed
        self._began_at = began_at
        self._judged = judged_of(piece)
        self._next_offset: int | None = None
        self._generation = 0  # how many breaks there were
        self._whole_from = 0  # behind the last gap
        self._cuts = [*reversed(piece.snapshot_offsets)]
        self._stretches: list[ProducerStretch] = []
        # Of the present stretch
        self._producers: dict[int, _Producer] = {}
        self._first_generation = 0
        self._has_forgotten = False

    def block(self, block: Block) -> None:
        if not len(block):
            return
        breaks, whole_from = self._breaks(block)
        for rows in self._stretches_of(block):
            for producer_id, generation, step in steps_of(block, rows, breaks, whole_from, self._judged):
                self._take(producer_id, generation, step)
            self._generation = int(breaks[rows.stop - 1])
            self._whole_from = int(whole_from[rows.stop - 1])
            if len(self._producers) > 2 * MOST_PRODUCERS:
                self._forget()
        self._next_offset = int(block.last_offset[-1]) + 1

    def damage(self, position: int, behind: int, next_offset: int | None) -> None:
        self._generation += 1
        self._next_offset = next_offset

    def end(self, position: int, *, is_whole: bool, is_end_of_file: bool) -> None:
        if not is_whole:
            self._generation += 1
        self._end_stretch(None)

    def seams(self) -> tuple[ProducerStretch, ...]:
        """For `Seam.producers`, after `end`."""
        return tuple(self._stretches)

    # Steps

    def _take(self, producer_id: int, generation: int, step: ProducerStep) -> None:
        known = self._producers.get(producer_id)
        if step.kind == ABORT:
            step = step._replace(indexed_from=self._indexed_from(step.offset))
        if known is None:
            is_first = generation == self._first_generation and not self._has_forgotten
            known = _Producer(generation, INHERITED if is_first else LOST, is_judged=not is_first)
            self._producers[producer_id] = known
        elif known.generation != generation:
            known.generation = generation
            known.settle()
            known.is_judged = True
            known.state = LOST
        elif known.last is not None and goes_on(known.last, step, self._judged):
            known.last = step
            return
        else:
            known.settle()
        if known.is_judged:
            self._judge(producer_id, known.state, step)
        known.take(after(known.state, step, self._judged), step)
        if not known.is_judged:
            known.steps.append(step)
            known.is_judged = is_settled(known.state)
            if not known.is_judged and len(known.steps) == MOST_STEPS:
                known.state = given_up(known.state)
                known.is_judged = True

    def _judge(self, producer_id: int, state: ProducerState, step: ProducerStep) -> None:
        for fault in faults(state, step, self._judged):
            self._report(finding_of(self._piece, producer_id, step.offset, step.position, fault))

    def _indexed_from(self, marker_offset: int) -> int:
        """What the index says of an abort. Compaction writes indexes anew, and leaves out what has no records."""
        if self._is_indexed is None or self._piece.base_offset < self._judged.lost_to:
            return UNKNOWN
        if not self._is_indexed(marker_offset):
            return NONE
        return UNKNOWN if self._began_at is None else self._began_at(marker_offset)

    def _breaks(self, block: Block) -> tuple[Numbers, Numbers]:
        """For each batch how many breaks there were before it in the piece, and from where on no offset is missing.

        A break is where offsets do not go on. Where compaction may have taken what is missing it is a gap, and none.
        """
        base = block.base_offset
        if self._next_offset in (None, int(base[0])) and (base[1:] - block.last_offset[:-1] == 1).all():
            return np.full(len(base), self._generation, np.int64), np.full(len(base), self._whole_from, np.int64)
        came_to = np.empty_like(base)
        came_to[1:] = block.last_offset[:-1] + 1
        came_to[0] = base[0] if self._next_offset is None else self._next_offset
        is_break = (base != came_to) & ((base < came_to) | (base > self._judged.lacks_to))
        whole_from = np.maximum.accumulate(np.where(base > came_to, base, self._whole_from))
        return self._generation + np.cumsum(is_break, dtype=np.int64), whole_from

    def _forget(self) -> None:
        """Who has an open transaction, or wrote last, is remembered."""
        newest = nlargest(MOST_PRODUCERS, self._producers.items(), key=_by_weight)
        self._producers = dict(newest)
        self._has_forgotten = True

    # Stretches

    def _stretches_of(self, block: Block) -> Iterator[slice]:
        """The rows of the block, cut where a producer snapshot was taken between two batches."""
        start = 0
        while self._cuts and self._cuts[-1] <= int(block.base_offset[-1]):
            offset = self._cuts.pop()
            row = int(np.argmax(block.base_offset >= offset))
            before = self._next_offset if row == 0 else int(block.last_offset[row - 1]) + 1
            if row >= start and before is not None and before <= offset:
                if row > start:
                    yield slice(start, row)
                self._end_stretch(offset)
                start = row
        if start < len(block):
            yield slice(start, len(block))

    def _end_stretch(self, offset: int | None) -> None:
        has_break = self._has_forgotten or self._generation != self._first_generation
        if len(self._producers) > MOST_PRODUCERS:
            has_break = True
            self._forget()
        seams = {producer_id: self._seam(known) for producer_id, known in self._producers.items()}
        self._stretches.append(ProducerStretch(offset, has_break, seams, self._whole_from))
        self._producers = {}
        self._first_generation = self._generation
        self._has_forgotten = False

    def _seam(self, known: _Producer) -> ProducerSeam:
        known.settle()
        tail: ProducerState | None = known.state
        if known.generation != self._generation:
            tail = LOST
        elif not known.is_judged:
            tail = None
        return ProducerSeam(tuple(known.steps), tail)


def _by_weight(item: tuple[int, _Producer]) -> tuple[bool, int]:
    known = item[1]
    return known.state.kind == TXN_DATA, known.state.offset if known.last is None else known.last.last_offset
