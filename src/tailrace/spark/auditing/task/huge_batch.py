"""A batch that is too large to be held: it stays in its file and is read block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tailrace.env import File
from tailrace.record.batch import HEADER_BYTES, BatchHeader
from tailrace.record.shallow import ShallowBatch
from tailrace.spark.auditing.rules import BAD_HEADER, UNKNOWN_FORMAT
from tailrace.spark.auditing.task.batch_checks import BatchChecks
from tailrace.spark.auditing.task.block import Block
from tailrace.spark.auditing.task.columns import block_of_batches
from tailrace.spark.auditing.task.faults import Fault
from tailrace.spark.source.files.headers import batch_at, is_intact

_BLOCK_BYTES: Final = 1 << 20


class HugeBatch:
    """Of magic 2, with the CRC that it states and possible offsets."""

    def __init__(self, file: File, position: int, batch: ShallowBatch) -> None:
        self._file = file
        self._position = position
        self._batch = batch
        self.size = batch.size
        self.plain_bytes = batch.size - HEADER_BYTES

    @classmethod
    def at(cls, file: File, position: int) -> HugeBatch | None:
        """None where no such batch stands."""
        batch = batch_at(file, position)
        if batch is None or not batch.is_v2 or not 0 <= batch.base_offset <= batch.last_offset:
            return None
        return cls(file, position, batch) if is_intact(file, position, batch) else None

    def block(self, file_position: int) -> Block:
        return block_of_batches([self._batch._replace(position=0)], file_position)

    def faults(self, checks: BatchChecks) -> Iterator[Fault]:
        batch = self._batch
        if batch.is_control or batch.codec:
            kind = "control" if batch.is_control else "compressed"
            words = f"a {kind} batch of {batch.size} bytes is larger than any that is decoded"
            yield Fault(0, UNKNOWN_FORMAT if batch.codec else BAD_HEADER, words, batch.next_offset)
            return
        header = BatchHeader.at(self._file.read_at(HEADER_BYTES, self._position))
        yield from checks.in_blocks(self._pieces(), header)

    def _pieces(self) -> Iterator[bytes]:
        at, end = self._position + HEADER_BYTES, self._position + self.size
        while at < end:
            piece = self._file.read_at(min(_BLOCK_BYTES, end - at), at)
            if not piece:
                return
            yield piece
            at += len(piece)
