"""Faults of producers and transactions, all with right CRCs and offsets: sequences, epochs, markers."""

from __future__ import annotations

from support.audit.injected_faults.catalog import Case, Expected, fault
from support.audit.logs import FIRST_TX, IDEMPOTENT, SECOND_TX, START_MS
from tailrace.record.batch import CONTROL_BIT, set_leader_epoch
from tailrace.record.builder import BatchBuilder
from tailrace.record.control import ABORT, COMMIT, end_txn_marker
from tailrace.spark.auditing.rules import (
    ABORT_WITHOUT_MARKER,
    BAD_HEADER,
    COORDINATOR_EPOCH,
    HANGING_TRANSACTION,
    MARKER_WITHOUT_TRANSACTION,
    PRODUCER_EPOCH,
    SEQUENCE_GAP,
    SEQUENCE_TWICE,
    TRANSACTION_INDEX,
    TRANSACTION_WITHOUT_MARKER,
)

NOBODY = 9


def _change_from(case: Case, producer: int, offset: int, **shifts: int) -> None:
    """All batches of a producer from `offset` on: fields raised by so much."""
    for segment in range(len(case.partition.bases)):
        for place, batch in enumerate(case.partition.batches(segment)):
            if batch.producer_id == producer and batch.base_offset >= offset and not batch.is_control:
                case.header(segment, place, **{name: getattr(batch, name) + by for name, by in shifts.items()})
    case.forget_snapshots()


def _replace(case: Case, segment: int, place: int, *batches: bytearray, epoch: int) -> None:
    for batch in batches:
        set_leader_epoch(batch, 0, epoch)
    parts = case.partition.parts(segment)
    case.partition.write(segment, [*parts[:place], *map(bytes, batches), *parts[place + 1 :]])
    case.forget_snapshots()


def _plain(offset: int, count: int = 1) -> bytearray:
    builder = BatchBuilder(offset)
    for number in range(offset, offset + count):
        builder.append(START_MS + 1000 * number, b"key", b"value %d" % number)
    return builder.build()


def _marker(offset: int, producer: int, kind: int, *, epoch: int = 0, coordinator_epoch: int = 5) -> bytearray:
    return end_txn_marker(
        kind,
        producer_id=producer,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=START_MS + 1000 * offset,
        base_offset=offset,
    )


# Sequences and epochs


@fault()
def data_without_sequence(case: Case) -> Expected:
    case.header(0, 3, base_sequence=-1)
    case.forget_snapshots()
    return case.at(BAD_HEADER, 0, 3)


@fault()
def marker_that_is_not_transactional(case: Case) -> Expected:
    case.header(1, 4, attributes=CONTROL_BIT)
    case.forget_snapshots()
    return case.at(BAD_HEADER, 1, 4)


@fault()
def marker_with_a_sequence(case: Case) -> Expected:
    case.header(1, 4, base_sequence=7)
    case.forget_snapshots()
    return case.at(BAD_HEADER, 1, 4)


@fault()
def sequence_gap(case: Case) -> Expected:
    _change_from(case, IDEMPOTENT, 19, base_sequence=5)
    return case.at(SEQUENCE_GAP, 0, 5)


@fault()
def sequence_gap_between_segments(case: Case) -> Expected:
    _change_from(case, IDEMPOTENT, 61, base_sequence=1)
    return case.at(SEQUENCE_GAP, 2, 6)


@fault()
def sequence_gap_in_a_transaction(case: Case) -> Expected:
    _change_from(case, FIRST_TX, 37, base_sequence=3)
    return case.at(SEQUENCE_GAP, 1, 3)


@fault()
def sequence_twice(case: Case) -> Expected:
    _change_from(case, IDEMPOTENT, 19, base_sequence=-3)
    return case.at(SEQUENCE_TWICE, 0, 5)


@fault()
def sequence_twice_between_segments(case: Case) -> Expected:
    _change_from(case, IDEMPOTENT, 61, base_sequence=-2)
    return case.at(SEQUENCE_TWICE, 2, 6)


@fault()
def new_epoch_not_from_zero(case: Case) -> Expected:
    """A producer with a new epoch begins with sequence 0."""
    _change_from(case, IDEMPOTENT, 40, producer_epoch=1)
    return case.at(PRODUCER_EPOCH, 1, 5)


@fault()
def falling_producer_epoch(case: Case) -> Expected:
    _change_from(case, IDEMPOTENT, 0, producer_epoch=2)
    _change_from(case, IDEMPOTENT, 19, producer_epoch=-1)
    return case.at(PRODUCER_EPOCH, 0, 5, also=(SEQUENCE_GAP,))


@fault()
def producer_epoch_falls_between_segments(case: Case) -> Expected:
    _change_from(case, IDEMPOTENT, 0, producer_epoch=2)
    _change_from(case, IDEMPOTENT, 78, producer_epoch=-1)
    return case.at(PRODUCER_EPOCH, 3, 4, also=(SEQUENCE_GAP,))


# Transactions


@fault()
def missing_commit(case: Case) -> Expected:
    """The producer goes on with a new epoch, and nothing has ended what it wrote before."""
    _replace(case, 2, 3, _plain(56), epoch=1)
    case.header(3, 1, producer_epoch=1, base_sequence=0)
    case.partition.write(3, [*case.partition.parts(3)[:3], *_with_epoch(case, 1), *case.partition.parts(3)[4:]])
    return case.at(TRANSACTION_WITHOUT_MARKER, 3, 1)


def _with_epoch(case: Case, epoch: int) -> list[bytes]:
    """The last abort marker, of the producer's new epoch."""
    marker = _marker(77, SECOND_TX, ABORT, epoch=epoch)
    set_leader_epoch(marker, 0, 3)
    return [bytes(marker)]


@fault()
def missing_abort(case: Case) -> Expected:
    """The transaction index still names it; the transaction goes on with the producer's next one."""
    _replace(case, 1, 4, _plain(39), epoch=1)
    return case.expects(
        ABORT_WITHOUT_MARKER,
        case.partition.file(1, ".txnindex"),
        39,
        also=(TRANSACTION_INDEX, TRANSACTION_WITHOUT_MARKER),
    )


@fault()
def commit_in_place_of_abort(case: Case) -> Expected:
    _replace(case, 1, 4, _marker(39, FIRST_TX, COMMIT), epoch=1)
    return case.expects(ABORT_WITHOUT_MARKER, case.partition.file(1, ".txnindex"), 39, also=(TRANSACTION_INDEX,))


@fault()
def hanging_transaction(case: Case) -> Expected:
    """Its producer is gone, and nobody has ended it."""
    _replace(case, 3, 3, _plain(77), epoch=3)
    case.partition.file(3, ".txnindex").write_bytes(b"")
    case.partition.date(START_MS)
    return case.at(HANGING_TRANSACTION, 3, 1)


@fault()
def hanging_transaction_since_long(case: Case) -> Expected:
    """Open across segments."""
    _replace(case, 2, 5, _plain(60), epoch=3)
    case.partition.date(START_MS)
    return case.at(HANGING_TRANSACTION, 2, 2)


@fault()
def commit_of_nothing(case: Case) -> Expected:
    _replace(case, 2, 4, _plain(57), _marker(58, NOBODY, COMMIT), _plain(59), epoch=3)
    return case.expects(MARKER_WITHOUT_TRANSACTION, case.log(2), 58)


@fault()
def falling_coordinator_epoch(case: Case) -> Expected:
    _replace(case, 2, 5, _marker(60, FIRST_TX, COMMIT, coordinator_epoch=3), epoch=3)
    return case.at(COORDINATOR_EPOCH, 2, 5)
