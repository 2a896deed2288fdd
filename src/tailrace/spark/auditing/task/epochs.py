"""Rule: leader epochs of batches never fall, and are those that leader-epoch-checkpoint has for their offsets.

Batches of one epoch follow each other in long runs, so it is runs that are looked at. One that differs from the
checkpoint is the checkpoint's fault where it fits between the runs around it, and its own where it does not. Without
a checkpoint a run that is higher than those on both of its sides, or lower, is the one that is wrong.

A batch of format v2 has had an epoch ever since there is that format: one without stands before all that have one, in a
log that somebody made by hand, or lost its epoch.

Before its first entry the checkpoint says nothing. It may begin behind the log start: when records are deleted it is
cut at once, and the log start noted later. A kill between the two brings the records back without their epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tailrace.record.batch import MAGIC_V2
from tailrace.spark.auditing.finding import Finding, Report
from tailrace.spark.auditing.pieces import AuditPiece
from tailrace.spark.auditing.rules import EPOCH_CHECKPOINT, EPOCH_ORDER
from tailrace.spark.auditing.task.block import Block, Numbers
from tailrace.storage import names

_NONE: Final = -1
_RUNS_AHEAD: Final = 2


@dataclass
class _Run:
    """Batches that follow each other and have the same epoch, where the same is expected."""

    epoch: int
    expected: int
    """By the checkpoint; −1 where that does not say."""
    offset: int
    position: int
    batches: int


class EpochRule:
    """A `PieceRule`."""

    def __init__(self, piece: AuditPiece, report: Report) -> None:
        self._piece = piece
        self._report = report
        self._starts: Numbers = np.array([entry.start_offset for entry in piece.epochs], np.int64)
        self._epochs: Numbers = np.array([_NONE, *(entry.epoch for entry in piece.epochs)], np.int64)
        self._held: list[_Run] = []  # each judged when the two behind it are known
        self.first_epoch = _NONE
        """Of the first batch that has one and is not found fault with; −1 without one."""
        self.last_epoch = _NONE
        self.without_epoch: tuple[int, int] | None = None
        """Offset and position of the first batch of format v2, if it has no epoch."""

    def block(self, block: Block) -> None:
        epochs, offsets, positions = block.leader_epoch, block.base_offset, block.position
        if self._goes_on(block):
            self._held[-1].batches += len(block)
            return
        is_judged = (epochs >= 0) | ((epochs == _NONE) & (block.magic == MAGIC_V2))
        if self._piece.judged_to is not None:
            is_judged &= block.last_offset < self._piece.judged_to
        if not is_judged.all():
            epochs, offsets, positions = (each[is_judged] for each in (epochs, offsets, positions))
        if not len(epochs):
            return
        expected = self._epochs[np.searchsorted(self._starts, offsets, "right")]
        changes = np.flatnonzero((np.diff(epochs) != 0) | (np.diff(expected) != 0)) + 1
        first_rows = [0, *changes.tolist()]
        for first, behind in zip(first_rows, [*first_rows[1:], len(epochs)], strict=True):
            place = int(offsets[first]), int(positions[first])
            self._take(_Run(int(epochs[first]), int(expected[first]), *place, behind - first))

    def _goes_on(self, block: Block) -> bool:
        """Whether all of the block belongs to the present run, as nearly always."""
        if not self._held or not bool((block.leader_epoch == self._held[-1].epoch).all()):
            return False
        first, last = int(block.base_offset[0]), int(block.last_offset[-1])
        is_judged = self._piece.judged_to is None or last < self._piece.judged_to
        places = np.searchsorted(self._starts, (first, last), "right")
        is_one_entry = bool(places[0] == places[1]) and int(self._epochs[places[0]]) == self._held[-1].expected
        return is_judged and is_one_entry

    def damage(self, position: int, behind: int, next_offset: int | None) -> None:
        """Epochs go on behind it all the same."""

    def end(self, position: int, *, is_whole: bool, is_end_of_file: bool) -> None:
        while self._held:
            self._judge(self._held.pop(0), self._held)

    def _take(self, run: _Run) -> None:
        last = self._held[-1] if self._held else None
        if last is not None and (last.epoch, last.expected) == (run.epoch, run.expected):
            last.batches += run.batches
            return
        self._held.append(run)
        if len(self._held) > _RUNS_AHEAD + 1:  # the last may still grow
            self._judge(self._held.pop(0), self._held)

    def _judge(self, run: _Run, following: Sequence[_Run]) -> None:
        if run.epoch == _NONE and self.last_epoch == _NONE and self.without_epoch is None:
            self.without_epoch = run.offset, run.position
        if _NONE in (run.expected, run.epoch):
            self._judge_alone(run, following)
        elif run.epoch == run.expected:
            self._accept(run)
        else:
            self._differs(run, next((each for each in following if each.epoch != _NONE), None))

    def _accept(self, run: _Run) -> None:
        if self.first_epoch == _NONE:
            self.first_epoch = run.epoch
        self.last_epoch = run.epoch

    def _differs(self, run: _Run, following: _Run | None) -> None:
        """From the checkpoint."""
        what = _subject(run)
        fits_behind = run.epoch >= self.last_epoch
        is_known = run.batches > 1 or run.epoch in self._epochs
        fits_before = is_known if following is None else run.epoch <= following.epoch
        if fits_behind and fits_before:
            words = f"says epoch {run.expected} for offset {run.offset}, but {what} leader epoch {run.epoch}"
            self._say_of_checkpoint(run, words)
            return
        words = f"{what} leader epoch {run.epoch}, but by {names.LEADER_EPOCH_CHECKPOINT} it is {run.expected}"
        self._say(run, EPOCH_CHECKPOINT if fits_behind else EPOCH_ORDER, words)

    def _judge_alone(self, run: _Run, following: Sequence[_Run]) -> None:
        """Without a checkpoint, or where that says nothing."""
        if run.epoch < self.last_epoch:
            words = f"batch has {_shown(run.epoch)}, but one before it has {self.last_epoch}"
            self._say(run, EPOCH_ORDER, words)
        elif following and self._is_peak(run, *following[:_RUNS_AHEAD]):
            behind = following[0].epoch
            words = f"batch has leader epoch {run.epoch}, but the one behind it has {'none' if behind < 0 else behind}"
            self._say(run, EPOCH_ORDER, words)
        else:
            self._accept(run)

    def _is_peak(self, run: _Run, following: _Run, behind: _Run | None = None) -> bool:
        """Whether the run is too high, and not the one behind it too low."""
        if not self.last_epoch <= following.epoch < run.epoch:
            return False
        if behind is not None and behind.epoch < run.epoch:
            return True
        if run.batches != following.batches:  # either would do: the shorter one is more likely to be wrong
            return run.batches < following.batches
        if following.epoch == _NONE:  # lost more likely than never there
            return False
        return behind is None or (following.epoch == self.last_epoch and behind.epoch != run.epoch)

    def _say(self, run: _Run, rule: str, words: str) -> None:
        name = names.log_name(self._piece.base_offset) + (names.SWAP_SUFFIX if self._piece.is_swap else "")
        path = names.join(self._piece.folder, name)
        self._report(Finding(path, str(self._piece.partition), run.offset, rule, words, run.position))

    def _say_of_checkpoint(self, run: _Run, words: str) -> None:
        path = names.join(self._piece.folder, names.LEADER_EPOCH_CHECKPOINT)
        self._report(Finding(path, str(self._piece.partition), run.offset, EPOCH_CHECKPOINT, words))


def _subject(run: _Run) -> str:
    if run.batches > 1:
        return f"{run.batches} batches from offset {run.offset} on have"
    return f"batch at offset {run.offset} has"


def _shown(epoch: int) -> str:
    return "no leader epoch" if epoch == _NONE else f"leader epoch {epoch}"
