"""Batches of one partition as a consumer gets them: CRCs checked, without markers and what was aborted.

Which batches belong to aborted transactions is told by the broker under read_committed: each with its producer and
first offset. From there on everything that the producer wrote is aborted, up to its next marker that says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tailrace.client.fetcher import AbortedTransaction, Fetched
from tailrace.env.files import Buffer
from tailrace.model.errors import MessageTooLargeError
from tailrace.model.ids import TopicPartition
from tailrace.record.control import ABORT, control_of
from tailrace.record.reader import MAX_DECOMPRESSED_BYTES, Record, records_of
from tailrace.record.shallow import ShallowBatch, batches, check_integrity


class BatchRun(NamedTuple):
    """`buffer` holds the `batches` at their positions. The first may begin before `offset`: see `records`."""

    partition: TopicPartition
    offset: int
    """Where the reader was."""
    next_offset: int
    """Where it is now."""
    buffer: Buffer
    batches: tuple[ShallowBatch, ...]
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int

    def records(self, max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Record]:
        """From `offset` on, of all batches; each is decompressed when its first record is asked for."""
        for batch in self.batches:
            for record in records_of(self.buffer, batch, max_decompressed_bytes):
                if record.offset >= self.offset:
                    yield record

    @property
    def size_bytes(self) -> int:
        return sum(batch.size for batch in self.batches)

    @property
    def lag(self) -> int:
        """How many offsets there still are to be read."""
        return max(self.high_watermark - self.next_offset, 0)


def run_of(fetched: Fetched, *, check_crcs: bool = True) -> BatchRun:
    """Raises CorruptMessageError for damaged batches, MessageTooLargeError where not even one came whole."""
    visible, next_offset = [], fetched.offset
    for batch in batches(fetched.records):
        if check_crcs:
            check_integrity(fetched.records, batch)
        next_offset = max(next_offset, batch.next_offset)
        if batch.next_offset > fetched.offset:
            visible.append(batch)
    if next_offset == fetched.offset and len(fetched.records) and not visible:
        raise MessageTooLargeError(
            f"{fetched.partition} has no whole batch in {len(fetched.records)} bytes from offset {fetched.offset} on"
        )
    return BatchRun(
        fetched.partition,
        fetched.offset,
        next_offset,
        fetched.records,
        tuple(_committed(fetched.records, visible, fetched.aborted)),
        fetched.high_watermark,
        fetched.last_stable_offset,
        fetched.log_start_offset,
    )


def _committed(
    buffer: Buffer, found: list[ShallowBatch], aborted: tuple[AbortedTransaction, ...]
) -> Iterator[ShallowBatch]:
    to_come = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    aborting: set[int] = set()
    for batch in found:
        while to_come and to_come[-1].first_offset <= batch.last_offset:
            aborting.add(to_come.pop().producer_id)
        if batch.is_control:
            if batch.producer_id in aborting and _aborts(buffer, batch):
                aborting.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborting):
            yield batch


def _aborts(buffer: Buffer, batch: ShallowBatch) -> bool:
    control = control_of(buffer, batch)
    return control is not None and control.type == ABORT
