"""Several sets in one append: a result for each, as few writes as can be, and a refused one in nobody's way."""

from __future__ import annotations

import pytest

from support.logs.builders import (
    CONFIG,
    DIRECTORY,
    NOW_MS,
    SimLog,
    bases,
    batch,
    bytes_of,
    holds,
    in_transaction,
    joined,
    marker,
    placed,
    produced_by,
    sized_batch,
    with_config,
)
from tailrace.env.files import MAX_PARTS
from tailrace.model.errors import CorruptMessageError, MessageTooLargeError, OutOfOrderSequenceError
from tailrace.storage.origin import Origin

LOG_FILE = f"{DIRECTORY}/00000000000000000000.log"


@pytest.fixture
def sim() -> SimLog:
    return SimLog()


@pytest.mark.spec("LS-10")
def test_all_sets_go_with_one_write_and_each_has_its_result(sim: SimLog) -> None:
    sim.append(batch(1))
    sim.tape.rewind()
    sets = [batch(n, 50 * n) for n in (1, 2, 3, 4)]
    originals = [bytes(each) for each in sets]
    results = sim.append(*sets)
    assert [(each.first_offset, each.last_offset) for each in results] == [(1, 1), (2, 3), (4, 6), (7, 10)]
    assert sim.tape.of("write") == [LOG_FILE]
    stored = sim.log.read(1, 1 << 20).read()
    assert stored == joined(placed(each, at) for each, at in zip(originals, (1, 2, 4, 7), strict=True))


@pytest.mark.spec("LS-10")
def test_a_refused_set_in_the_middle_uses_no_offset(sim: SimLog) -> None:
    sim.log.use_config(with_config(max_message_bytes=1000))
    damaged = batch(2)
    damaged[-1] ^= 1
    sim.tape.rewind()
    results = sim.log.append_as_leader([batch(2), damaged, b"", sized_batch(1001), produced_by(5, 0), batch(3)], 0)
    assert [type(each.error) for each in results] == [
        type(None), CorruptMessageError, type(None), MessageTooLargeError, type(None), type(None),
    ]  # fmt: skip
    assert [(each.first_offset, each.last_offset) for each in results] == [
        (0, 1), (-1, -1), (-1, -1), (-1, -1), (2, 2), (3, 5),
    ]  # fmt: skip
    assert holds(sim.log) == [(0, 1), (2, 2), (3, 5)]
    assert sim.tape.of("write").count(LOG_FILE) == 1


@pytest.mark.spec("LS-29")
def test_sets_of_one_producer_in_one_call_follow_each_other(sim: SimLog) -> None:
    results = sim.log.append_as_leader(
        [produced_by(5, 0, 2), produced_by(6, 0), produced_by(5, 2), produced_by(5, 0, 2), produced_by(5, 9)], 0
    )
    assert [(each.first_offset, each.is_duplicate) for each in results] == [
        (0, False), (2, False), (3, False), (0, True), (-1, False),
    ]  # fmt: skip
    assert isinstance(results[-1].error, OutOfOrderSequenceError)
    assert holds(sim.log) == [(0, 1), (2, 2), (3, 3)]


def test_sets_of_different_producers_share_a_write(sim: SimLog) -> None:
    sim.append(batch(1))
    sim.tape.rewind()
    sim.append(*(in_transaction(producer, 0) for producer in range(5)))
    assert sim.tape.of("write") == [LOG_FILE]
    assert [txn.first_offset.offset for txn in sim.log.producers.ongoing] == [1, 2, 3, 4, 5]


@pytest.mark.spec("LS-31")
def test_a_transaction_and_its_marker_in_one_call(sim: SimLog) -> None:
    results = sim.append(
        in_transaction(5, 0, 2), in_transaction(6, 0), marker(5, commit=False), origin=Origin.COORDINATOR
    )
    assert [each.first_offset for each in results] == [0, 2, 3]
    assert sim.log.aborted_transactions(0, 9) == ((5, 0, 3, 2),)
    sim.all_moved_to_end()
    assert sim.log.last_stable_offset == 2


@pytest.mark.spec("LS-14")
def test_a_set_that_does_not_fit_rolls_and_the_sets_before_it_stay_in_the_old_segment(sim: SimLog) -> None:
    half = CONFIG.segment_bytes // 2
    results = sim.append(sized_batch(half), sized_batch(half), sized_batch(half), sized_batch(1000))
    assert [each.first_offset for each in results] == [0, 1, 2, 3]
    assert bases(sim.log) == [0, 2]
    assert [segment.size for segment in sim.log.local.segments] == [2 * half, half + 1000]
    assert sim.tape.of("write").count(LOG_FILE) == 1


@pytest.mark.spec("LS-14")
def test_time_passes_between_sets_of_one_call_as_between_calls() -> None:
    """Each set's timestamp is held against the segment's first, also when that one was not written yet."""
    sim = SimLog(with_config(segment_ms=1000, message_timestamp_after_max_ms=1 << 40))
    sim.append(batch(1), batch(1, timestamp=NOW_MS + 1000), batch(1, timestamp=NOW_MS + 1001), batch(1, timestamp=0))
    assert bases(sim.log) == [0, 2]


def test_more_sets_than_one_gathering_write_takes(sim: SimLog) -> None:
    sim.append(batch(1))
    sim.tape.rewind()
    results = sim.append(*(batch(1) for _ in range(2 * MAX_PARTS + 5)))
    assert [each.first_offset for each in results] == list(range(1, 2 * MAX_PARTS + 6))
    assert sim.tape.of("write").count(LOG_FILE) == 3
    assert len(holds(sim.log)) == 2 * MAX_PARTS + 6


def test_a_set_that_cannot_be_written_to_is_left_as_it_is(sim: SimLog) -> None:
    """A caller may keep what it sent in immutable bytes; the log copies these."""
    sent = bytes(batch(2))
    sim.fill(3)
    sim.append(sent, memoryview(bytearray(sent)))
    assert sent == bytes(batch(2))
    assert bytes_of(sim.log, 3) == placed(sent, 3) + placed(sent, 5)
