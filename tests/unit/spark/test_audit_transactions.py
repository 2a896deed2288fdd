"""Transactions in an audit: markers, records and index entries that belong together, and those that hang."""

from __future__ import annotations

import pytest

from support.audit.producers import DAY_MS, START_MS, Cuts, Leader, audit, faults_of
from tailrace.model.internal_topics import CONSUMER_OFFSETS
from tailrace.spark.auditing.rules import (
    BAD_HEADER,
    COORDINATOR_EPOCH,
    HANGING_TRANSACTION,
    MARKER_WITHOUT_TRANSACTION,
    SEQUENCE_GAP,
    TRANSACTION_INDEX,
    TRANSACTION_WITHOUT_MARKER,
    UNINDEXED_ABORT,
)

MINUTE_MS = 60_000


def test_a_transaction_whose_marker_is_missing() -> None:
    leader = Leader()
    leader.data(1, 0, 0, 2, transactional=True)
    leader.data(1, 1, 0, 2, transactional=True)
    leader.marker(1, 2, commit=True)
    assert faults_of(leader) == [(2, TRANSACTION_WITHOUT_MARKER)]


def test_behind_a_missing_marker_the_next_transaction_begins_anew() -> None:
    leader = Leader()
    leader.data(1, 0, 0, 2, transactional=True)
    leader.data(1, 1, 0, 2, transactional=True)
    leader.marker(1, 1, commit=False)
    for begun in (0, 2):  # whatever the transaction index takes for its begin
        assert faults_of(leader, began={4: begun}) == [(2, TRANSACTION_WITHOUT_MARKER)]


def test_a_transaction_that_was_left_is_not_hanging_as_well() -> None:
    leader = Leader()
    leader.data(1, 0, 0, 2, transactional=True)
    leader.data(1, 0, 2, 2)
    assert faults_of(leader, alive_ms=START_MS + 60 * MINUTE_MS) == [(2, TRANSACTION_WITHOUT_MARKER)]


def test_what_compaction_took_before_a_log_was_copied() -> None:
    """Above the cleaner's point only offsets that are missing excuse sequences, data and markers that are."""
    copied = Leader()
    copied.data(1, 0, 0, 2)
    copied.data(2, 0, 0, 2, transactional=True)
    copied.skip(7)
    copied.data(1, 0, 5, 2)
    copied.marker(3, 0, commit=True)
    copied.data(2, 1, 0, transactional=True)
    assert faults_of(copied, is_compacted=True) == []
    tampered = Leader()
    tampered.skip(7)
    tampered.data(1, 0, 0, 2)
    tampered.data(2, 0, 0, 2, transactional=True)
    tampered.data(1, 0, 5, 2)
    tampered.data(2, 1, 0, transactional=True)
    assert faults_of(tampered, is_compacted=True) == [(11, SEQUENCE_GAP), (13, TRANSACTION_WITHOUT_MARKER)]


def test_a_gap_excuses_nothing_behind_it() -> None:
    leader = Leader()
    leader.data(1, 0, 0, 2)
    leader.skip(3)
    leader.plain()
    leader.data(1, 0, 7, 2)
    leader.plain()
    leader.data(1, 0, 20, 2)
    assert faults_of(leader, is_compacted=True) == [(9, SEQUENCE_GAP)]
    cuts = Cuts(segments=range(1, len(leader.batches)))
    assert audit(leader.batches, cuts, is_compacted=True).told == [(9, SEQUENCE_GAP)]


def test_data_without_transaction_inside_of_one() -> None:
    leader = Leader()
    leader.data(1, 0, 0, 2, transactional=True)
    leader.data(1, 0, 2, 2)
    leader.data(1, 0, 4, 2)
    assert faults_of(leader) == [(2, TRANSACTION_WITHOUT_MARKER)]


def test_a_commit_without_records_and_an_abort_without() -> None:
    leader = Leader()
    leader.plain(3)
    leader.marker(1, 0, commit=False)
    leader.marker(2, 0, commit=True)
    assert faults_of(leader) == [(4, MARKER_WITHOUT_TRANSACTION)]


def test_a_commit_may_be_repeated() -> None:
    leader = Leader()
    leader.data(1, 0, 0, 1, transactional=True)
    leader.marker(1, 0, commit=True, coordinator_epoch=1)
    leader.marker(1, 0, commit=True, coordinator_epoch=2)
    assert faults_of(leader) == []
    leader.marker(1, 1, commit=True, coordinator_epoch=2)
    assert faults_of(leader) == [(3, MARKER_WITHOUT_TRANSACTION)]


