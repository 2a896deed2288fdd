"""Segments through waves of tasks: each comes back when all of its pieces are done and meet.

Pieces of a segment are read by different executors at different times. They belong together when they were read from
one file and each goes on where the one before ends. Where they do not, an index lied about where batches begin, the
file was put in the place of another meanwhile, or something is wrong just there: the segment is then audited again in
one piece, which tells best what it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from tailrace.env import Files
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.places import Folder, ListedSegment
from tailrace.spark.auditing.job.planning import cut, packed, split_positions, waves
from tailrace.spark.auditing.job.stitching_edges import is_smooth
from tailrace.spark.auditing.job.tasks import Missed, audit_pieces
from tailrace.spark.auditing.pieces import AuditPiece, PieceResult
from tailrace.spark.auditing.progress import READ
from tailrace.spark.tables.tasks.jobs import Failure, run_tasks
from tailrace.spark.tables.tasks.reading import Told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SegmentWork:
    folder: Folder
    segment: ListedSegment
    whole: AuditPiece
    """The segment in one piece."""


@dataclass
class SegmentResult:
    work: SegmentWork
    pieces: list[PieceResult] = field(default_factory=list)
    """By position. Empty where it was missed."""
    missed: Missed | None = None
    is_remembered: bool = False
    """From an earlier audit."""

    @property
    def findings(self) -> list[Finding]:
        return [finding for piece in self.pieces for finding in piece.findings]

    @property
    def is_as_listed(self) -> bool:
        """Whether the file that was read is the one that was listed. The last one may have grown.

        So is one that is there and cannot be read.
        """
        if self.missed is not None:
            return self.missed.words is not None
        listed = self.work.segment
        return all(
            piece.identity == listed.status.identity
            and (piece.size == listed.size or (listed.next_base is None and piece.size > listed.size))
            for piece in self.pieces
        )


def audit_segments(
    spark: SparkSession, files: Files, works: Iterable[SegmentWork], cores: int, told: Told | None
) -> Iterator[list[SegmentResult]]:
    """After each wave those that are complete. `told` hears of bytes within a wave."""
    pending: dict[int, _Pending] = {}

    def jobs() -> Iterator[tuple[tuple[int, AuditPiece], int]]:
        for number, work in enumerate(works):
            pieces = cut(work.whole, split_positions(files, work.segment))
            pending[number] = _Pending(work, len(pieces))
            for piece in pieces:
                end = work.segment.size if piece.end is None else piece.end
                yield (number, piece), max(end - piece.start, 0)

    for wave in waves(jobs(), cores):
        done: list[SegmentResult] = []
        again: list[SegmentWork] = []
        for number, result in _run(spark, wave, cores, told):
            waiting = pending[number]
            waiting.results.append(result)
            if len(waiting.results) == waiting.count:
                del pending[number]
                if waiting.meets:
                    done.append(waiting.complete())
                else:
                    again.append(waiting.work)
        if again:
            done += _in_one_piece(spark, again, cores)
        yield done


@dataclass
class _Pending:
    work: SegmentWork
    count: int
    results: list[PieceResult | Missed] = field(default_factory=list)

    @property
    def meets(self) -> bool:
        """Whether the pieces are of one file, without gap or overlap. What was missed stays missed."""
        pieces = self._in_order()
        if len(pieces) < self.count or self.count == 1:
            return True
        grows = self.work.segment.next_base is None
        of_one_file = len({piece.identity for piece in pieces}) == 1
        of_one_size = grows or len({piece.size for piece in pieces}) == 1
        return of_one_file and of_one_size and all(_meet(piece, behind) for piece, behind in pairwise(pieces))

    def complete(self) -> SegmentResult:
        missed = next((each for each in self.results if isinstance(each, Missed)), None)
        return SegmentResult(self.work, [] if missed else self._in_order(), missed)

    def _in_order(self) -> list[PieceResult]:
        found = [each for each in self.results if isinstance(each, PieceResult)]
        return sorted(found, key=lambda each: each.piece.start)


def _meet(piece: PieceResult, behind: PieceResult) -> bool:
    """Where nothing is judged any more, a piece ends early, and so do all behind it."""
    ends_there = piece.seam.ends_unjudged or piece.seam.end_position == behind.piece.start
    return ends_there and is_smooth(piece, behind)


def _in_one_piece(spark: SparkSession, works: Sequence[SegmentWork], cores: int) -> list[SegmentResult]:
    jobs = [((number, work.whole), work.segment.size) for number, work in enumerate(works)]
    done: list[SegmentResult] = []
    for number, result in _run(spark, jobs, cores, None):
        done.append(_Pending(works[number], 1, [result]).complete())
    return done


def _run(
    spark: SparkSession, wave: Sequence[tuple[tuple[int, AuditPiece], int]], cores: int, told: Told | None
) -> Iterator[tuple[int, PieceResult | Missed]]:
    """Each piece's result with the number of its segment, once all are there."""
    wave_bytes = sum(size for _, size in wave)
    tasks = packed(wave, cores)
    pieces = [tuple(piece for _, piece in task) for task in tasks]
    results = run_tasks(spark, READ, audit_pieces, pieces, told, wave_bytes)
    for task, given in zip(tasks, results, strict=True):
        if isinstance(given, Failure):
            raise given.error
        for (number, piece), result in zip(task, given, strict=True):
            # The driver's own piece: thousands of results share what it holds of the folder.
            yield number, replace(result, piece=piece) if isinstance(result, PieceResult) else result
