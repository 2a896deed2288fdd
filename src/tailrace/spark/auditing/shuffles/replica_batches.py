"""One stretch of two replicas, batch by batch, byte by byte.

A replica has the batches of its leader as they are: offsets, epochs, bytes. Equal stretches are compared as memory;
only where they differ batches are looked at one by one. A batch that does not have the CRC that it states, and what
could not be framed, is told by other rules and is no difference here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from tailrace.env import Files
from tailrace.model.errors import CorruptMessageError
from tailrace.record.shallow import ShallowBatch, check_integrity
from tailrace.spark.auditing.shuffles.batch_stream import NO_BATCHES, BatchStream
from tailrace.spark.source.files.read_only import ReadOnlyFiles

MOST_DIFFERENCES: Final = 100
"""Of one stretch; neighbours are one difference."""


class Kind(StrEnum):
    DIFFERS = "differs"
    FIRST_LACKS = "first lacks"
    SECOND_LACKS = "second lacks"


@dataclass(frozen=True)
class Comparison:
    """What a task does. `place` tells whoever asked which one it is."""

    place: int
    first: str
    """A folder."""
    second: str
    start: int
    end: int


@dataclass(frozen=True)
class Difference:
    """At offsets [offset, behind)."""

    kind: Kind
    offset: int
    behind: int
    batches: int = 1
    first_position: int | None = None
    """Of the first batch that differs, in the first folder's file."""
    second_position: int | None = None
    words: str = ""


@dataclass(frozen=True)
class Compared:
    comparison: Comparison
    differences: tuple[Difference, ...]
    is_readable: bool = True
    """False where files went away faster than they could be read."""


def compare_all(tasks: Sequence[Comparison]) -> list[Compared]:
    """Runs in a task."""
    return [compare(task) for task in tasks]


def compare(task: Comparison, files: Files | None = None) -> Compared:
    """Whatever the files are like, there are differences or none, and no error."""
    readable = ReadOnlyFiles(files)
    first, second = (BatchStream(readable, folder, task.start, task.end) for folder in (task.first, task.second))
    try:
        return Compared(task, tuple(_Merge(_Side(first), _Side(second)).differences()))
    except OSError:
        return Compared(task, (), is_readable=False)


class _Side:
    """Where one stream stands: at batch `at` of `run`, or at its end."""

    def __init__(self, stream: BatchStream) -> None:
        self.stream = stream
        self._runs = stream.runs()
        self.run = NO_BATCHES
        self.at = 0
        self.is_ended = False
        self.advance(0)

    @property
    def first(self) -> int:
        return int(self.run.firsts[self.at])

    @property
    def behind(self) -> int:
        return int(self.run.lasts[self.at]) + 1

    @property
    def position(self) -> int:
        """In the file."""
        return self.run.position + int(self.run.starts[self.at])

    @property
    def batch(self) -> ShallowBatch:
        return self.run.batch(self.at)

    @property
    def is_intact(self) -> bool:
        try:
            check_integrity(self.run.data, self.batch)
        except CorruptMessageError:
            return False
        return True

    def advance(self, batches: int = 1) -> None:
        self.at += batches
        if self.at >= len(self.run):
            following = next(self._runs, None)
            self.is_ended = following is None
            self.run, self.at = following or NO_BATCHES, 0


class _Merge:
    def __init__(self, one: _Side, two: _Side) -> None:
        self._one, self._two = one, two
        self._found: list[Difference] = []
        self._covered = 0
        """Below it nothing is compared any more: batches there differ as a whole."""

    def differences(self) -> list[Difference]:
        one, two = self._one, self._two
        while len(self._found) <= MOST_DIFFERENCES:
            for side in (one, two):
                while not side.is_ended and side.first < self._covered:
                    side.advance()
            if one.is_ended and two.is_ended:
                break
            if two.is_ended or (not one.is_ended and one.behind <= two.first):
                self._lacks(Kind.SECOND_LACKS, one, two)
            elif one.is_ended or two.behind <= one.first:
                self._lacks(Kind.FIRST_LACKS, two, one)
            elif not self._pass_equal():
                self._differ()
        return self._found

    def _pass_equal(self) -> bool:
        """Go over all batches that are the same bytes, as far as both runs go; False where the next ones are not."""
        one, two = self._one, self._two
        ours, theirs = one.run.bytes_from(one.at), two.run.bytes_from(two.at)
        size = min(len(ours), len(theirs))
        shorter = one if len(ours) <= len(theirs) else two
        if np.array_equal(ours[:size], theirs[:size]):
            count = len(shorter.run) - shorter.at
        else:
            unequal = int(np.argmax(ours[:size] != theirs[:size]))
            ends = shorter.run.starts[shorter.at + 1 :] - shorter.run.starts[shorter.at]
            count = int(np.searchsorted(ends, unequal, side="right"))
        if count:
            one.advance(count)
            two.advance(count)
        return count > 0

    def _lacks(self, kind: Kind, having: _Side, lacking: _Side) -> None:
        offset, behind = having.first, having.behind
        if lacking.stream.is_known(offset, behind) and having.is_intact:
            self._add(Difference(kind, offset, behind))
        having.advance()

    def _differ(self) -> None:
        one, two = self._one, self._two
        offset, behind = min(one.first, two.first), max(one.behind, two.behind)
        if one.is_intact and two.is_intact:
            words = _words(one, two)
            self._add(Difference(Kind.DIFFERS, offset, behind, 1, one.position, two.position, words))
        self._covered = behind

    def _add(self, found: Difference) -> None:
        last = self._found[-1] if self._found else None
        if last is None or last.kind != found.kind or last.behind != found.offset:
            self._found.append(found)
            return
        self._found[-1] = Difference(
            last.kind,
            last.offset,
            found.behind,
            last.batches + 1,
            last.first_position,
            last.second_position,
            last.words,
        )


def _words(one: _Side, two: _Side) -> str:
    """In what the second's batch differs from the first's."""
    theirs, ours = one.batch, two.batch
    for name in ("base_offset", "last_offset", "leader_epoch", "producer_id", "record_count", "size"):
        here, there = getattr(ours, name), getattr(theirs, name)
        if here != there:
            return f"{name.replace('_', ' ')} is {here} here, {there} there"
    return f"CRC is {ours.crc:08x} here, {theirs.crc:08x} there"
