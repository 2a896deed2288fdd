"""Random histories of a log's producers, against a model that keeps the whole history and looks everything up in it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from suite.seeds import examples
from tailrace.env.real.files import RealFiles
from tailrace.model.errors import InvalidProducerEpochError, InvalidTxnStateError, OutOfOrderSequenceError
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.storage.origin import Origin
from tailrace.storage.producer_entry import ProducerStateEntry
from tailrace.storage.producer_state import ProducerStateManager

PRODUCERS = st.integers(1, 3)


class Marker(NamedTuple):
    type: int
    coordinator_epoch: int


class Batch(NamedTuple):
    """One batch of the model's log; a marker when `marker` is given."""

    producer_id: int
    epoch: int
    first_seq: int
    base_offset: int
    last_offset: int
    is_transactional: bool
    marker: Marker | None = None

    @property
    def last_seq(self) -> int:
        return (self.first_seq + self.last_offset - self.base_offset) % 2**31


@dataclass
class Model:
    """Everything is derived from the log by reading it from the start."""

    log: list[Batch] = field(default_factory=list)
    high_watermark: int = 0

    @property
    def end(self) -> int:
        return self.log[-1].last_offset + 1 if self.log else 0

    def of(self, producer_id: int) -> list[Batch]:
        return [batch for batch in self.log if batch.producer_id == producer_id]

    def epoch(self, producer_id: int) -> int:
        return self.of(producer_id)[-1].epoch if self.of(producer_id) else -1

    def data_of_epoch(self, producer_id: int) -> list[Batch]:
        """Data since the producer's epoch last changed."""
        found: list[Batch] = []
        for batch in reversed(self.of(producer_id)):
            if batch.epoch != self.epoch(producer_id):
                break
            if batch.marker is None:
                found.insert(0, batch)
        return found

    def transactions(self) -> list[tuple[int, int, int | None]]:
        """(producer, first offset, marker's offset or None) of every transaction there ever was."""
        found: list[tuple[int, int, int | None]] = []
        open_at: dict[int, int] = {}
        for batch in self.log:
            if batch.marker is not None:
                if batch.producer_id in open_at:
                    found.append((batch.producer_id, open_at.pop(batch.producer_id), batch.base_offset))
            elif batch.is_transactional:
                open_at.setdefault(batch.producer_id, batch.base_offset)
        return found + [(producer_id, first, None) for producer_id, first in open_at.items()]

    def open_transaction(self, producer_id: int) -> int | None:
        return next((first for pid, first, end in self.transactions() if pid == producer_id and end is None), None)

    def verdict(self, batch: Batch) -> type[Exception] | None:
        epoch = self.epoch(batch.producer_id)
        if batch.epoch < epoch:
            return InvalidProducerEpochError
        if batch.epoch > epoch:
            if epoch >= 0 and batch.first_seq != 0:
                return OutOfOrderSequenceError
        else:
            data = self.data_of_epoch(batch.producer_id)
            if batch.first_seq != ((data[-1].last_seq + 1) % 2**31 if data else 0):
                return OutOfOrderSequenceError
        if self.open_transaction(batch.producer_id) is not None and not batch.is_transactional:
            return InvalidTxnStateError
        return None


def places(entry: ProducerStateEntry) -> list[tuple[int, int, int]]:
    """Its batches but for their timestamps: a snapshot has one timestamp for the batch and a marker after it."""
    return [(batch.first_seq, batch.last_seq, batch.first_offset) for batch in entry.batches]


def as_kept(entry: ProducerStateEntry) -> tuple[object, ...]:
    """What a snapshot keeps of an entry."""
    return (*entry[:5], places(entry)[-1:])


