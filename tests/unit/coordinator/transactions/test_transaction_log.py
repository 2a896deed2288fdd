"""Transactional ids as records: bytes as Kafka 4.3.1 has written them, and damaged ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.coordinator.records import TRANSACTION_RECORDS, decode_record
from tailrace.coordinator.transactions.state import TransactionState
from tailrace.coordinator.transactions.transaction import Transaction
from tailrace.coordinator.transactions.transaction_log import from_value, to_record, tombstone
from tailrace.model.errors import CorruptMessageError
from tailrace.model.ids import TopicPartition
from tailrace.protocol.codec import encode
from tailrace.protocol.records.transactions import TransactionLogKey, TransactionLogValue

STATES = [state for state in TransactionState if state not in (6, 7)]

TRANSACTIONS = st.builds(
    Transaction,
    transactional_id=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
    producer_id=st.integers(0, 2**63 - 1),
    previous_producer_id=st.integers(-1, 2**63 - 1),
    next_producer_id=st.integers(-1, 2**63 - 1),
    epoch=st.integers(0, 32_767),
    last_epoch=st.just(-1),
    timeout_ms=st.integers(1, 2**31 - 1),
    state=st.sampled_from(STATES),
    partitions=st.frozensets(st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 9)), max_size=5),
    start_ms=st.integers(-1, 2**60),
    updated_ms=st.integers(-1, 2**60),
    client_version=st.integers(0, 2),
)


@given(TRANSACTIONS)
def test_what_is_written_is_read(transaction: Transaction) -> None:
    transaction = transaction if transaction.state else transaction._replace(partitions=frozenset())
    key, value, version = to_record(transaction, 2)
    assert value is not None
    assert version == 1
    body = version.to_bytes(2, "big") + bytes(encode(value, version))
    read = decode_record(TRANSACTION_RECORDS, b"\0\0" + bytes(encode(key, 0)), body)
    assert read is not None
    assert isinstance(read.value, TransactionLogValue)
    assert from_value(transaction.transactional_id, read.value) == transaction


@pytest.mark.parametrize(("version", "written"), [(0, 0), (1, 1), (2, 1)])
def test_the_version_of_a_value_is_the_clusters(version: int, written: int) -> None:
    transaction = Transaction.new("id", 7, 1000, 50).initialised(1000, None, 100)._replace(client_version=2)
    record = to_record(transaction, version)
    assert record.value_version == written
    assert isinstance(record.value, TransactionLogValue)
    assert record.value.client_transaction_version == (2 if written else 0)
    assert record.value.transaction_partitions is None
    encode(record.value, record.value_version)


def test_a_tombstone_has_no_value() -> None:
    assert tombstone("id") == (TransactionLogKey(transactional_id="id"), None, 0)


@pytest.mark.parametrize("status", [-1, 6, 7, 8, 127])
def test_states_that_no_log_may_hold(status: int) -> None:
    value = TransactionLogValue(transaction_status=status, transaction_partitions=None)
    with pytest.raises(CorruptMessageError, match="no log may hold"):
        from_value("id", value)
