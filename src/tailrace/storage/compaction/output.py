"""The `.cleaned` segments that a group of segments is rewritten into: one, or several when one cannot hold it all.

A rewritten batch may be longer than before, by other timestamp deltas or by compression, so what was counted to fit
may not. The first write to an empty segment is always allowed: a batch larger than a segment would never find one.

Crash rule: nothing of this is in the log before `swap` has put it there; a load removes it. After `finish` everything
is durable, the names too: of an index that was renamed for the swap, while the data file's name was lost, a load could
not tell that it is not the old data's.

When the new segments end before the last of the old ones begins, since nothing of that one is left, an empty segment
takes its place. A load that finds the swap half done takes away what lies between the first and the end of the last:
without it, the emptied segments would come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tailrace.storage import names
from tailrace.storage.compaction.kept import Kept
from tailrace.storage.segment import LogSegment, SegmentPlace

SYNC_BYTES: Final = 16 * 1024 * 1024


class CleanedSegments:
    """Batches come chunk by chunk, by `write`. One thread at a time.

    What is written is synced from time to time, as a step of its own, so that the last sync is a short one: whoever
    calls the clean off waits for the step that is on its way.
    """

    def __init__(self, place: SegmentPlace, base_offset: int) -> None:
        self._place = place
        self.made = [LogSegment.create(place, base_offset, names.CLEANED_SUFFIX)]
        self.bytes_written = 0
        self._bytes_synced = 0
        self._end_offset = base_offset

    def write(self, kept: Kept) -> None:
        """What stays of a chunk; `kept` is empty then."""
        first, count = 0, kept.run.count
        while first < count:
            behind = self._behind_those_that_fit(kept, first)
            self._append(kept, first, behind)
            if behind < count:
                self._begin_another(kept, behind)
            first = behind
        kept.clear()

    def _behind_those_that_fit(self, kept: Kept, first: int) -> int:
        """The number of the first batch that must go to another segment, or of all."""
        run = kept.run
        start = run.span(first)[0]
        if self._has_room_for(run.last_offset(run.count - 1), kept.written - start):
            return run.count
        behind = first
        if not self.made[-1].size and self.made[-1].can_hold(run.last_offset(first)):
            behind += 1
        while behind < run.count and self._has_room_for(run.last_offset(behind), run.span(behind)[1] - start):
            behind += 1
        return behind

    def _append(self, kept: Kept, first: int, behind: int) -> None:
        if first == behind:
            return
        segment = self.made[-1]
        start, end = kept.run.span(first)[0], kept.run.span(behind - 1)[1]
        run = kept.run if behind - first == kept.run.count else kept.run.part(first, behind)
        segment.append_run(run, memoryview(kept.data)[start:end])
        self.bytes_written += end - start
        self._end_offset = run.next_offset
        for place, aborted in kept.aborted:
            if first <= place < behind:
                segment.add_aborted(aborted)

    def _has_room_for(self, last_offset: int, size: int) -> bool:
        segment = self.made[-1]
        is_full = segment.offset_index.is_full or segment.time_index.is_full
        return segment.can_hold(last_offset) and segment.size + size <= self._place.config.segment_bytes and not is_full

    def _begin_another(self, kept: Kept, first: int) -> None:
        start = kept.run.span(first)[0]
        base_offset = int.from_bytes(kept.data[start : start + 8], "big")
        self.made.append(LogSegment.create(self._place, base_offset, names.CLEANED_SUFFIX))

    @property
    def is_sync_due(self) -> bool:
        return self.bytes_written - self._bytes_synced >= SYNC_BYTES

    def sync(self) -> None:
        """What was written lately becomes durable, as far as it is in the last segment."""
        self.made[-1].records.sync()
        self._bytes_synced = self.bytes_written

    def finish(self, old: Sequence[LogSegment]) -> None:
        """All that stays of `old` is written. The new ones get the time of modification of the last of them."""
        with_data = [segment.base_offset for segment in old if segment.size]
        if with_data and with_data[-1] >= self._end_offset and with_data[-1] > self.made[-1].base_offset:
            self.made.append(LogSegment.create(self._place, with_data[-1], names.CLEANED_SUFFIX))
        files = self._place.env.files
        modified_ms = files.modified_ms(old[-1].records.path)
        for segment in self.made:
            segment.become_inactive()
            files.set_modified_ms(segment.records.path, modified_ms)
            segment.sync()
        files.sync_dir(self._place.dir)

    def discard(self) -> None:
        """Remove the files, as far as the disk lets us: the next attempt, or load, removes the rest."""
        for segment in self.made:
            segment.delete()
