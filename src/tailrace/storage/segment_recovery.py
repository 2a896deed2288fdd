"""Proving a segment byte by byte after a crash, and making anew everything that is derived from it.

A batch counts when it lies whole in the file, its CRC matches and its offsets go on from the batch before. The file is
cut behind the last such batch, durably: zeros, nonsense and torn writes behind it are never looked at again.
"""

from __future__ import annotations

import logging
from typing import Final

from tailrace.model.errors import CorruptMessageError, InvalidDataError, SegmentOffsetOverflowError
from tailrace.model.offsets import MAX_RELATIVE_OFFSET
from tailrace.record.batch import ATTRIBUTES_AT, HEADER_BYTES, MAGIC_V2
from tailrace.record.batch_run import BatchRun
from tailrace.record.checksum import crc32c
from tailrace.record.shallow import ShallowBatch, check_integrity, next_batch
from tailrace.storage.epoch_cache import LeaderEpochCache
from tailrace.storage.producer_entry import BATCHES_KEPT
from tailrace.storage.producer_replay import marker_of, replay_batch
from tailrace.storage.producer_state import ProducerStateManager
from tailrace.storage.segment import LogSegment
from tailrace.storage.transaction_index import AbortedTxn

_log = logging.getLogger(__name__)

CHUNK_BYTES: Final = 4 << 20
RUN_BATCHES: Final = 4096
GREATEST_POSITION: Final = 2**31 - 1  # that an index can hold


