"""Pass 2: what stays of a group of segments goes into new ones.

Nothing of the log changes here: the group is read, `.cleaned` segments are written. The swap is the log owner's.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.env import Buffer
from tailrace.record.batch import BatchHeader
from tailrace.record.kernels import GREATEST_GROWTH
from tailrace.record.shallow import ShallowBatch
from tailrace.storage.compaction.chunks import ReadBuffer, SegmentReader
from tailrace.storage.compaction.kept import Kept
from tailrace.storage.compaction.legacy_sieve import sift_messages
from tailrace.storage.compaction.offset_map import OffsetMap
from tailrace.storage.compaction.output import CleanedSegments
from tailrace.storage.compaction.runs import PlainRuns
from tailrace.storage.compaction.sieve import Sieve
from tailrace.storage.compaction.transactions import SeenTransactions
from tailrace.storage.compaction.verdict import CleanRules, Verdict, judge
from tailrace.storage.segment import LogSegment, SegmentPlace


class GroupRewriter:
    """Call `step` until `is_done`; then `made` are whole and synced. One thread at a time, any thread.

    `end_offset` is the base of the segment behind the group. `transactions` goes on from group to group.
    """

    def __init__(
        self,
        place: SegmentPlace,
        group: Sequence[LogSegment],
        end_offset: int,
        offset_map: OffsetMap,
        rules: CleanRules,
        transactions: SeenTransactions,
        buffer: ReadBuffer,
    ) -> None:
        self._place = place
        self._group = group
        self._left = list(reversed(group))
        self._end_offset = end_offset
        self._map = offset_map
        self._rules = rules
        self._transactions = transactions
        self._buffer = buffer
        self._sieve = Sieve(offset_map, rules)
        self._runs = PlainRuns(transactions)
        self._kept = Kept(buffer.size)
        self._output: CleanedSegments | None = None
        self._reader: SegmentReader | None = None
        self._keeps_legacy_tombstones = True
        self.is_done = False
        self.bytes_read = 0
        self.records_read = 0
        self.records_kept = 0
        self.invalid_records = 0

    @property
    def made(self) -> list[LogSegment]:
        return [] if self._output is None else self._output.made

    @property
    def bytes_written(self) -> int:
        return 0 if self._output is None else self._output.bytes_written

    def step(self) -> int:
        """Rewrite one chunk, or begin, sync or end; returns the bytes read and written."""
        if self._output is None:
            self._output = CleanedSegments(self._place, self._group[0].base_offset)
            return 0
        if self._output.is_sync_due:
            self._output.sync()
        elif self._reader is not None and not self._reader.is_done:
            return self._rewrite_chunk(self._reader, self._output)
        elif self._left:
            self._reader = self._open_next()
        else:
            self._output.finish(self._group)
            self._add_counts()
            self.is_done = True
        return 0

    def discard(self) -> None:
        """Remove what was written."""
        if self._output is not None:
            self._output.discard()

    def _open_next(self) -> SegmentReader:
        segment = self._left.pop()
        modified_ms = self._place.env.files.modified_ms(segment.records.path)
        self._keeps_legacy_tombstones = modified_ms > self._rules.legacy_horizon_ms
        end = self._left[-1].base_offset if self._left else self._end_offset
        return SegmentReader(segment, self._buffer, end)

    def _rewrite_chunk(self, reader: SegmentReader, output: CleanedSegments) -> int:
        taken, written = 0, output.bytes_written
        while not taken:
            reader.read()
            self._rewrite(reader, output)
            taken = reader.finish()
        output.write(self._kept)
        self.bytes_read += taken
        return taken + output.bytes_written - written

    def _rewrite(self, reader: SegmentReader, output: CleanedSegments) -> None:
        while True:
            while not self._runs.sift(reader, self._map, self._rules, self._kept):
                self._make_room(reader, output)
            batch = reader.next_batch()
            if batch is None:
                return
            self._keep_batch(reader.data, batch, judge(reader.data, batch, self._transactions, self._rules), output)

    def _make_room(self, reader: SegmentReader, output: CleanedSegments) -> None:
        """For what may stay of the batch that is next."""
        output.write(self._kept)
        batch = BatchHeader.at(reader.data, reader.taken)
        self._kept.make_room_for(batch.size + GREATEST_GROWTH * batch.record_count)

    def _keep_batch(self, data: Buffer, batch: ShallowBatch, verdict: Verdict, output: CleanedSegments) -> None:
        if batch.is_v2:
            sifted = self._sieve.sift(data, batch, verdict)
        else:
            messages = sift_messages(
                data,
                batch,
                self._map,
                keeps_tombstones=self._keeps_legacy_tombstones,
                keeps_empty=verdict.keeps_empty,
            )
            self.records_read += messages.read
            self.records_kept += messages.kept
            self.invalid_records += messages.without_key
            sifted = messages.data
        if sifted is None:
            return
        if not self._kept.has_room_for(len(sifted)):
            output.write(self._kept)
            self._kept.make_room_for(len(sifted))
        self._kept.add(sifted)
        if verdict.aborted is not None:
            self._kept.add_aborted(verdict.aborted)

    def _add_counts(self) -> None:
        for counted in (self._sieve, self._runs):
            self.records_read += counted.records_read
            self.records_kept += counted.records_kept
            self.invalid_records += counted.invalid_records
