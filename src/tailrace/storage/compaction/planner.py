"""What to compact: which part of a log, which log first, which segments together. Values in, values out.

    clean                     dirty                    not cleanable yet
    ├─────────────────────────┼────────────────────────┼──────────────────────▶
    log start          first dirty offset      first uncleanable offset

The first dirty offset is where the last clean ended: the cleaner's checkpoint. Not cleanable is what lies at or beyond
the last stable offset, the active segment, and the first segment younger than `min.compaction.lag.ms`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from tailrace.model.offsets import MAX_RELATIVE_OFFSET

KeyT = TypeVar("KeyT")


class FirstDirty(NamedTuple):
    """`is_reset`: the checkpoint cannot be right and is to be written anew with `offset`."""

    offset: int
    is_reset: bool


def first_dirty(checkpoint: int | None, log_start: int, log_end: int) -> FirstDirty:
    """Where cleaning goes on. Without a checkpoint nothing was cleaned yet.

    One below the log start is of before a deletion, one beyond the log end of before a loss: all is taken for dirty.
    """
    if checkpoint is None:
        return FirstDirty(log_start, False)
    if not log_start <= checkpoint <= log_end:
        return FirstDirty(log_start, True)
    return FirstDirty(checkpoint, False)


def first_uncleanable(
    first_dirty_offset: int,
    last_stable_offset: int,
    active_base: int,
    dirty: Iterable[tuple[int, int]],
    now_ms: int,
    min_compaction_lag_ms: int,
) -> int:
    """`dirty`: base offset and largest timestamp of each inactive segment from the first dirty offset on, in order.

    It is looked at only with a lag, and no further than up to the first segment that is too young.
    """
    offset = min(last_stable_offset, active_base)
    if min_compaction_lag_ms > 0:
        for base, largest_timestamp in dirty:
            if largest_timestamp > now_ms - min_compaction_lag_ms:
                offset = min(offset, base)
                break
    return max(first_dirty_offset, offset)


def compaction_delay_ms(first_timestamps: Iterable[int], now_ms: int, max_compaction_lag_ms: int) -> int:
    """By how much `max.compaction.lag.ms` is exceeded, at least 0.

    `first_timestamps` are those of the first batches of the inactive dirty segments; those that are not above 0 say
    nothing.
    """
    clean_until_ms = now_ms - max_compaction_lag_ms
    if clean_until_ms <= 0:
        return 0
    earliest = min((timestamp for timestamp in first_timestamps if timestamp > 0), default=clean_until_ms)
    return max(clean_until_ms - earliest, 0)


class SegmentSize(NamedTuple):
    """One segment in bytes."""

    base_offset: int
    log_bytes: int
    offset_index_bytes: int = 0
    time_index_bytes: int = 0


class LogToClean(NamedTuple):
    """A log and what there is to clean in it: `first_dirty_offset` ≤ offset < `first_uncleanable_offset`."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    must_compact: bool = False
    """`max.compaction.lag.ms` is exceeded."""

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def cleanable_ratio(self) -> float:
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0


def log_to_clean(
    first_dirty_offset: int, uncleanable_offset: int, segments: Sequence[SegmentSize], *, must_compact: bool = False
) -> LogToClean:
    """`segments` are all of the log, in order; the last is the active one. Segments are cleaned whole.

    So the first uncleanable offset becomes the base of the segment that holds it; and the bytes of a segment in which
    the dirty part begins count for both parts, as Kafka counts them.
    """
    bases = [segment.base_offset for segment in segments]
    bound = max((base for base in bases if base <= uncleanable_offset), default=bases[0])
    clean = sum(each.log_bytes for each in segments if each.base_offset < first_dirty_offset)
    cleanable = 0
    if first_dirty_offset < bound:
        holds_dirty = max((base for base in bases if base <= first_dirty_offset), default=bases[0])
        cleanable = sum(each.log_bytes for each in segments if holds_dirty <= each.base_offset < bound)
    return LogToClean(first_dirty_offset, bound, clean, cleanable, must_compact)


class Candidate(NamedTuple):
    """A compacted log among those to choose from. `is_excluded`: it is being cleaned, or cannot be."""

    log: LogToClean
    min_cleanable_dirty_ratio: float
    is_excluded: bool = False

    @property
    def is_worth_cleaning(self) -> bool:
        log = self.log
        if self.is_excluded or not log.total_bytes:
            return False
        is_due = log.must_compact and log.cleanable_bytes > 0
        return is_due or log.cleanable_ratio > self.min_cleanable_dirty_ratio


def dirtiest(candidates: Iterable[tuple[KeyT, Candidate]]) -> KeyT | None:
    """The one with the highest ratio of those that are worth it; None when none is."""
    worth = [(candidate.log.cleanable_ratio, key) for key, candidate in candidates if candidate.is_worth_cleaning]
    return max(worth, key=lambda each: each[0])[1] if worth else None


def group_segments(
    segments: Sequence[SegmentSize], segment_bytes: int, segment_index_bytes: int, end_offset: int
) -> list[range]:
    """Which neighbours to rewrite into one: ranges of places in `segments`, which end before `end_offset`.

    A group's data, and each of its indexes, would fit one segment even if nothing went away, and so would its
    offsets. A segment that is too large by itself is a group of its own.
    """
    groups: list[range] = []
    first = 0
    while first < len(segments):
        log_bytes, offset_index_bytes, time_index_bytes = segments[first][1:]
        last = first + 1
        while last < len(segments):
            following = segments[last]
            log_bytes += following.log_bytes
            offset_index_bytes += following.offset_index_bytes
            time_index_bytes += following.time_index_bytes
            if log_bytes > segment_bytes or max(offset_index_bytes, time_index_bytes) > segment_index_bytes:
                break
            behind = segments[last + 1].base_offset if last + 1 < len(segments) else end_offset
            # An empty segment has no offsets; were it to stay alone, one would be left behind for every 2³¹ offsets.
            if following.log_bytes and behind - 1 - segments[first].base_offset > MAX_RELATIVE_OFFSET:
                break
            last += 1
        groups.append(range(first, last))
        first = last
    return groups
