"""Faults in indexes and producer snapshots: flipped, cut, grown, stale and lying ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from struct import Struct

from support.audit.injected_faults.catalog import Case, Expected, fault, flip, garbage
from tailrace.spark.auditing.rules import (
    ABORT_WITHOUT_MARKER,
    OFFSET_INDEX,
    ORPHAN_INDEX,
    SNAPSHOT,
    SNAPSHOT_ORDER,
    SNAPSHOT_STATE,
    TIME_INDEX,
    TRANSACTION_INDEX,
    UNINDEXED_ABORT,
)
from tailrace.storage import producer_snapshot
from tailrace.storage.index_entries import OFFSET_ENTRY, TIME_ENTRY, TXN_ENTRY
from tailrace.storage.producer_entry import ProducerStateEntry

INDEX, TIME, TRANSACTIONS = ".index", ".timeindex", ".txnindex"


def _entries(path: Path, entry: Struct) -> list[tuple[int, ...]]:
    return list(entry.iter_unpack(path.read_bytes()))


def _write(path: Path, entry: Struct, entries: list[tuple[int, ...]]) -> None:
    path.write_bytes(b"".join(entry.pack(*fields) for fields in entries))


# Offset indexes: entries are (offset − base, position)


@fault()
def flipped_position_in_index(case: Case) -> Expected:
    file = case.partition.file(1, INDEX)
    offset, _ = _entries(file, OFFSET_ENTRY)[1]
    flip(file, 8 + 7, bit=2)
    return case.expects(OFFSET_INDEX, file, 28 + offset)


@fault()
def flipped_offset_in_index(case: Case) -> Expected:
    file = case.partition.file(1, INDEX)
    offset, _ = _entries(file, OFFSET_ENTRY)[1]
    flip(file, 8 + 3, bit=1)
    return case.expects(OFFSET_INDEX, file, 28 + (offset ^ 2))


@fault()
def swapped_entries_of_index(case: Case) -> Expected:
    file = case.partition.file(0, INDEX)
    entries = _entries(file, OFFSET_ENTRY)
    _write(file, OFFSET_ENTRY, [entries[0], entries[2], entries[1], *entries[3:]])
    return case.expects(OFFSET_INDEX, file, entries[1][0])


@fault()
def lying_index(case: Case) -> Expected:
    """Ascends, and points between batches."""
    file = case.partition.file(2, INDEX)
    entries = _entries(file, OFFSET_ENTRY)
    _write(file, OFFSET_ENTRY, [(offset, position + 1) for offset, position in entries])
    return case.expects(OFFSET_INDEX, file, 50 + entries[0][0])


@fault()
def lying_index_of_batches(case: Case) -> Expected:
    """Ascends, points at batches, and those hold other offsets."""
    file = case.partition.file(2, INDEX)
    entries = _entries(file, OFFSET_ENTRY)
    _write(file, OFFSET_ENTRY, [(entries[0][0], entries[1][1]), *entries[2:]])
    return case.expects(OFFSET_INDEX, file, 50 + entries[0][0])


@fault()
def stale_index(case: Case) -> Expected:
    """Of another segment."""
    file = case.partition.file(1, INDEX)
    file.write_bytes(case.partition.file(0, INDEX).read_bytes())
    return case.expects(OFFSET_INDEX, file, 28 + _entries(file, OFFSET_ENTRY)[0][0])


@fault()
def cut_index(case: Case) -> Expected:
    file = case.partition.file(1, INDEX)
    file.write_bytes(file.read_bytes()[:-3])
    return case.expects(OFFSET_INDEX, file)


@fault()
def grown_index(case: Case) -> Expected:
    file = case.partition.file(1, INDEX)
    file.write_bytes(file.read_bytes() + OFFSET_ENTRY.pack(30, 1 << 20))
    return case.expects(OFFSET_INDEX, file)


@fault()
def index_of_garbage(case: Case) -> Expected:
    file = case.partition.file(3, INDEX)
    file.write_bytes(garbage(24))
    return case.expects(OFFSET_INDEX, file)


@fault()
def orphan_index(case: Case) -> Expected:
    file = case.partition.folder / f"{70:020d}{INDEX}"
    file.write_bytes(case.partition.file(3, INDEX).read_bytes())
    return case.expects(ORPHAN_INDEX, file)


# Time indexes: entries are (timestamp, offset − base)


@fault()
def flipped_timestamp_in_time_index(case: Case) -> Expected:
    file = case.partition.file(1, TIME)
    flip(file, 12 + 7)
    return case.expects(TIME_INDEX, file, 28 + _entries(file, TIME_ENTRY)[1][1])


@fault()
def flipped_offset_in_time_index(case: Case) -> Expected:
    file = case.partition.file(1, TIME)
    flip(file, 12 + 11, bit=3)
    return case.expects(TIME_INDEX, file, 28 + _entries(file, TIME_ENTRY)[1][1])


@fault()
def swapped_entries_of_time_index(case: Case) -> Expected:
    file = case.partition.file(1, TIME)
    entries = _entries(file, TIME_ENTRY)
    _write(file, TIME_ENTRY, [entries[0], entries[2], entries[1], *entries[3:]])
    return case.expects(TIME_INDEX, file, 28 + entries[1][1])


@fault()
def stale_time_index(case: Case) -> Expected:
    file = case.partition.file(1, TIME)
    file.write_bytes(case.partition.file(0, TIME).read_bytes())
    return case.expects(TIME_INDEX, file, 28 + _entries(file, TIME_ENTRY)[0][1])


@fault()
def cut_time_index(case: Case) -> Expected:
    file = case.partition.file(2, TIME)
    file.write_bytes(file.read_bytes()[:-5])
    return case.expects(TIME_INDEX, file)


@fault()
def grown_time_index(case: Case) -> Expected:
    file = case.partition.file(2, TIME)
    timestamp, _ = _entries(file, TIME_ENTRY)[-1]
    file.write_bytes(file.read_bytes() + TIME_ENTRY.pack(timestamp + 5000, 30))
    return case.expects(TIME_INDEX, file)


# Transaction indexes: entries are (version, producer, first offset, last offset, last stable offset)


@fault()
def other_producer_in_transaction_index(case: Case) -> Expected:
    file = case.partition.file(1, TRANSACTIONS)
    _change(file, 1, 9)
    return case.expects(TRANSACTION_INDEX, file, 39, also=(UNINDEXED_ABORT, ABORT_WITHOUT_MARKER))


@fault()
def abort_of_nobody(case: Case) -> Expected:
    """The transaction index says that there is a marker where plain records are."""
    file = case.partition.file(3, TRANSACTIONS)
    file.write_bytes(TXN_ENTRY.pack(0, 9, 68, 74, 71) + file.read_bytes())
    return case.expects(ABORT_WITHOUT_MARKER, file, 74)


@fault()
def other_version_of_transaction_index(case: Case) -> Expected:
    file = case.partition.file(1, TRANSACTIONS)
    _change(file, 0, 7)
    return case.expects(TRANSACTION_INDEX, file, 39, also=(UNINDEXED_ABORT,))


@fault()
def impossible_transaction_index(case: Case) -> Expected:
    """It began behind its end."""
    file = case.partition.file(1, TRANSACTIONS)
    _change(file, 2, 45)
    return case.expects(TRANSACTION_INDEX, file, 39, also=(UNINDEXED_ABORT,))


@fault()
def cut_transaction_index(case: Case) -> Expected:
    file = case.partition.file(1, TRANSACTIONS)
    file.write_bytes(file.read_bytes() + bytes(7))
    return case.expects(TRANSACTION_INDEX, file)


@fault()
def forgotten_abort(case: Case) -> Expected:
    file = case.partition.file(1, TRANSACTIONS)
    file.write_bytes(b"")
    return case.expects(UNINDEXED_ABORT, file, 39)


@fault()
def missing_transaction_index(case: Case) -> Expected:
    file = case.partition.file(1, TRANSACTIONS)
    file.unlink()
    return case.expects(UNINDEXED_ABORT, file, 39)


def _change(file: Path, field: int, value: int) -> None:
    """Of the first entry."""
    entries = [list(fields) for fields in _entries(file, TXN_ENTRY)]
    entries[0][field] = value
    _write(file, TXN_ENTRY, [tuple(fields) for fields in entries])


# Snapshots


def _snapshot(case: Case, offset: int) -> Path:
    return case.partition.folder / f"{offset:020d}.snapshot"


@fault()
def flipped_snapshot(case: Case) -> Expected:
    file = _snapshot(case, 50)
    flip(file, 30, bit=4)
    return case.expects(SNAPSHOT, file, 50)


@fault()
def cut_snapshot(case: Case) -> Expected:
    file = _snapshot(case, 50)
    file.write_bytes(file.read_bytes()[:-9])
    return case.expects(SNAPSHOT, file, 50)


@fault()
def grown_snapshot(case: Case) -> Expected:
    file = _snapshot(case, 87)
    file.write_bytes(file.read_bytes() + bytes(46))
    return case.expects(SNAPSHOT, file, 87)


@fault()
def snapshot_of_later(case: Case) -> Expected:
    """Under an earlier offset, it knows what comes behind that."""
    file = _snapshot(case, 50)
    file.write_bytes(_snapshot(case, 68).read_bytes())
    return case.expects(SNAPSHOT_ORDER, file, 50, also=(SNAPSHOT_STATE,))


@fault()
def snapshot_behind_the_end(case: Case) -> Expected:
    file = _snapshot(case, 400)
    file.write_bytes(_snapshot(case, 87).read_bytes())
    return case.expects(SNAPSHOT_ORDER, file, 400)


@fault()
def other_sequence_in_snapshot(case: Case) -> Expected:
    return _other_state(case, lambda entry: entry._replace(batches=(entry.batches[-1]._replace(last_seq=40),)))


@fault()
def other_offset_in_snapshot(case: Case) -> Expected:
    return _other_state(case, lambda entry: entry._replace(batches=(entry.batches[-1]._replace(last_offset=60),)))


@fault()
def other_epoch_in_snapshot(case: Case) -> Expected:
    return _other_state(case, lambda entry: entry._replace(producer_epoch=3))


@fault()
def snapshot_with_open_transaction(case: Case) -> Expected:
    return _other_state(case, lambda entry: entry.with_txn_begun(61))


def _other_state(case: Case, change: Callable[[ProducerStateEntry], ProducerStateEntry]) -> Expected:
    """Of the idempotent producer."""
    file = _snapshot(case, 68)
    entries = producer_snapshot.decode(file.read_bytes())
    file.write_bytes(producer_snapshot.encode([change(each) if each.producer_id == 1 else each for each in entries]))
    return case.expects(SNAPSHOT_STATE, file, 63)
