"""A transactional id: which producer has it, and how far its transaction is.

Pure and immutable: each transition gives a new value, and refuses one that the table of states does not know. What of
it a log holds is in `transaction_log`; `last_epoch` is not, so that a coordinator that has just taken over fences a
client which sends again what the coordinator before has answered.

Epochs. Each initialisation raises the epoch, so that who had it before is fenced. Since transaction version 2 so does
each end of a transaction: what a client sent late in one transaction cannot become part of the next. An epoch is an
int16; the last one is never given to a client, that it can always be fenced. When the epochs are used up the id goes
on with another producer id, from epoch 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from tailrace.coordinator.transactions.state import LEGAL_BEFORE, TransactionState
from tailrace.model.errors import ProducerFencedError
from tailrace.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition
from tailrace.model.invariant import InvariantError, invariant

MAX_EPOCH: Final = 32_767
LAST_CLIENT_EPOCH: Final = MAX_EPOCH - 1
NO_TIMEOUT: Final = 2_147_483_647
"""Timeout of a transaction that takes part in a two-phase commit: it waits for its coordinator outside."""

VERSION_WITH_BUMPS: Final = 2
"""From this transaction version on each end of a transaction raises the epoch."""


def is_exhausted(epoch: int) -> bool:
    return epoch >= LAST_CLIENT_EPOCH


class Transaction(NamedTuple):
    transactional_id: str
    producer_id: int
    previous_producer_id: int
    """The one before the last transition: a client may still ask with it."""
    next_producer_id: int
    """Takes over when the transaction is complete; NO_PRODUCER_ID as a rule."""
    epoch: int
    last_epoch: int
    """The epoch before, as long as who has it may ask for the current one again."""
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    start_ms: int
    updated_ms: int
    client_version: int
    """The transaction version by which the client has done the last step."""

    @classmethod
    def new(cls, transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
        """As nobody has it yet: it must be initialised."""
        return cls(
            transactional_id=transactional_id,
            producer_id=producer_id,
            previous_producer_id=NO_PRODUCER_ID,
            next_producer_id=NO_PRODUCER_ID,
            epoch=NO_PRODUCER_EPOCH,
            last_epoch=NO_PRODUCER_EPOCH,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            partitions=frozenset(),
            start_ms=NO_TIMESTAMP,
            updated_ms=now_ms,
            client_version=0,
        )

    @property
    def is_exhausted(self) -> bool:
        """The epoch cannot be raised for a client any more."""
        return is_exhausted(self.epoch)

    def has_timed_out(self, now_ms: int) -> bool:
        return (
            self.state is TransactionState.ONGOING
            and self.timeout_ms != NO_TIMEOUT
            and self.start_ms + self.timeout_ms < now_ms
        )

    # Transitions

    def _become(self, state: TransactionState, **changes: Any) -> Transaction:
        if self.state not in LEGAL_BEFORE[state]:
            raise InvariantError(f"{self.transactional_id} cannot go from {self.state.title} to {state.title}")
        changed = self._replace(state=state, previous_producer_id=self.producer_id, **changes)
        if changed.producer_id < 0 or changed.epoch < 0:
            raise InvariantError(f"{self.transactional_id} has no producer: {changed}")
        return changed

    def initialised(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> Transaction:
        """With a higher epoch. Whoever knows the current epoch goes on; who has the one before repeats a request that
        was answered, and gets the same answer; anybody else is fenced."""
        is_known = expected_epoch is None or self.epoch in (NO_PRODUCER_EPOCH, expected_epoch)
        if not is_known and expected_epoch != self.last_epoch:
            raise ProducerFencedError(
                f"{self.transactional_id} has epoch {self.epoch}, after {self.last_epoch}; not {expected_epoch}"
            )
        epoch, last_epoch = self.epoch, self.last_epoch
        if is_known:
            invariant(not self.is_exhausted, "an epoch is left")
            epoch, last_epoch = self.epoch + 1, NO_PRODUCER_EPOCH if expected_epoch is None else self.epoch
        return self._at_rest(self.producer_id, epoch, last_epoch, timeout_ms, now_ms)

    def rotated(self, producer_id: int, timeout_ms: int, now_ms: int, *, was_expected: bool) -> Transaction:
        """With another producer id, for the epochs are used up. `was_expected`: by who has the last epoch."""
        last_epoch = self.epoch if was_expected else NO_PRODUCER_EPOCH
        return self._at_rest(producer_id, 0, last_epoch, timeout_ms, now_ms)

    def _at_rest(self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        return self._become(
            TransactionState.EMPTY,
            producer_id=producer_id,
            epoch=epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIMESTAMP,
            updated_ms=now_ms,
        )

    def with_partitions(self, added: Iterable[TopicPartition], now_ms: int, client_version: int) -> Transaction:
        """Of the transaction under way, or the first of a new one."""
        return self._become(
            TransactionState.ONGOING,
            partitions=self.partitions.union(added),
            start_ms=now_ms if self.state.is_at_rest else self.start_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def prepared(
        self, is_commit: bool, now_ms: int, client_version: int, next_producer_id: int = NO_PRODUCER_ID
    ) -> Transaction:
        """Decided. An abort may find no transaction: then it is one without partitions, for the new epoch's sake."""
        epoch, last_epoch = self.epoch, self.last_epoch
        if client_version >= VERSION_WITH_BUMPS:
            epoch, last_epoch = min(self.epoch + 1, MAX_EPOCH), self.epoch
        return self._become(
            TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
            epoch=epoch,
            last_epoch=last_epoch,
            start_ms=now_ms if self.state.is_at_rest else self.start_ms,
            next_producer_id=next_producer_id,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def fenced(self, now_ms: int, version: int, next_producer_id: int = NO_PRODUCER_ID) -> Transaction:
        """Aborted by the coordinator itself; the client with the current epoch can do nothing more."""
        if version >= VERSION_WITH_BUMPS:
            return self.prepared(False, now_ms, version, next_producer_id)
        raised = self._replace(epoch=min(self.epoch + 1, MAX_EPOCH), last_epoch=NO_PRODUCER_EPOCH)
        return raised.prepared(False, now_ms, 0)

    @property
    def successor(self) -> tuple[int, int]:
        """Producer id and epoch with which the producer goes on when this transaction is complete."""
        rotates = self.client_version >= VERSION_WITH_BUMPS and self.next_producer_id != NO_PRODUCER_ID
        return (self.next_producer_id, 0) if rotates else (self.producer_id, self.epoch)

    def completed(self, now_ms: int) -> Transaction:
        """Every partition has its marker."""
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        producer_id, epoch = self.successor
        return self._become(
            TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
            producer_id=producer_id,
            epoch=epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            updated_ms=now_ms,
        )
