"""What stays of a chunk: batches one behind the other, as they are to stand in the log, with a row for each.

Kernels write most of it, see `runs`; batches that were looked at alone are added one by one.
"""

from __future__ import annotations

from typing import Final

from tailrace.env import Buffer
from tailrace.model.invariant import invariant
from tailrace.record.batch_run import BatchRun
from tailrace.record.shallow import next_batch
from tailrace.storage.transaction_index import AbortedTxn

KEPT_BATCHES: Final = 8192
GROWTH_BYTES: Final = 128 * 1024
"""How much longer than the chunk the room is: records may grow when they are written anew."""


class Kept:
    """The room, used again and again: `data[:written]` are the batches of `run`.

    `aborted` are transactions whose markers are among them, each with the marker's place in the run.
    """

    def __init__(self, chunk_bytes: int) -> None:
        self._usual_bytes = chunk_bytes + GROWTH_BYTES
        self.data = bytearray(self._usual_bytes)
        self.run = BatchRun(KEPT_BATCHES)
        self.written = 0
        self.aborted: list[tuple[int, AbortedTxn]] = []

    def clear(self) -> None:
        """All was written to a file."""
        if len(self.data) != self._usual_bytes:
            self.data = bytearray(self._usual_bytes)
        self.run.keep(0)
        self.written = 0
        self.aborted.clear()

    def has_room_for(self, size: int) -> bool:
        return size <= len(self.data) - self.written and self.run.count < KEPT_BATCHES

    def make_room_for(self, size: int) -> None:
        """While there is nothing in it."""
        invariant(not self.written, f"{self.written} bytes that are kept would be lost")
        if size > len(self.data):
            self.data = bytearray(size)

    def add(self, data: Buffer) -> None:
        """One batch; there is room for it."""
        batch = next_batch(data, 0, len(data))
        invariant(batch is not None, f"{len(data)} bytes to be kept are no batch")
        assert batch is not None
        start, self.written = self.written, self.written + len(data)
        self.data[start : self.written] = data
        self.run.add(batch, start)

    def add_aborted(self, aborted: AbortedTxn) -> None:
        """The batch added last is the marker of this transaction."""
        self.aborted.append((self.run.count - 1, aborted))
