from __future__ import annotations

from typing import NamedTuple

import pytest

from tailrace.model.errors import (
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.record.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from tailrace.record.shallow import ShallowBatch
from tailrace.storage.origin import Origin
from tailrace.storage.producer_append import MAX_PRODUCER_EPOCH, MAX_SEQUENCE, ProducerAppendInfo
from tailrace.storage.producer_entry import BatchMetadata, CompletedTxn, ProducerStateEntry
from tailrace.storage.verification import VerificationStateEntry

PRODUCER = 7


class Marker(NamedTuple):
    type: int
    coordinator_epoch: int


ABORT = Marker(0, 4)
COMMIT = Marker(1, 4)


def known(epoch: int = 1, last_seq: int = 9, **fields: object) -> ProducerStateEntry:
    entry = ProducerStateEntry(PRODUCER, epoch, 4, 1000, None, (BatchMetadata(last_seq, 109, 9, 1000),))
    return entry._replace(**fields)


def appending(
    entry: ProducerStateEntry | None = None,
    origin: Origin = Origin.CLIENT,
    verification: VerificationStateEntry | None = None,
) -> ProducerAppendInfo:
    return ProducerAppendInfo("orders-0", entry or ProducerStateEntry(PRODUCER), origin, verification)


def add(
    info: ProducerAppendInfo, first_seq: int, *, epoch: int = 1, offset: int = 110, records: int = 1, txn: bool = False
) -> None:
    last_seq = -1 if first_seq < 0 else (first_seq + records - 1) % 2**31
    info.append_data(epoch, first_seq, last_seq, 2000 + offset, LogOffsetMetadata(offset), offset + records - 1, txn)


def batch(attributes: int, first_seq: int = 10, epoch: int = 1) -> ShallowBatch:
    return ShallowBatch(
        position=0,
        size=100,
        magic=2,
        base_offset=110,
        last_offset=112,
        max_timestamp=5000,
        leader_epoch=0,
        attributes=attributes,
        producer_id=PRODUCER,
        producer_epoch=epoch,
        base_sequence=first_seq,
        record_count=3,
        crc=0,
        base_timestamp=4000,
    )


@pytest.mark.spec("LS-29")
def test_next_sequence_is_taken_and_the_known_entry_left_alone() -> None:
    before = known()
    info = appending(before)
    add(info, 10, records=5)
    assert info.entry.batches == (BatchMetadata(9, 109, 9, 1000), BatchMetadata(14, 114, 4, 2110))
    assert info.entry.last_timestamp == 2110
    assert before == known()


@pytest.mark.spec("LS-29")
@pytest.mark.parametrize("first_seq", [0, 8, 9, 11, 12, MAX_SEQUENCE])
def test_any_other_sequence_is_out_of_order(first_seq: int) -> None:
    info = appending(known())
    with pytest.raises(OutOfOrderSequenceError, match=f"producer 7 at offset 110 of orders-0: sequence {first_seq} "):
        add(info, first_seq)
    assert info.entry == known()


@pytest.mark.spec("LS-29")
def test_sequence_wraps_to_zero_after_its_maximum() -> None:
    info = appending(known(last_seq=MAX_SEQUENCE))
    add(info, 0)
    assert info.entry.last_seq == 0


@pytest.mark.spec("LS-29")
def test_batch_across_the_wrap_is_remembered_by_both_its_ends() -> None:
    info = appending(known(last_seq=MAX_SEQUENCE - 3))
    add(info, MAX_SEQUENCE - 2, records=6)
    last = info.entry.batches[-1]
    assert (last.first_seq, last.last_seq, last.first_offset, last.last_offset) == (MAX_SEQUENCE - 2, 2, 110, 115)
    add(info, 3, offset=116)


@pytest.mark.spec("LS-29")
def test_zero_does_not_follow_anything_but_the_maximum() -> None:
    with pytest.raises(OutOfOrderSequenceError):
        add(appending(known(last_seq=MAX_SEQUENCE - 1)), 0)


@pytest.mark.spec("LS-29")
def test_gap_between_two_batches_of_one_append_is_found() -> None:
    info = appending(known())
    add(info, 10)
    with pytest.raises(OutOfOrderSequenceError):
        add(info, 12, offset=111)


@pytest.mark.spec("LS-29")
@pytest.mark.parametrize("first_seq", [0, 5, MAX_SEQUENCE])
def test_unknown_producer_may_begin_anywhere(first_seq: int) -> None:
    info = appending()
    add(info, first_seq)
    assert info.entry.last_seq == first_seq
    with pytest.raises(OutOfOrderSequenceError):
        add(info, first_seq + 2, offset=111)


@pytest.mark.spec("LS-29")
def test_new_epoch_begins_with_sequence_zero() -> None:
    info = appending(known())
    with pytest.raises(OutOfOrderSequenceError, match="epoch 2 after 1 begins with sequence 10, not 0"):
        add(info, 10, epoch=2)
    add(info, 0, epoch=2)
    assert info.entry.producer_epoch == 2
    assert info.entry.batches == (BatchMetadata(0, 110, 0, 2110),)  # those of the old epoch are forgotten


@pytest.mark.spec("LS-29")
def test_epoch_known_from_a_marker_alone_begins_with_sequence_zero() -> None:
    entry = known(batches=())
    with pytest.raises(OutOfOrderSequenceError):
        add(appending(entry), 10)
    add(appending(entry), 0)


@pytest.mark.spec("LS-29")
@pytest.mark.parametrize("origin", [Origin.CLIENT, Origin.COORDINATOR])
def test_stale_epoch_is_refused(origin: Origin) -> None:
    info = appending(known(), origin)
    with pytest.raises(InvalidProducerEpochError, match="epoch 0 is lower than 1"):
        add(info, 10, epoch=0)
    with pytest.raises(InvalidProducerEpochError, match="epoch 0 is lower than 1"):
        info.append_end_txn_marker(COMMIT, 0, 110, 0)


@pytest.mark.spec("LS-29")
def test_replicated_batches_are_believed() -> None:
    info = appending(known(txn_first_offset=100), Origin.REPLICATION)
    add(info, 500, epoch=0, txn=False)
    assert (info.entry.producer_epoch, info.entry.last_seq, info.entry.txn_first_offset) == (0, 500, 100)
    assert info.append_end_txn_marker(Marker(1, 3), 0, 111, 0) == CompletedTxn(PRODUCER, 100, 111, False)
    assert info.entry.coordinator_epoch == 3


@pytest.mark.spec("LS-29")
def test_coordinators_batches_have_no_sequence() -> None:
    info = appending(origin=Origin.COORDINATOR)
    add(info, -1, txn=True)
    add(info, -1, txn=True, offset=111)
    assert info.entry.last_seq == -1
    assert info.entry.last_data_offset == 111


@pytest.mark.spec("LS-29")
def test_only_the_last_five_batches_are_kept() -> None:
    info = appending()
    for seq in range(8):
        add(info, seq, offset=100 + seq)
    assert [each.last_seq for each in info.entry.batches] == [3, 4, 5, 6, 7]
    assert (info.entry.first_seq, info.entry.batches[0].first_offset) == (3, 103)


@pytest.mark.spec("LS-31")
def test_transaction_begins_with_its_first_batch_and_ends_with_its_marker() -> None:
    info = appending()
    place = LogOffsetMetadata(110, 100, 640)
    assert info.append(batch(TRANSACTIONAL_BIT), place) is None
    add(info, 13, offset=113, txn=True)
    assert [(txn.producer_id, txn.first_offset) for txn in info.started_transactions] == [(PRODUCER, place)]
    assert info.entry.txn_first_offset == 110
    assert info.append_end_txn_marker(ABORT, 1, 114, 9000) == CompletedTxn(PRODUCER, 110, 114, True)
    assert info.entry.txn_first_offset is None
    assert info.entry.coordinator_epoch == 4
    assert info.entry.last_timestamp == 9000
    assert info.entry.last_seq == 13  # a marker of the same epoch lets the sequences go on


def test_marker_without_data_completes_nothing_but_is_remembered() -> None:
    info = appending(known(coordinator_epoch=1))
    assert info.append_end_txn_marker(COMMIT, 1, 110, 9000) is None
    assert info.entry.coordinator_epoch == 4


@pytest.mark.spec("LS-29")
def test_marker_with_a_raised_epoch_starts_sequences_again() -> None:
    info = appending(known(txn_first_offset=100))
    assert info.append_end_txn_marker(COMMIT, 2, 110, 9000, transaction_version=2) is not None
    assert (info.entry.producer_epoch, info.entry.batches) == (2, ())
    add(info, 0, epoch=2, offset=111)


def test_control_batch_takes_offset_epoch_and_time_from_the_batch() -> None:
    info = appending(known(txn_first_offset=100))
    completed = info.append(batch(TRANSACTIONAL_BIT | CONTROL_BIT, -1), None, COMMIT)
    assert completed == CompletedTxn(PRODUCER, 100, 110, False)
    assert info.entry.last_timestamp == 5000


def test_emptied_control_batch_changes_nothing() -> None:
    info = appending(known(txn_first_offset=100))
    assert info.append(batch(TRANSACTIONAL_BIT | CONTROL_BIT, -1), None, None) is None
    assert info.entry == known(txn_first_offset=100)


def test_data_batch_without_a_place_is_placed_by_its_offset() -> None:
    info = appending(known())
    info.append(batch(TRANSACTIONAL_BIT))
    assert info.started_transactions[0].first_offset == LogOffsetMetadata(110)
    assert info.entry.batches[-1] == BatchMetadata(12, 112, 2, 5000)


def test_other_control_records_of_a_producer_are_refused_or_skipped() -> None:
    with pytest.raises(InvalidRecordError, match="type 2 ends no transaction"):
        appending(known()).append_end_txn_marker(Marker(2, 4), 1, 110, 0)
    replica = appending(known(), Origin.REPLICATION)
    assert replica.append_end_txn_marker(Marker(2, 4), 1, 110, 0) is None
    assert replica.entry == known()


@pytest.mark.spec("LS-29")
def test_non_transactional_batch_inside_a_transaction_is_refused() -> None:
    with pytest.raises(InvalidTxnStateError, match="transaction that began at offset 100"):
        add(appending(known(txn_first_offset=100)), 10)


@pytest.mark.spec("LS-29")
def test_older_coordinator_is_fenced() -> None:
    info = appending(known(txn_first_offset=100), Origin.COORDINATOR)
    with pytest.raises(TransactionCoordinatorFencedError, match="coordinator epoch 3 after one of 4"):
        info.append_end_txn_marker(Marker(1, 3), 1, 110, 0)
    assert info.entry == known(txn_first_offset=100)


class TestMarkersOfTransactionsVersion2:
    def test_marker_must_raise_the_epoch(self) -> None:
        info = appending(known(txn_first_offset=100), Origin.COORDINATOR)
        with pytest.raises(InvalidProducerEpochError, match="epoch 1 is not higher than 1"):
            info.append_end_txn_marker(COMMIT, 1, 110, 0, transaction_version=2)

    def test_repeated_marker_is_taken(self) -> None:
        info = appending(known(), Origin.COORDINATOR)
        assert info.append_end_txn_marker(COMMIT, 1, 110, 0, transaction_version=2) is None

    def test_last_epoch_of_all_may_stay(self) -> None:
        info = appending(known(epoch=MAX_PRODUCER_EPOCH, txn_first_offset=100), Origin.COORDINATOR)
        assert info.append_end_txn_marker(COMMIT, MAX_PRODUCER_EPOCH, 110, 0, transaction_version=2) is not None

    def test_same_epoch_is_right_in_version_1(self) -> None:
        info = appending(known(txn_first_offset=100), Origin.COORDINATOR)
        assert info.append_end_txn_marker(COMMIT, 1, 110, 0, transaction_version=1) is not None


class TestWhileVerificationIsUnderWay:
    def test_higher_sequence_waits_for_the_lowest_one_seen(self) -> None:
        waiting = VerificationStateEntry(0, 10, 1, supports_epoch_bump=False)
        with pytest.raises(OutOfOrderSequenceError, match="sequence 11 while 10 waits"):
            add(appending(known(last_seq=10), verification=waiting), 11)
        add(appending(known(), verification=waiting), 10)

    def test_client_of_version_2_without_state_begins_at_zero(self) -> None:
        waiting = VerificationStateEntry(0, 5, 1, supports_epoch_bump=True)
        with pytest.raises(OutOfOrderSequenceError, match="begins with 0"):
            add(appending(verification=waiting), 5)
        add(appending(verification=waiting), 0)

    def test_older_client_without_state_may_begin_anywhere(self) -> None:
        waiting = VerificationStateEntry(0, 5, 1, supports_epoch_bump=False)
        add(appending(verification=waiting), 5)
