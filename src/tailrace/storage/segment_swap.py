"""Compacted segments take the place of old ones in a log that is in use.

    1  producer snapshots at the bases of the old segments are renamed `.deleted`, to be unlinked later
    2  the files are swapped, see `swap`

A snapshot may know of an open transaction whose marker goes with the old segments, since nothing else is left of it: a
replay that began there would never see it end. One that begins earlier sees nothing of it at all.

Crash rule: the swap syncs the directory before it counts, and with it step 1. Without a snapshot a load reads more.

What can be said of the log's offsets, epochs and producers is the same before, between the steps and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tailrace.storage.segment import LogSegment
from tailrace.storage.segment_deletion import unlink_later
from tailrace.storage.steps import Steps
from tailrace.storage.swap import give_up_if_full, replacing

if TYPE_CHECKING:
    from tailrace.storage.unified_log import UnifiedLog


def swapping_in(log: UnifiedLog, old: Sequence[LogSegment], new: Sequence[LogSegment]) -> Steps[None]:
    """`new` carry the suffix `.cleaned`; the first of them has the base offset of the first of `old`."""
    place = log.local.place

    def put_in() -> None:
        log.local.may_have_gaps = True
        log.local.segments.swap(old, new)
        log.update_high_watermark(log.high_watermark)  # it may have known its place in an old one

    bases = [segment.base_offset for segment in old]
    try:
        renamed = [path for path in map(log.producers.mark_snapshot_for_deletion, bases) if path is not None]
    except OSError as cause:
        give_up_if_full(place, new, cause)
        raise
    yield from replacing(place, put_in, old, new)
    if renamed:
        unlink_later(place, renamed)
