"""Whether a producer's transaction is open where it writes, asked of its coordinator before the first batch (KIP-890).

    Produce   TxnOffsetCommit   the coordinator is asked to          what the client does not understand
    to 10     to 3              confirm that the partition is in it   TRANSACTION_ABORTABLE: it hears INVALID_TXN_STATE
    11        4                 the same
    from 12   from 5            add the partition, if it is not

A log hands out a guard, the coordinator answers, the append brings the guard along (see `storage.verification`): an
answer that comes too late opens nothing. Until the answer is there nothing may be appended that was sent behind.

Runs on the node's thread; an answer may come at once or later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.coordinator.append_errors import as_coordinator_error
from tailrace.metrics.count import Count
from tailrace.metrics.distribution import Distribution
from tailrace.metrics.histogram import Histogram
from tailrace.model.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    ProducerFencedError,
    TailraceError,
    TransactionAbortableError,
)
from tailrace.model.ids import NO_SEQUENCE, TopicPartition
from tailrace.model.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tailrace.storage.verification import NO_GUARD, VerificationGuard

if TYPE_CHECKING:
    from tailrace.broker.node import Node
    from tailrace.replication.partition import Partition

METRICS: Final = "AddPartitionsToTxnManager"
_COORDINATOR_ERRORS: Final = (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
)


class Ability(Enum):
    """What a client makes of a transaction, by the version of its request."""

    OLD = "old"
    KNOWS_ABORTABLE = "knows TRANSACTION_ABORTABLE"
    ADDS_BY_WRITING = "adds partitions by writing to them, with a new epoch for each transaction"

    @classmethod
    def of_produce(cls, version: int) -> Ability:
        return cls.ADDS_BY_WRITING if version > 11 else cls.KNOWS_ABORTABLE if version > 10 else cls.OLD

    @classmethod
    def of_offset_commit(cls, version: int) -> Ability:
        return cls.ADDS_BY_WRITING if version > 4 else cls.KNOWS_ABORTABLE if version > 3 else cls.OLD


class TransactionalProducer(NamedTuple):
    transactional_id: str
    id: int
    epoch: int


class Verified(NamedTuple):
    """Partitions in neither have the transaction open already, or are not verified at all."""

    guards: Mapping[Partition, VerificationGuard]
    errors: Mapping[Partition, TailraceError]


NOTHING_TO_VERIFY: Final = Verified({}, {})


class Question(NamedTuple):
    """What a coordinator is asked; `adds`: it shall add the partitions, not only confirm them."""

    producer: TransactionalProducer
    partitions: tuple[TopicPartition, ...]
    adds: bool


Answer = Callable[[Mapping[TopicPartition, TailraceError]], None]
"""Is given the partitions that are not in the transaction, and why."""


class TxnVerification:
    def __init__(self, node: Node) -> None:
        self._node = node
        self.ask: Callable[[Question, Answer], None] = partial(ask_coordinator, node)
        """How the coordinator is asked; the answer comes once, now or later."""
        self._failures = 0
        self._time_us = Histogram()
        node.metrics.add(self.read_metrics)

    # Produce

    def of_produce(
        self,
        producer: TransactionalProducer,
        batches: Sequence[tuple[Partition, int]],
        ability: Ability,
        done: Callable[[Verified], None],
    ) -> None:
        """For batches with these first sequences. Errors are those that clients of Produce know what to do with.

        A transaction before, of which the end is being written, is waited for a little where the client adds
        partitions by writing to them: it has begun this transaction as soon as the end was decided.
        """
        config = self._node.config
        longest_ms = min(config.add_partitions_to_txn_retry_backoff_max_ms, config.request_timeout_ms)
        clock = self._node.env.clock
        give_up_ms = clock.monotonic_ms() + longest_ms

        def answered(verified: Verified) -> None:
            if (
                ability is Ability.ADDS_BY_WRITING
                and any(isinstance(error, ConcurrentTransactionsError) for error in verified.errors.values())
                and clock.monotonic_ms() < give_up_ms
            ):
                pause_ms = config.add_partitions_to_txn_retry_backoff_ms
                self._node.env.jobs.later("verify-transaction-again", pause_ms, ask)
                return
            errors = {each: produce_error(error, ability) for each, error in verified.errors.items()}
            done(Verified(verified.guards, errors))

        ask = partial(self._verify, producer, batches, ability, answered)
        ask()

    # TxnOffsetCommit

    def of_offset_commit(
        self,
        index: int,
        producer: TransactionalProducer,
        version: int,
        done: Callable[[VerificationGuard], None],
        failed: Callable[[TailraceError], None],
    ) -> None:
        """For the append of offsets to a partition of the offsets topic: `done` gets the guard that it needs.

        `version` is that of TxnOffsetCommit. CoordinatorNotAvailableError where there is no such partition,
        NotCoordinatorError where it is not led here.
        """
        try:
            partition = self._node.replicas.partition(CONSUMER_OFFSETS, index)
        except TailraceError as error:
            failed(as_coordinator_error(error))
            return

        def answered(verified: Verified) -> None:
            error = verified.errors.get(partition)
            if error is not None:
                failed(as_coordinator_error(error))
            else:
                done(verified.guards.get(partition, NO_GUARD))

        ability = Ability.of_offset_commit(version)
        self._verify(producer, [(partition, NO_SEQUENCE)], ability, answered)

    # Both

    def _verify(
        self,
        producer: TransactionalProducer,
        batches: Sequence[tuple[Partition, int]],
        ability: Ability,
        done: Callable[[Verified], None],
    ) -> None:
        adds = ability is Ability.ADDS_BY_WRITING
        if not adds and not self._node.config.transaction_partition_verification_enable:
            done(NOTHING_TO_VERIFY)
            return
        guards: dict[Partition, VerificationGuard] = {}
        errors: dict[Partition, TailraceError] = {}
        for partition, sequence in batches:
            try:
                guard = partition.start_verification(producer.id, sequence, producer.epoch, adds)
            except TailraceError as error:
                errors[partition] = error.with_traceback(None)
            else:
                if guard is not NO_GUARD:
                    guards[partition] = guard
        if not guards:
            done(Verified(guards, errors))
            return
        began_ns = time.perf_counter_ns()

        def answered(refused: Mapping[TopicPartition, TailraceError]) -> None:
            self._time_us.record((time.perf_counter_ns() - began_ns) // 1000)
            self._failures += len(refused)
            for partition in guards:
                error = refused.get(partition.id)
                if error is not None:
                    errors[partition] = _as_told(error, ability)
            done(Verified(guards, errors))

        self.ask(Question(producer, tuple(partition.id for partition in guards), adds), answered)

    def read_metrics(self) -> Iterator[Count | Distribution]:
        times = self._time_us
        yield Count("server", METRICS, "VerificationFailureRate", self._failures)
        yield Distribution("server", METRICS, "VerificationTimeMs", tuple(times.counts), times.total)


def ask_coordinator(node: Node, question: Question, answer: Answer) -> None:
    """The coordinator of the transactional id, on this broker: others are asked when there are any."""
    producer = question.producer

    def failed(error: TailraceError) -> None:
        answer(dict.fromkeys(question.partitions, error.with_traceback(None)))

    if TRANSACTION_STATE not in node.image.topics:
        failed(CoordinatorNotAvailableError(f"there is no topic {TRANSACTION_STATE} yet"))
        return
    node.transactions.submit(
        "verify-transaction",
        producer.transactional_id,
        lambda shard: shard.verify_or_add(
            producer.transactional_id, producer.id, producer.epoch, question.partitions, verify_only=not question.adds
        ),
        answer,
        failed,
    )


def _as_told(error: TailraceError, ability: Ability) -> TailraceError:
    """As the client's kind of transaction has words for it."""
    if isinstance(error, ProducerFencedError):
        return InvalidProducerEpochError(str(error))
    if isinstance(error, TransactionAbortableError) and ability is Ability.OLD:
        return InvalidTxnStateError(str(error))
    return error


def produce_error(error: TailraceError, ability: Ability) -> TailraceError:
    """Producers know nothing of coordinators' troubles; NOT_ENOUGH_REPLICAS makes every one of them try again."""
    waits = isinstance(error, ConcurrentTransactionsError) and ability is not Ability.ADDS_BY_WRITING
    if waits or isinstance(error, _COORDINATOR_ERRORS):
        return NotEnoughReplicasError(f"the partition cannot be verified to be in the transaction: {error}")
    return error
