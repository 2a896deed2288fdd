"""What a log remembers of one producer: values that are replaced, never changed.

Because an entry is a value, an append that fails half-way leaves the remembered one as it was.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tailrace.model.ids import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.record.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from tailrace.record.shallow import ShallowBatch

BATCHES_KEPT: Final = 5  # as many requests as an idempotent producer may have in flight
NO_COORDINATOR_EPOCH: Final = -1
NO_OFFSET: Final = -1

_SEQUENCE_MASK: Final = 0x7FFFFFFF  # sequences wrap from 2147483647 to 0
_OF_TRANSACTIONS: Final = TRANSACTIONAL_BIT | CONTROL_BIT


class BatchMetadata(NamedTuple):
    """One batch that was appended: enough to know a resend of it and to answer the resend."""

    last_seq: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_seq(self) -> int:
        return (self.last_seq - self.offset_delta) & _SEQUENCE_MASK

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerStateEntry(NamedTuple):
    """A producer as of the end of the log. `batches`: its last five at most, oldest first, all of `producer_epoch`."""

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp: int = NO_TIMESTAMP
    txn_first_offset: int | None = None
    batches: tuple[BatchMetadata, ...] = ()

    @property
    def first_seq(self) -> int:
        return self.batches[0].first_seq if self.batches else NO_SEQUENCE

    @property
    def last_seq(self) -> int:
        return self.batches[-1].last_seq if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def find_duplicate(self, producer_epoch: int, first_seq: int, last_seq: int) -> BatchMetadata | None:
        """The remembered batch of exactly these sequences in this epoch."""
        if producer_epoch == self.producer_epoch:
            for batch in self.batches:
                if batch.last_seq == last_seq and batch.first_seq == first_seq:
                    return batch
        return None

    def with_batch(self, producer_epoch: int, batch: BatchMetadata) -> ProducerStateEntry:
        """A batch of another epoch makes those before it worthless."""
        if producer_epoch != self.producer_epoch:
            batches: tuple[BatchMetadata, ...] = (batch,)
        else:
            batches = (*self.batches[1 - BATCHES_KEPT :], batch)
        return ProducerStateEntry(
            self.producer_id, producer_epoch, self.coordinator_epoch, batch.timestamp, self.txn_first_offset, batches
        )

    def followed_by(self, batch: ShallowBatch) -> ProducerStateEntry | None:
        """After the next batch of an idempotent producer, in its transaction if one is open; None where anything has to
        be asked about it."""
        _, _, _, first_offset, last_offset, timestamp, _, attributes, _, epoch, sequence, *_ = batch
        delta = last_offset - first_offset
        last_seq = sequence + delta
        if (
            not self.batches
            or epoch != self.producer_epoch
            or sequence != self.batches[-1].last_seq + 1
            or last_seq > _SEQUENCE_MASK
            or attributes & _OF_TRANSACTIONS != (TRANSACTIONAL_BIT if self.txn_first_offset is not None else 0)
            # A producer that was forgotten may have begun again in the same epoch, and what it repeats be known here.
            or self.find_duplicate(epoch, sequence, last_seq) is not None
        ):
            return None
        return self.with_batch(epoch, BatchMetadata(last_seq, last_offset, delta, timestamp))

    def with_txn_begun(self, first_offset: int) -> ProducerStateEntry:
        return self._replace(txn_first_offset=first_offset)

    def with_txn_ended(self, producer_epoch: int, coordinator_epoch: int, timestamp: int) -> ProducerStateEntry:
        """A marker of the same epoch leaves the sequences going; one with a raised epoch starts them again at 0."""
        batches = self.batches if producer_epoch == self.producer_epoch else ()
        return ProducerStateEntry(self.producer_id, producer_epoch, coordinator_epoch, timestamp, None, batches)


class TxnMetadata(NamedTuple):
    """A transaction with data in this log. `last_offset` is its marker's, None while it is open."""

    producer_id: int
    first_offset: LogOffsetMetadata
    last_offset: int | None = None


class CompletedTxn(NamedTuple):
    """A transaction whose marker has come; `last_offset` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool
