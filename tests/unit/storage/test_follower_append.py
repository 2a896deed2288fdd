"""Sets that a follower has fetched: appended as runs, as if batch by batch, or refused with nothing written."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.logs.builders import CONFIG, SimLog, batch, offset_entries, time_entries
from support.logs.log_files import content, derived
from tailrace.config.log import LogConfig
from tailrace.model.errors import (
    CorruptMessageError,
    InvalidRecordError,
    RecordListTooLargeError,
    TailraceError,
    UnexpectedAppendOffsetError,
)
from tailrace.record.batch import set_base_offset, set_leader_epoch
from tailrace.record.builder import BatchBuilder
from tailrace.record.control import ABORT, COMMIT, end_txn_marker
from tailrace.record.shallow import batches
from tailrace.storage.epoch_cache import EpochEntry
from tailrace.storage.follower_append import FollowerAppender
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.verify import verify_directory

EPOCH = 3
SMALL = replace(CONFIG, segment_bytes=2000, index_interval_bytes=200)


class LeaderLog:
    """Makes the bytes that a leader would send."""

    def __init__(self, seed: int = 0, first_offset: int = 0, epoch: int = EPOCH) -> None:
        self.dice = random.Random(seed)
        self.next_offset = first_offset
        self.epoch = epoch
        self.sequences: dict[int, int] = {}
        self.in_transaction: set[int] = set()

    def at_end(self, data: bytearray) -> bytes:
        set_base_offset(data, 0, self.next_offset)
        set_leader_epoch(data, 0, self.epoch)
        self.next_offset = next(batches(data)).last_offset + 1
        return bytes(data)

    def plain(self, records: int = 1, value_bytes: int = 40) -> bytes:
        return self.at_end(batch(records, value_bytes))

    def produced(self, producer: int, records: int = 1) -> bytes:
        """Producers with even ids write in transactions."""
        sequence = self.sequences.get(producer, 0)
        self.sequences[producer] = sequence + records
        is_transactional = producer % 2 == 0
        if is_transactional:
            self.in_transaction.add(producer)
        builder = BatchBuilder(
            producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=is_transactional
        )
        for n in range(records):
            builder.append(1_700_000_000_000 + self.dice.randrange(1000), b"k%d" % n, self.dice.randbytes(20))
        return self.at_end(builder.build())

    def marker(self, producer: int, *, is_commit: bool) -> bytes:
        self.in_transaction.discard(producer)
        kind = COMMIT if is_commit else ABORT
        return self.at_end(
            end_txn_marker(
                kind, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp=1_700_000_000_000
            )
        )

    def anything(self, kind: int) -> bytes:
        if kind == 0 and self.in_transaction:
            return self.marker(self.dice.choice(sorted(self.in_transaction)), is_commit=self.dice.random() < 0.5)
        if kind == 1:
            self.epoch += 1
        if kind == 2:
            self.next_offset += self.dice.randrange(1, 4)
        if kind < 6:
            return self.produced(self.dice.randrange(1, 5), self.dice.randrange(1, 4))
        return self.plain(self.dice.randrange(1, 4))

    def sets(self, shape: list[list[int]]) -> list[list[bytes]]:
        return [[self.anything(kind) for kind in kinds] for kinds in shape]


def follower(config: LogConfig = CONFIG) -> UnifiedLog:
    log = SimLog(config).log
    log.begin_epoch(EPOCH)
    return log


def index_entries(log: UnifiedLog) -> list[Any]:
    return [(each.base_offset, offset_entries(each), time_entries(each)) for each in log.local.segments]


shapes = st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=12), min_size=1, max_size=6)


@pytest.mark.spec("LS-13")
@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32), shape=shapes, is_small=st.booleans(), cut=st.integers(0, 60))
def test_a_set_is_appended_as_if_batch_by_batch(seed: int, shape: list[list[int]], is_small: bool, cut: int) -> None:
    config = SMALL if is_small else replace(CONFIG, index_interval_bytes=200)
    together, single, appender = follower(config), follower(config), FollowerAppender()
    for each in LeaderLog(seed).sets(shape):
        data = b"".join(each)
        part = batch(1, 100)[:cut]  # the response ends inside of a batch
        result = appender.append(together, data + bytes(part), 100)
        for one in each:
            single.append_as_follower(one)
        assert result.last_offset + 1 == together.log_end_offset == single.log_end_offset
        assert result.first_offset == next(batches(data)).base_offset
    assert content(together) == content(single)
    assert derived(together) == derived(single)
    assert together.epochs.entries == single.epochs.entries
    if not is_small:
        assert index_entries(together) == index_entries(single)
        assert together.local.segments.base_offsets == single.local.segments.base_offsets


@pytest.mark.spec("LS-13")
@settings(max_examples=examples(150))
@given(
    seed=st.integers(0, 2**32),
    kinds=st.lists(st.integers(0, 12), min_size=1, max_size=8),
    changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=4),
    epoch=st.integers(-1, 6),
)
def test_hostile_bytes_leave_a_sound_log(
    seed: int, kinds: list[int], changes: list[tuple[float, int]], epoch: int
) -> None:
    sim = SimLog(SMALL)
    sim.log.begin_epoch(EPOCH)
    leader = LeaderLog(seed)
    appender = FollowerAppender()
    appender.append(sim.log, leader.plain() + leader.produced(2), EPOCH)
    before = content(sim.log)
    data = bytearray(b"".join(leader.anything(kind) for kind in kinds))
    for position, value in changes:
        data[int(position * (len(data) - 1))] = value
    is_whole = len(data) <= SMALL.segment_bytes
    try:
        appender.append(sim.log, data, epoch)
    except TailraceError:
        assert content(sim.log).startswith(before)
        assert not is_whole or content(sim.log) == before
    else:
        assert data.startswith(content(sim.log)[len(before) :])
        assert all(each.leader_epoch <= epoch for each in batches(content(sim.log)[len(before) :]))
    sim.log.bounds.check()
    sim.world.jobs.run_all()
    assert list(verify_directory(sim.disk, sim.log.dir)) == []
    sim.log.append_as_follower(LeaderLog(1, sim.log.log_end_offset, 9).plain())


@pytest.mark.spec("RP-10")
def test_batches_of_a_later_epoch_than_the_fetch_are_dropped_with_what_follows() -> None:
    log, leader = follower(), LeaderLog()
    data = leader.plain() + leader.plain()
    leader.epoch = 5
    newer = leader.plain()
    leader.epoch = EPOCH
    older = leader.plain()
    result = FollowerAppender().append(log, data + newer + older, 4)
    assert (result.first_offset, result.last_offset, log.log_end_offset) == (0, 1, 2)
    assert content(log) == data
    assert log.epochs.entries == (EpochEntry(EPOCH, 0),)
    assert FollowerAppender().append(log, newer + older, 4).last_offset == -1
    assert FollowerAppender().append(log, newer, 5).last_offset == 2
    assert log.epochs.latest_entry == EpochEntry(5, 2)


def test_what_follows_a_later_epoch_is_dropped_from_sets_larger_than_a_segment_as_well() -> None:
    """A later piece must not be appended above the gap that the dropped batches leave."""
    leader, log = LeaderLog(), follower(SMALL)
    first = [leader.plain() for _ in range(3)]
    leader.epoch = 5
    later = leader.plain()
    leader.epoch = EPOCH
    following = [leader.plain() for _ in range(40)]
    result = FollowerAppender().append(log, b"".join([*first, later, *following]), EPOCH)
    assert (result.last_offset, log.log_end_offset) == (2, 3)


@pytest.mark.spec("LS-13", "RP-24")
def test_a_set_is_one_write_of_the_leaders_bytes() -> None:
    sim = SimLog()
    sim.log.begin_epoch(EPOCH)
    leader = LeaderLog()
    data = b"".join(leader.plain() for _ in range(50))
    sim.tape.rewind()
    FollowerAppender().append(sim.log, data, EPOCH)
    assert len([path for path in sim.tape.of("write") if path.endswith(".log")]) == 1
    assert content(sim.log) == data


def test_a_set_larger_than_a_segment_is_appended_in_pieces() -> None:
    log, leader = follower(replace(SMALL, segment_bytes=600)), LeaderLog()
    data = b"".join(leader.plain() for _ in range(30))
    result = FollowerAppender().append(log, data, EPOCH)
    assert (result.first_offset, result.last_offset) == (0, 29)
    assert content(log) == data
    assert len(log.local.segments) > 5
    with pytest.raises(RecordListTooLargeError):
        FollowerAppender().append(log, leader.plain(1, 700), EPOCH)


def test_a_set_of_thousands_of_batches() -> None:
    log, leader = follower(), LeaderLog()
    data = b"".join(leader.plain(1, 1) for _ in range(3000))
    appender = FollowerAppender()
    assert appender.append(log, data, EPOCH).last_offset == 2999
    assert appender.append(log, leader.plain() + leader.plain(), EPOCH).last_offset == 3001


@pytest.mark.spec("LS-13", "LS-39")
def test_what_is_refused_leaves_nothing() -> None:
    log, leader = follower(), LeaderLog()
    first, second, third = leader.plain(), leader.plain(), leader.plain()
    appender = FollowerAppender()
    damaged = bytearray(first + second + third)
    damaged[-1] ^= 1
    with pytest.raises(CorruptMessageError):
        appender.append(log, damaged, EPOCH)
    with pytest.raises(InvalidRecordError, match="order"):
        appender.append(log, first + third + second, EPOCH)
    assert log.log_end_offset == log.local.size == 0
    assert appender.append(log, b"", EPOCH).last_offset == -1
    assert appender.append(log, first[:-1], EPOCH).last_offset == -1
    appender.append(log, first + second, EPOCH)
    with pytest.raises(UnexpectedAppendOffsetError) as refused:
        appender.append(log, second + third, EPOCH)
    assert (refused.value.first_offset, refused.value.last_offset) == (1, 2)
    assert content(log) == first + second


@pytest.mark.spec("LS-31")
def test_an_aborted_transaction_of_a_run_is_in_its_index() -> None:
    log, leader = follower(), LeaderLog()
    parts = [leader.produced(2), leader.plain(), leader.produced(2), leader.marker(2, is_commit=False), leader.plain()]
    FollowerAppender().append(log, b"".join(parts), EPOCH)
    (aborted,) = log.aborted_transactions(0, 10)
    assert aborted[:3] == (2, 0, 3)
    log.update_high_watermark(5)
    assert log.last_stable_offset == 5