def test_a_commit_whose_records_retention_or_compaction_can_have_taken() -> None:
    leader = Leader()
    leader.next_offset = 5
    leader.marker(2, 0, commit=True)
    assert faults_of(leader) == []
    leader = Leader()
    leader.plain()
    leader.marker(2, 0, commit=True)
    assert faults_of(leader, cleaned_to=1) == []
    assert faults_of(leader, cleaned_to=0) == [(1, MARKER_WITHOUT_TRANSACTION)]


def test_a_coordinator_epoch_that_falls() -> None:
    leader = Leader()
    leader.data(1, 0, 0, 1, transactional=True)
    leader.marker(1, 0, commit=True, coordinator_epoch=4)
    leader.data(1, 0, 1, 1, transactional=True)
    leader.marker(1, 0, commit=True, coordinator_epoch=3)
    assert faults_of(leader) == [(3, COORDINATOR_EPOCH)]


def test_an_abort_that_the_index_does_not_name() -> None:
    leader = Leader()
    leader.data(1, 0, 0, 2, transactional=True)
    leader.marker(1, 0, commit=False)
    leader.marker(2, 0, commit=False)  # has no records: no index names it
    assert faults_of(leader) == []
    assert faults_of(leader, unindexed=[2, 3]) == [(2, UNINDEXED_ABORT)]
    assert audit(leader.batches, unindexed=[2]).findings[0].file.endswith("/00000000000000000000.txnindex")
    assert faults_of(leader, unindexed=[2, 3], cleaned_to=1) == []  # compaction wrote the index


def test_an_abort_that_the_index_lets_begin_elsewhere() -> None:
    leader = Leader()
    leader.plain(4)
    leader.data(1, 0, 0, 2, transactional=True)
    leader.data(1, 0, 2, 2, transactional=True)
    leader.marker(1, 0, commit=False)
    assert faults_of(leader, began={8: 4}) == []
    assert faults_of(leader, began={8: 6}) == [(8, TRANSACTION_INDEX)]


def test_data_without_sequence() -> None:
    """Which a leader refuses a client, and coordinators write into one topic only."""
    leader = Leader()
    for sequence in (0, 3, -1, 9):
        leader.data(1, 0, sequence, 3)
    leader.data(1, 0, 13, 3)
    assert faults_of(leader) == [(6, BAD_HEADER), (12, SEQUENCE_GAP)]
    assert faults_of(leader, topic=CONSUMER_OFFSETS) == []


def test_coordinators_write_no_sequences() -> None:
    leader = Leader()
    for _ in range(3):
        leader.data(1, 0, 0, 2, transactional=True)
    leader.marker(1, 0, commit=True)
    leader.data(1, 0, 0, 2)
    assert faults_of(leader, topic=CONSUMER_OFFSETS) == []
    leader.marker(1, 0, commit=True, coordinator_epoch=-1)
    assert faults_of(leader, topic=CONSUMER_OFFSETS) == [(9, COORDINATOR_EPOCH)]


# Hanging transactions


@pytest.mark.parametrize(("minutes", "is_told"), [(20, False), (21, True)])
def test_a_transaction_hangs_that_is_open_for_longer_than_any_may_be(minutes: int, is_told: bool) -> None:
    leader = Leader()
    leader.plain(3)
    leader.data(1, 0, 0, 2, transactional=True)
    leader.data(2, 0, 0, 2, transactional=True)
    leader.marker(2, 0, commit=True)
    found = faults_of(leader, alive_ms=START_MS + minutes * MINUTE_MS)
    assert found == ([(3, HANGING_TRANSACTION)] if is_told else [])


def test_a_transaction_at_the_high_watermark_or_behind_damage_is_not_known_to_hang() -> None:
    leader = Leader()
    leader.data(1, 0, 0, 2, transactional=True)
    leader.plain(3)
    late_ms = START_MS + DAY_MS
    assert audit(leader.batches, Cuts(damage=[1]), alive_ms=late_ms).told == []
    assert audit(leader.batches, alive_ms=late_ms).told == [(0, HANGING_TRANSACTION)]


def test_a_transaction_of_records_of_long_ago_is_as_young_as_a_marker_before_it() -> None:
    leader = Leader()
    leader.data(1, 0, 0, 2, transactional=True)
    leader.now_ms += DAY_MS
    leader.marker(2, 0, commit=False)
    leader.now_ms -= DAY_MS
    late_ms = START_MS + DAY_MS + 9 * MINUTE_MS
    assert faults_of(leader, alive_ms=late_ms) == [(0, HANGING_TRANSACTION)]
    leader.data(1, 0, 2, 2, transactional=True)
    assert faults_of(leader, alive_ms=late_ms) == []
    leader.now_ms += DAY_MS
    leader.marker(1, 0, commit=True)
    leader.now_ms -= DAY_MS
    leader.data(1, 0, 4, 2, transactional=True)
    assert faults_of(leader, alive_ms=late_ms) == []
