"""The segments of a partition's folder, as they are listed at one moment.

A broker may be rolling, deleting or compacting meanwhile. A segment is taken under its final name, or as `.swap`, which
is whole and about to take that name, while the old one of the name is gone already. During a swap segments may
overlap: whoever reads goes by offsets, from one segment to the one that should hold the next offset. `.cleaned` files
are not whole and `.deleted` ones are not part of the log any more; both tell that somebody is at work.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tailrace.env import File, Files, Mode
from tailrace.storage import names
from tailrace.storage.names import join


class Segment(NamedTuple):
    folder: str
    base_offset: int
    behind: int | None
    """The base offset of the next one; None for the last, which is being written."""
    is_swap: bool = False

    @property
    def path(self) -> str:
        return self.paths(names.LOG_SUFFIX)[0]

    def paths(self, suffix: str) -> tuple[str, ...]:
        """Where its file of this kind may be, the likelier place first: a swap takes kind by kind to its name."""
        final = join(self.folder, names.prefix_of(self.base_offset) + suffix)
        swap = final + names.SWAP_SUFFIX
        return (swap, final) if self.is_swap else (final, swap)

    def open(self, files: Files) -> File:
        """FileNotFoundError when it is gone; a new listing tells what is in its place."""
        return files.open(self.path, Mode.READ)

    def open_index(self, files: Files, suffix: str) -> File | None:
        for path in self.paths(suffix):
            try:
                return files.open(path, Mode.READ)
            except FileNotFoundError:
                continue
        return None


class SegmentList:
    """Segments by base offset, and the offsets of producer snapshots."""

    def __init__(self, segments: list[Segment], snapshots: list[int], is_being_cleaned: bool) -> None:
        self.segments = segments
        self.snapshots = snapshots
        self.is_being_cleaned = is_being_cleaned
        """Whether something in the folder tells of a compaction: under way, or done within the delay of deletion."""
        self._bases = [segment.base_offset for segment in segments]

    @property
    def first(self) -> Segment | None:
        return self.segments[0] if self.segments else None

    @property
    def last(self) -> Segment | None:
        return self.segments[-1] if self.segments else None

    def at(self, offset: int) -> Segment | None:
        """The one that holds `offset` if any does; None below the first."""
        place = bisect_right(self._bases, offset) - 1
        return self.segments[place] if place >= 0 else None

    def behind(self, offset: int) -> Segment | None:
        """The first that begins behind `offset`."""
        place = bisect_right(self._bases, offset)
        return self.segments[place] if place < len(self.segments) else None

    def covering(self, start: int, end: int | None = None) -> Iterator[Segment]:
        """Those that may hold offsets from `start` to just before `end`."""
        place = max(bisect_right(self._bases, start) - 1, 0)
        for segment in self.segments[place:]:
            if end is not None and segment.base_offset >= end:
                return
            yield segment


def list_segments(files: Files, folder: str) -> SegmentList:
    """FileNotFoundError when the folder is gone."""
    return segments_among(folder, {entry.name for entry in files.list(folder) if not entry.is_dir})


def segments_among(folder: str, listed: Iterable[str]) -> SegmentList:
    """Those that the names of a folder's files tell of."""
    swaps: dict[int, bool] = {}
    retired: list[int] = []
    snapshots: list[int] = []
    has_cleaned = False
    for name in listed:
        offset = names.parse_offset(name)
        if offset is None:
            continue
        ending = name[20:]
        if ending == names.LOG_SUFFIX:
            swaps[offset] = False
        elif ending == names.LOG_SUFFIX + names.SWAP_SUFFIX:
            has_cleaned = True
            swaps.setdefault(offset, True)
        elif ending == names.LOG_SUFFIX + names.DELETED_SUFFIX:
            retired.append(offset)
        elif ending == names.SNAPSHOT_SUFFIX:
            snapshots.append(offset)
        elif ending == names.LOG_SUFFIX + names.CLEANED_SUFFIX:
            has_cleaned = True
    bases = sorted(swaps)
    segments = [
        Segment(folder, base, bases[place + 1] if place + 1 < len(bases) else None, swaps[base])
        for place, base in enumerate(bases)
    ]
    # Retention takes segments from the beginning and truncation from the end: only compaction takes what lies between.
    within = bool(bases) and any(bases[0] <= offset < bases[-1] for offset in retired)
    return SegmentList(segments, sorted(snapshots), has_cleaned or within)
