"""A follower's append: the leader's bytes as they are, and from them epochs, producers and transactions."""

from __future__ import annotations

import pytest
from foreign_sets import MESSAGES, produced

from support.logs.builders import (
    CONFIG,
    SimLog,
    bases,
    batch,
    bytes_of,
    file_bytes,
    holds,
    in_transaction,
    joined,
    marker,
    placed,
    produced_by,
    sized_batch,
    with_config,
)
from tailrace.model.errors import (
    CorruptMessageError,
    InvalidRecordError,
    RecordListTooLargeError,
    UnexpectedAppendOffsetError,
)
from tailrace.record.legacy import compressed_wrapper, plain_message
from tailrace.storage.epoch_cache import EpochEntry
from tailrace.storage.origin import Origin

LOG_FILE = "00000000000000000000.log"


@pytest.fixture
def sim() -> SimLog:
    return SimLog()


@pytest.mark.spec("LS-13", "RF-19")
def test_the_leaders_bytes_are_the_followers_bytes() -> None:
    leader, follower = SimLog(), SimLog()
    for n in range(5):
        leader.append(batch(1 + n % 3, 200, codec=n % 5), produced_by(7, n), epoch=n // 2)
    leader.append(in_transaction(9, 0), marker(9, commit=False), epoch=3, origin=Origin.COORDINATOR)
    copied = bytes_of(leader.log)
    result = follower.log.append_as_follower(copied)
    assert (result.first_offset, result.last_offset) == (0, leader.log.log_end_offset - 1)
    assert file_bytes(follower.world, LOG_FILE) == copied
    assert follower.log.epochs.entries == leader.log.epochs.entries
    assert follower.log.aborted_transactions(0, 99) == leader.log.aborted_transactions(0, 99) != ()
    theirs, ours = leader.log.producers.producers, follower.log.producers.producers
    assert (
        {each: ours[each].last_seq for each in ours} == {each: theirs[each].last_seq for each in theirs} == {7: 4, 9: 0}
    )
    assert follower.log.log_end_offset == leader.log.log_end_offset


@pytest.mark.spec("LS-13")
def test_offsets_are_taken_verbatim_gaps_too(sim: SimLog) -> None:
    sim.log.append_as_follower(placed(batch(2), 5) + placed(batch(1), 100, 1))
    sim.log.append_as_follower(placed(batch(1), 1000, 2))
    assert holds(sim.log) == [(5, 6), (100, 100), (1000, 1000)]
    assert sim.log.log_end_offset == 1001
    assert sim.log.epochs.entries == (EpochEntry(0, 5), EpochEntry(1, 100), EpochEntry(2, 1000))


@pytest.mark.spec("LS-13")
def test_a_follower_takes_what_a_leader_would_refuse(sim: SimLog) -> None:
    """It is in the leader's log already: sizes, timestamps and sequences were the leader's to judge."""
    sim.log.use_config(
        with_config(max_message_bytes=100, message_timestamp_after_max_ms=0, cleanup_policy=("compact",))
    )
    sim.log.append_as_follower(placed(batch(1, 500, timestamp=2**50, key=None), 0))
    sim.log.append_as_follower(placed(produced_by(7, 5), 1) + placed(produced_by(7, 99), 2))
    assert sim.log.producers.producers[7].last_seq == 99
    assert holds(sim.log) == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.spec("LS-13")
def test_what_would_go_backwards_is_refused(sim: SimLog) -> None:
    sim.log.append_as_follower(placed(batch(5), 0))
    with pytest.raises(UnexpectedAppendOffsetError) as caught:
        sim.log.append_as_follower(placed(batch(5), 4))
    assert (caught.value.first_offset, caught.value.last_offset) == (4, 8)
    with pytest.raises(InvalidRecordError):
        sim.log.append_as_follower(placed(batch(2), 10) + placed(batch(1), 11))
    damaged = placed(batch(1), 5)
    damaged[-1] ^= 1
    with pytest.raises(CorruptMessageError):
        sim.log.append_as_follower(damaged)
    with pytest.raises(RecordListTooLargeError):
        sim.log.append_as_follower(placed(sized_batch(CONFIG.segment_bytes + 1), 5))
    assert holds(sim.log) == [(0, 4)]


@pytest.mark.spec("LS-39")
def test_a_fetch_that_ends_inside_a_batch_is_trimmed(sim: SimLog) -> None:
    whole = placed(batch(2), 0) + placed(batch(2), 2)
    result = sim.log.append_as_follower(bytes(whole) + placed(batch(2), 4)[:-1])
    assert result.last_offset == 3
    assert bytes_of(sim.log) == whole
    empty = sim.log.append_as_follower(placed(batch(2), 4)[:40])
    assert (empty.first_offset, sim.log.log_end_offset) == (-1, 4)


@pytest.mark.spec("LS-48")
def test_a_new_segment_begins_at_the_first_offset_of_the_set(sim: SimLog) -> None:
    sim.log.append_as_follower(placed(sized_batch(CONFIG.segment_bytes), 0))
    sim.log.append_as_follower(placed(batch(3), 40))
    assert bases(sim.log) == [0, 40]
    assert holds(sim.log) == [(0, 0), (40, 42)]


@pytest.mark.spec("LS-48")
@pytest.mark.parametrize("last_offset", [2**31 + 6, 2**31 + 500])
def test_an_old_wrapper_does_not_tell_its_first_offset(sim: SimLog, last_offset: int) -> None:
    """The base is the lowest that can hold the last offset, but never below the log's end."""
    sim.log.append_as_follower(placed(batch(3), 0))
    wrapper = compressed_wrapper([(last_offset, 0, None, b"v")], magic=1, codec=1)
    sim.log.append_as_follower(wrapper)
    assert bases(sim.log) == [0, last_offset - (2**31 - 1)]
    assert sim.log.log_end_offset == last_offset + 1
    assert sim.log.read(last_offset, 1 << 20).read() == wrapper


@pytest.mark.spec("LS-48")
def test_an_old_wrapper_near_the_end_rolls_no_lower_than_the_end() -> None:
    sim = SimLog()
    sim.log.append_as_follower(placed(sized_batch(CONFIG.segment_bytes - 50), 0))
    wrapper = compressed_wrapper([(9, 0, None, b"v" * 60)], magic=1, codec=1)
    sim.log.append_as_follower(wrapper)
    assert bases(sim.log) == [0, 1]


@pytest.mark.spec("LS-38")
def test_an_old_batch_clears_the_epochs(sim: SimLog) -> None:
    sim.log.append_as_follower(placed(batch(2), 0, 3))
    assert sim.log.epochs.entries == (EpochEntry(3, 0),)
    sim.log.append_as_follower(plain_message(2, 0, None, b"v", magic=1))
    assert sim.log.epochs.entries == ()


def test_a_raft_leaders_batches_have_offsets_and_epoch_already(sim: SimLog) -> None:
    records = joined([placed(batch(2), 0, 4), placed(batch(1), 2, 4)])
    assert sim.log.append_from_raft_leader(records, 4).last_offset == 2
    with pytest.raises(InvalidRecordError):
        sim.log.append_from_raft_leader(placed(batch(1), 3, 4), 5)
    assert bytes_of(sim.log) == records


@pytest.mark.spec("LS-13")
def test_a_foreign_batch_passes_through_leader_and_follower() -> None:
    leader, follower = SimLog(), SimLog()
    leader.append(produced(MESSAGES))
    follower.log.append_as_follower(bytes_of(leader.log))
    assert file_bytes(follower.world, LOG_FILE) == file_bytes(leader.world, LOG_FILE)
