"""One look at folders: their small files, all of their segments, and the seams between these.

What comes back is what one moment, or many moments near each other, looked like. In a log that is being written,
compacted or deleted that may be no fault at all: `job.confirming` looks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tailrace.env import Files
from tailrace.spark.auditing.figures import TopicFigures
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.ending import end_findings
from tailrace.spark.auditing.job.folder_rules import FolderFacts
from tailrace.spark.auditing.job.gathering import few_of_each_rule, once_for_each_entry
from tailrace.spark.auditing.job.listing import status_of
from tailrace.spark.auditing.job.memory import AuditMemory, fingerprint, is_immutable
from tailrace.spark.auditing.job.places import Folder, ListedSegment
from tailrace.spark.auditing.job.planning import packed, whole_piece
from tailrace.spark.auditing.job.tasks import Missed, check_folders
from tailrace.spark.auditing.job.waves import SegmentResult, SegmentWork, audit_segments
from tailrace.spark.auditing.progress import LIST, READ, AuditProgress, AuditTold
from tailrace.spark.auditing.rules import GONE, NOTE, UNREADABLE
from tailrace.spark.tables.tasks.jobs import Failure, run_tasks
from tailrace.spark.tables.tasks.reading import Tally
from tailrace.storage.names import join

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FOLDER_COST_BYTES: Final = 1 << 20
_FEW_FOLDERS: Final = 16
"""The driver has looked at them before executors are asked."""
_FOLDERS_AT_ONCE: Final = 4096

Known = Callable[[SegmentWork], "SegmentResult | None"]


@dataclass
class Look:
    folder: Folder
    facts: FolderFacts = field(default_factory=FolderFacts)
    segments: dict[int, SegmentResult] = field(default_factory=dict)
    """By base offset."""
    findings: list[Finding] = field(default_factory=list)
    is_gone: bool = False
    """The folder, as a whole."""

    @property
    def is_whole(self) -> bool:
        """Whether everything that was listed was read, as it was listed."""
        return not self.is_gone and all(each.is_as_listed for each in self.segments.values())

    @property
    def needs_another(self) -> bool:
        return not self.is_whole or any(finding.severity != NOTE for finding in self.findings)


@dataclass
class Tallies:
    """What looks count together."""

    figures: dict[str, TopicFigures] = field(default_factory=dict)
    read_bytes: int = 0
    skipped_segments: int = 0
    findings: int = 0
    done_bytes: int = 0


class Looker:
    def __init__(
        self,
        spark: SparkSession,
        files: Files,
        *,
        memory: AuditMemory | None,
        max_transaction_ms: int,
        told: AuditTold | None,
    ) -> None:
        self._spark = spark
        self._files = files
        self._cores: int = max(spark.sparkContext.defaultParallelism, 1)
        self._memory = memory
        self._max_transaction_ms = max_transaction_ms
        self._told = told
        self._told_bytes = 0
        self.tallies = Tallies()

    def first(self, folders: Sequence[Folder]) -> Iterator[Look]:
        """Each folder when all of it is done. What memory has is not read again; everything is counted."""
        whole = sum(folder.size for folder in folders)
        for start in range(0, len(folders), _FOLDERS_AT_ONCE):
            yield from self._look(folders[start : start + _FOLDERS_AT_ONCE], self._remembered, whole)

    def again(self, folders: Sequence[Folder], known: Known) -> Iterator[Look]:
        """Nothing is counted twice, and nothing remembered."""
        yield from self._look(folders, known, None)

    def _look(self, folders: Sequence[Folder], known: Known, whole: int | None) -> Iterator[Look]:
        looks = self._begun(folders)
        waiting = {look.folder.path: len(look.folder.segments) for look in looks}
        fresh: list[SegmentResult] = []  # known ones, which no wave brings

        def works() -> Iterator[SegmentWork]:
            for look in looks:
                for segment in () if look.is_gone else look.folder.segments:
                    work = SegmentWork(look.folder, segment, whole_piece(look.folder, segment, look.facts))
                    found = known(work)
                    if found is None:
                        yield work
                    else:
                        fresh.append(found)

        by_path = {look.folder.path: look for look in looks}
        done = audit_segments(self._spark, self._files, works(), self._cores, self._watch(whole))
        for results in _with_last(done):
            taken, fresh[:] = [*fresh, *results], []
            self._count(taken, is_first=whole is not None)
            for result in taken:
                path = result.work.folder.path
                by_path[path].segments[result.work.segment.base_offset] = result
                waiting[path] -= 1
            for path in dict.fromkeys(result.work.folder.path for result in taken):
                if not waiting[path]:
                    yield self._ended(by_path.pop(path))
            self._tell(whole)
        for look in by_path.values():  # without any segment
            yield self._ended(look)

    def _begun(self, folders: Sequence[Folder]) -> list[Look]:
        """With what the small files of each say."""
        self._say(AuditProgress(LIST, 0, len(folders), self.tallies.findings))
        found: dict[str, tuple[FolderFacts, list[Finding]] | Missed] = {}
        if len(folders) <= _FEW_FOLDERS:
            found.update(zip((folder.path for folder in folders), check_folders(folders), strict=True))
        else:
            found.update(self._begun_on_executors(folders))
        looks = []
        for folder in folders:
            facts = found[folder.path]
            look = Look(folder, is_gone=True) if isinstance(facts, Missed) else Look(folder, *facts[:1])
            if not isinstance(facts, Missed):
                look.findings += facts[1]
            looks.append(look)
        self._say(AuditProgress(LIST, len(folders), len(folders), self.tallies.findings))
        return looks

    def _begun_on_executors(
        self, folders: Sequence[Folder]
    ) -> Iterator[tuple[str, tuple[FolderFacts, list[Finding]] | Missed]]:
        tasks = packed([(folder, _FOLDER_COST_BYTES) for folder in folders], self._cores)
        for task, given in zip(tasks, run_tasks(self._spark, LIST, check_folders, tasks, None), strict=True):
            if isinstance(given, Failure):
                raise given.error
            yield from zip((folder.path for folder in task), given, strict=True)

    def _ended(self, look: Look) -> Look:
        """With all that is to be said of the folder."""
        if look.is_gone:
            words = "the folder went away while it was audited"
            look.findings = [Finding(look.folder.path, str(look.folder.partition), None, GONE, words)]
            return look
        results = [look.segments[segment.base_offset] for segment in look.folder.segments]
        found = [finding for result in results for finding in result.findings]
        look.findings += once_for_each_entry(found, look.facts.epochs)
        look.findings += [_missed(result) for result in results if result.missed is not None]
        look.findings += end_findings(
            self._files, look.folder, look.facts, results, max_transaction_ms=self._max_transaction_ms
        )
        look.findings = few_of_each_rule(look.findings)
        self.tallies.findings += sum(finding.severity != NOTE for finding in look.findings)
        return look

    # Memory and counting

    def _remembered(self, work: SegmentWork) -> SegmentResult | None:
        if self._memory is None or not is_immutable(work.whole, work.segment):
            return None
        pieces = self._memory.find(fingerprint(work.whole, work.segment), work.whole, work.segment.path)
        return None if pieces is None else SegmentResult(work, pieces, is_remembered=True)

    def _count(self, results: Iterable[SegmentResult], *, is_first: bool) -> None:
        tallies = self.tallies
        kept = []
        for result in results:
            work = result.work
            if is_first:
                tallies.done_bytes += work.segment.size
                tallies.skipped_segments += result.is_remembered
                if self._memory is not None and not result.is_remembered and _can_be_kept(result):
                    kept.append((fingerprint(work.whole, work.segment), work.segment.path, list(result.pieces)))
            figures = tallies.figures.setdefault(work.folder.partition.topic, TopicFigures()) if is_first else None
            for number, piece in enumerate(result.pieces):
                tallies.read_bytes += 0 if result.is_remembered else piece.read_bytes
                if figures is not None:
                    figures.add(piece.figures)
                result.pieces[number] = replace(piece, figures=TopicFigures())
        if self._memory is not None:
            self._memory.keep(kept)

    # Progress

    def _watch(self, whole: int | None) -> Callable[[Tally], None] | None:
        if self._told is None or whole is None:
            return None
        return lambda tally: self._tell(whole, tally.offsets)

    def _tell(self, whole: int | None, more_bytes: int = 0) -> None:
        if whole is not None:
            # Pieces of a segment may be done in a wave before the one that ends it.
            self._told_bytes = min(max(self._told_bytes, self.tallies.done_bytes + more_bytes), whole)
            self._say(AuditProgress(READ, self._told_bytes, whole, self.tallies.findings))

    def _say(self, progress: AuditProgress) -> None:
        if self._told is not None:
            self._told(progress)


def _with_last(waves: Iterator[list[SegmentResult]]) -> Iterator[list[SegmentResult]]:
    """And an empty one at the end, for what became known behind the last."""
    yield from waves
    yield []


def _missed(result: SegmentResult) -> Finding:
    work = result.work
    words = None if result.missed is None else result.missed.words
    return Finding(
        work.segment.path,
        str(work.folder.partition),
        work.segment.base_offset,
        GONE if words is None else UNREADABLE,
        "went away while the audit ran" if words is None else words,
    )


def _can_be_kept(result: SegmentResult) -> bool:
    """Whether it will never change, and nobody changed it while it was read."""
    work = result.work
    if result.missed is not None or not is_immutable(work.whole, work.segment):
        return False
    return result.is_as_listed and _is_still(work.segment)


def _is_still(segment: ListedSegment) -> bool:
    with suppress(OSError):
        return status_of(segment.path) == segment.status and all(
            status_of(join(segment.folder, name)) == status for name, status in segment.indexes.items()
        )
    return False
