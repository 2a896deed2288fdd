"""The process dies at any one of its file operations, in the middle of a transaction: it is all there, or not at all.

A transaction of two partitions and a group's offset, ended, with the next one behind it; killed at the first operation,
the second, and so on, before it, after it, or in the middle of a write.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress

import pytest

from support.brokers.simulated import SimBroker
from support.clients.sim_transactions import FEW_PARTITIONS, SimProducer, committed_offset, fetch_committed
from tailrace.coordinator.transactions.state import TransactionState
from tailrace.sim.faults import CrashPoint, SimulatedCrash

TOPIC, GROUP, NAME = "orders", "copiers", "mine"
OFFSET = 42
STEPS = (
    13  # an initialisation, three partitions with what is written to them, a decision, three markers, the completion
)


def furnished() -> SimBroker:
    broker = SimBroker(**FEW_PARTITIONS).start()
    broker.client().create_topic(TOPIC, 2)
    writer = SimProducer(broker.client(), NAME, is_new=True)
    assert writer.initialise() == 0
    assert writer.commit_offset(GROUP, TOPIC, 1) == 0  # which makes the offsets topic
    assert writer.end(commit=False) == 0
    return broker


def life_of_a_producer(broker: SimBroker, is_new: bool, commit: bool, said: list[str]) -> None:
    writer = SimProducer(broker.client(), NAME, is_new=is_new)
    assert writer.initialise() == 0
    assert writer.write(TOPIC, 0, 2) == 0
    assert writer.write(TOPIC, 1, 1) == 0
    assert writer.commit_offset(GROUP, TOPIC, OFFSET) == 0
    said.append("ends")
    assert writer.end(commit=commit) == 0
    said.append("ended")
    assert writer.write(TOPIC, 0, 1) == 0


def crashed(is_new: bool, commit: bool, after: int, point: CrashPoint) -> tuple[SimBroker, list[str], bool]:
    """A broker that was killed `after` so many file operations; whether it was."""
    broker = furnished()
    said: list[str] = []
    disk = broker.disk
    disk.crash_at(disk.ops + after, point)
    with suppress(SimulatedCrash):
        life_of_a_producer(broker, is_new, commit, said)
        return broker, said, False
    broker.kill()
    broker.start()
    broker.pass_time(200)
    return broker, said, True


def crashes(is_new: bool, commit: bool, point: CrashPoint) -> Iterator[tuple[SimBroker, list[str]]]:
    """One after each number of operations, until there are no more."""
    for after in itertools.count(1):
        broker, said, was_killed = crashed(is_new, commit, after, point)
        if not was_killed:
            assert after > STEPS, "each step writes at least one record"
            return
        yield broker, said


@pytest.mark.spec("CO-08")
@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("point", CrashPoint)
def test_a_crash_at_any_operation(is_new: bool, commit: bool, point: CrashPoint) -> None:
    for broker, said in crashes(is_new, commit, point):
        reader = broker.client()
        (state,) = (each for each in broker.node.transactions.machines() if each.transactions)
        assert not state.transactions[NAME].state.is_prepared, "what was decided has been carried out"
        heir = SimProducer(broker.client(), NAME, is_new=is_new)
        while (code := heir.initialise()) == 51:
            broker.pass_time(100)
        assert code == 0
        one, two = (fetch_committed(reader, TOPIC, partition=partition) for partition in (0, 1))
        assert one.last_stable_offset == one.high_watermark
        assert two.last_stable_offset == two.high_watermark
        seen = (len(one.offsets), len(two.offsets), committed_offset(reader, GROUP, TOPIC))
        nothing, everything = (0, 0, -1), (2, 1, OFFSET)
        if "ended" in said:
            assert seen == (everything if commit else nothing)
        elif "ends" in said and commit:
            assert seen in (nothing, everything)
        else:
            assert seen == nothing
        assert heir.write(TOPIC, 1, 1) == 0
        assert heir.end(commit=True) == 0
        assert len(fetch_committed(reader, TOPIC, partition=1).offsets) == seen[1] + 1


@pytest.mark.spec("CO-07")
def test_no_epoch_is_given_twice() -> None:
    """Also where nobody has heard of one."""
    for broker, _ in crashes(True, True, CrashPoint.AFTER):
        seen = set()
        for _ in range(3):
            heir = SimProducer(broker.client(), NAME, is_new=True)
            while (code := heir.initialise()) == 51:
                broker.pass_time(100)
            assert code == 0
            assert (heir.id, heir.epoch) not in seen
            seen.add((heir.id, heir.epoch))
        (state,) = (each for each in broker.node.transactions.machines() if each.transactions)
        assert state.transactions[NAME].state is TransactionState.EMPTY
