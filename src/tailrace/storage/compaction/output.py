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

from tailrace.env import Buffer
from tailrace.model.invariant import invariant
from tailrace.record.shallow import ShallowBatch, next_batch
from tailrace.storage import names
from tailrace.storage.segment import LogSegment, SegmentPlace
from tailrace.storage.transaction_index import AbortedTxn


class CleanedSegments:
    """Batches are collected by `keep`, `keep_all` and `note_aborted`, and written by `write`. One thread at a time."""

    def __init__(self, place: SegmentPlace, base_offset: int) -> None:
        self._place = place
        self.made = [LogSegment.create(place, base_offset, names.CLEANED_SUFFIX)]
        self.bytes_written = 0
        self._end_offset = base_offset
        self._batches: list[ShallowBatch] = []
        self._parts: list[Buffer] = []
        self._bytes = 0
        self._aborted: list[AbortedTxn] = []

    def keep(self, data: Buffer) -> None:
        """One batch as it is to stand in the log."""
        batch = next_batch(data, 0, len(data))
        invariant(batch is not None, f"{len(data)} bytes to be kept are no batch")
        assert batch is not None
        self.keep_all([batch], data)

    def keep_all(self, batches: Sequence[ShallowBatch], data: Buffer) -> None:
        """Batches as they stand in `data`, which is exactly these."""
        if not self._has_room_for(batches[-1], len(data)):
            if len(batches) > 1:
                start = batches[0].position
                for batch in batches:
                    part = memoryview(data)[batch.position - start : batch.end - start]
                    self.keep_all([batch], part)
                return
            self._begin_another(batches[0])
        self._batches.extend(batches)
        self._parts.append(data)
        self._bytes += len(data)
        self._end_offset = batches[-1].next_offset

    def note_aborted(self, aborted: AbortedTxn) -> None:
        """The batch kept last is the marker of this transaction."""
        self._aborted.append(aborted)

    def write(self) -> int:
        """Write what was collected; returns the bytes."""
        written, segment = self._bytes, self.made[-1]
        if self._batches:
            segment.append(self._batches, self._parts, written)
            self.bytes_written += written
        for aborted in self._aborted:
            segment.add_aborted(aborted)
        self._batches, self._parts, self._bytes, self._aborted = [], [], 0, []
        return written

    def _has_room_for(self, last: ShallowBatch, size: int) -> bool:
        segment = self.made[-1]
        used = segment.size + self._bytes
        if not segment.can_hold(last.last_offset):
            return False
        is_full = segment.offset_index.is_full or segment.time_index.is_full
        return used == 0 or (used + size <= self._place.config.segment_bytes and not is_full)

    def _begin_another(self, first: ShallowBatch) -> None:
        self.write()
        base = first.base_offset if first.is_v2 else first.last_offset
        self.made.append(LogSegment.create(self._place, base, names.CLEANED_SUFFIX))

    def finish(self, old: Sequence[LogSegment]) -> None:
        """All that stays of `old` is written. The new ones get the time of modification of the last of them."""
        self.write()
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
