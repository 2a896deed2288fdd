"""The segments of a log by base offset.

Copy on write: a reader takes one look at `_view` and searches it undisturbed while the owner adds and removes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from tailrace.storage.segment import LogSegment


class LogSegments:
    __slots__ = ("_view", "active")

    def __init__(self, segments: Iterable[LogSegment] = ()) -> None:
        self._replace(sorted(segments, key=lambda segment: segment.base_offset))

    def _replace(self, segments: list[LogSegment]) -> None:
        self._view = (tuple(segment.base_offset for segment in segments), tuple(segments))
        self.active = segments[-1] if segments else None

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._view[1])

    def __len__(self) -> int:
        return len(self._view[1])

    @property
    def base_offsets(self) -> tuple[int, ...]:
        return self._view[0]

    @property
    def first(self) -> LogSegment | None:
        segments = self._view[1]
        return segments[0] if segments else None

    def add(self, segment: LogSegment) -> None:
        """A segment of the same base offset is replaced."""
        others = [other for other in self if other.base_offset != segment.base_offset]
        self._replace(sorted([*others, segment], key=lambda each: each.base_offset))

    def remove(self, gone: Iterable[LogSegment]) -> None:
        dropped = {id(segment) for segment in gone}
        self._replace([segment for segment in self if id(segment) not in dropped])

    def swap(self, gone: Iterable[LogSegment], come: Iterable[LogSegment]) -> None:
        """Replace some by others in one step, so that no reader sees a hole."""
        dropped = {id(segment) for segment in gone}
        kept = [segment for segment in self if id(segment) not in dropped]
        self._replace(sorted([*kept, *come], key=lambda each: each.base_offset))

    def floor(self, offset: int) -> LogSegment | None:
        """The last segment whose base offset is at most `offset`."""
        bases, segments = self._view
        place = bisect_right(bases, offset)
        return segments[place - 1] if place else None

    def higher(self, offset: int) -> LogSegment | None:
        """The first segment whose base offset is greater than `offset`."""
        bases, segments = self._view
        place = bisect_right(bases, offset)
        return segments[place] if place < len(segments) else None

    def lower(self, offset: int) -> LogSegment | None:
        """The last segment whose base offset is less than `offset`."""
        bases, segments = self._view
        place = bisect_left(bases, offset)
        return segments[place - 1] if place else None

    def covering(self, start: int, end: int | None = None) -> tuple[LogSegment, ...]:
        """From the one that holds `start` (or the first) up to those with a base below `end`."""
        bases, segments = self._view
        first = max(bisect_right(bases, start) - 1, 0)
        last = len(segments) if end is None else bisect_left(bases, end)
        return segments[first:last]
