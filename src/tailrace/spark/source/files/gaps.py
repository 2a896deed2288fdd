"""Offsets that no batch has: compacted away, or lost?

The cleaner notes up to which offset it has cleaned a partition (`cleaner-offset-checkpoint`); below that, gaps are its
work. It notes that when a whole round is done, and the first segments of the round are in place before: a gap
above is its work too while the folder shows that it is busy. Everything else that is missing is loss. So is a gap in a
copy that was made without that file: nothing then says that the log was ever compacted.

A damaged batch does not always say where it ended: what is missing just behind it is damaged too.
"""

from __future__ import annotations

from typing import Final

from tailrace.env import Files
from tailrace.spark.source.decoding import Decoder
from tailrace.spark.source.files.folders import Checkpoints, PartitionFolder, Pause
from tailrace.spark.source.files.segments import list_segments
from tailrace.spark.source.loss import LossPolicy

_TRIES: Final = 5
_PAUSE_S: Final = 0.2


class GapJudge:
    """Of one folder, for one task."""

    def __init__(self, files: Files, folder: PartitionFolder, decoder: Decoder, loss: LossPolicy, pause: Pause) -> None:
        self._files = files
        self._decoder = decoder
        self._folder = folder
        self._loss = loss
        self._pause = pause
        self._cleaned_to = 0
        self._is_busy = False
        self._has_waited = False

    def begin_segment(self) -> None:
        """What the cleaner does is looked at anew for each."""
        self._is_busy = False

    def judge(self, start: int, end: int) -> None:
        """Nothing for what the cleaner has taken; the rest is told."""
        if self._decoder.goes_with_damage(start, end):
            return
        start = max(start, self._cleaned_to)
        if start >= end or self._is_busy:
            return
        self._cleaned_to = max(self._cleaned_to, self._noted())
        self._is_busy = end > self._cleaned_to and self._is_being_cleaned()
        if self._is_busy:
            return
        if end > self._cleaned_to and self._cleaned_to and not self._has_waited:
            self._wait_for_note(end)
        start = max(start, self._cleaned_to)
        if start < end:
            self._loss.lost(self._folder.partition, start, end, self._why())

    def _noted(self) -> int:
        return Checkpoints(self._files, self._folder.log_dir).of(self._folder.partition).cleaned_to or 0

    def _is_being_cleaned(self) -> bool:
        try:
            return list_segments(self._files, self._folder.path).is_being_cleaned
        except FileNotFoundError:
            return False

    def _wait_for_note(self, end: int) -> None:
        """A round may be over and not noted yet; once is enough for a task."""
        self._has_waited = True
        for _ in range(_TRIES):
            self._pause(_PAUSE_S)
            self._cleaned_to = max(self._cleaned_to, self._noted())
            if end <= self._cleaned_to:
                return

    def _why(self) -> str:
        cleaned = f"cleaned up to offset {self._cleaned_to}" if self._cleaned_to else "never cleaned"
        return f"no batch in {self._folder.path} has them, and its checkpoint says that it was {cleaned}"
