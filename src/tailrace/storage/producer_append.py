"""The batches of one producer within one append: checked one after the other, kept apart until the append is written.

`ProducerStateManager.prepare_update` makes one; each batch is added in log order; once the bytes are in the log,
`ProducerStateManager.update` takes over the outcome. If a check fails, or the write does, the object is thrown
away and nothing has happened.

    origin         producer epoch, coordinator epoch    sequence                       data outside its transaction
    CLIENT         a lower one than known is refused    must follow the last one       refused
    COORDINATOR    a lower one than known is refused    unchecked (batches have none)  refused
    REPLICATION    believed, a lower one logged         unchecked                      believed and logged

Replicated batches are believed because they are in the leader's log, or in our own, already: to refuse them would
make the copies differ, and a log that could not be loaded would not get better.

Most batches just follow the last one of their producer and need none of this: `ProducerStateEntry.followed_by`.

Sequences: the first batch of a new epoch has 0; 0 follows 2147483647; a producer of which nothing is known may begin
anywhere (its state expired, or retention took its batches), unless a client of transactions version 2 is being
verified, which always begins at 0.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

from tailrace.model.errors import (
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TailraceError,
    TransactionCoordinatorFencedError,
)
from tailrace.model.ids import NO_PRODUCER_EPOCH
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.storage.origin import Origin
from tailrace.storage.producer_entry import BatchMetadata, CompletedTxn, ProducerStateEntry, TxnMetadata
from tailrace.storage.verification import VerificationStateEntry

MAX_SEQUENCE: Final = 2**31 - 1
MAX_PRODUCER_EPOCH: Final = 2**15 - 1
ABORT_MARKER: Final = 0  # types of control records
COMMIT_MARKER: Final = 1
MARKERS_RAISE_EPOCH_FROM: Final = 2  # transactions version: a marker carries a higher epoch than the data it ends

_log = logging.getLogger(__name__)


class EndTxnMarker(Protocol):
    """The control record that ends a transaction."""

    @property
    def type(self) -> int: ...

    @property
    def coordinator_epoch(self) -> int: ...


class ProducerBatch(Protocol):
    """What is asked of a batch; a `BatchHeader` and a `ShallowBatch` have it."""

    @property
    def base_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...

    @property
    def max_timestamp(self) -> int: ...

    @property
    def producer_epoch(self) -> int: ...

    @property
    def base_sequence(self) -> int: ...

    @property
    def last_sequence(self) -> int: ...

    @property
    def is_control(self) -> bool: ...

    @property
    def is_transactional(self) -> bool: ...


class ProducerAppendInfo:
    """`entry` is the producer's state as it will be; `started_transactions` those begun in this append."""

    __slots__ = ("_log_name", "_origin", "_verification", "entry", "started_transactions")

    def __init__(
        self,
        log_name: str,
        known: ProducerStateEntry,
        origin: Origin,
        verification: VerificationStateEntry | None = None,
    ) -> None:
        self._log_name = log_name
        self._origin = origin
        self._verification = verification
        self.entry = known
        self.started_transactions: list[TxnMetadata] = []

    @property
    def producer_id(self) -> int:
        return self.entry.producer_id

    def append(
        self,
        batch: ProducerBatch,
        first_offset_metadata: LogOffsetMetadata | None = None,
        marker: EndTxnMarker | None = None,
        transaction_version: int = 0,
    ) -> CompletedTxn | None:
        """Add a batch. `marker` is the record of a control batch, None where a cleaner has removed it."""
        if batch.is_control:
            if marker is None:  # the transaction is gone from the log altogether; nothing is left to end
                return None
            return self.append_end_txn_marker(
                marker, batch.producer_epoch, batch.base_offset, batch.max_timestamp, transaction_version
            )
        self.append_data(
            batch.producer_epoch,
            batch.base_sequence,
            batch.last_sequence,
            batch.max_timestamp,
            first_offset_metadata or LogOffsetMetadata(batch.base_offset),
            batch.last_offset,
            batch.is_transactional,
        )
        return None

    def append_data(
        self,
        producer_epoch: int,
        first_seq: int,
        last_seq: int,
        last_timestamp: int,
        first_offset_metadata: LogOffsetMetadata,
        last_offset: int,
        is_transactional: bool,
    ) -> None:
        first_offset = first_offset_metadata.offset
        entry = self.entry
        if producer_epoch < entry.producer_epoch:
            self._refuse_epoch(producer_epoch, first_offset, "lower than")
        if self._origin is Origin.CLIENT:
            self._check_sequence(producer_epoch, first_seq, first_offset)
        in_txn = entry.txn_first_offset is not None
        if in_txn and not is_transactional:
            what = f"non-transactional batch inside the transaction that began at offset {entry.txn_first_offset}"
            self._refuse_unless_replicated(InvalidTxnStateError, first_offset, what)
        entry = entry.with_batch(
            producer_epoch, BatchMetadata(last_seq, last_offset, last_offset - first_offset, last_timestamp)
        )
        if is_transactional and not in_txn:
            entry = entry.with_txn_begun(first_offset)
            self.started_transactions.append(TxnMetadata(entry.producer_id, first_offset_metadata))
        self.entry = entry

    def append_end_txn_marker(
        self, marker: EndTxnMarker, producer_epoch: int, offset: int, timestamp: int, transaction_version: int = 0
    ) -> CompletedTxn | None:
        """The transaction that the marker ends; None when the producer has written nothing in it to this log.

        `transaction_version` is the one that the coordinator states when it asks for the marker; in a replicated
        batch it is not known, nor needed.
        """
        if marker.type not in (ABORT_MARKER, COMMIT_MARKER):
            self._refuse_unless_replicated(
                InvalidRecordError, offset, f"a control record of type {marker.type} ends no transaction"
            )
            return None
        self._check_marker_epoch(producer_epoch, offset, transaction_version)
        coordinator_epoch = marker.coordinator_epoch
        if coordinator_epoch < self.entry.coordinator_epoch:
            self._refuse_unless_replicated(
                TransactionCoordinatorFencedError,
                offset,
                f"marker of coordinator epoch {coordinator_epoch} after one of {self.entry.coordinator_epoch}",
            )
        first_offset = self.entry.txn_first_offset
        self.entry = self.entry.with_txn_ended(producer_epoch, coordinator_epoch, timestamp)
        if first_offset is None:
            return None
        return CompletedTxn(self.producer_id, first_offset, offset, marker.type == ABORT_MARKER)

    def _error(self, kind: type[TailraceError], offset: int, what: str) -> TailraceError:
        return kind(f"producer {self.producer_id} at offset {offset} of {self._log_name}: {what}")

    def _refuse_unless_replicated(self, kind: type[TailraceError], offset: int, what: str) -> None:
        error = self._error(kind, offset, what)
        if self._origin is not Origin.REPLICATION:
            raise error
        _log.warning("%s; believed, because it is replicated", error)

    def _refuse_epoch(self, producer_epoch: int, offset: int, relation: str) -> None:
        what = f"epoch {producer_epoch} is {relation} {self.entry.producer_epoch}"
        self._refuse_unless_replicated(InvalidProducerEpochError, offset, what)

    def _check_marker_epoch(self, producer_epoch: int, offset: int, transaction_version: int) -> None:
        known_epoch = self.entry.producer_epoch
        if producer_epoch < known_epoch:
            self._refuse_epoch(producer_epoch, offset, "lower than")
        elif producer_epoch == known_epoch and transaction_version >= MARKERS_RAISE_EPOCH_FROM:
            # A coordinator may repeat a marker that it does not know to be written; and the last epoch cannot rise.
            is_repeated = self.entry.txn_first_offset is None
            if not is_repeated and producer_epoch != MAX_PRODUCER_EPOCH:
                self._refuse_epoch(producer_epoch, offset, "not higher than")

    def _check_sequence(self, producer_epoch: int, first_seq: int, offset: int) -> None:
        if self._verification is not None:
            self._check_sequence_under_verification(self._verification, first_seq, offset)
        entry = self.entry
        if entry.producer_epoch == NO_PRODUCER_EPOCH:
            return
        if producer_epoch != entry.producer_epoch:
            if first_seq != 0:
                what = f"epoch {producer_epoch} after {entry.producer_epoch} begins with sequence {first_seq}, not 0"
                raise self._error(OutOfOrderSequenceError, offset, what)
            return
        last_seq = entry.last_seq
        if first_seq != last_seq + 1 and not (first_seq == 0 and last_seq == MAX_SEQUENCE):
            what = f"sequence {first_seq} does not follow the last one, {last_seq}"
            raise self._error(OutOfOrderSequenceError, offset, what)

    def _check_sequence_under_verification(
        self, verification: VerificationStateEntry, first_seq: int, offset: int
    ) -> None:
        if verification.supports_epoch_bump and first_seq != 0 and not self.entry.batches:
            what = f"sequence {first_seq} of a producer without state; with transactions version 2 it begins with 0"
            raise self._error(OutOfOrderSequenceError, offset, what)
        if first_seq > verification.lowest_sequence:
            what = f"sequence {first_seq} while {verification.lowest_sequence} waits to be verified"
            raise self._error(OutOfOrderSequenceError, offset, what)
