"""Pass 2: what stays of a group of segments goes into new ones.

Nothing of the log changes here: the group is read, `.cleaned` segments are written. The swap is the log owner's.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.record.shallow import ShallowBatch
from tailrace.storage.compaction.chunks import Chunk, ReadBuffer, SegmentReader
from tailrace.storage.compaction.legacy_sieve import sift_messages
from tailrace.storage.compaction.offset_map import OffsetMap
from tailrace.storage.compaction.output import CleanedSegments
from tailrace.storage.compaction.runs import Run
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
        """Rewrite one chunk, or begin or end; returns the bytes read and written."""
        if self._output is None:
            self._output = CleanedSegments(self._place, self._group[0].base_offset)
            return 0
        if self._reader is not None and not self._reader.is_done:
            chunk = self._reader.next_chunk()
            self._rewrite(chunk, self._output)
            self.bytes_read += chunk.size
            return chunk.size + self._output.write()
        if self._left:
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

    def _rewrite(self, chunk: Chunk, output: CleanedSegments) -> None:
        data = chunk.data
        run, empties = Run(), set[int]()
        for batch in chunk.batches:
            verdict = judge(data, batch, self._transactions, self._rules)
            joins_run = run.can_hold(batch) and not verdict.is_discarded
            if run.batches and not (joins_run and run.has_room_for(batch) and self._agree(run.batches[0], batch)):
                self._keep_run(data, run, empties, output)
                run, empties = Run(), set()
            if joins_run:
                run.add(batch)
                if verdict.keeps_empty:
                    empties.add(batch.base_offset)
            else:
                self._keep_batch(data, batch, verdict, output)
        if run.batches:
            self._keep_run(data, run, empties, output)

    def _agree(self, one: ShallowBatch, other: ShallowBatch) -> bool:
        return self._rules.keeps_tombstones(one) == self._rules.keeps_tombstones(other)

    def _keep_run(self, data: bytes, run: Run, empties: set[int], output: CleanedSegments) -> None:
        if self._sieve.sift_run(data, run):
            output.keep_all(run.batches, memoryview(data)[run.start : run.end])
            return
        first_record = 0
        for batch in run.batches:
            keeps_empty = batch.base_offset in empties
            sifted = self._sieve.sifted(data, batch, first_record, keeps_empty=keeps_empty)
            first_record += batch.record_count
            if sifted is not None:
                output.keep(sifted)

    def _keep_batch(self, data: bytes, batch: ShallowBatch, verdict: Verdict, output: CleanedSegments) -> None:
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
        if sifted is not None:
            output.keep(sifted)
            if verdict.aborted is not None:
                output.note_aborted(verdict.aborted)

    def _add_counts(self) -> None:
        self.records_read += self._sieve.records_read
        self.records_kept += self._sieve.records_kept
        self.invalid_records += self._sieve.invalid_records
