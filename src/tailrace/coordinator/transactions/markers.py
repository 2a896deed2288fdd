"""Markers of prepared transactions: sent to every partition until each has answered, then the transaction is complete.

Which partitions have answered is known here only. A coordinator that takes over sends them all again: a marker too many
ends nothing.

    answered, or cannot take markers at all      done with it
    deleted                                      done with it: there is nobody left who could read it
    fenced (a newer coordinator, a newer epoch)  given up: whoever fenced it finishes the transaction
    any other error                              tried again, after longer and longer waits
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.coordinator.outcome import NOTHING, Outcome
from tailrace.coordinator.timers import RETRY_MS
from tailrace.coordinator.transactions.state import TransactionState
from tailrace.coordinator.transactions.transaction import Transaction
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import (
    InvalidProducerEpochError,
    TailraceError,
    TransactionCoordinatorFencedError,
    UnknownServerError,
    UnsupportedForMessageFormatError,
    UnsupportedVersionError,
)
from tailrace.model.ids import TopicPartition

if TYPE_CHECKING:
    from tailrace.coordinator.transactions.shard import TransactionShard

_log = logging.getLogger(__name__)

FIRST_WAIT_MS: Final = 50
LONGEST_WAIT_MS: Final = 1_000

_DONE: Final = frozenset({0, UnsupportedForMessageFormatError.code, UnsupportedVersionError.code})
_UNANSWERED: Final = UnknownServerError.code
_FENCED: Final = frozenset({InvalidProducerEpochError.code, TransactionCoordinatorFencedError.code})


class MarkerOrder(NamedTuple):
    """End a producer's transaction on these partitions."""

    coordinator_epoch: int
    producer_id: int
    epoch: int
    is_commit: bool
    partitions: Sequence[TopicPartition]
    transaction_version: int


MarkerResults = Sequence[Mapping[TopicPartition, int]]
"""Of each order, in their order: the error code of each of its partitions."""

SendMarkers = Callable[[list[MarkerOrder], Callable[[MarkerResults], None]], None]
"""Have the leaders of the partitions write the markers. The callback is called once, now or later."""


class _Sending:
    """One prepared transaction whose markers are on their way."""

    __slots__ = ("left", "wait_ms")

    def __init__(self, partitions: frozenset[TopicPartition]) -> None:
        self.left = set(partitions)
        self.wait_ms = FIRST_WAIT_MS


class Markers:
    def __init__(self, machine: TransactionShard, send: SendMarkers) -> None:
        self._machine = machine
        self._send = send
        self._sendings: dict[str, _Sending] = {}

    def __len__(self) -> int:
        return len(self._sendings)

    def left(self, transaction: Transaction) -> frozenset[TopicPartition]:
        """Partitions of the transaction that have not answered yet."""
        sending = self._sendings.get(transaction.transactional_id)
        return transaction.partitions if sending is None else frozenset(sending.left)

    def begin(self, transactional_id: str) -> None:
        """The decision is committed: nothing can change it any more."""
        transaction = self._prepared(transactional_id)
        if transaction is not None and transactional_id not in self._sendings:
            sending = self._sendings[transactional_id] = _Sending(transaction.partitions)
            self._go_on(transaction, sending)

    def begin_later(self, transactional_id: str) -> None:
        """The decision is in the log, and it is not known yet whether it is committed."""
        self._machine.shard.timers.schedule(
            ("commit-of-end", transactional_id), RETRY_MS, lambda: self.when_committed(transactional_id)
        )

    def when_committed(self, transactional_id: str) -> Outcome:
        def then(error: TailraceError | None) -> None:
            if error is None:
                self.begin(transactional_id)
            else:
                self.begin_later(transactional_id)

        return Outcome(then=then)

    def stop(self) -> None:
        """Another coordinator takes over; answers that still come say nothing."""
        self._sendings.clear()

    def _prepared(self, transactional_id: str) -> Transaction | None:
        found = self._machine.transactions.get(transactional_id)
        return found if found is not None and found.state.is_prepared else None

    def _go_on(self, transaction: Transaction, sending: _Sending) -> None:
        machine = self._machine
        sending.left = {each for each in sending.left if _exists(machine.shard.image, each)}
        if not sending.left:
            self._complete(transaction, sending)
            return
        order = MarkerOrder(
            coordinator_epoch=machine.shard.epoch,
            producer_id=transaction.producer_id,
            epoch=transaction.epoch,
            is_commit=transaction.state is TransactionState.PREPARE_COMMIT,
            partitions=sorted(sending.left),
            transaction_version=transaction.client_version,
        )
        self._send([order], lambda results: self._answered(transaction, sending, results[0]))

    def _answered(self, transaction: Transaction, sending: _Sending, codes: Mapping[TopicPartition, int]) -> None:
        transactional_id = transaction.transactional_id
        if self._sendings.get(transactional_id) is not sending:
            return
        failed = {each: code for each in sending.left if (code := codes.get(each, _UNANSWERED)) not in _DONE}
        sending.left.intersection_update(failed)
        fenced = [str(partition) for partition, code in failed.items() if code in _FENCED]
        if fenced:
            _log.warning("markers of %s are fenced on %s, and not sent again", transactional_id, ", ".join(fenced))
        elif sending.left:
            _log.info("markers of %s are sent again: %s", transactional_id, failed)
            self._retry(transaction, sending)
        else:
            self._complete(transaction, sending)

    def _retry(self, transaction: Transaction, sending: _Sending) -> None:
        def again() -> Outcome:
            if self._sendings.get(transaction.transactional_id) is sending:
                self._go_on(transaction, sending)
            return NOTHING

        wait_ms, sending.wait_ms = sending.wait_ms, min(sending.wait_ms * 2, LONGEST_WAIT_MS)
        self._machine.shard.timers.schedule(("markers", transaction.transactional_id), wait_ms, again)

    def _complete(self, transaction: Transaction, sending: _Sending) -> None:
        transactional_id = transaction.transactional_id
        shard = self._machine.shard

        def complete() -> Outcome:
            if self._sendings.get(transactional_id) is not sending:
                return NOTHING  # it is complete; the id may have its next transaction under way
            return self._machine.write(transaction.completed(shard.clock.now_ms()))

        def again(error: TailraceError) -> None:
            _log.info("%s cannot be completed yet: %s", transactional_id, error)
            shard.timers.schedule(("complete", transactional_id), RETRY_MS, complete)

        shard.submit("complete-transaction", complete, failed=again)

    def completed(self, transactional_id: str) -> None:
        """The log says so."""
        self._sendings.pop(transactional_id, None)


def _exists(image: MetadataImage, partition: TopicPartition) -> bool:
    topic = image.topics.get(partition.topic)
    return topic is not None and partition.partition in topic.partitions
