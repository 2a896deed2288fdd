"""Segments read batch by batch through a buffer that grows only for a batch that does not fit.

Every batch is proven before it is handed out, by its CRC and, since offsets are outside it, by their order: what is
rewritten gets a new CRC, and damage must not be given one.

For the thread that runs a step of a compaction. It reads what the log's owner may cut meanwhile and then raises
SegmentGoneError.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tailrace.model.errors import CorruptMessageError, SegmentGoneError
from tailrace.model.invariant import invariant
from tailrace.record.batch import LOG_OVERHEAD
from tailrace.record.shallow import ShallowBatch, check_integrity, next_batch
from tailrace.storage.segment import LogSegment

LEAST_BUFFER_BYTES: Final = 64


class Chunk(NamedTuple):
    """Whole batches, at least one; their positions are in `data`, behind which a part of another may stand."""

    data: bytes
    batches: list[ShallowBatch]

    @property
    def size(self) -> int:
        """Bytes of the whole batches."""
        return self.batches[-1].end


class ReadBuffer:
    """How much is read at once: `io_buffer_bytes`, doubled for a batch that is larger until that fits, until `restore`.

    The first bound is `max_message_bytes`. A batch may exceed it, for compression can make it longer and the bound may
    have been lowered; then the bound is its own length, if it is in the file.
    """

    def __init__(self, io_buffer_bytes: int, max_message_bytes: int) -> None:
        invariant(io_buffer_bytes >= LEAST_BUFFER_BYTES, f"a cleaner's buffer of {io_buffer_bytes} bytes")
        self._io_buffer_bytes = io_buffer_bytes
        self._max_message_bytes = max_message_bytes
        self.size = io_buffer_bytes

    def grow_for(self, batch_bytes: int) -> None:
        """Double it, at most up to the bound. Each call brings it nearer to `batch_bytes`, which is greater."""
        bound = batch_bytes if self.size >= self._max_message_bytes else self._max_message_bytes
        self.size = min(2 * self.size, bound)

    def restore(self) -> None:
        self.size = self._io_buffer_bytes


class SegmentReader:
    """The batches of one segment from `position` on, in order; those that begin at `end_offset` or later are damage."""

    def __init__(self, segment: LogSegment, buffer: ReadBuffer, end_offset: int, position: int = 0) -> None:
        self._records = segment.records
        self._cuts = segment.records.cuts
        self._size = segment.records.size
        self._buffer = buffer
        self._position = position
        self._next_offset = segment.base_offset
        self._end_offset = end_offset

    @property
    def is_done(self) -> bool:
        return self._position >= self._size

    def next_chunk(self) -> Chunk:
        """CorruptMessageError where the file holds no whole, sound batch."""
        while True:
            data = self._read()
            batches = self._batches_in(data)
            if batches:
                self._position += batches[-1].end
                if self.is_done:
                    self._buffer.restore()
                return Chunk(data, batches)
            self._grow(data)

    def _read(self) -> bytes:
        wanted = min(self._buffer.size, self._size - self._position)
        data = self._records.read(self._position, wanted)
        if len(data) < wanted or self._records.cuts != self._cuts:
            raise SegmentGoneError(f"{self._records.path} was truncated while it was compacted")
        return data

    def _batches_in(self, data: bytes) -> list[ShallowBatch]:
        found: list[ShallowBatch] = []
        position, end = 0, len(data)
        try:
            while (batch := next_batch(data, position, end)) is not None:
                check_integrity(data, batch)
                self._check_order(batch)
                found.append(batch)
                position += batch.size
        except CorruptMessageError as error:
            raise CorruptMessageError(f"{self._records.path} from byte {self._position} on: {error}") from None
        return found

    def _check_order(self, batch: ShallowBatch) -> None:
        first = batch.base_offset if batch.is_v2 else batch.last_offset
        if not self._next_offset <= first <= batch.last_offset < self._end_offset:
            raise CorruptMessageError(
                f"a batch of offsets {first} to {batch.last_offset} "
                f"where only {self._next_offset} to {self._end_offset - 1} can be"
            )
        self._next_offset = batch.next_offset

    def _grow(self, data: bytes) -> None:
        left = self._size - self._position
        stated = int.from_bytes(data[8:LOG_OVERHEAD], "big") + LOG_OVERHEAD
        if len(data) < LOG_OVERHEAD or stated > left:
            raise CorruptMessageError(
                f"{self._records.path} has no whole batch in the {left} bytes from {self._position} on"
            )
        self._buffer.grow_for(stated)
