"""What the coordinator decides on a request: the transaction as it shall be written, or a refusal.

Pure: a decision sees the transaction as it is, the request and the time. Where it needs another producer id it says so,
and is made again with one: by then the transaction may be another.

A transaction that is prepared is being ended; until all markers are written everybody is told to wait
(CONCURRENT_TRANSACTIONS). In which order refusals are looked for decides which one a client sees: it is Kafka's, and
differs between the versions of a request.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from tailrace.coordinator.transactions.state import TransactionState
from tailrace.coordinator.transactions.transaction import (
    LAST_CLIENT_EPOCH,
    VERSION_WITH_BUMPS,
    Transaction,
    is_exhausted,
)
from tailrace.model.errors import (
    ConcurrentTransactionsError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    ProducerFencedError,
)
from tailrace.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition


class Need(Enum):
    """Why a decision cannot be made yet."""

    PRODUCER_ID = "another producer id"
    ABORT = "the end of the transaction under way"


class ProducerKey(NamedTuple):
    """A producer's id with its epoch: who asks, and what it goes on with."""

    id: int
    epoch: int


class Initialisation(NamedTuple):
    transactional_id: str
    timeout_ms: int
    expected: ProducerKey | None
    """What the producer has, where it wants to go on after an error."""


class Ending(NamedTuple):
    producer: ProducerKey
    is_commit: bool
    version: int
    """The client's transaction version."""


# InitProducerId


def initialise(
    current: Transaction | None, wanted: Initialisation, now_ms: int, new_id: int | None
) -> Transaction | Need:
    if current is None:
        if new_id is None:
            return Need.PRODUCER_ID
        current = Transaction.new(wanted.transactional_id, new_id, wanted.timeout_ms, now_ms)
    _check_not_ending(current)
    expected = wanted.expected
    if expected is not None and not _may_go_on(current, expected):
        raise ProducerFencedError(f"{current.transactional_id} belongs to producer {current.producer_id} now")
    if current.state is TransactionState.ONGOING:
        return Need.ABORT
    if current.is_exhausted and (expected is None or expected.epoch == current.epoch):
        if new_id is None:
            return Need.PRODUCER_ID
        return current.rotated(new_id, wanted.timeout_ms, now_ms, was_expected=expected is not None)
    return current.initialised(wanted.timeout_ms, None if expected is None else expected.epoch, now_ms)


def _may_go_on(current: Transaction, expected: ProducerKey) -> bool:
    """The same producer; or nobody was there before; or it had used up its epochs and has not heard of its new id."""
    return (
        current.epoch == NO_PRODUCER_EPOCH
        or expected.id == current.producer_id
        or (expected.id == current.previous_producer_id and is_exhausted(expected.epoch))
    )


# AddPartitionsToTxn, AddOffsetsToTxn


def add_partitions(
    current: Transaction | None,
    producer: ProducerKey,
    partitions: frozenset[TopicPartition],
    now_ms: int,
    client_version: int,
) -> Transaction:
    """The same transaction where all of them are in it already."""
    found = _known(current)
    _check_not_ending(found)
    _check_producer(found, producer)
    if found.state is TransactionState.ONGOING and partitions <= found.partitions:
        return found
    return found.with_partitions(partitions, now_ms, client_version)


def missing_partitions(
    current: Transaction | None, producer: ProducerKey, partitions: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """Those that are not in the producer's transaction."""
    found = _known(current)
    _check_producer(found, producer)
    _check_not_ending(found)
    return [each for each in partitions if each not in found.partitions]


# EndTxn


def end(current: Transaction | None, ending: Ending, now_ms: int, new_id: int | None) -> Transaction | Need:
    """A prepared transaction; or the current one, complete, where the client asks for what has been done."""
    found = _known(current)
    if ending.version < VERSION_WITH_BUMPS:
        return _end_at_one_epoch(found, ending, now_ms)
    producer = ending.producer
    _check_not_ending(found)
    rotated = producer == (found.previous_producer_id, LAST_CLIENT_EPOCH) and found.epoch == 0
    is_repeated = rotated or found.epoch == producer.epoch + 1
    if found.producer_id != producer.id and not rotated:
        raise _other_producer(found, producer)
    is_complete = found.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    if producer.epoch != found.epoch and not (is_complete and is_repeated):
        raise _other_epoch(found, producer)
    if is_complete and is_repeated:
        _check_same_end(found, ending)
        return found
    if found.state is not TransactionState.ONGOING and ending.is_commit:
        raise _nothing_to_end(found, ending)
    if found.is_exhausted and new_id is None:
        return Need.PRODUCER_ID
    return found.prepared(
        ending.is_commit,
        now_ms,
        ending.version,
        new_id if new_id is not None and found.is_exhausted else NO_PRODUCER_ID,
    )


def _end_at_one_epoch(found: Transaction, ending: Ending, now_ms: int) -> Transaction:
    _check_producer(found, ending.producer)
    _check_not_ending(found)
    if found.state is TransactionState.ONGOING:
        return found.prepared(ending.is_commit, now_ms, 0)
    if found.state is TransactionState.EMPTY:
        raise _nothing_to_end(found, ending)
    _check_same_end(found, ending)
    return found


def abort(current: Transaction, now_ms: int, cluster_version: int, new_id: int | None) -> Transaction | Need:
    """Of a transaction under way, by the coordinator itself: its client was away for too long, or has a successor."""
    if cluster_version >= VERSION_WITH_BUMPS and current.is_exhausted:
        if new_id is None:
            return Need.PRODUCER_ID
        return current.fenced(now_ms, cluster_version, new_id)
    return current.fenced(now_ms, cluster_version)


# Refusals

_DONE: Final = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}


def _known(current: Transaction | None) -> Transaction:
    if current is None:
        raise InvalidProducerIdMappingError("no producer has the transactional id")
    return current


def _check_not_ending(current: Transaction) -> None:
    if current.state.is_prepared:
        raise ConcurrentTransactionsError(f"a transaction of {current.transactional_id} is being ended")


def _check_producer(current: Transaction, producer: ProducerKey) -> None:
    if current.producer_id != producer.id:
        raise _other_producer(current, producer)
    if current.epoch != producer.epoch:
        raise _other_epoch(current, producer)


def _other_producer(current: Transaction, producer: ProducerKey) -> InvalidProducerIdMappingError:
    return InvalidProducerIdMappingError(
        f"{current.transactional_id} belongs to producer {current.producer_id}, not {producer.id}"
    )


def _other_epoch(current: Transaction, producer: ProducerKey) -> ProducerFencedError:
    return ProducerFencedError(f"{current.transactional_id} has epoch {current.epoch}, not {producer.epoch}")


def _check_same_end(current: Transaction, ending: Ending) -> None:
    if current.state is not _DONE[ending.is_commit]:
        raise _nothing_to_end(current, ending)


def _nothing_to_end(current: Transaction, ending: Ending) -> InvalidTxnStateError:
    verb = "committed" if ending.is_commit else "aborted"
    return InvalidTxnStateError(f"{current.transactional_id} is in {current.state.title}: nothing can be {verb}")
