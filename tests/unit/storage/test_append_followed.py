"""Sets of producers with ids in one append: those that simply follow share a write, and nothing else can be told."""

from __future__ import annotations

import errno
from itertools import islice
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import DIRECTORY, SimLog, batch, bytes_of, holds, in_transaction, marker, produced_by, with_config

from tailrace.model.errors import OutOfOrderSequenceError, StorageError
from tailrace.storage.append import AppendResult
from tailrace.storage.origin import Origin

LOG_FILE = f"{DIRECTORY}/00000000000000000000.log"
LAST_SEQUENCE = 2**31 - 1


@pytest.fixture
def sim() -> SimLog:
    """Producer 5 has sent sequence 0, and 6 too."""
    sim = SimLog()
    sim.append(produced_by(5, 0), produced_by(6, 0))
    sim.tape.rewind()
    return sim


@pytest.mark.spec("LS-29")
def test_what_follows_shares_a_write(sim: SimLog) -> None:
    results = sim.append(produced_by(5, 1, 2), batch(1), produced_by(6, 1), produced_by(5, 3), produced_by(5, 4, 3))
    assert [each.first_offset for each in results] == [2, 4, 5, 6, 7]
    assert sim.tape.of("write") == [LOG_FILE]
    known = sim.log.producers.producers
    assert [(each.first_seq, each.last_seq, each.first_offset) for each in known[5].batches] == [
        (0, 0, 0), (1, 2, 2), (3, 3, 6), (4, 6, 7),
    ]  # fmt: skip
    assert (known[6].last_seq, known[6].last_data_offset) == (1, 5)


def test_what_follows_in_a_transaction_shares_a_write(sim: SimLog) -> None:
    sim.append(in_transaction(5, 1), in_transaction(6, 1))
    sim.tape.rewind()
    sim.append(in_transaction(5, 2), in_transaction(6, 2), in_transaction(5, 3), batch(1), in_transaction(5, 4))
    assert sim.tape.of("write") == [LOG_FILE]
    assert [txn.first_offset.offset for txn in sim.log.producers.ongoing] == [2, 3]
    assert sim.log.producers.producers[5].txn_first_offset == 2
    sim.append(marker(5, commit=False), origin=Origin.COORDINATOR)
    assert sim.log.aborted_transactions(0, 99) == ((5, 2, 9, 3),)


@pytest.mark.spec("LS-29")
def test_a_repetition_of_what_waits_is_known_as_one(sim: SimLog) -> None:
    results = sim.log.append_as_leader([produced_by(5, 1), produced_by(5, 2), produced_by(5, 1), produced_by(5, 4)], 0)
    assert [(each.first_offset, each.is_duplicate) for each in results] == [
        (2, False), (3, False), (2, True), (-1, False),
    ]  # fmt: skip
    assert isinstance(results[-1].error, OutOfOrderSequenceError)


def test_a_failed_write_is_not_believed(sim: SimLog) -> None:
    before = dict(sim.log.producers.producers)
    sim.disk.fail_next("write", "*.log", errno.ENOSPC)
    results = sim.log.append_as_leader([produced_by(5, 1), produced_by(5, 2)], 0)
    assert all(isinstance(each.error, StorageError) for each in results)
    assert sim.log.producers.producers == before
    assert [each.first_offset for each in sim.append(produced_by(5, 1), produced_by(5, 2))] == [2, 3]


def test_a_batch_ahead_of_one_that_is_being_verified_is_refused_as_ever(sim: SimLog) -> None:
    sim.log.start_verification(5, 0, 0, False)
    [refused, other] = sim.log.append_as_leader([produced_by(5, 1), produced_by(6, 1)], 0)
    assert isinstance(refused.error, OutOfOrderSequenceError)
    assert other.error is None


class Sent(NamedTuple):
    """One set: of whom, in which epoch, `kind` of way behind what this producer sent last."""

    producer: int
    kind: str
    count: int


SETS = st.builds(
    Sent,
    st.integers(5, 7),
    st.sampled_from(
        ["next"] * 9
        + ["again"] * 2
        + ["gap", "epoch", "old epoch", "outside", "transaction", "transaction"]
        + ["nobody", "marker"]
    ),
    st.integers(1, 3),
)


class Sender:
    """Makes the bytes of a plan, from what each producer sent last; some begin just before sequences wrap."""

    def __init__(self) -> None:
        self.last: dict[int, tuple[int, int, int]] = {}
        self.in_transaction: set[int] = set()

    def bytes_of(self, sent: Sent) -> bytearray:
        producer, kind, count = sent
        if kind == "nobody":
            return batch(count)
        epoch, sequence, before = self.last.get(producer, (1, 0 if producer == 5 else LAST_SEQUENCE - 2, 1))
        following = (sequence + before) & LAST_SEQUENCE if producer in self.last else sequence
        if kind == "again":
            return produced_by(producer, sequence, before, epoch=epoch)
        if kind == "gap":
            return produced_by(producer, (following + 1) & LAST_SEQUENCE, count, epoch=epoch)
        if kind == "old epoch":
            return produced_by(producer, following, count, epoch=epoch - 1)
        if kind == "outside":
            return produced_by(producer, following, count, epoch=epoch)
        if kind == "marker":
            self.in_transaction.discard(producer)
            return marker(producer, commit=False, epoch=epoch)
        if kind == "epoch":
            epoch, following = epoch + 1, 0
        if kind == "transaction":
            self.in_transaction.add(producer)
        self.last[producer] = (epoch, following, count)
        make = in_transaction if producer in self.in_transaction else produced_by
        return make(producer, following, count, epoch=epoch)


def told(result: AppendResult) -> object:
    return result._replace(error=None), type(result.error), str(result.error)


@settings(max_examples=150, deadline=None)
@given(st.lists(SETS, max_size=30), st.lists(st.integers(1, 6), min_size=30, max_size=30), st.booleans())
def test_sets_together_are_as_sets_alone(plan: list[Sent], sizes: list[int], is_small: bool) -> None:
    config = with_config(segment_bytes=1000) if is_small else with_config()
    together, alone = SimLog(config), SimLog(config)
    sender = Sender()
    sets = iter([(each.kind == "marker", sender.bytes_of(each)) for each in plan])
    for size in sizes:
        call = list(islice(sets, size))
        results: list[object] = []
        for is_marker, records in call:
            origin = Origin.COORDINATOR if is_marker else Origin.CLIENT
            results += map(told, alone.log.append_as_leader([bytearray(records)], 0, origin))
        one_call: list[object] = []
        waiting: list[bytearray] = []
        for is_marker, records in call:
            if is_marker:  # a coordinator's sets come in a call of their own
                one_call += map(told, together.log.append_as_leader(waiting, 0)) if waiting else []
                one_call += map(told, together.log.append_as_leader([records], 0, Origin.COORDINATOR))
                waiting = []
            else:
                waiting.append(records)
        one_call += map(told, together.log.append_as_leader(waiting, 0)) if waiting else []
        assert one_call == results
        assert together.log.producers.producers == alone.log.producers.producers
        assert together.log.producers.ongoing == alone.log.producers.ongoing
    assert bytes_of(together.log) == bytes_of(alone.log)
    assert holds(together.log) == holds(alone.log)
