"""Compacted segments take the place of old ones in a log that is in use.

    1  the files are swapped, see `swap`
    2  producer snapshots at the bases of segments that are no more are renamed `.deleted` and unlinked later

Crash rule: after step 1 a load removes the snapshots of step 2 itself, for they belong to no segment.

Runs on the log's owner thread and blocks for some syncs of the directory. What can be said of the log's offsets,
epochs and producers is the same before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tailrace.storage.segment import LogSegment
from tailrace.storage.segment_deletion import unlink_later
from tailrace.storage.swap import replace_segments

if TYPE_CHECKING:
    from tailrace.storage.unified_log import UnifiedLog


def swap_in(log: UnifiedLog, old: Sequence[LogSegment], new: Sequence[LogSegment]) -> None:
    """`new` carry the suffix `.cleaned`; the first of them has the base offset of the first of `old`."""
    place = log.local.place
    replace_segments(place, log.local.segments, old, new)
    bases = {segment.base_offset for segment in new}
    gone = [segment.base_offset for segment in old if segment.base_offset not in bases]
    renamed = [path for path in map(log.producers.mark_snapshot_for_deletion, gone) if path is not None]
    if renamed:
        unlink_later(place, renamed)
