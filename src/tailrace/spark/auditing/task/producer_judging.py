"""The rules of producers and transactions: what the next step of a producer may be, and what it leads to.

They are those by which a leader accepts batches of clients and markers of coordinators (`storage.producer_append`):

    epoch          never falls
    sequence       goes on behind the last one; 0 behind 2147483647, and as the first of a new epoch
    data           has a sequence, but for what coordinators write
    transaction    ends with a marker before its producer goes on in a higher epoch or without transactions
    marker         a commit has records before it, or is the same commit once more, which a coordinator repeats that
                   does not know it to be written; an abort needs none: the partition may have got no record
    coordinator    its epoch never falls
    index          names every abort that ended a transaction, with its first offset

A leader forgets: who was idle for a day may come back with anything. Compaction takes batches and markers: across what
it took sequences may skip, and the records of a commit may be gone. It never makes anything come twice. Below the
cleaner's point it may have taken anything; in what was copied from another replica the offsets that are missing tell.

A fault is told once: the state goes on with what the batch says, and what stood before the fault may go on behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tailrace.model.internal_topics import CONSUMER_OFFSETS
from tailrace.spark.auditing.pieces import AuditPiece
from tailrace.spark.auditing.rules import (
    BAD_HEADER,
    COORDINATOR_EPOCH,
    MARKER_WITHOUT_TRANSACTION,
    PRODUCER_EPOCH,
    SEQUENCE_GAP,
    SEQUENCE_TWICE,
    TRANSACTION_INDEX,
    TRANSACTION_WITHOUT_MARKER,
    UNINDEXED_ABORT,
)
from tailrace.spark.auditing.task.offsets import ALWAYS_COMPACTED, EVERYWHERE
from tailrace.spark.auditing.task.producer_seam import (
    ABORT,
    COMMIT,
    DATA,
    NONE,
    TXN_DATA,
    UNKNOWN,
    ProducerState,
    ProducerStep,
)

SEQUENCE_MASK: Final = 0x7FFF_FFFF
EXPIRATION_MS: Final = 86_400_000
"""Leaders forget producers after this time, unless they are told otherwise."""
_HALF_OF_SEQUENCES: Final = 1 << 30


def _nobody(known: int | None, transaction: int | None) -> ProducerState:
    return ProducerState(
        offset=NONE,
        epoch=known,
        sequence=known,
        sequence_offset=NONE,
        offset_delta=0,
        timestamp=NONE,
        coordinator_epoch=known,
        ended_ms=NONE,
        transaction=transaction,
        is_begin_known=False,
        kind=DATA,
        excused_epoch=known,
        excused_sequence=known,
    )


INHERITED: Final = _nobody(None, None)
"""Before the first step in a piece."""
LOST: Final = _nobody(UNKNOWN, UNKNOWN)
"""Behind a break, and where retention or compaction took what was before."""
NEW: Final = _nobody(NONE, NONE)._replace(sequence=UNKNOWN)
"""Of a producer that has never written to the log. Its first batch may have any sequence."""


class Judged(NamedTuple):
    """What the rules need to know of the place at which they judge."""

    judges_sequences: bool
    """Coordinators write transactions without sequences."""
    lost_to: int
    """Below this offset compaction may have taken anything."""
    lacks_to: int
    """Below this offset compaction may have taken what is missing, but nothing else."""
    judged_to: int


def judged_of(piece: AuditPiece) -> Judged:
    lost_to = piece.cleaned_to
    if piece.partition.topic in ALWAYS_COMPACTED or (piece.is_being_cleaned and piece.next_base is not None):
        lost_to = EVERYWHERE
    elif piece.is_being_cleaned:
        lost_to = max(lost_to, piece.base_offset)
    return Judged(
        piece.partition.topic != CONSUMER_OFFSETS,
        lost_to,
        EVERYWHERE if piece.is_compacted else lost_to,
        EVERYWHERE if piece.judged_to is None else piece.judged_to,
    )


class Fault(NamedTuple):
    rule: str
    words: str


def is_settled(state: ProducerState) -> bool:
    """Whether nothing in it depends on what was before the piece."""
    return None not in (
        state.epoch,
        state.sequence,
        state.coordinator_epoch,
        state.transaction,
        state.excused_epoch,
        state.excused_sequence,
    )


def goes_on(before: ProducerStep, step: ProducerStep, judged: Judged) -> bool:
    """Whether the step merely continues the data of the one before: nothing to judge, and only the end changes."""
    return (
        step.kind <= TXN_DATA
        and before.kind == step.kind
        and before.epoch == step.epoch
        and (
            not judged.judges_sequences
            or (before.last_sequence >= 0 and step.first_sequence == (before.last_sequence + 1) & SEQUENCE_MASK)
        )
        and not (before.last_timestamp >= 0 and step.timestamp - before.last_timestamp >= EXPIRATION_MS)
    )


def joined(first: ProducerStep, behind: ProducerStep) -> ProducerStep:
    """Steps of which each merely continues the one before, as one: how they begin and how they end."""
    return first._replace(
        last_offset=behind.last_offset,
        offset_delta=behind.offset_delta,
        last_sequence=behind.last_sequence,
        last_timestamp=behind.last_timestamp,
    )


def extended(state: ProducerState, step: ProducerStep) -> ProducerState:
    """The state behind a step that merely continues."""
    return state._replace(
        offset=step.last_offset,
        sequence=step.last_sequence if step.first_sequence >= 0 else UNKNOWN,
        sequence_offset=step.last_offset,
        offset_delta=step.offset_delta,
        timestamp=step.last_timestamp,
    )


def continues(state: ProducerState, step: ProducerStep, judged: Judged) -> bool:
    """`goes_on`, where only the state before is known."""
    return (
        step.kind <= TXN_DATA
        and state.kind == step.kind
        and state.epoch == step.epoch
        and not _may_have_expired(state, step)
        and (
            not judged.judges_sequences or (step.first_sequence >= 0 and step.first_sequence == _behind(state.sequence))
        )
    )


def after(state: ProducerState, step: ProducerStep, judged: Judged) -> ProducerState:
    """The state behind any other step."""
    if _may_have_expired(state, step):
        state = _expired(state)
    if step.kind >= ABORT:
        return _after_marker(state, step, judged)
    transaction, is_begin_known = state.transaction, state.is_begin_known
    if _leaves_transaction(state, step):
        transaction = UNKNOWN  # that nothing ended it is told, or compaction took what did
    if step.kind == TXN_DATA and transaction is not None and transaction < 0:
        is_begin_known = transaction == NONE and _has_all_behind(state.offset, step, judged)
        transaction = step.offset
    return ProducerState(
        offset=step.last_offset,
        epoch=step.epoch,
        sequence=step.last_sequence if step.first_sequence >= 0 else UNKNOWN,
        sequence_offset=step.last_offset,
        offset_delta=step.offset_delta,
        timestamp=step.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        ended_ms=state.ended_ms,
        transaction=transaction,
        is_begin_known=is_begin_known,
        kind=step.kind,
        excused_epoch=_excused_epoch(state, step),
        excused_sequence=_excused_sequence(state, step),
    )


def _after_marker(state: ProducerState, step: ProducerStep, judged: Judged) -> ProducerState:
    keeps_sequence = state.epoch is None or state.epoch in (step.epoch, UNKNOWN)
    raised = (
        NONE if _has_all_behind(state.offset, step, judged) else UNKNOWN
    )  # compaction may have taken data of that epoch
    return ProducerState(
        offset=step.last_offset,
        epoch=step.epoch,
        sequence=state.sequence if keeps_sequence else raised,
        sequence_offset=state.sequence_offset if keeps_sequence else step.last_offset,
        offset_delta=state.offset_delta if keeps_sequence else 0,
        timestamp=step.last_timestamp,
        coordinator_epoch=step.coordinator_epoch,
        ended_ms=step.timestamp,
        transaction=NONE,
        is_begin_known=False,
        kind=step.kind,
        excused_epoch=_excused_epoch(state, step),
        excused_sequence=NONE,
    )


def given_up(state: ProducerState) -> ProducerState:
    """A state in which nothing depends on what was before the piece, since it is not asked for any more."""
    return state._replace(
        epoch=UNKNOWN if state.epoch is None else state.epoch,
        sequence=UNKNOWN if state.sequence is None else state.sequence,
        coordinator_epoch=UNKNOWN if state.coordinator_epoch is None else state.coordinator_epoch,
        transaction=UNKNOWN if state.transaction is None else state.transaction,
        excused_epoch=UNKNOWN if state.excused_epoch is None else state.excused_epoch,
        excused_sequence=UNKNOWN if state.excused_sequence is None else state.excused_sequence,
    )


def faults(state: ProducerState, step: ProducerStep, judged: Judged) -> Iterator[Fault]:
    """What is wrong with a step that does not merely continue, as far as the state is known."""
    if step.offset >= judged.judged_to:
        return
    if _may_have_expired(state, step):
        state = _expired(state)
    if _breaks_epoch(state, step):
        relation = "lower than" if step.epoch < _known(state.epoch) else "higher, within its sequence, than"
        yield Fault(PRODUCER_EPOCH, f"epoch {step.epoch} is {relation} {state.epoch}, which it had before")
    elif step.kind >= ABORT:
        yield from _marker_faults(state, step, judged)
    else:
        if judged.judges_sequences and step.epoch != state.excused_epoch:
            yield from _sequence_faults(state, step, judged)
        yield from _transaction_faults(state, step, judged)


def _sequence_faults(state: ProducerState, step: ProducerStep, judged: Judged) -> Iterator[Fault]:
    first = step.first_sequence
    if first < 0:
        yield Fault(BAD_HEADER, "a batch of its data has no sequence, which no leader takes from a client")
        return
    if state.epoch != step.epoch:
        if _known(state.epoch) >= 0 and first and _has_all_behind(state.offset, step, judged):
            words = f"epoch {step.epoch} after {state.epoch} begins with sequence {first}, not 0"
            yield Fault(SEQUENCE_GAP, words)
        return
    last = state.sequence
    if last is None or last == UNKNOWN:
        return
    ahead = (first - last - 1) & SEQUENCE_MASK
    if not ahead or first == _behind(state.excused_sequence):
        return
    if ahead >= _HALF_OF_SEQUENCES:
        yield Fault(SEQUENCE_TWICE, f"sequence {first} comes after {last} already was there")
    elif _has_all_behind(state.sequence_offset, step, judged):
        what = "is the first" if last == NONE else f"does not follow the last one, {last}"
        yield Fault(SEQUENCE_GAP, f"sequence {first} {what}: {ahead} are missing")


def _transaction_faults(state: ProducerState, step: ProducerStep, judged: Judged) -> Iterator[Fault]:
    if not _leaves_transaction(state, step) or not _has_all_behind(state.offset, step, judged):
        return
    how = f"in epoch {step.epoch}" if _raises_epoch(state, step) else "without transactions"
    words = f"goes on {how}, but its transaction of epoch {state.epoch}, open at {state.transaction}, has no marker"
    yield Fault(TRANSACTION_WITHOUT_MARKER, words)


def _leaves_transaction(state: ProducerState, step: ProducerStep) -> bool:
    """Whether data goes on behind an open transaction that no marker has ended."""
    return state.is_open and (_raises_epoch(state, step) or (step.kind == DATA and state.kind == TXN_DATA))


def _raises_epoch(state: ProducerState, step: ProducerStep) -> bool:
    return step.epoch > _known(state.epoch) >= 0 and step.epoch != state.excused_epoch


def _marker_faults(state: ProducerState, step: ProducerStep, judged: Judged) -> Iterator[Fault]:
    if step.coordinator_epoch < _known(state.coordinator_epoch):
        words = f"marker of coordinator epoch {step.coordinator_epoch} after one of {state.coordinator_epoch}"
        yield Fault(COORDINATOR_EPOCH, words)
    if step.kind == COMMIT:
        is_repeated = state.kind == COMMIT and state.epoch == step.epoch
        if state.transaction == NONE and not is_repeated and _has_all_behind(state.offset, step, judged):
            yield Fault(MARKER_WITHOUT_TRANSACTION, "commits a transaction that has no records in this partition")
    elif state.is_open:
        if step.indexed_from == NONE:
            words = f"does not name the transaction from offset {state.transaction} that is aborted here"
            yield Fault(UNINDEXED_ABORT, words)
        elif step.indexed_from >= 0 and state.is_begin_known and step.indexed_from != state.transaction:
            words = f"says that the transaction aborted here began at offset {step.indexed_from}, "
            yield Fault(TRANSACTION_INDEX, words + f"not {state.transaction}")


def _breaks_epoch(state: ProducerState, step: ProducerStep) -> bool:
    """Whether its epoch cannot be right: lower than before, or another one in the middle of a sequence."""
    epoch = _known(state.epoch)
    if epoch < 0 or step.epoch in (epoch, state.excused_epoch):
        return False
    if step.epoch < epoch:
        return True
    return step.first_sequence > 0 and _known(state.sequence) >= 0 and step.first_sequence == _behind(state.sequence)


def _excused_epoch(state: ProducerState, step: ProducerStep) -> int | None:
    if state.epoch is None or (state.sequence is None and step.first_sequence > 0 and step.epoch > state.epoch):
        return None
    return state.epoch if _breaks_epoch(state, step) else NONE


def _excused_sequence(state: ProducerState, step: ProducerStep) -> int | None:
    last = state.sequence
    if last is None or state.epoch is None:
        return None
    is_lower = state.epoch == step.epoch and last >= 0 <= step.first_sequence
    return last if is_lower and (step.first_sequence - last - 1) & SEQUENCE_MASK >= _HALF_OF_SEQUENCES else NONE


def _behind(sequence: int | None) -> int:
    """The one that follows; none does where there is none."""
    return UNKNOWN if sequence is None or sequence < 0 else (sequence + 1) & SEQUENCE_MASK


def _known(value: int | None) -> int:
    return UNKNOWN if value is None else value


def _has_all_behind(offset: int, step: ProducerStep, judged: Judged) -> bool:
    """Whether compaction has taken nothing between this offset and the step."""
    return offset + 1 >= max(judged.lost_to, step.whole_from)


def _may_have_expired(state: ProducerState, step: ProducerStep) -> bool:
    return state.timestamp >= 0 and step.timestamp - state.timestamp >= EXPIRATION_MS


def _expired(state: ProducerState) -> ProducerState:
    """Transactions are in the log whether the leader remembers them or not."""
    return state._replace(
        epoch=UNKNOWN,
        sequence=UNKNOWN,
        coordinator_epoch=UNKNOWN,
        ended_ms=UNKNOWN,
        excused_epoch=NONE,
        excused_sequence=NONE,
    )
