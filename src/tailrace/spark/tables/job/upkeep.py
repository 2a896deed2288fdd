"""Small files written together, and what nobody needs any more taken away. Between batches, in the job's own thread.

Compaction is a commit like others: on the snapshot that it was planned on, with that one's offsets. Readers of older
versions keep their files for as long as those are retained. A job does not end because upkeep failed: it is tried again
with the next batch.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from tailrace.spark.errors import ChangedMeanwhileError, PipelineError
from tailrace.spark.tables.job.batch import Batches
from tailrace.spark.tables.job.places import Stores
from tailrace.spark.tables.job.report import COMPACTING, RETAINING, Progress, Told, added
from tailrace.spark.tables.job.settings import TableSettings
from tailrace.spark.tables.job.tables import Tables
from tailrace.spark.tables.job.work import Work
from tailrace.spark.tables.store import Change, DataFile, Removed, Snapshot

COMPACT: Final = "compact"
LEAST_SMALL_FILES: Final = 8
"""Of one partition value and of about one size, which is: none eight times as large as another. Each row is then
written again about once for every eightfold growth, and not whenever a few more files have come."""
RETAIN_EVERY_S: Final = 3_600.0
ABANDONED_AFTER_MS: Final = 3_600_000
"""At least: files of a batch that runs have no name yet, and are younger."""

_log: Final = logging.getLogger("tailrace.spark")


class Upkeep:
    """One thread."""

    def __init__(
        self,
        settings: TableSettings,
        stores: Stores,
        batches: Batches,
        work: Work,
        told: Told | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._stores = stores
        self._batches = batches
        self._work = work
        self._told = told
        self._clock = clock
        self._now_s = now_s
        self._retained_at_s: float | None = None

    def compact(self) -> None:
        """Where there are enough small files. Never raises a PipelineError."""
        if not self._settings.upkeep:
            return
        try:
            tables = self._batches.tables()
            compacted, files = self._compacted(tables)
            if files:
                self._batches.compacted(compacted, files)
        except ChangedMeanwhileError:
            self._batches.forget()
        except PipelineError as error:
            self._batches.forget()
            _log.warning("small files were not compacted: %s", error)

    def retain(self, *, is_due: bool = False) -> None:
        """At most once an hour unless it is due anyway. Never raises a PipelineError."""
        now_s = self._clock()
        is_late = self._retained_at_s is None or now_s - self._retained_at_s >= RETAIN_EVERY_S
        if not self._settings.upkeep or not (is_due or is_late):
            return
        self._retained_at_s = now_s
        self._say(RETAINING)
        try:
            removed = retained(self._stores, self._settings.retain_ms, int(self._now_s() * 1000))
        except PipelineError as error:
            _log.warning("what is not retained was not taken away: %s", error)
            return
        report = self._batches.report
        self._batches.report = replace(report, removed=added(report.removed, removed))

    def _compacted(self, tables: Tables) -> tuple[Tables, int]:
        count = 0
        found: list[Snapshot] = []
        for snapshot in tables.all():
            groups = groups_to_compact(snapshot.files(), self._settings.target_bytes)
            if groups:
                self._say(COMPACTING)
                snapshot = self._one(snapshot, groups)
                count += sum(map(len, groups))
            found.append(snapshot)
        return Tables(*found), count

    def _one(self, snapshot: Snapshot, groups: Sequence[Sequence[DataFile]]) -> Snapshot:
        settings = self._settings
        adds = self._work.compact(snapshot.target(), groups, settings.codec, settings.target_bytes, None)
        removes = [each for group in groups for each in group]
        facts = {"files": len(adds), "compacted": len(removes), "bytes": sum(each.size_bytes for each in adds)}
        return snapshot.commit(Change(COMPACT, dict(snapshot.offsets), adds, removes, facts=facts))

    def _say(self, doing: str) -> None:
        if self._told is not None:
            report = self._batches.report
            self._told(Progress(doing, report.batches, 0, 0, 0, report))


def groups_to_compact(files: Sequence[DataFile], target_bytes: int) -> list[list[DataFile]]:
    """Small files of one partition value each, that together are about as large as a file should be."""
    small: dict[tuple[tuple[str, str | None], ...], list[DataFile]] = {}
    for each in files:
        if each.size_bytes * 2 < target_bytes:
            small.setdefault(tuple(sorted(each.partition.items())), []).append(each)
    return [
        group
        for together in small.values()
        for group in _packed(_many_of_a_size(together), target_bytes)
        if len(group) > 1
    ]


def _many_of_a_size(files: Sequence[DataFile]) -> list[DataFile]:
    """In their order: the files of the largest size of which there are many, and all that are smaller."""
    counts = Counter(map(_size_class, files))
    largest = max((size for size, count in counts.items() if count >= LEAST_SMALL_FILES), default=-1)
    return [each for each in files if _size_class(each) <= largest]


def _size_class(file: DataFile) -> int:
    """Each is eight times as large as the one before it."""
    return file.size_bytes.bit_length() // 3


def _packed(files: Sequence[DataFile], target_bytes: int) -> list[list[DataFile]]:
    groups: list[list[DataFile]] = []
    size = target_bytes
    for each in files:
        if size + each.size_bytes > target_bytes:
            groups.append([])
            size = 0
        groups[-1].append(each)
        size += each.size_bytes
    return groups


def retained(stores: Stores, retain_ms: int, now_ms: int, *, dry_run: bool = False) -> Removed:
    removed = Removed()
    for store in (stores.main, stores.dead, stores.hidden):
        if store is not None:
            abandoned_ms = now_ms - max(retain_ms, ABANDONED_AFTER_MS)
            removed = added(removed, store.retain(now_ms - retain_ms, abandoned_ms, dry_run=dry_run))
    return removed
