"""Producers and transactions in an audit: what a leader takes is silent, what it refuses is told, however it is cut."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.audit.blocks import block_of
from support.audit.producers import DAY_MS, START_MS, Cuts, Leader, audit, everywhere, faults_of
from tailrace.model.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from tailrace.model.ids import TopicPartition
from tailrace.spark.auditing.job import stitching_producers
from tailrace.spark.auditing.job.plain import from_plain, to_plain
from tailrace.spark.auditing.pieces import AuditPiece
from tailrace.spark.auditing.rules import (
    COORDINATOR_EPOCH,
    HANGING_TRANSACTION,
    PRODUCER_EPOCH,
    SEQUENCE_GAP,
    SEQUENCE_TWICE,
    TRANSACTION_WITHOUT_MARKER,
)
from tailrace.spark.auditing.task import producers
from tailrace.spark.auditing.task.producer_seam import ProducerStretch
from tailrace.storage.producer_entry import ProducerStateEntry

LAST_SEQUENCE = 2**31 - 1
MINUTE_MS = 60_000


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Iterator[None]:
    """What a leader refuses and is given all the same is logged each time."""
    log = logging.getLogger("tailrace.storage.producer_append")
    log.setLevel(logging.ERROR)
    yield
    log.setLevel(logging.NOTSET)


# What a leader takes


class Play:
    """Turns numbers into what clients and coordinators that work do."""

    def __init__(self, *, forgets: bool = True) -> None:
        self.leader = Leader()
        self._forgets = forgets
        self._coordinator_epoch = 0

    def take(self, producer_id: int, act: int, count: int, is_v2: bool) -> None:
        leader, known = self.leader, self.leader.known(producer_id)
        is_transactional = producer_id % 2 == 1
        leader.now_ms += 1
        if act == 0 and self._forgets:
            leader.wait(DAY_MS)
        elif act == 1:
            leader.plain(count)
        elif act == 2:
            self._coordinator_epoch += 1
        elif act <= 4 and is_transactional and known.producer_epoch >= 0:
            self._end(known, commit=act == 3, is_v2=is_v2)
        elif act == 5 and known.txn_first_offset is None and known.producer_epoch >= 0:
            self._write(known, known.producer_epoch + 1, 0, count, is_transactional)
        elif known.producer_epoch < 0:
            first = 0 if act % 2 else LAST_SEQUENCE - 2 * count
            self._write(known, leader.now_ms % 3, first, count, is_transactional)
        else:
            following = (known.last_seq + 1) & LAST_SEQUENCE
            self._write(known, known.producer_epoch, following, count, is_transactional)

    def _write(self, known: ProducerStateEntry, epoch: int, first: int, count: int, is_transactional: bool) -> None:
        refused = self.leader.data(known.producer_id, epoch, first, count, transactional=is_transactional)
        assert refused is None

    def _end(self, known: ProducerStateEntry, *, commit: bool, is_v2: bool) -> None:
        commit = commit and known.txn_first_offset is not None
        epoch = known.producer_epoch + is_v2
        refused = self.leader.marker(known.producer_id, epoch, commit=commit, coordinator_epoch=self._coordinator_epoch)
        assert refused is None
        if commit and self._coordinator_epoch % 2:  # it does not know that its marker was written
            self.leader.marker(known.producer_id, epoch, commit=True, coordinator_epoch=self._coordinator_epoch)


ACTS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 11), st.integers(1, 5), st.booleans()), max_size=60)
NUMBERS = st.sets(st.integers(1, 60), max_size=12)
CUTS = st.builds(Cuts, blocks=NUMBERS, pieces=NUMBERS, segments=st.sets(st.integers(1, 60), max_size=4))


@settings(max_examples=examples(150))
@given(ACTS, CUTS)
def test_what_a_leader_takes_is_silent_however_it_is_cut(acts: list[tuple[int, int, int, bool]], cuts: Cuts) -> None:
    play = Play()
    for act in acts:
        play.take(*act)
    assert audit(play.leader.batches, cuts).told == []


@settings(max_examples=examples(100))
@given(ACTS, CUTS, st.data())
def test_the_log_witnesses_the_state_that_a_leader_has(
    acts: list[tuple[int, int, int, bool]], cuts: Cuts, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(acts)))
    play = Play(forgets=False)
    for act in acts[:at]:
        play.take(*act)
    offset, expected = play.leader.next_offset, dict(play.leader.producers)
    for act in acts[at:]:
        play.take(*act)
    if not play.leader.batches:
        return
    states = audit(play.leader.batches, cuts, snapshots=(offset,)).states
    if offset == 0:
        return
    found = {
        producer_id: (state.epoch, state.last_sequence, state.last_offset, state.coordinator_epoch, state.open_from)
        for producer_id, state in states[offset].items()
    }
    assert found == {
        producer_id: (
            entry.producer_epoch,
            entry.last_seq,
            entry.last_data_offset,
            entry.coordinator_epoch,
            entry.txn_first_offset,
        )
        for producer_id, entry in expected.items()
    }


# Anything at all

ANYTHING = st.tuples(
    st.sampled_from([1, 1, 1, 2]),
    st.sampled_from(["data", "txn", "txn", "commit", "abort", "plain"]),
    st.sampled_from([0, 0, 0, 1, -1]),
    st.sampled_from([0, 0, 0, 0, 1, -3, None]),
    st.sampled_from([1, 1, 1000, DAY_MS]),
)


def written(steps: list[tuple[int, str, int, int | None, int]]) -> Leader:
    leader = Leader()
    for producer_id, what, epoch_change, sequence_change, forward_ms in steps:
        leader.now_ms += forward_ms
        known = leader.known(producer_id)
        epoch = max(known.producer_epoch + epoch_change, 0)
        if what == "plain":
            leader.plain()
        elif what in ("commit", "abort"):
            leader.marker(producer_id, epoch, commit=what == "commit", coordinator_epoch=abs(sequence_change or 0))
        else:
            first = 0 if sequence_change is None else (known.last_seq + 1 + sequence_change) & LAST_SEQUENCE
            leader.data(producer_id, epoch, first, 2, transactional=what == "txn")
    return leader


@settings(max_examples=examples(300))
@given(
    st.lists(ANYTHING, min_size=1, max_size=30),
    CUTS,
    st.sets(st.integers(1, 30), max_size=2),
    st.sampled_from([0, 0, 0, 9, 1000]),
    st.sampled_from([None, None, 11]),
)
def test_any_log_in_any_pieces_gives_the_same_findings(
    steps: list[tuple[int, str, int, int | None, int]],
    cuts: Cuts,
    damage: set[int],
    cleaned_to: int,
    judged_to: int | None,
) -> None:
    batches = written(steps).batches
    unindexed = {batch.row["base_offset"] for batch in batches[::3]}
    options: dict[str, Any] = {"cleaned_to": cleaned_to, "judged_to": judged_to, "alive_ms": START_MS + 99 * DAY_MS}
    blocks_only = audit(batches, Cuts(cuts.blocks, damage=damage), unindexed=unindexed, **options)
    whole = audit(batches, Cuts(damage=damage), unindexed=unindexed, **options)
    assert blocks_only.told == whole.told
    if cleaned_to == 0:  # where a segment begins decides about its index
        cut = audit(batches, Cuts(cuts.blocks, cuts.pieces, cuts.segments, damage), unindexed=unindexed, **options)
        assert cut.told == whole.told
    cut = audit(batches, Cuts(cuts.blocks, cuts.pieces, (), damage), unindexed=unindexed, **options)
    assert cut.told == whole.told


# What a leader refuses

RULES_OF = {
    InvalidProducerEpochError: {PRODUCER_EPOCH},
    OutOfOrderSequenceError: {SEQUENCE_GAP, SEQUENCE_TWICE, PRODUCER_EPOCH},
    InvalidTxnStateError: {TRANSACTION_WITHOUT_MARKER},
    TransactionCoordinatorFencedError: {COORDINATOR_EPOCH},
}


@settings(max_examples=examples(200))
@given(ACTS.filter(bool), ANYTHING, CUTS)
def test_what_a_leader_refuses_is_told_with_its_offset(
    acts: list[tuple[int, int, int, bool]],
    odd: tuple[int, str, int, int | None, int],
    cuts: Cuts,
) -> None:
    play = Play(forgets=False)
    for act in acts:
        play.take(*act)
    leader = play.leader
    producer_id, what, epoch_change, sequence_change, _ = odd
    known, offset = leader.known(producer_id), leader.next_offset
    epoch = max(known.producer_epoch + epoch_change, 0)
    if what in ("commit", "abort"):
        refused = leader.marker(producer_id, epoch, commit=False, coordinator_epoch=-(sequence_change or 0))
    else:
        first = 0 if sequence_change is None else (known.last_seq + 1 + sequence_change) & LAST_SEQUENCE
        refused = leader.data(producer_id, epoch, first, 2, transactional=what == "txn")
    if refused is None:
        return
    found = [rule for at, rule in audit(leader.batches, cuts).told if at == offset]
    assert RULES_OF[type(refused)] & set(found)


def test_sequences_that_are_missing() -> None:
    leader = Leader()
    leader.data(1, 0, 0, 10)
    leader.data(1, 0, 20, 10)
    leader.data(1, 0, 30, 10)
    assert faults_of(leader) == [(10, SEQUENCE_GAP)]


def test_sequences_that_come_twice() -> None:
    leader = Leader()
    leader.data(1, 0, 0, 10)
    leader.data(1, 0, 10, 10)
    leader.data(1, 0, 10, 10)
    leader.data(1, 0, 20, 10)
    assert faults_of(leader) == [(20, SEQUENCE_TWICE)]


def test_swapped_sequences_are_told_at_the_two_batches_and_not_behind_them() -> None:
    leader = Leader()
    for first in (0, 20, 10, 30, 40):
        leader.data(1, 0, first, 10)
    assert faults_of(leader) == [(10, SEQUENCE_GAP), (20, SEQUENCE_TWICE)]


def test_sequences_wrap() -> None:
    leader = Leader()
    leader.data(1, 0, LAST_SEQUENCE - 4, 3)
    leader.data(1, 0, LAST_SEQUENCE - 1, 4)
    leader.data(1, 0, 2, 1)
    assert faults_of(leader) == []
    leader.data(1, 0, LAST_SEQUENCE, 1)
    assert faults_of(leader) == [(8, SEQUENCE_TWICE)]


def test_an_epoch_that_falls_for_one_batch_is_one_finding() -> None:
    leader = Leader()
    leader.data(1, 3, 0, 2)
    leader.data(1, 2, 2, 2)
    leader.data(1, 3, 4, 2)
    assert faults_of(leader) == [(2, PRODUCER_EPOCH)]


def test_an_epoch_that_rises_for_one_batch_is_one_finding() -> None:
    leader = Leader()
    leader.data(1, 3, 0, 2, transactional=True)
    leader.data(1, 4, 2, 2, transactional=True)
    leader.data(1, 3, 4, 2, transactional=True)
    leader.marker(1, 3, commit=True)
    assert faults_of(leader) == [(2, PRODUCER_EPOCH)]


def test_an_epoch_may_rise_with_sequence_0_only() -> None:
    leader = Leader()
    leader.data(1, 0, 0, 2)
    leader.data(1, 1, 0, 2)
    assert faults_of(leader) == []
    leader.data(1, 2, 7, 2)
    assert faults_of(leader) == [(4, SEQUENCE_GAP)]


def test_a_marker_that_raises_the_epoch_begins_sequences_again() -> None:
    leader = Leader()
    leader.data(1, 0, 0, 2, transactional=True)
    leader.marker(1, 1, commit=True)
    leader.data(1, 1, 0, 2, transactional=True)
    leader.marker(1, 2, commit=False)
    assert faults_of(leader) == []
    leader.data(1, 2, 2, 2, transactional=True)
    assert faults_of(leader) == [(6, SEQUENCE_GAP)]


def test_a_marker_of_the_same_epoch_leaves_sequences_going() -> None:
    leader = Leader()
    leader.data(1, 0, 0, 2, transactional=True)
    leader.marker(1, 0, commit=True)
    leader.data(1, 0, 2, 2, transactional=True)
    assert faults_of(leader) == []
    leader.data(1, 0, 6, 1, transactional=True)
    assert faults_of(leader) == [(5, SEQUENCE_GAP)]


def test_a_producer_that_was_idle_for_a_day_may_come_back_with_anything() -> None:
    leader = Leader()
    leader.data(1, 5, 0, 2)
    leader.wait(DAY_MS)
    assert leader.data(1, 2, 70, 2) is None
    assert faults_of(leader) == []


# Damage and compaction


def test_nothing_is_judged_across_damage() -> None:
    leader = Leader()
    leader.data(1, 0, 0, 2, transactional=True)
    leader.data(2, 5, 0, 2)
    leader.data(1, 0, 9, 2, transactional=True)
    leader.data(2, 1, 7, 2)
    leader.marker(3, 0, commit=True)
    for pieces in ((), (2,), (1, 2, 3)):
        assert audit(leader.batches, Cuts(damage=[2], pieces=pieces)).told == []


def test_nothing_is_judged_across_missing_offsets() -> None:
    leader = Leader()
    leader.data(1, 0, 0, 2)
    leader.skip(2)
    leader.data(1, 0, 4, 2)
    leader.data(1, 0, 9, 2)
    assert audit(leader.batches).told == [(6, SEQUENCE_GAP)]


def test_compaction_takes_batches_but_makes_none_come_twice() -> None:
    leader = Leader()
    leader.data(1, 0, 0, 2)
    leader.skip(2)
    leader.data(1, 0, 4, 2)
    leader.data(1, 0, 4, 2)
    leader.data(1, 0, 9, 2)
    assert faults_of(leader, cleaned_to=9) == [(6, SEQUENCE_TWICE)]
    assert faults_of(leader, cleaned_to=8) == [(6, SEQUENCE_TWICE), (8, SEQUENCE_GAP)]


def test_the_log_is_no_witness_of_a_sequence_that_compaction_can_have_taken() -> None:
    leader = Leader()
    leader.data(3, 0, 0, 2, transactional=True)
    leader.skip(2)
    leader.marker(3, 0, commit=True)
    leader.data(4, 0, 0, 1)
    batches = leader.batches
    for cuts in (Cuts(), everywhere(batches)):
        assert set(audit(batches, cuts, cleaned_to=4, snapshots=[6]).states[6]) == {4}


# Many producers


@pytest.mark.parametrize("is_cut", [False, True])
def test_of_too_many_producers_those_are_remembered_that_matter(is_cut: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "MOST_PRODUCERS", 10)
    monkeypatch.setattr(stitching_producers, "MOST_KNOWN", 10)
    leader = Leader()
    leader.data(0, 0, 0, transactional=True)
    for producer_id in range(1, 200):
        leader.data(producer_id, 0, 0)
    leader.data(5, 0, 7)  # nobody can know any more that this is a gap
    leader.data(199, 0, 7)
    cuts = Cuts(blocks=range(0, 200, 3), pieces=range(0, 200, 40) if is_cut else ())
    found = audit(leader.batches, cuts, alive_ms=START_MS + DAY_MS).told
    # In a piece that forgot producers, the one with the open transaction may have been among them.
    assert found == [(201, SEQUENCE_GAP)] if is_cut else [(0, HANGING_TRANSACTION), (201, SEQUENCE_GAP)]


def test_seams_of_producers_that_just_go_on_are_small() -> None:
    leader = Leader()
    for number in range(1000):
        leader.data(number % 4, 0, number // 4)
    piece = AuditPiece(TopicPartition("t", 0), "/data/t-0", 0, None)
    rule = producers.ProducerRule(piece, lambda finding: pytest.fail(str(finding)))
    for first in range(0, 1000, 10):
        rule.block(block_of([batch.row for batch in leader.batches[first : first + 10]]))
    rule.end(1, is_whole=True, is_end_of_file=True)
    (stretch,) = rule.seams()
    assert [(len(seam.steps), seam.tail) for seam in stretch.producers.values()] == [(1, None)] * 4
    assert from_plain(ProducerStretch, to_plain(stretch)) == stretch