class ProducerHistories(RuleBasedStateMachine):
    @initialize()
    def open(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.model = Model()
        self.state = self.opened()

    def teardown(self) -> None:
        self.directory.cleanup()

    def opened(self) -> ProducerStateManager:
        return ProducerStateManager(RealFiles(), self.directory.name)

    def play(self, state: ProducerStateManager, batch: Batch, origin: Origin) -> None:
        info = state.prepare_update(batch.producer_id, origin)
        completed = None
        if batch.marker is not None:
            completed = info.append_end_txn_marker(batch.marker, batch.epoch, batch.base_offset, batch.base_offset)
        else:
            info.append_data(
                batch.epoch,
                batch.first_seq,
                batch.last_seq,
                batch.base_offset,
                LogOffsetMetadata(batch.base_offset),
                batch.last_offset,
                batch.is_transactional,
            )
        state.update(info)
        if completed is not None:
            state.complete_txn(completed)
        state.update_map_end_offset(batch.last_offset + 1)

    @rule(
        producer_id=PRODUCERS,
        raise_epoch=st.sampled_from([0, 0, 0, 0, 1, -1]),
        skip=st.sampled_from([0, 0, 0, 0, 1, -1]),
        records=st.integers(1, 4),
        is_transactional=st.booleans(),
        unknown_begins_at=st.sampled_from([0, 2**31 - 3]),
    )
    def append(
        self,
        producer_id: int,
        raise_epoch: int,
        skip: int,
        records: int,
        is_transactional: bool,
        unknown_begins_at: int,
    ) -> None:
        data = self.model.data_of_epoch(producer_id)
        epoch = max(0, self.model.epoch(producer_id) + raise_epoch)
        if data and raise_epoch <= 0:
            first_seq = (data[-1].last_seq + 1 + skip) % 2**31
        else:
            first_seq = max(0, skip) if self.model.of(producer_id) else unknown_begins_at
        base = self.model.end
        batch = Batch(producer_id, epoch, first_seq, base, base + records - 1, is_transactional)
        expected = self.model.verdict(batch)
        if expected is None:
            self.play(self.state, batch, Origin.CLIENT)
            self.model.log.append(batch)
        else:
            with pytest.raises(expected):
                self.play(self.state, batch, Origin.CLIENT)

    @rule(producer_id=PRODUCERS, is_abort=st.booleans(), raise_epoch=st.integers(0, 1))
    def end_transaction(self, producer_id: int, is_abort: bool, raise_epoch: int) -> None:
        epoch = max(0, self.model.epoch(producer_id)) + raise_epoch
        end = self.model.end
        batch = Batch(producer_id, epoch, -1, end, end, True, Marker(0 if is_abort else 1, 5))
        self.play(self.state, batch, Origin.COORDINATOR)
        self.model.log.append(batch)

    @rule(share=st.floats(0, 1))
    def raise_high_watermark(self, share: float) -> None:
        model = self.model
        model.high_watermark += round((model.end - model.high_watermark) * share)
        self.state.on_high_watermark_updated(model.high_watermark)

    @rule()
    def snapshot(self) -> None:
        self.state.take_snapshot()

    @rule(corrupt_newest=st.booleans())
    def restart(self, corrupt_newest: bool) -> None:
        """From a snapshot and the log after it comes the state there was. A restart begins with a replicated log."""
        model = self.model
        model.high_watermark = model.end
        self.state.on_high_watermark_updated(model.end)
        before = self.state
        newest = before.latest_snapshot_offset
        if corrupt_newest and newest is not None:
            with open(f"{self.directory.name}/{newest:020d}.snapshot", "r+b") as file:
                file.write(b"\xff")
        self.state = self.opened()
        self.replay(model.end)
        self.state.on_high_watermark_updated(model.end)
        assert not (corrupt_newest and newest) or self.state.latest_snapshot_offset != newest
        known, expected = self.state.producers, before.producers
        assert {pid: as_kept(entry) for pid, entry in known.items()} == {
            pid: as_kept(entry) for pid, entry in expected.items()
        }
        assert [txn[:1] + txn.first_offset[:1] for txn in self.state.ongoing] == [
            txn[:1] + txn.first_offset[:1] for txn in before.ongoing
        ]

    def replay(self, end: int) -> None:
        self.state.truncate_and_reload(0, end, now_ms=0)
        start = self.state.map_end_offset
        assert start in {0, *(batch.last_offset + 1 for batch in self.model.log)}
        for batch in self.model.log:
            if batch.base_offset >= start:
                self.play(self.state, batch, Origin.REPLICATION)
        assert self.state.map_end_offset == end

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        """Down to the high watermark at most, as a follower does."""
        model = self.model
        keep = model.high_watermark + round((model.end - model.high_watermark) * share)
        model.log = [batch for batch in model.log if batch.last_offset < keep]
        model.high_watermark = model.end
        self.replay(model.end)
        self.state.on_high_watermark_updated(model.end)

    @invariant()
    def first_unstable_offset_is_right(self) -> None:
        transactions = self.model.transactions()
        undecided = [first for _, first, marker in transactions if marker is None]
        unstable = [first for _, first, marker in transactions if marker is None or marker >= self.model.high_watermark]
        found = self.state.first_unstable_offset
        assert self.state.first_undecided_offset == min(undecided, default=None)
        assert (None if found is None else found.offset) == min(unstable, default=None)

    @invariant()
    def batches_remembered_are_the_last_of_the_epoch(self) -> None:
        assert set(self.state.producers) == {batch.producer_id for batch in self.model.log}
        for producer_id, entry in self.state.producers.items():
            data = self.model.data_of_epoch(producer_id)[-5:]
            assert entry.producer_epoch == self.model.epoch(producer_id)
            assert entry.txn_first_offset == self.model.open_transaction(producer_id)
            assert bool(entry.batches) == bool(data)
            remembered = places(entry)
            expected = [(batch.first_seq, batch.last_seq, batch.base_offset) for batch in data]
            assert remembered == expected[len(expected) - len(remembered) :]
            for first_seq, last_seq, first_offset in remembered:
                duplicate = self.state.find_duplicate(producer_id, entry.producer_epoch, first_seq, last_seq)
                assert duplicate is not None
                assert duplicate.first_offset == first_offset


@pytest.mark.spec("LS-29", "LS-30", "LS-31", "LS-49")
class TestProducerHistories(ProducerHistories.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=examples(300), stateful_step_count=50)
