"""Which records of a partition a share group's members hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.share_records import Acknowledgement, Acquired, Rules, ShareRecords, Transition, Want
from tailrace.coordinator.share_state.batches import DeliveryState, StateBatch
from tailrace.model.errors import InconsistentMetadataError, InvalidRecordStateError, RefusedRequestError

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
RULES = Rules(max_locks=2000, delivery_limit=5)
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = DeliveryState


def want(member: str = "m", most: int = 500, *, size: int = 500, exact: bool = False, until: int = 30) -> Want:
    return Want(member, most, size, exact, until)


def taken(records: ShareRecords, *found: tuple[int, int], rules: Rules = RULES, **fields: object) -> list[Acquired]:
    return records.acquire(want(**fields), rules, records.next_offset(), found)  # type: ignore[arg-type]


def acknowledged(records: ShareRecords, first: int, last: int, *types: int, member: str = "m") -> Transition:
    transition = records.acknowledge(member, [Acknowledgement(first, last, types)], RULES, 100)
    records.complete(transition)
    return transition


def states(records: ShareRecords) -> list[tuple[int, int, str, int]]:
    return [(run.first, run.last, run.state.name, run.delivery_count) for run in records.runs]


def holders(records: ShareRecords) -> set[str]:
    return {run.holder for run in records.runs if run.state is ACQUIRED}


# Acquiring


def test_new_records_are_given_in_whole_batches_of_the_log() -> None:
    records = ShareRecords(0)
    assert taken(records, (0, 4), (5, 9), (10, 14), most=7) == [(0, 9, 1)]
    assert (records.start, records.end, records.next_offset()) == (0, 10, 10)


def test_a_record_limit_is_kept_to_the_record() -> None:
    records = ShareRecords(0)
    assert taken(records, (0, 9), most=3, exact=True) == [(0, 2, 1)]
    assert states(records) == [(0, 2, "ACQUIRED", 1), (3, 9, "AVAILABLE", 0)]
    assert taken(records, (0, 9), most=3, exact=True) == [(3, 5, 1)]
    assert taken(records, (0, 9), (10, 19), most=6, exact=True) == [(6, 9, 1), (10, 11, 1)]


def test_what_is_given_is_told_in_batches_of_the_size_asked_for() -> None:
    assert taken(ShareRecords(0), (0, 3), (4, 7), (8, 11), (12, 15), size=6) == [(0, 7, 1), (8, 15, 1)]
    assert taken(ShareRecords(0), (0, 3), (4, 7), size=1) == [(0, 3, 1), (4, 7, 1)]


def test_reading_begins_in_the_middle_of_a_batch_where_the_group_does() -> None:
    assert taken(ShareRecords(7), (5, 9)) == [(7, 9, 1)]


def test_the_start_moves_to_the_first_record_that_is_there() -> None:
    records = ShareRecords(3)
    assert taken(records, (10, 12)) == [(10, 12, 1)]
    assert records.start == 10


def test_nobody_gets_what_somebody_holds() -> None:
    records = ShareRecords(0)
    taken(records, (0, 9), member="a")
    assert taken(records, (0, 9), (10, 19), member="b") == [(10, 19, 1)]
    assert holders(records) == {"a", "b"}


def test_no_more_records_than_locks() -> None:
    records, rules = ShareRecords(0), Rules(10, 5)
    assert taken(records, (0, 99), rules=rules, exact=True) == [(0, 9, 1)]
    assert records.end == 100  # a batch counts as a whole
    acknowledged(records, 4, 5, RELEASE)
    assert records.can_acquire(rules)
    assert taken(records, (0, 99), rules=rules, exact=True, most=3)[0] == (4, 5, 2)
    full = ShareRecords(0)
    taken(full, (0, 9), rules=rules)
    assert not full.can_acquire(rules)
    assert full.acquire(want(), rules, 10, [(10, 19)]) == []


def test_a_gap_that_compaction_left_is_done_with() -> None:
    records = ShareRecords(0)
    taken(records, (0, 4))
    assert taken(records, (10, 14)) == [(10, 14, 1)]
    acknowledged(records, 0, 14, ACCEPT)
    assert (records.start, records.end, records.runs) == (15, 15, [])


def test_records_that_are_gone_when_they_should_be_given_again_are_given_up() -> None:
    records = ShareRecords(0)
    taken(records, (0, 4), (5, 9))
    acknowledged(records, 0, 9, RELEASE)
    assert taken(records, (5, 9)) == [(5, 9, 2)]
    assert records.start == 5


def test_records_of_aborted_transactions_are_taken_back() -> None:
    records = ShareRecords(0)
    given = taken(records, (0, 2), (3, 5), (6, 8))
    assert records.withdraw(given, [(3, 5)]) == [(0, 2, 1), (6, 8, 1)]
    assert records.withdraw([Acquired(0, 2, 1), Acquired(6, 8, 1)], [(0, 2)]) == [(6, 8, 1)]
    assert records.start == 6


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(1, 8), st.integers(0, 9), st.data())
def test_exactly_the_aborted_records_are_taken_back(
    aborted: list[bool], size: int, start: int, data: st.DataObject
) -> None:
    """Batches of any size, some of them held by others, and some of aborted transactions."""
    records = ShareRecords(start)
    bounds = [(2 * at, 2 * at + 1) for at in range(len(aborted))]
    taken(records, *bounds, member="other", most=5, exact=True)
    for held in data.draw(st.lists(st.integers(start, start + 4), unique=True)):
        if held < records.end:
            acknowledged(records, held, held, RELEASE, member="other")
    got = records.acquire(want(size=size), RULES, records.next_offset(), bounds)
    gone = [bound for bound, is_aborted in zip(bounds, aborted, strict=True) if is_aborted]
    kept = records.withdraw(got, gone)
    before = {offset for each in got for offset in range(each.first, each.last + 1)}
    left = {offset for each in kept for offset in range(each.first, each.last + 1)}
    assert left == {offset for offset in before if not aborted[offset // 2]}
    assert {offset for run in records.runs if run.holder == "m" for offset in range(run.first, run.last + 1)} == left


# Acknowledging


def test_the_start_follows_what_is_done_with_from_the_beginning_on() -> None:
    records = ShareRecords(0)
    taken(records, (0, 9))
    acknowledged(records, 5, 9, ACCEPT)
    assert (records.start, records.complete_count) == (0, 5)
    acknowledged(records, 0, 3, REJECT)
    assert (records.start, records.complete_count) == (4, 5)
    acknowledged(records, 4, 4, ACCEPT)
    assert (records.start, records.end, records.runs) == (10, 10, [])


def test_each_record_may_have_its_own_acknowledgement() -> None:
    records = ShareRecords(0)
    taken(records, (0, 5))
    transition = acknowledged(records, 0, 5, ACCEPT, RELEASE, REJECT, GAP, GAP, ACCEPT)
    assert transition.runs
    assert records.start == 1
    assert states(records) == [(1, 1, "AVAILABLE", 1), (2, 4, "ARCHIVED", 1), (5, 5, "ACKNOWLEDGED", 1)]


def test_what_is_written_is_told_in_stretches() -> None:
    records = ShareRecords(0)
    taken(records, (0, 5))
    transition = records.acknowledge("m", [Acknowledgement(0, 5, [1, 1, 2, 2, 1, 1])], RULES, 0)
    assert transition.batches == (
        StateBatch(0, 1, ACKNOWLEDGED, 1),
        StateBatch(2, 3, AVAILABLE, 1),
        StateBatch(4, 5, ACKNOWLEDGED, 1),
    )


def test_released_records_come_again_and_count() -> None:
    records = ShareRecords(0)
    taken(records, (0, 9))
    acknowledged(records, 3, 4, RELEASE)
    assert records.next_offset() == 3
    assert taken(records, (0, 9), member="b") == [(3, 4, 2)]


def test_a_record_is_given_up_after_so_many_deliveries() -> None:
    records, rules = ShareRecords(0), Rules(2000, 2)
    for _ in range(2):
        taken(records, (0, 0), rules=rules)
        transition = records.acknowledge("m", [Acknowledgement(0, 0, [RELEASE])], rules, 0)
        records.complete(transition)
    assert transition.batches == (StateBatch(0, 0, ARCHIVED, 2),)
    assert records.start == 1


def test_nothing_changes_before_it_is_written() -> None:
    records = ShareRecords(0)
    taken(records, (0, 9))
    transition = records.acknowledge("m", [Acknowledgement(0, 9, [RELEASE])], RULES, 0)
    assert records.next_offset() == 10
    with pytest.raises(InvalidRecordStateError):
        records.acknowledge("m", [Acknowledgement(0, 9, [ACCEPT])], RULES, 0)
    assert records.expire(RULES, 1000) == ()
    records.complete(transition)
    assert records.next_offset() == 0


def test_what_could_not_be_written_is_held_as_before_unless_the_lock_has_ended() -> None:
    records = ShareRecords(0)
    taken(records, (0, 9))
    records.roll_back(records.acknowledge("m", [Acknowledgement(0, 4, [ACCEPT])], RULES, 0), RULES, now_ms=10)
    assert holders(records) == {"m"}
    assert records.next_offset() == 10
    records.roll_back(records.acknowledge("m", [Acknowledgement(0, 4, [ACCEPT])], RULES, 0), RULES, now_ms=30)
    assert records.next_offset() == 0


def test_a_record_that_is_given_up_when_nothing_can_be_written_is_left_behind() -> None:
    records, rules = ShareRecords(0), Rules(max_locks=2000, delivery_limit=1)
    taken(records, (0, 0), rules=rules)
    records.roll_back(records.acknowledge("m", [Acknowledgement(0, 0, [ACCEPT])], rules, 0), rules, now_ms=30)
    assert (records.start, records.runs) == (1, [])


@pytest.mark.parametrize(
    ("first", "last", "member", "error"),
    [
        (0, 9, "b", InvalidRecordStateError),
        (8, 12, "m", RefusedRequestError),
        (20, 21, "m", RefusedRequestError),
        (0, 4, "m", None),
    ],
)
def test_only_the_holder_may_speak_of_records(first: int, last: int, member: str, error: type | None) -> None:
    records = ShareRecords(0)
    taken(records, (0, 9))
    if error is None:
        acknowledged(records, first, last, ACCEPT, member=member)
    else:
        with pytest.raises(error):
            acknowledged(records, first, last, ACCEPT, member=member)
        assert states(records) == [(0, 9, "ACQUIRED", 1)]


def test_one_wrong_acknowledgement_undoes_the_others() -> None:
    records = ShareRecords(0)
    taken(records, (0, 4))
    taken(records, (5, 9), member="b")
    said = [Acknowledgement(0, 4, [ACCEPT]), Acknowledgement(5, 5, [ACCEPT])]
    with pytest.raises(InvalidRecordStateError):
        records.acknowledge("m", said, RULES, 0)
    twice = [Acknowledgement(0, 2, [ACCEPT]), Acknowledgement(2, 3, [ACCEPT])]
    with pytest.raises(InvalidRecordStateError):
        records.acknowledge("m", twice, RULES, 0)
    assert all(run.next is None for run in records.runs)


def test_what_was_done_with_long_ago_may_be_acknowledged_again() -> None:
    records = ShareRecords(0)
    taken(records, (0, 9))
    acknowledged(records, 0, 4, ACCEPT)
    assert acknowledged(records, 0, 3, ACCEPT).runs == []
    acknowledged(records, 2, 9, ACCEPT)
    assert records.start == 10
    with pytest.raises(InvalidRecordStateError):
        acknowledged(records, 10, 11, ACCEPT)


def test_a_lock_may_be_renewed() -> None:
    records = ShareRecords(0)
    taken(records, (0, 9), until=30)
    assert acknowledged(records, 0, 4, RENEW).runs == []
    assert records.expire(RULES, 30) == (StateBatch(5, 9, AVAILABLE, 1),)
    assert records.next_deadline_ms() == 100


# Locks and members that end


def test_what_is_held_for_too_long_comes_again() -> None:
    records = ShareRecords(0)
    taken(records, (0, 4), until=30)
    taken(records, (5, 9), until=40)
    assert records.next_deadline_ms() == 30
    assert records.expire(RULES, 29) == ()
    assert records.expire(RULES, 30) == (StateBatch(0, 4, AVAILABLE, 1),)
    assert records.next_deadline_ms() == 40


def test_what_a_member_holds_that_is_gone_goes_to_others() -> None:
    records = ShareRecords(0)
    taken(records, (0, 4))
    taken(records, (5, 9), member="b")
    transition = records.release("m", RULES)
    assert transition.batches == (StateBatch(0, 4, AVAILABLE, 1),)
    records.complete(transition)
    assert taken(records, (0, 4), member="c") == [(0, 4, 2)]
    assert records.release("c", Rules(2000, 2)).batches == (StateBatch(0, 4, ARCHIVED, 2),)


def test_records_that_fail_again_and_again_come_in_ever_smaller_numbers() -> None:
    records = ShareRecords(0)
    sizes = []
    for _ in range(4):
        (given,) = taken(records, (0, 15))
        sizes.append(given.last - given.first + 1)
        records.expire(RULES, 30)
    assert sizes == [16, 16, 16, 8]
    (given,) = taken(records, (0, 15))
    assert (given.first, given.last, given.delivery_count) == (0, 0, 5)  # the last time: alone


# The log and the state


def test_a_log_that_has_lost_its_beginning_takes_it_from_the_group_too() -> None:
    records = ShareRecords(0)
    taken(records, (0, 4))
    taken(records, (5, 9), member="b")
    transition = records.acknowledge("m", [Acknowledgement(0, 4, [ACCEPT])], RULES, 0)
    records.log_starts_at(7)
    records.complete(transition)
    assert (records.start, records.end, states(records)) == (7, 10, [(7, 9, "ACQUIRED", 1)])
    assert acknowledged(records, 5, 9, ACCEPT, member="b").runs
    records.log_starts_at(50)
    assert (records.start, records.end) == (50, 50)


def test_what_the_state_does_not_tell_of_is_given_again() -> None:
    batches = [StateBatch(0, 1, ACKNOWLEDGED, 1), StateBatch(4, 5, ACKNOWLEDGED, 2), StateBatch(8, 9, AVAILABLE, 3)]
    records = ShareRecords(0, batches)
    assert states(records) == [
        (2, 3, "AVAILABLE", 0),
        (4, 5, "ACKNOWLEDGED", 2),
        (6, 7, "AVAILABLE", 0),
        (8, 9, "AVAILABLE", 3),
    ]
    assert (records.start, records.end) == (2, 10)


@pytest.mark.parametrize(
    "batches",
    [
        [StateBatch(4, 5, 0, 1)],
        [StateBatch(5, 9, 0, 1), StateBatch(9, 12, 0, 1)],
        [StateBatch(9, 5, 0, 1)],
        [StateBatch(5, 6, 1, 1)],
        [StateBatch(5, 6, 77, 1)],
    ],
)
def test_a_state_that_contradicts_itself_is_refused(batches: list[StateBatch]) -> None:
    with pytest.raises(InconsistentMetadataError):
        ShareRecords(5, batches)
