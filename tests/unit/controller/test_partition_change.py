"""Leaders, ISR and ELR of one partition when something around it changes: pure, with brokers as a set of ids."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from tailrace.controller.partition_change import ChangeRules, Election, PartitionChange
from tailrace.metadata.partition_registration import NO_LEADER, PartitionRegistration
from tailrace.protocol.records.topics import PartitionChangeRecord

DIRECTORY = b"d" * 16


def partition(
    isr: list[int], leader: int, replicas: tuple[int, ...] = (1, 2, 3), **fields: object
) -> PartitionRegistration:
    return PartitionRegistration(  # type: ignore[misc]
        replicas=replicas, isr=tuple(isr), leader=leader, directories=(DIRECTORY,) * len(replicas), **fields
    )


def change(
    before: PartitionRegistration, alive: set[int], *, min_isr: int = 1, has_elr: bool = False, level: int = 30
) -> PartitionChange:
    rules = ChangeRules(level, alive.__contains__, lambda _: DIRECTORY, min_isr, has_elr)
    return PartitionChange(b"t" * 16, 0, before, rules)


def after(made: PartitionChange, before: PartitionRegistration) -> PartitionRegistration:
    record = made.record()
    assert record is not None
    assert isinstance(record.record, PartitionChangeRecord)
    return before.merged(record.record)


def test_nothing_changes() -> None:
    assert change(partition([1, 2], 1), {1, 2, 3}).record() is None


@pytest.mark.spec("RP-02")
def test_a_leader_that_goes_is_followed_by_the_next_in_sync() -> None:
    before = partition([1, 3], 1)
    made = change(before, {2, 3})
    made.without([1])
    now = after(made, before)
    assert (now.leader, now.isr, now.leader_epoch, now.partition_epoch) == (3, (3,), 1, 1)
    assert not now.is_recovering


@pytest.mark.spec("RP-02")
def test_a_follower_that_goes_leaves_the_leader_epoch() -> None:
    before = partition([1, 2], 1)
    made = change(before, {1, 3})
    made.without([2])
    now = after(made, before)
    assert (now.leader, now.isr, now.leader_epoch, now.partition_epoch) == (1, (1,), 0, 1)
    old = change(before, {1, 3}, level=11)
    old.without([2])
    assert after(old, before).leader_epoch == 1  # brokers of that time rely on it


@pytest.mark.spec("RP-38")
def test_without_anybody_in_sync_there_is_no_leader_but_the_isr_stays() -> None:
    before = partition([1], 1)
    made = change(before, {2, 3})
    made.without([1])
    gone = after(made, before)
    assert (gone.leader, gone.isr) == (NO_LEADER, (1,))
    assert change(gone, {2, 3}).record() is None
    back = after(change(gone, {1, 2, 3}), gone)
    assert (back.leader, back.isr, back.is_recovering) == (1, (1,), False)


def test_an_unclean_election_takes_any_and_marks_it() -> None:
    gone = partition([1], NO_LEADER)
    made = change(gone, {2, 3})
    made.election = Election.UNCLEAN
    now = after(made, gone)
    assert (now.leader, now.isr, now.is_recovering) == (2, (2,), True)
    made = change(gone, {1, 2, 3})
    made.election = Election.UNCLEAN
    now = after(made, gone)
    assert (now.leader, now.is_recovering) == (1, False)  # not needed: somebody in sync is there
    made = change(gone, set())
    made.election = Election.UNCLEAN
    assert made.record() is None


@pytest.mark.spec("RP-38")
def test_the_preferred_leader_comes_back() -> None:
    before = partition([2, 1], 2)
    made = change(before, {1, 2})
    made.election = Election.PREFERRED
    assert after(made, before).leader == 1
    made = change(before, {2})
    made.election = Election.PREFERRED
    assert made.record() is None
    out_of_sync = partition([2], 2)
    made = change(out_of_sync, {1, 2})
    made.election = Election.PREFERRED
    assert made.record() is None


# Eligible leader replicas


def test_who_leaves_below_the_minimum_is_eligible() -> None:
    before = partition([1, 2], 1)
    made = change(before, {1, 3}, min_isr=2, has_elr=True)
    made.without([2])
    now = after(made, before)
    assert (now.isr, now.elr, now.leader) == ((1,), (2,), 1)
    made = change(now, {3}, min_isr=2, has_elr=True)
    made.without([1])
    none = after(made, now)
    assert (none.isr, set(none.elr), none.leader, none.last_known_elr) == ((), {1, 2}, NO_LEADER, (1,))
    back = after(change(none, {2}, min_isr=2, has_elr=True), none)
    assert (back.isr, back.elr, back.leader, back.last_known_elr) == ((2,), (1,), 2, ())
    assert not back.is_recovering


def test_the_elr_goes_when_enough_are_in_sync() -> None:
    before = partition([1], 1, elr=(2,))
    made = change(before, {1, 2, 3}, min_isr=2, has_elr=True)
    made.isr = [1, 3]
    assert after(made, before).elr == ()


def test_as_kafka_was_seen_to_do_it_with_one_replica() -> None:
    running = partition([1], 1, replicas=(1,))
    made = change(running, set(), has_elr=True)
    made.without([1])
    down = after(made, running)
    assert (down.isr, down.leader, down.elr, down.last_known_elr) == ((), NO_LEADER, (1,), (1,))
    clean = after(change(down, {1}, has_elr=True), down)
    assert (clean.isr, clean.leader, clean.elr, clean.last_known_elr) == ((1,), 1, (), ())
    assert not clean.is_recovering
    made = change(down, set(), has_elr=True)
    made.unclean_shutdown = frozenset({1})
    made.without([1])
    lost = after(made, down)
    assert (lost.isr, lost.elr, lost.last_known_elr) == ((), (), (1,))
    assert change(lost, set(), has_elr=True).record() is None
    unclean = after(change(lost, {1}, has_elr=True), lost)
    assert (unclean.isr, unclean.leader, unclean.last_known_elr, unclean.is_recovering) == ((1,), 1, (), True)


def test_an_unclean_election_empties_the_elr() -> None:
    """Its members have records that the new leader lacks: none of them may lead without another unclean election."""
    gone = partition([], NO_LEADER, elr=(1, 2), last_known_elr=(1,))
    made = change(gone, {3}, min_isr=2, has_elr=True)
    made.election = Election.UNCLEAN
    now = after(made, gone)
    assert (now.leader, now.isr, now.elr, now.is_recovering) == (3, (3,), (), True)


@pytest.mark.spec("RP-16")
def test_the_last_leader_is_known_though_the_isr_became_empty_later() -> None:
    """The leader restarts after an unclean shutdown while the rest of the ISR is down, then that restarts uncleanly."""
    before = partition([1, 2], 1)
    made = change(before, set(), has_elr=True)
    made.unclean_shutdown = frozenset({1})
    made.without([1])
    offline = after(made, before)
    assert (offline.leader, offline.isr, offline.last_known_elr) == (NO_LEADER, (2,), (1,))
    made = change(offline, set(), has_elr=True)
    made.unclean_shutdown = frozenset({2})
    made.without([2])
    lost = after(made, offline)
    assert (lost.leader, lost.isr, lost.elr, lost.last_known_elr) == (NO_LEADER, (), (), (1,))
    back = after(change(lost, {1, 2}, has_elr=True), lost)
    assert (back.leader, back.isr, back.last_known_elr, back.is_recovering) == (1, (1,), (), True)


def test_a_partition_without_leader_has_none_to_remember() -> None:
    """The leader epoch goes up because a replica leaves the assignment, though there is no leader before or after."""
    before = partition([], NO_LEADER, replicas=(3, 1, 2), removing_replicas=(2,))
    made = change(before, set(), has_elr=True)
    made.replicas, made.removing = [3, 1], []
    now = after(made, before)
    assert (now.leader, now.leader_epoch, now.last_known_elr) == (NO_LEADER, 1, ())


def test_replicas_that_leave_the_assignment_are_not_eligible() -> None:
    """Else they would keep the last known leader from being elected, and could not be elected themselves."""
    before = partition([1, 2], 1, replicas=(3, 1, 2), adding_replicas=(3,), removing_replicas=(1, 2))
    made = change(before, {1, 2, 3}, min_isr=2, has_elr=True)
    made.isr = [1, 2, 3]
    done = after(made, before)
    assert (done.replicas, done.isr, done.elr) == ((3,), (3,), ())


def test_of_several_last_known_leaders_none_is_elected() -> None:
    gone = partition([], NO_LEADER, last_known_elr=(1, 2))
    assert change(gone, {1, 2}, has_elr=True).record() is None


# Reassignment


def test_a_reassignment_ends_when_the_new_replicas_are_in_sync() -> None:
    before = partition([1, 2], 1, replicas=(3, 4, 1, 2), adding_replicas=(3, 4), removing_replicas=(1, 2))
    made = change(before, {1, 2, 3, 4})
    made.isr = [1, 2, 3]
    under_way = after(made, before)
    assert under_way.replicas == (3, 4, 1, 2)
    made = change(before, {1, 2, 3, 4})
    made.isr = [1, 2, 3, 4]
    done = after(made, before)
    assert (done.replicas, done.isr, done.leader) == ((3, 4), (3, 4), 3)
    assert (done.adding_replicas, done.removing_replicas) == ((), ())
    assert done.directories == (DIRECTORY, DIRECTORY)


def test_who_leaves_the_assignment_is_fenced_by_a_new_epoch() -> None:
    before = partition([1, 2], 1)
    made = change(before, {1, 2, 3})
    made.replicas = [1, 2]
    now = after(made, before)
    assert (now.leader, now.leader_epoch, now.replicas) == (1, 1, (1, 2))


@st.composite
def situations(draw: st.DrawFn) -> tuple[PartitionRegistration, set[int], set[int], bool, int, Election]:
    replicas = draw(st.permutations([1, 2, 3, 4]))[: draw(st.integers(1, 4))]
    isr = draw(st.lists(st.sampled_from(replicas), unique=True))
    leader = draw(st.sampled_from([*isr, NO_LEADER]))
    has_elr = draw(st.booleans())
    rest = [each for each in replicas if each not in isr]
    elr = draw(st.lists(st.sampled_from(rest), unique=True)) if rest and has_elr else []
    last_known = (draw(st.sampled_from(replicas)),) if leader == NO_LEADER and has_elr else ()
    before = partition(isr, leader, tuple(replicas), elr=tuple(elr), last_known_elr=last_known)
    leaving = draw(st.sets(st.sampled_from([1, 2, 3, 4])))
    alive = draw(st.sets(st.sampled_from([1, 2, 3, 4]))) - leaving
    return before, leaving, alive, has_elr, draw(st.integers(1, 3)), draw(st.sampled_from(list(Election)))


@settings(max_examples=examples(300))
@given(situations())
def test_what_always_holds(
    situation: tuple[PartitionRegistration, set[int], set[int], bool, int, Election],
) -> None:
    before, leaving, alive, has_elr, min_isr, election = situation
    made = change(before, alive, has_elr=has_elr, min_isr=min_isr)
    made.election = election
    made.without(leaving)
    record = made.record()
    now = before if record is None else before.merged(record.record)  # type: ignore[arg-type]
    assert set(now.isr) <= set(now.replicas)
    assert set(now.elr) <= set(now.replicas) - set(now.isr)
    assert set(now.last_known_elr) <= set(now.replicas)
    if now.has_leader:
        assert now.leader in now.isr
        assert now.leader in alive
    clean = (set(before.isr) - leaving) or set(before.elr) | (set(before.isr) if has_elr else set())
    if now.has_leader and now.leader not in clean and not before.is_recovering:
        assert now.is_recovering
        assert now.isr == (now.leader,)
    if not (set(before.isr) - leaving) and not has_elr and not now.has_leader:
        assert now.isr == before.isr  # the last in sync are remembered
