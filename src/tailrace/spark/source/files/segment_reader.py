"""One segment of a task's piece: its bytes in large blocks to the decoder, and around what is damaged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from tailrace.env import File, Files
from tailrace.env.memory import zeroed_memory
from tailrace.record.batch import HEADER_BYTES
from tailrace.record.shallow import ShallowBatch
from tailrace.spark.source.aborted import EndedTransaction
from tailrace.spark.source.damage import UnframedError
from tailrace.spark.source.decoding import Decoder
from tailrace.spark.source.files.gaps import GapJudge
from tailrace.spark.source.files.headers import batch_at, is_intact
from tailrace.spark.source.files.seeking import next_indexed, seek, time_floor
from tailrace.spark.source.files.segments import Segment
from tailrace.spark.source.ranges import OffsetRange
from tailrace.storage.transaction_index import AbortedTxn

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_BYTES: Final = 2 << 20  # larger ones leave the cache before they are decoded

_ZEROS_BYTES: Final = 1 << 20


class SegmentReader:
    """For all segments of a piece, one after the other: they share the buffer."""

    def __init__(
        self,
        files: Files,
        piece: OffsetRange,
        decoder: Decoder,
        gaps: GapJudge,
        recovery_point: int | None,
        *,
        skips_corrupt: bool,
    ) -> None:
        self._files = files
        self._piece = piece
        self._decoder = decoder
        self._gaps = gaps
        self._recovery_point = recovery_point
        self._skips_corrupt = skips_corrupt
        self._buffer = memoryview(b"")

    def floor_of(self, segment: Segment, file: File) -> int:
        """Below this offset everything in the segment is older than what the decoder wants."""
        floor = time_floor(self._files, segment, file, self._decoder.times.first_ms, self._recovery_point)
        return segment.behind if floor.is_all and segment.behind is not None else floor.offset

    def read(self, segment: Segment, file: File, aborted: Sequence[AbortedTxn]) -> Iterator[pa.RecordBatch]:
        """From the decoder's next offset to the piece's end or the segment's, whichever comes first."""
        decoder = self._decoder
        self._gaps.begin_segment()
        told = [EndedTransaction(each.producer_id, each.first_offset, each.last_offset) for each in aborted]
        position = 0
        if decoder.next_offset > segment.base_offset:
            position = seek(self._files, segment, file, decoder.next_offset).position
        limit = self._limit(segment, file)
        held = 0  # bytes in the buffer that the decoder did not take yet
        wanted = BLOCK_BYTES
        while True:
            held = self._fill(file, position, held, min(wanted, limit - position))
            if not held:
                return
            block = self._buffer[:held]
            try:
                yield from decoder.decode(block, told)
                taken = decoder.taken_bytes
            except UnframedError as fault:
                behind = self._around(segment, file, position, fault)
                if behind is None:
                    return
                position, held = behind, 0
                continue
            told = []
            self._judge()
            if decoder.next_offset >= self._piece.end:
                return
            position += taken
            if taken:
                self._buffer[: held - taken] = self._buffer[taken:held]
                held -= taken
                wanted = BLOCK_BYTES
            else:
                wanted = self._wanted_by(segment, file, position)
                if not held < wanted <= limit - position:
                    behind = self._behind_half(segment, file, position, block)
                    if behind is None:
                        return
                    position, held, wanted = behind, 0, BLOCK_BYTES

    def _limit(self, segment: Segment, file: File) -> int:
        """The position behind the last batch that the piece needs of this segment."""
        size = file.size()
        if segment.behind is not None and segment.behind <= self._piece.end:
            return size
        position, batch = seek(self._files, segment, file, self._piece.end)
        if batch is None or not is_intact(file, position, batch):
            return size
        return position + batch.size if batch.base_offset < self._piece.end else position

    def _fill(self, file: File, position: int, held: int, wanted: int) -> int:
        """Have `wanted` bytes from `position` on in the buffer, `held` of which are there already; returns how many."""
        if wanted <= held:
            return held
        if wanted > len(self._buffer):
            larger = zeroed_memory(max(wanted, BLOCK_BYTES))
            larger[:held] = self._buffer[:held]
            self._buffer = larger
        return held + file.read_into(self._buffer[held:wanted], position + held)

    def _wanted_by(self, segment: Segment, file: File, position: int) -> int:
        """The size of a batch larger than the block; 0 where none stands that is whole."""
        batch = batch_at(file, position)
        return batch.size if batch is not None and _belongs(segment, batch) else 0

    # Damage

    def _judge(self) -> None:
        gaps, self._decoder.gaps = self._decoder.gaps, []
        for start, end in gaps:
            self._gaps.judge(start, end)

    def _around(self, segment: Segment, file: File, position: int, fault: UnframedError) -> int | None:
        """The position of the next batch behind one that even its end is not known of; None for the next segment."""
        self._judge()
        decoder, position = self._decoder, position + fault.position
        place = next_indexed(self._files, segment, file, position, decoder.next_offset)
        if place is None and _has_only_zeros(file, position):
            return None  # the file was made longer before it was filled: what is missing will be told as such
        if not self._skips_corrupt:
            raise fault
        if place is not None and place.batch is not None:
            end = place.batch.base_offset
        else:
            end = self._piece.end if segment.behind is None else segment.behind
        decoder.damaged(decoder.next_offset, end, str(fault))
        decoder.next_offset = min(end, self._piece.end)
        return None if place is None else place.position

    def _behind_half(self, segment: Segment, file: File, position: int, block: memoryview) -> int | None:
        """The same where a batch begins at `position` that goes beyond the end of the file.

        In the last segment the log may end there; in others nothing of it is missing without damage.
        """
        decoder = self._decoder
        if not any(block[:HEADER_BYTES]) or (segment.behind is not None and decoder.next_offset >= segment.behind):
            return None
        try:
            why = f"the batch at position {position} of {file.path} goes beyond its end"
            return position + decoder.pass_unframed(block, 0, why)
        except UnframedError as fault:
            place = next_indexed(self._files, segment, file, position, decoder.next_offset)
            if place is None and segment.behind is None:
                return None
            return self._around(segment, file, position, fault)


def _has_only_zeros(file: File, position: int) -> bool:
    """From there to its end."""
    while data := file.read_at(_ZEROS_BYTES, position):
        if data.count(0) < len(data):
            return False
        position += len(data)
    return True


def _belongs(segment: Segment, batch: ShallowBatch) -> bool:
    """Whether a batch of this length may be believed: its offsets are of this segment."""
    begins = batch.base_offset < 0 or segment.base_offset <= batch.base_offset <= batch.last_offset
    return begins and segment.base_offset <= batch.last_offset and batch.last_offset < (segment.behind or 1 << 63)
