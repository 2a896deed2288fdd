"""Segments read chunk by chunk through a buffer that grows only for a batch that does not fit.

Every batch is proven before it is used, by its CRC and, since offsets are outside it, by their order: what is
rewritten gets a new CRC, and damage must not be given one. Kernels prove most batches, see `runs`; here are those that
come one at a time.

For the thread that runs a step of a compaction. It reads what the log's owner may cut meanwhile and then raises
SegmentGoneError.
"""

from __future__ import annotations

from typing import Final

from tailrace.model.errors import CorruptMessageError, SegmentGoneError
from tailrace.model.invariant import invariant
from tailrace.record.batch import LOG_OVERHEAD
from tailrace.record.shallow import ShallowBatch, check_integrity, next_batch
from tailrace.storage.segment import LogSegment

LEAST_BUFFER_BYTES: Final = 64


class ReadBuffer:
    """How much is read at once: `io_buffer_bytes`, doubled for a batch that is larger until that fits, until `restore`.

    The first bound is `max_message_bytes`. A batch may exceed it, for compression can make it longer and the bound may
    have been lowered; then the bound is its own length, if it is in the file.
    """

    def __init__(self, io_buffer_bytes: int, max_message_bytes: int) -> None:
        invariant(io_buffer_bytes >= LEAST_BUFFER_BYTES, f"a cleaner's buffer of {io_buffer_bytes} bytes")
        self._io_buffer_bytes = io_buffer_bytes
        self._max_message_bytes = max_message_bytes
        self._memory = memoryview(b"")
        self.size = io_buffer_bytes

    def room(self, size: int) -> memoryview:
        """The memory, used again and again, for `size` bytes, no more than the buffer has."""
        if len(self._memory) != self.size:
            self._memory = memoryview(bytearray(self.size))
        return self._memory[:size]

    def grow_for(self, batch_bytes: int) -> None:
        """Double it, at most up to the bound. Each call brings it nearer to `batch_bytes`, which is greater."""
        bound = batch_bytes if self.size >= self._max_message_bytes else self._max_message_bytes
        self.size = min(2 * self.size, bound)

    def restore(self) -> None:
        self.size = self._io_buffer_bytes


class SegmentReader:
    """The batches of one segment from `position` on, in order; those that begin at `end_offset` or later are damage.

    For each chunk: `read` it, take its batches, `finish` it. `data` from `taken` on is what is left to take; the next
    batch must not begin below `next_offset`.
    """

    def __init__(self, segment: LogSegment, buffer: ReadBuffer, end_offset: int, position: int = 0) -> None:
        self._records = segment.records
        self._cuts = segment.records.cuts
        self._size = segment.records.size
        self._buffer = buffer
        self._position = position
        self.data = memoryview(b"")
        self.taken = 0
        self.next_offset = segment.base_offset
        self.end_offset = end_offset

    @property
    def is_done(self) -> bool:
        return self._position >= self._size

    def read(self) -> None:
        wanted = min(self._buffer.size, self._size - self._position)
        self.data = self._buffer.room(wanted)
        self.taken = 0
        found = self._records.file.read_into(self.data, self._position)
        if found < wanted or self._records.cuts != self._cuts:
            raise SegmentGoneError(f"{self._records.path} was truncated while it was compacted")

    def next_batch(self) -> ShallowBatch | None:
        """Take one batch; None when no whole one is left. CorruptMessageError for one that is not sound."""
        try:
            batch = next_batch(self.data, self.taken, len(self.data))
            if batch is None:
                return None
            check_integrity(self.data, batch)
            self._check_order(batch)
        except CorruptMessageError as error:
            raise CorruptMessageError(f"{self._records.path} from byte {self._position} on: {error}") from None
        self.take_to(batch.end, batch.next_offset)
        return batch

    def _check_order(self, batch: ShallowBatch) -> None:
        first = batch.base_offset if batch.is_v2 else batch.last_offset
        if not self.next_offset <= first <= batch.last_offset < self.end_offset:
            raise CorruptMessageError(
                f"a batch of offsets {first} to {batch.last_offset} "
                f"where only {self.next_offset} to {self.end_offset - 1} can be"
            )

    def take_to(self, taken: int, next_offset: int) -> None:
        """Batches up to `taken` were proven and taken; the last of them ends before `next_offset`."""
        self.taken = taken
        self.next_offset = next_offset

    def finish(self) -> int:
        """Returns how much was taken. Nothing: then the next `read` reads more.

        CorruptMessageError when the file holds no whole batch.
        """
        if not self.taken:
            self._grow()
        self._position += self.taken
        if self.is_done:
            self._buffer.restore()
        return self.taken

    def _grow(self) -> None:
        left = self._size - self._position
        stated = int.from_bytes(self.data[8:LOG_OVERHEAD], "big") + LOG_OVERHEAD
        if len(self.data) < LOG_OVERHEAD or stated > left:
            raise CorruptMessageError(
                f"{self._records.path} has no whole batch in the {left} bytes from {self._position} on"
            )
        self._buffer.grow_for(stated)
