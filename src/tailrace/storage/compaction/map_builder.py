"""Pass 1: the keys of the dirty part of a log go into an offset map.

Only records that count do: those with a key, in batches that are no control batches and belong to no aborted
transaction. An aborted record must not hide an older committed one.

When the map is full the pass ends where it is, in the middle of a batch maybe, and the next clean goes on from there:
`OffsetMap.latest_offset` says how far it came.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tailrace.env import Buffer
from tailrace.record.batch import HEADER_BYTES
from tailrace.record.compression import decompress
from tailrace.record.control import control_of
from tailrace.record.legacy import messages_of
from tailrace.record.reader import MAX_DECOMPRESSED_BYTES
from tailrace.record.shallow import ShallowBatch
from tailrace.storage.compaction.chunks import ReadBuffer, SegmentReader
from tailrace.storage.compaction.offset_map import OffsetMap
from tailrace.storage.compaction.rows import Rows
from tailrace.storage.compaction.runs import PlainRuns
from tailrace.storage.compaction.transactions import SeenTransactions
from tailrace.storage.segment import LogSegment
from tailrace.storage.transaction_index import AbortedTxn


class MapBuilder:
    """Call `step` until `is_done`; one thread at a time, any thread.

    `segments` hold the offsets `start` ≤ offset < `end`, the first of them `start`; `end` is a segment's base.
    """

    def __init__(
        self,
        offset_map: OffsetMap,
        segments: Sequence[LogSegment],
        start: int,
        end: int,
        aborted: Iterable[AbortedTxn],
        buffer: ReadBuffer,
    ) -> None:
        self._map = offset_map
        self._start = start
        self._left = list(reversed(segments))
        self._end = end
        self._transactions = SeenTransactions(aborted)
        self._buffer = buffer
        self._reader: SegmentReader | None = None
        self._segment_end = start
        self._rows = Rows()
        self._runs = PlainRuns(self._transactions)
        self.is_done = not segments
        if segments:
            offset_map.expect(start, end)
        self.bytes_read = 0

    def step(self) -> int:
        """Map one chunk; returns the bytes read."""
        if self._reader is None:
            self._reader = self._open_next()
        if self._reader.is_done:
            self._map.mapped_to(self._segment_end - 1)  # over a gap in the offsets too
            self._reader = None
            self.is_done = not self._left
            return 0
        taken = 0
        while not taken:
            self._reader.read()
            self.is_done = not self._map_chunk(self._reader)
            taken = self._reader.finish()
        self.bytes_read += taken
        return taken

    def _open_next(self) -> SegmentReader:
        segment = self._left.pop()
        self._segment_end = self._left[-1].base_offset if self._left else self._end
        found = segment.translate(self._start)
        position = segment.size if found is None else found[0]
        return SegmentReader(segment, self._buffer, self._segment_end, position)

    def _map_chunk(self, reader: SegmentReader) -> bool:
        """False when the map got full."""
        while self._runs.map(reader, self._map, self._start):
            batch = reader.next_batch()
            if batch is None:
                return True
            if self._counts(reader.data, batch) and not self._map_batch(reader.data, batch):
                return False
            self._map.mapped_to(batch.last_offset)
        return False

    def _counts(self, data: Buffer, batch: ShallowBatch) -> bool:
        if batch.is_control:
            self._transactions.ended_by(batch, control_of(data, batch))
            return False
        return not self._transactions.is_aborted(batch)

    def _map_batch(self, data: Buffer, batch: ShallowBatch) -> bool:
        if not batch.is_v2:
            return self._map_messages(data, batch)
        payload: Buffer = data
        start, end = batch.position + HEADER_BYTES, batch.end
        if batch.codec and start < end:
            payload = decompress(batch.codec, memoryview(data)[start:end], MAX_DECOMPRESSED_BYTES)
            start, end = 0, len(payload)
        for count in self._rows.walk_payload(payload, start, end, batch):
            if not self._map.put_rows(payload, self._rows.cells, count, self._start):
                return False
        return True

    def _map_messages(self, data: Buffer, entry: ShallowBatch) -> bool:
        for message in messages_of(data, entry, MAX_DECOMPRESSED_BYTES):
            if message.key is not None and message.offset >= self._start:
                if self._map.is_full:
                    return False
                self._map.put(message.key, message.offset)
        return True
