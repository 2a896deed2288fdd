"""What an append gives back, and the sets of one call that wait to be written together."""

from __future__ import annotations

from typing import NamedTuple

from tailrace.env import Buffer
from tailrace.model.errors import InvalidProducerEpochError, InvalidTxnStateError, TailraceError
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.record.shallow import ShallowBatch
from tailrace.storage.origin import Origin
from tailrace.storage.producer_append import MARKERS_RAISE_EPOCH_FROM, ProducerAppendInfo
from tailrace.storage.producer_entry import BatchMetadata, CompletedTxn, ProducerStateEntry
from tailrace.storage.producer_replay import marker_of
from tailrace.storage.producer_state import ProducerStateManager
from tailrace.storage.verification import NO_GUARD, VerificationGuard

NO_OFFSET = -1


class AppendResult(NamedTuple):
    """The fate of one set. With an `error` nothing of it is in the log; a duplicate answers with the first append's
    offsets; an empty set has `first_offset` −1."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    error: TailraceError | None = None
    is_duplicate: bool = False


class ProducerChanges(NamedTuple):
    """What a set does to producer state once it is written; or the earlier batch that it repeats."""

    updates: dict[int, ProducerAppendInfo]
    completed: list[CompletedTxn]
    duplicate: BatchMetadata | None = None


class WriteGroup:
    """Sets of one append call on their way into one segment by one write."""

    __slots__ = ("batches", "changes", "failure", "followed", "next_offset", "parts", "result_places", "size")

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.failure: TailraceError | None = None
        """A write of this call failed: the sets after it have it as their error too."""
        self.clear()

    def clear(self) -> None:
        self.batches: list[ShallowBatch] = []
        self.parts: list[Buffer] = []
        self.size = 0
        self.changes: list[ProducerChanges] = []
        self.followed: dict[int, ProducerStateEntry] = {}
        """Producers whose batches simply follow those before, as they will be: none is in `changes`."""
        self.result_places: list[int] = []

    def touches_producer(self, batches: tuple[ShallowBatch, ...]) -> bool:
        """Whether a waiting set belongs to a producer of these: its state must be settled first."""
        return any(
            batch.producer_id in self.followed or any(batch.producer_id in changes.updates for changes in self.changes)
            for batch in batches
        )


def examine_producers(
    state: ProducerStateManager,
    buffer: Buffer,
    batches: tuple[ShallowBatch, ...],
    place: LogOffsetMetadata,
    origin: Origin,
    guard: VerificationGuard,
    *,
    must_verify: bool,
    transaction_version: int = 0,
) -> ProducerChanges:
    """Check the idempotent and transactional batches of a set that will be written at `place`.

    Raises a ProducerError when one is out of order or fenced. Nothing that is known of producers changes before the
    write has succeeded; only a verification has served, even if the write fails: a resend is verified again.
    `transaction_version` is the one that a coordinator states for the markers that it sends.
    """
    updates: dict[int, ProducerAppendInfo] = {}
    completed: list[CompletedTxn] = []
    position = place.position
    for batch in batches:
        if batch.producer_id > -1:
            if origin is Origin.CLIENT:
                duplicate = state.find_duplicate(
                    batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence
                )
                if duplicate is not None:
                    return ProducerChanges({}, [], duplicate)
            if batch.is_transactional and (origin is Origin.CLIENT or origin is Origin.COORDINATOR):
                _check_verified(state, batch, guard, must_verify)
            info = updates.get(batch.producer_id)
            if info is None:
                info = updates[batch.producer_id] = state.prepare_update(batch.producer_id, origin)
            first = LogOffsetMetadata(batch.base_offset, place.segment_base, position)
            marker = marker_of(buffer, batch) if batch.is_control else None
            ended = info.append(batch, first, marker, transaction_version)
            if ended is not None:
                completed.append(ended)
            if batch.is_transactional:
                brings_epoch = batch.is_control and transaction_version >= MARKERS_RAISE_EPOCH_FROM
                state.settle_verification(batch.producer_id, batch.producer_epoch, brings_epoch)
        position += batch.size
    return ProducerChanges(updates, completed)


def _check_verified(
    state: ProducerStateManager, batch: ShallowBatch, guard: VerificationGuard, must_verify: bool
) -> None:
    """The first batch of a transaction needs the guard that its coordinator's answer released.

    An epoch that is over is told first: a producer that was fenced while it was verified must hear of that, and not
    try again.
    """
    known = state.producers.get(batch.producer_id)
    if known is not None:
        if state.is_in_transaction(batch.producer_id, batch.producer_epoch):
            return
        check_epoch_goes_on(known, batch.producer_epoch)
    if not must_verify or batch.is_control:
        return
    waiting = state.verification_entry(batch.producer_id)
    if not (waiting.guard if waiting is not None else NO_GUARD).verifies(guard):
        raise InvalidTxnStateError(f"the transaction of producer {batch.producer_id} was not verified before its batch")


def check_epoch_goes_on(known: ProducerStateEntry, producer_epoch: int) -> None:
    """Raises InvalidProducerEpochError for a transactional producer of an epoch before the known one."""
    if producer_epoch < known.producer_epoch:
        raise InvalidProducerEpochError(
            f"epoch {producer_epoch} of producer {known.producer_id} is lower than {known.producer_epoch}"
        )