class SegmentRecovery:
    """One run over one segment. `producers` must be in the state of the segment's base offset."""

    def __init__(self, segment: LogSegment, producers: ProducerStateManager, epochs: LeaderEpochCache) -> None:
        self._segment = segment
        self._producers = producers
        self._epochs = epochs
        self._latest_epoch = -1 if epochs.latest_epoch is None else epochs.latest_epoch
        self._proven_bytes = 0
        self._greatest_offset = segment.base_offset + MAX_RELATIVE_OFFSET
        self._run = BatchRun(min(RUN_BATCHES, segment.size // HEADER_BYTES))
        self.next_offset = segment.base_offset
        """After the last good batch."""
        self.reason = ""
        """Why the bytes behind the last good batch were cut off."""

    def prove(self) -> int:
        """Returns how many bytes `finish` will cut off; until then nothing of the data is changed.

        Raises SegmentOffsetOverflowError for a segment that must be split first.
        """
        segment = self._segment
        segment.reset_indexes()
        segment.txn_index.reset()
        try:
            self._prove()
        except InvalidDataError as error:
            self.reason = str(error)
        return segment.size - self._proven_bytes

    def finish(self) -> None:
        """Cut behind the last good batch, durably, and end the indexes there."""
        segment = self._segment
        cut_bytes = segment.size - self._proven_bytes
        if cut_bytes:
            self.reason = self.reason or "the last batch is not whole"
            _log.warning("%r: cut %d bytes behind position %d: %s", segment, cut_bytes, self._proven_bytes, self.reason)
            segment.records.cut(self._proven_bytes)
        segment.finish_indexes()

    def _prove(self) -> None:
        """Walk the file in chunks that are read into the same memory again and again."""
        file, size = self._segment.records.file, self._segment.size
        chunk = memoryview(bytearray(min(CHUNK_BYTES, size)))
        while self._proven_bytes < size:
            start = self._proven_bytes
            filled = file.read_into(chunk[: min(len(chunk), size - start)], start)
            self._prove_chunk(chunk, filled)
            if self._proven_bytes == start:
                batch = next_batch(chunk, 0, size - start) if filled < size - start else None
                if batch is None:
                    return
                self._prove_large(batch)

    def _prove_chunk(self, chunk: memoryview, filled: int) -> None:
        """Run by run; what ends a run is looked at alone. Messages of before v2 have others like them behind."""
        start, at, is_legacy = self._proven_bytes, 0, False
        while True:
            if not is_legacy:
                self._prove_run(chunk, at, filled)
                at = self._proven_bytes - start
            batch = next_batch(chunk, at, filled)
            if batch is None:
                return
            self._prove_batch(chunk, batch)
            at = self._proven_bytes - start
            is_legacy = batch.magic != MAGIC_V2

    def _prove_run(self, chunk: memoryview, at: int, filled: int) -> None:
        """As many batches as go on from one to the next without a new leader epoch."""
        start = self._proven_bytes
        if start + filled - at > GREATEST_POSITION:
            return
        run = self._run
        run.walk(chunk, at, filled, self.next_offset, self._greatest_offset, self._latest_epoch)
        damage = self._end_before_damage(run, chunk, start - at)
        if run.count:
            for place in run.to_replay(BATCHES_KEPT):
                self._replay(run.batch(place, chunk), chunk)
            self._segment.index_run(run, start)
            self.next_offset = run.next_offset
            self._proven_bytes = start + run.end - at
        if damage is not None:
            raise damage

    def _end_before_damage(self, run: BatchRun, chunk: memoryview, chunk_start: int) -> InvalidDataError | None:
        """Let the run end before the first batch whose CRC is wrong or that cannot be played; returns why."""
        damage: InvalidDataError | None = None
        intact = run.intact(chunk)
        if intact < run.count:
            position = chunk_start + run.batch(intact, chunk).position
            damage = CorruptMessageError(f"the batch at position {position} does not have its CRC")
            run.keep(intact)
        for place in run.markers():
            try:
                marker_of(chunk, run.batch(place, chunk))
            except InvalidDataError as error:
                run.keep(place)
                return error
        return damage

    def _prove_batch(self, chunk: memoryview, batch: ShallowBatch) -> None:
        start = self._proven_bytes
        if batch.magic != MAGIC_V2:
            check_integrity(chunk, batch)
        elif crc32c(chunk[batch.position + ATTRIBUTES_AT : batch.end]) != batch.crc:
            raise CorruptMessageError(f"the batch at position {start} does not have its CRC")
        self._take(batch, chunk)
        self._segment.index((batch,), start)
        self._proven_bytes = start + batch.size

    def _prove_large(self, batch: ShallowBatch) -> None:
        """A batch longer than a chunk: its CRC is computed piece by piece, whatever length it states."""
        records, start = self._segment.records, self._proven_bytes
        if batch.magic == MAGIC_V2 and not batch.is_control:
            crc, position, end = 0, start + ATTRIBUTES_AT, start + batch.size
            while position < end:
                piece = records.read(position, min(CHUNK_BYTES, end - position))
                crc = crc32c(piece, crc)
                position += len(piece)
            if crc != batch.crc:
                raise CorruptMessageError(f"the batch at position {start} does not have its CRC")
            self._take(batch, b"")
        else:
            whole = records.read(start, batch.size)
            check_integrity(whole, batch)
            self._take(batch, whole)
        self._segment.index((batch,), start)
        self._proven_bytes = start + batch.size

    def _take(self, batch: ShallowBatch, buffer: bytes | memoryview) -> None:
        """A batch with the right CRC: does it go on from the one before? Then into epochs and producer state."""
        last_offset = batch.last_offset
        first_offset = batch.base_offset if batch.magic == MAGIC_V2 else last_offset
        if first_offset < self.next_offset or last_offset < first_offset:
            raise CorruptMessageError(f"a batch of offset {first_offset} stands where {self.next_offset} is next")
        if last_offset > self._greatest_offset:
            raise SegmentOffsetOverflowError(f"offset {last_offset} is too far from the base of {self._segment!r}")
        if batch.producer_id > -1:
            self._replay(batch, buffer)  # first: a marker that cannot be read ends the log before it
        self.next_offset = last_offset + 1
        if batch.leader_epoch > self._latest_epoch:
            self._epochs.assign(batch.leader_epoch, batch.base_offset)
            self._latest_epoch = batch.leader_epoch

    def _replay(self, batch: ShallowBatch, buffer: bytes | memoryview) -> None:
        marker = marker_of(buffer, batch) if batch.is_control else None
        completed = replay_batch(self._producers, batch, None, marker)
        if completed is None:
            return
        if completed.is_aborted:
            stable = self._producers.last_stable_offset(completed)
            self._segment.add_aborted(AbortedTxn(*completed[:3], stable))
        self._producers.complete_txn(completed)
