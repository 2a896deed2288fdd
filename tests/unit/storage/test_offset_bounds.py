"""log start ≤ last stable ≤ high watermark ≤ log end, and how each of them may move."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from suite.seeds import examples
from support.logs.builders import SimLog, batch, holds, in_transaction, marker, produced_by, with_config
from tailrace.model.errors import OffsetOutOfRangeError
from tailrace.model.invariant import InvariantError
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.storage.epoch_cache import EpochEntry
from tailrace.storage.origin import Origin


@pytest.fixture
def sim() -> SimLog:
    """Twelve records in three segments of four, under epochs 0, 1 and 2."""
    made = SimLog()
    for epoch in range(3):
        if epoch:
            made.log.roll()
        made.append(batch(2), batch(2), epoch=epoch)
    return made


class TestHighWatermark:
    @pytest.mark.spec("LS-21")
    def test_it_is_brought_under_the_end_and_never_moves_back(self, sim: SimLog) -> None:
        log = sim.log
        assert log.update_high_watermark(7) == 7
        assert log.update_high_watermark(99) == 12
        assert log.update_high_watermark(3) == 12
        assert log.high_watermark == 12

    @pytest.mark.spec("LS-21")
    def test_an_increment_beyond_the_end_is_refused(self, sim: SimLog) -> None:
        with pytest.raises(OffsetOutOfRangeError):
            sim.log.maybe_increment_high_watermark(LogOffsetMetadata(13))
        assert sim.log.high_watermark == 0

    @pytest.mark.spec("LS-21")
    def test_an_increment_is_one_only_forward_or_into_a_newer_segment(self, sim: SimLog) -> None:
        log = sim.log
        assert log.maybe_increment_high_watermark(LogOffsetMetadata(8, 4, 200))
        assert not log.maybe_increment_high_watermark(LogOffsetMetadata(8, 4, 200))
        assert not log.maybe_increment_high_watermark(LogOffsetMetadata(7))
        assert log.maybe_increment_high_watermark(LogOffsetMetadata(8, 8, 0))
        assert log.high_watermark_metadata() == LogOffsetMetadata(8, 8, 0)

    @pytest.mark.spec("LS-21")
    def test_a_position_that_was_not_known_is_found(self, sim: SimLog) -> None:
        sim.log.maybe_increment_high_watermark(LogOffsetMetadata(6))
        size = len(batch(2))
        assert sim.log.high_watermark_metadata() == LogOffsetMetadata(6, 4, size)

    @pytest.mark.spec("LS-21")
    def test_a_truncation_below_it_takes_it_back_and_one_above_does_not(self, sim: SimLog) -> None:
        log = sim.log
        log.update_high_watermark(6)
        log.truncate_to(8)
        assert (log.high_watermark, log.log_end_offset) == (6, 8)
        log.truncate_to(4)
        assert (log.high_watermark, log.log_end_offset) == (4, 4)


class TestLogStart:
    @pytest.mark.spec("LS-22")
    def test_it_cannot_pass_the_high_watermark(self, sim: SimLog) -> None:
        sim.log.update_high_watermark(5)
        with pytest.raises(OffsetOutOfRangeError):
            sim.log.increment_log_start(6)
        assert sim.log.log_start_offset == 0
        assert sim.log.increment_log_start(5)
        assert sim.log.log_start_offset == 5

    @pytest.mark.spec("LS-21", "LS-22")
    def test_it_never_moves_back_but_by_a_truncation(self, sim: SimLog) -> None:
        log = sim.log
        log.update_high_watermark(12)
        assert log.increment_log_start(6)
        assert not log.increment_log_start(6)
        assert not log.increment_log_start(2)
        assert log.log_start_offset == 6
        log.truncate_to(8)
        assert log.log_start_offset == 6
        log.truncate_to(4)
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (4, 4, 4)

    @pytest.mark.spec("LS-22")
    def test_moving_it_trims_epochs(self, sim: SimLog) -> None:
        sim.log.update_high_watermark(12)
        sim.log.increment_log_start(5)
        assert sim.log.epochs.entries == (EpochEntry(1, 5), EpochEntry(2, 8))

    @pytest.mark.spec("LS-22")
    def test_moving_it_trims_producer_state(self) -> None:
        sim = SimLog()
        sim.append(in_transaction(7, 0), batch(3))
        sim.append(marker(7, commit=True), origin=Origin.COORDINATOR)
        sim.log.update_high_watermark(4)
        assert sim.log.producers.first_unstable_offset is not None  # the marker is not replicated yet
        sim.log.update_high_watermark(5)
        sim.append(in_transaction(8, 0))
        sim.all_moved_to_end()
        sim.log.increment_log_start(6)
        assert sim.log.producers.map_end_offset == 6
        assert sim.log.last_stable_offset == 6  # the open transaction began below: nothing below the start is unstable
        sim.log.bounds.check()

    @pytest.mark.spec("LS-22")
    def test_a_producer_is_known_though_its_batches_are_gone(self, sim: SimLog) -> None:
        sim.append(produced_by(7, 0), epoch=2)
        sim.append(batch(1), epoch=2)
        sim.all_moved_to_end()
        sim.log.increment_log_start(sim.log.log_end_offset)
        [again] = sim.append(produced_by(7, 0), epoch=2)
        assert again.is_duplicate


class TestLocalLogStart:
    @pytest.mark.spec("LS-43")
    def test_it_is_tracked_apart_and_never_below_the_log_start(self, sim: SimLog) -> None:
        log = sim.log
        log.update_high_watermark(12)
        assert log.increment_local_log_start(8)
        assert (log.log_start_offset, log.local_log_start_offset) == (0, 8)
        assert not log.increment_local_log_start(4)
        log.increment_log_start(6)
        assert (log.log_start_offset, log.local_log_start_offset) == (6, 8)
        log.increment_log_start(10)
        assert (log.log_start_offset, log.local_log_start_offset) == (10, 10)
        log.truncate_to(9)
        assert (log.log_start_offset, log.local_log_start_offset) == (9, 9)
        log.restart_at(30, log_start=20)
        assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (20, 30, 30)


def test_the_promise_is_checked_whole(sim: SimLog) -> None:
    sim.log.bounds.log_start = 13
    with pytest.raises(InvariantError, match="log start 13"):
        sim.log.bounds.check()


class BoundsMachine(RuleBasedStateMachine):
    """Any sequence of operations: the order of the offsets holds after each, and nothing moves back by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.sim = SimLog(with_config(index_interval_bytes=100))
        self.sequences = {7: 0, 8: 0}
        self.last: tuple[int, int, int] = (0, 0, 0)

    @property
    def log(self):  # type: ignore[no-untyped-def]
        return self.sim.log

    @rule(count=st.integers(1, 3))
    def append(self, count: int) -> None:
        self.sim.append(batch(count))

    @rule(producer=st.sampled_from([7, 8]))
    def append_in_transaction(self, producer: int) -> None:
        known = self.log.producers.producers.get(producer)
        self.sim.append(in_transaction(producer, known.last_seq + 1 if known else 0))

    @rule(producer=st.sampled_from([7, 8]), commit=st.booleans())
    def end_transaction(self, producer: int, commit: bool) -> None:
        self.sim.append(marker(producer, commit=commit), origin=Origin.COORDINATOR)

    @rule(offset=st.integers(0, 60))
    def move_high_watermark(self, offset: int) -> None:
        self.log.update_high_watermark(offset)

    @rule(part=st.floats(0, 1))
    def move_log_start(self, part: float) -> None:
        self.log.increment_log_start(int(part * self.log.high_watermark))

    @rule()
    @precondition(lambda self: self.log.local.active.size)
    def roll(self) -> None:
        self.log.roll()

    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        """To the edge of a batch, as replication does."""
        edges = [first for first, _ in holds(self.log)]
        if edges:
            offset = edges[int(part * (len(edges) - 1))]
            self.log.truncate_to(offset)
            start, watermark, local_start = self.last
            self.last = (min(start, offset), min(watermark, offset), min(local_start, offset))

    @rule()
    def jobs(self) -> None:
        self.sim.world.jobs.run_all()

    @rule()
    def restart(self) -> None:
        start = self.log.log_start_offset
        self.sim.kill_and_open(log_start_offset=start)
        self.last = (start, 0, start)

    @invariant()
    def in_order(self) -> None:
        log = self.log
        assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset
        assert log.local_log_start_offset >= log.log_start_offset
        log.bounds.check()

    @invariant()
    def nothing_moved_back(self) -> None:
        now = (self.log.log_start_offset, self.log.high_watermark, self.log.local_log_start_offset)
        assert all(new >= old for new, old in zip(now, self.last, strict=True)), (self.last, now)
        self.last = now


TestBounds = pytest.mark.spec("LS-21", "LS-43")(BoundsMachine.TestCase)
TestBounds.settings = settings(max_examples=examples(50), stateful_step_count=30)
