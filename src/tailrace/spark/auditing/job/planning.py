"""How a log is cut for executors: segments into pieces, pieces into tasks, tasks into waves.

    piece   about 128 MB of one segment, from a batch that its offset index names and that stands there, intact
    task    pieces that one core reads one after the other
    wave    tasks that are one job of Spark: as much as all cores read in a minute or so. Results of a wave are kept
            before the next one begins, so that neither the driver's memory nor what a kill costs grows with the log

Large segments use many executors, small ones share a task.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np

from tailrace.env import File, Files, Mode
from tailrace.model.errors import CorruptMessageError
from tailrace.spark.auditing.job.folder_rules import FolderFacts
from tailrace.spark.auditing.job.places import Folder, ListedSegment
from tailrace.spark.auditing.pieces import AuditPiece
from tailrace.spark.auditing.task.index_entries import IndexFile, IndexLayout, OffsetLayout, TimeLayout
from tailrace.spark.source.files.headers import batch_at, is_intact
from tailrace.spark.source.files.seeking import IndexEntries
from tailrace.spark.source.files.segments import Segment
from tailrace.storage.index_entries import MAX_INDEX_BYTES, OFFSET_ENTRY
from tailrace.storage.names import INDEX_SUFFIX, TIME_INDEX_SUFFIX

PIECE_BYTES: Final = 128 << 20
WAVE_BYTES_PER_CORE: Final = 2 << 30
WAVE_PIECES: Final = 512
"""Results of so many go to the driver at a time, whatever the number of cores, unless there are more of these."""
TASK_BYTES: Final = 1 << 30
"""A task of Spark takes tens of milliseconds to begin with, in which a core reads as many megabytes."""
TASKS_PER_CORE: Final = 8
"""In a wave, at most: enough that cores which are done early have something left to do."""
PIECE_COST_BYTES: Final = 1 << 20
"""What opening a segment and its indexes takes, in bytes that could be read meanwhile."""
_ENTRIES_TRIED: Final = 8

T = TypeVar("T")


def whole_piece(folder: Folder, segment: ListedSegment, facts: FolderFacts) -> AuditPiece:
    """A segment in one piece."""
    return AuditPiece(
        partition=folder.partition,
        folder=folder.path,
        base_offset=segment.base_offset,
        next_base=segment.next_base,
        is_swap=segment.is_swap,
        judged_to=folder.judged_to,
        is_closed=folder.is_closed,
        cleaned_to=folder.cleaned_to,
        is_compacted=folder.is_compacted,
        is_being_cleaned=folder.is_being_cleaned,
        epochs=facts.epochs,
        indexes=frozenset(segment.indexes),
        snapshot_offsets=_within(folder.snapshots, segment),
    )


def _within(snapshots: Sequence[int], segment: ListedSegment) -> tuple[int, ...]:
    """From just before the segment to just behind it."""
    behind = segment.next_base
    return tuple(
        offset for offset in snapshots if segment.base_offset <= offset and (behind is None or offset <= behind)
    )


def cut(whole: AuditPiece, positions: Sequence[int]) -> list[AuditPiece]:
    """The piece in several that begin at 0 and at `positions`, which ascend."""
    starts = [0, *positions]
    ends: list[int | None] = [*positions, None]
    return [replace(whole, start=start, end=end) for start, end in zip(starts, ends, strict=True)]


def split_positions(files: Files, segment: ListedSegment, piece_bytes: int = PIECE_BYTES) -> list[int]:
    """Where pieces may begin: at intact batches that the offset index names. None where an index is in disorder.

    Nothing here is trusted beyond that: where the pieces do not meet, the segment is audited again in one.
    """
    if segment.size < 2 * piece_bytes:
        return []
    place = Segment(segment.folder, segment.base_offset, segment.next_base, segment.is_swap)
    found: list[int] = []
    with suppress(OSError, CorruptMessageError), ExitStack() as opened:  # who reads the segment tells what is wrong
        index = place.open_index(files, INDEX_SUFFIX)
        if index is None:
            return []
        opened.callback(index.close)
        times = place.open_index(files, TIME_INDEX_SUFFIX)
        if times is not None:
            opened.callback(times.close)
        if not _ascends(index, OffsetLayout()) or not (times is None or _ascends(times, TimeLayout())):
            return []
        file = files.open(segment.path, Mode.READ)
        opened.callback(file.close)
        entries = IndexEntries(index, OFFSET_ENTRY)
        for target in range(piece_bytes, segment.size - piece_bytes // 2, piece_bytes):
            at = _boundary(entries, file, segment, target)
            if at is not None and at > (found[-1] if found else 0):
                found.append(at)
    return found


def _ascends(index: File, layout: IndexLayout) -> bool:
    """Entries of an index that does not are judged by where they stand in it: only a task that sees all of it can."""
    if index.size() > MAX_INDEX_BYTES:
        return False
    newest = tuple(-1 for _ in layout.dtype.names or ())
    for placed in IndexFile(index, layout, 0).all():
        columns = [np.append(before, column) for before, column in zip(newest, placed.entries.columns, strict=True)]
        steps = [np.diff(column) for column in columns]
        if (steps[0] <= 0).any() or any((step < 0).any() for step in steps):  # the first column never stays the same
            return False
        newest = tuple(int(column[-1]) for column in columns)
    return True


def _boundary(entries: IndexEntries, file: File, segment: ListedSegment, target: int) -> int | None:
    """The position of a batch near `target`: one that stands there, intact, with offsets as entries have them.

    A CRC does not cover a batch's base offset. Offsets are greater than that of the entry before, and up to the one of
    the entry itself, which may have been made for several batches that were appended together.
    """
    first = max(entries.last_where(lambda entry: 0 < entry[1] <= target), 0)
    for place in range(first, min(first + _ENTRIES_TRIED, entries.count)):
        offset, position = entries[place]
        below = entries[place - 1][0] if place else -1
        batch = batch_at(file, position) if position > 0 else None
        if (
            batch is None
            or not below < batch.base_offset - segment.base_offset <= batch.last_offset - segment.base_offset
        ):
            continue
        if batch.last_offset - segment.base_offset <= offset and is_intact(file, position, batch):
            return position
    return None


def waves(jobs: Iterable[tuple[T, int]], cores: int) -> Iterator[list[tuple[T, int]]]:
    """`jobs` (and their bytes), in their order, as much at a time as makes a wave."""
    most_bytes = cores * WAVE_BYTES_PER_CORE
    most_jobs = max(WAVE_PIECES, cores * TASKS_PER_CORE)
    wave: list[tuple[T, int]] = []
    wave_bytes = 0
    for job, size in jobs:
        if wave and (wave_bytes + size > most_bytes or len(wave) >= most_jobs):
            yield wave
            wave, wave_bytes = [], 0
        wave.append((job, size))
        wave_bytes += size
    if wave:
        yield wave


def packed(jobs: Sequence[tuple[T, int]], cores: int) -> list[list[T]]:
    """Jobs of a wave as tasks of about the same cost, the most expensive first.

    The largest job goes to the task that has least so far. All cores get the same number of tasks, and no more than
    help: a core that is alone gets all in one, for nobody waits for it.
    """
    if not jobs:
        return []
    costs = sorted(((size + PIECE_COST_BYTES, number) for number, (_, size) in enumerate(jobs)), reverse=True)
    rounds = 1 if cores == 1 else -(-sum(cost for cost, _ in costs) // (cores * TASK_BYTES))
    count = min(len(jobs), cores * min(rounds, TASKS_PER_CORE))
    heap = [(0, task) for task in range(count)]
    tasks: list[list[T]] = [[] for _ in range(count)]
    for cost, number in costs:
        load, task = heapq.heappop(heap)
        tasks[task].append(jobs[number][0])
        heapq.heappush(heap, (load + cost, task))
    return tasks
