"""The ISR while a change is on its way: an expansion counts at once, a shrinking only when it is committed."""

from __future__ import annotations

import pytest
from replicas import Led

from tailrace.model.invariant import InvariantError
from tailrace.replication.isr_state import Committed

ISR = Committed(frozenset({1, 2}))


@pytest.mark.spec("RP-06")
def test_the_committed_isr_is_the_maximal_one() -> None:
    assert (ISR.maximal_isr, ISR.is_in_flight) == ({1, 2}, False)


@pytest.mark.spec("RP-06")
def test_a_pending_expansion_counts_in_the_maximal_isr() -> None:
    pending = ISR.expanded_by(3)
    assert (pending.isr, pending.maximal_isr, pending.proposed) == ({1, 2}, {1, 2, 3}, {1, 2, 3})
    assert pending.is_in_flight
    assert pending.committed is ISR


@pytest.mark.spec("RP-06")
def test_a_pending_shrinking_does_not() -> None:
    pending = ISR.shrunk_by([2])
    assert (pending.isr, pending.maximal_isr, pending.proposed) == ({1, 2}, {1, 2}, {1})
    assert pending.is_in_flight
    assert pending.committed is ISR


def test_changes_that_make_no_sense_are_bugs() -> None:
    with pytest.raises(InvariantError):
        ISR.expanded_by(2)
    for replicas in ([], [3], [1, 2]):
        with pytest.raises(InvariantError):
            ISR.shrunk_by(replicas)


@pytest.mark.spec("RP-06")
def test_the_high_watermark_waits_for_a_replica_that_is_about_to_join() -> None:
    led = Led((1, 2, 3), isr=(1, 2))
    led.append(10)
    committed = led.partition.isr_state
    assert isinstance(committed, Committed)
    led.brokers[3] = led.brokers[3].__class__(3, 10, bytes(16), is_fenced=True)  # it may not join by itself
    led.reported(3, 4)
    led.partition.change_isr(committed.expanded_by(3))
    led.reported(2, 10)
    assert led.high_watermark == 4
    led.partition.change_isr(committed)  # the controller refuses
    assert led.high_watermark == 10


@pytest.mark.spec("RP-06")
def test_the_high_watermark_waits_for_a_replica_that_is_about_to_leave() -> None:
    led = Led((1, 2, 3))
    led.append(10)
    committed = led.partition.isr_state
    assert isinstance(committed, Committed)
    led.reported(2, 10)
    led.reported(3, 6)
    led.clock.advance(40_000)
    pending = committed.shrunk_by([3])
    led.partition.change_isr(pending)
    assert led.high_watermark == 6
    led.partition.change_isr(Committed(pending.proposed))
    assert led.high_watermark == 10
    assert led.moves
