"""A transactional id as a record of `__transaction_state`.

    key     the transactional id
    value   version 1 from transaction version 1 on, else version 0; a tombstone when the id has expired

Partitions are listed by topic. In the state Empty the list is null.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tailrace.coordinator.outcome import CoordinatorRecord
from tailrace.coordinator.transactions.state import TransactionState
from tailrace.coordinator.transactions.transaction import Transaction
from tailrace.model.errors import CorruptMessageError
from tailrace.model.ids import NO_PRODUCER_EPOCH, TopicPartition
from tailrace.protocol.records.transactions import PartitionsSchema, TransactionLogKey, TransactionLogValue

_FLEXIBLE: Final = 1
_STATES: Final = {
    int(state): state
    for state in TransactionState
    if state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
}


def to_record(transaction: Transaction, transaction_version: int) -> CoordinatorRecord:
    """`transaction_version` is the cluster's."""
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=int(transaction.state),
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )
    if transaction.state is not TransactionState.EMPTY:
        value.transaction_partitions = [
            PartitionsSchema(topic=topic, partition_ids=indexes)
            for topic, indexes in by_topic(transaction.partitions).items()
        ]
    version = _FLEXIBLE if transaction_version >= _FLEXIBLE else 0
    if version == _FLEXIBLE:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.client_transaction_version = transaction.client_version
    return CoordinatorRecord(TransactionLogKey(transactional_id=transaction.transactional_id), value, version)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), None)


def from_value(transactional_id: str, value: TransactionLogValue) -> Transaction:
    """CorruptMessageError where the state is none that a log may hold."""
    state = _STATES.get(value.transaction_status)
    if state is None:
        raise CorruptMessageError(
            f"transactional id {transactional_id} is in state {value.transaction_status}, which no log may hold"
        )
    return Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        epoch=value.producer_epoch,
        last_epoch=NO_PRODUCER_EPOCH,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(each.topic, index)
            for each in value.transaction_partitions or ()
            for index in each.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Sorted, that what is written does not depend on the order of a set."""
    grouped: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        grouped.setdefault(topic, []).append(index)
    return grouped
