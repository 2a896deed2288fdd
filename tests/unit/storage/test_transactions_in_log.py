"""Transactions seen through the log: the last stable offset, aborted transactions in reads, and a failing index."""

from __future__ import annotations

import errno
import struct

import pytest

from support.logs.builders import (
    DIRECTORY,
    SimLog,
    batch,
    file_bytes,
    holds,
    in_transaction,
    marker,
    offsets,
    produced_by,
    sized_batch,
    with_config,
)
from tailrace.model.errors import InvalidTxnStateError, StorageError, TransactionCoordinatorFencedError
from tailrace.storage.fetch import Isolation
from tailrace.storage.origin import Origin
from tailrace.storage.transaction_index import AbortedTxn
from tailrace.storage.verify import verify_directory

TXN_INDEX = "00000000000000000000.txnindex"


@pytest.fixture
def sim() -> SimLog:
    return SimLog(with_config(index_interval_bytes=300))


def end(sim: SimLog, producer_id: int, *, commit: bool = False) -> None:
    sim.append(marker(producer_id, commit=commit), origin=Origin.COORDINATOR)


class TestLastStableOffset:
    @pytest.mark.spec("LS-31")
    def test_it_is_the_lower_of_first_unstable_offset_and_watermark(self, sim: SimLog) -> None:
        log = sim.log
        sim.append(batch(3))
        assert log.last_stable_offset == 0
        log.update_high_watermark(2)
        assert log.last_stable_offset == 2
        sim.append(in_transaction(7, 0))
        sim.append(batch(2))
        assert log.last_stable_offset == 2
        sim.all_moved_to_end()
        assert (log.last_stable_offset, log.high_watermark) == (3, 6)

    @pytest.mark.spec("LS-31")
    @pytest.mark.parametrize("commit", [True, False])
    def test_a_marker_counts_once_it_is_replicated(self, sim: SimLog, commit: bool) -> None:
        log = sim.log
        sim.append(in_transaction(7, 0, count=2))
        end(sim, 7, commit=commit)
        log.update_high_watermark(2)
        assert log.last_stable_offset == 0
        log.update_high_watermark(3)
        assert log.last_stable_offset == 3
        assert log.aborted_transactions(0, 9) == (() if commit else ((7, 0, 2, 3),))

    @pytest.mark.spec("LS-31")
    def test_on_completion_the_next_open_transaction_holds_it(self, sim: SimLog) -> None:
        log = sim.log
        for producer in (1, 2, 3):
            sim.append(in_transaction(producer, 0))
        for producer, stable in ((2, 0), (1, 2), (3, 6)):
            end(sim, producer)
            sim.all_moved_to_end()
            assert log.last_stable_offset == stable
        assert log.aborted_transactions(0, 9) == ((2, 1, 3, 0), (1, 0, 4, 2), (3, 2, 5, 6))

    @pytest.mark.spec("LS-31")
    def test_a_restart_finds_open_transactions_again(self, sim: SimLog) -> None:
        sim.append(batch(2), in_transaction(7, 0), in_transaction(8, 0))
        end(sim, 7)
        for reopen in (lambda: sim.kill_and_open(), lambda: (sim.log.close(), sim.open(was_clean=True))):
            reopen()
            sim.all_moved_to_end()
            assert sim.log.last_stable_offset == 3
            assert offsets(sim.log.read(0, 1 << 20, Isolation.TXN_COMMITTED).read()) == [(0, 1), (2, 2)]

    @pytest.mark.spec("LS-10")
    def test_a_reader_stops_at_the_byte_where_the_open_transaction_begins(self, sim: SimLog) -> None:
        sim.append(sized_batch(500), sized_batch(400), in_transaction(7, 0), sized_batch(300))
        sim.all_moved_to_end()
        found = sim.log.read(0, 1 << 20, Isolation.TXN_COMMITTED)
        assert len(found.read()) == 900
        assert sim.log.read(2, 1 << 20, Isolation.TXN_COMMITTED).records is None


class TestMarkers:
    @pytest.mark.spec("LS-31")
    def test_a_marker_for_nothing_is_taken_and_ends_nothing(self, sim: SimLog) -> None:
        end(sim, 7)
        sim.append(produced_by(8, 0))
        end(sim, 8)
        assert sim.log.aborted_transactions(0, 9) == ()
        assert TXN_INDEX not in sim.names()

    def test_a_fenced_coordinators_marker_is_refused(self, sim: SimLog) -> None:
        sim.append(in_transaction(7, 0))
        sim.append(marker(7, commit=True, coordinator_epoch=5), origin=Origin.COORDINATOR)
        [result] = sim.log.append_as_leader([marker(7, commit=True, coordinator_epoch=4)], 0, Origin.COORDINATOR)
        assert isinstance(result.error, TransactionCoordinatorFencedError)
        assert sim.log.log_end_offset == 2

    def test_a_plain_batch_inside_a_transaction_is_refused(self, sim: SimLog) -> None:
        sim.append(in_transaction(7, 0))
        [result] = sim.log.append_as_leader([produced_by(7, 1)], 0)
        assert isinstance(result.error, InvalidTxnStateError)

    def test_where_transactions_are_verified_the_first_batch_needs_its_guard(self) -> None:
        sim = SimLog(verifies_transactions=True)
        [result] = sim.log.append_as_leader([in_transaction(7, 0)], 0)
        assert isinstance(result.error, InvalidTxnStateError)
        guard = sim.log.start_verification(7, 0, 0, True)
        [result] = sim.log.append_as_leader([in_transaction(7, 0)], 0, guard=guard)
        assert result.error is None
        sim.append(in_transaction(7, 1))  # it is open now


class TestAbortedTransactionsInReads:
    @pytest.fixture
    def spread(self, sim: SimLog) -> SimLog:
        """Three segments; producer 1 aborts from the first to the third, 2 in the second, 3 never.

        Offsets: 0 plain, 1 begin 1 | 2 begin 2, 3 plain, 4 abort 2, 5 plain | 6 abort 1, 7 begin and 8 abort 4, 9 plain
        """
        sim.append(batch(1), in_transaction(1, 0))
        sim.log.roll()
        sim.append(in_transaction(2, 0), batch(1))
        end(sim, 2)
        sim.append(batch(1))
        sim.log.roll()
        end(sim, 1)
        sim.append(in_transaction(4, 0))
        end(sim, 4)
        sim.append(batch(1))
        sim.all_moved_to_end()
        return sim

    @pytest.mark.spec("LS-19")
    def test_a_read_carries_every_transaction_that_overlaps_it(self, spread: SimLog) -> None:
        one, two, four = AbortedTxn(1, 1, 6, 7), AbortedTxn(2, 2, 4, 1), AbortedTxn(4, 7, 8, 9)
        carried = {
            offset: spread.log.read(offset, 1 << 20, Isolation.TXN_COMMITTED).aborted for offset in (0, 2, 5, 6, 7, 9)
        }
        assert carried == {
            0: (one,),  # begins in this segment, its marker is in the third
            2: (two, one),
            5: (one,),
            6: (one, four),
            7: (four,),
            9: (),
        }

    @pytest.mark.spec("LS-19")
    def test_a_slice_cut_short_carries_only_what_lies_before_the_next_index_entry(self) -> None:
        sim = SimLog(with_config(index_interval_bytes=0))
        for producer in range(6):
            sim.append(in_transaction(producer, 0), batch(1, 300))
            end(sim, producer)
        sim.all_moved_to_end()
        found = sim.log.read(0, 1, Isolation.TXN_COMMITTED)
        assert offsets(found.read()) == [(0, 0)]
        assert [each.producer_id for each in found.aborted or ()] == [0]

    @pytest.mark.spec("LS-19")
    def test_other_readers_carry_none(self, spread: SimLog) -> None:
        for isolation in (Isolation.LOG_END, Isolation.HIGH_WATERMARK):
            assert spread.log.read(0, 1 << 20, isolation).aborted is None
        assert spread.log.read(10, 100, Isolation.TXN_COMMITTED).aborted == ()

    @pytest.mark.spec("LS-19", "LS-28")
    def test_after_a_crash_the_reads_carry_the_same(self, spread: SimLog) -> None:
        before = [spread.log.read(n, 1 << 20, Isolation.TXN_COMMITTED).aborted for n in range(10)]
        for name in spread.names():
            if name.endswith(".txnindex"):
                spread.disk.unlink(f"{DIRECTORY}/{name}")
        spread.kill_and_open()
        spread.all_moved_to_end()
        assert [spread.log.read(n, 1 << 20, Isolation.TXN_COMMITTED).aborted for n in range(10)] == before


class TestFailingTransactionIndex:
    """The marker is written before its transaction is entered in the index: the bytes stand whatever comes after."""

    def aborted_but_not_indexed(self, sim: SimLog, code: int) -> None:
        sim.append(in_transaction(7, 0, count=2))
        sim.disk.fail_next("write", "*.txnindex", code)
        [result] = sim.log.append_as_leader([marker(7, commit=False)], 0, Origin.COORDINATOR)
        assert (result.error, result.first_offset) == (None, 2)  # what the log holds is told as it is
        sim.all_moved_to_end()
        assert sim.log.last_stable_offset == 0
        assert sim.log.read(0, 1 << 20, Isolation.TXN_COMMITTED).records is None

    @pytest.mark.spec("LS-46")
    def test_the_next_change_reconciles_a_full_disk(self, sim: SimLog) -> None:
        self.aborted_but_not_indexed(sim, errno.ENOSPC)
        sim.append(produced_by(9, 0))
        sim.all_moved_to_end()
        assert sim.log.last_stable_offset == 4
        assert sim.log.read(0, 1 << 20, Isolation.TXN_COMMITTED).aborted == ((7, 0, 2, 3),)

    @pytest.mark.spec("LS-46")
    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
    def test_recovery_reconciles(self, sim: SimLog, code: int) -> None:
        self.aborted_but_not_indexed(sim, code)
        sim.log.flush()
        sim.world.jobs.run_all()
        assert sim.log.recovery_point <= 2  # what is below it would not be looked at again
        sim.kill_and_open(recovery_point=sim.log.recovery_point)
        sim.all_moved_to_end()
        assert sim.log.last_stable_offset == 3
        assert sim.log.read(0, 1 << 20, Isolation.TXN_COMMITTED).aborted == ((7, 0, 2, 3),)
        assert list(verify_directory(sim.disk, DIRECTORY)) == []

    @pytest.mark.spec("LS-46")
    def test_a_failing_disk_ends_the_writing(self, sim: SimLog) -> None:
        self.aborted_but_not_indexed(sim, errno.EIO)
        with pytest.raises(StorageError):
            sim.append(batch(1))
        with pytest.raises(StorageError):
            sim.log.close()

    @pytest.mark.spec("LS-46")
    def test_a_clean_close_needs_the_index(self, sim: SimLog) -> None:
        self.aborted_but_not_indexed(sim, errno.ENOSPC)
        sim.disk.fail_next("write", "*.txnindex", errno.ENOSPC)
        with pytest.raises(StorageError):
            sim.log.close()
        sim.log.close()
        sim.open(was_clean=True)
        sim.all_moved_to_end()
        assert sim.log.read(0, 1 << 20, Isolation.TXN_COMMITTED).aborted == ((7, 0, 2, 3),)

    @pytest.mark.spec("LS-46")
    @pytest.mark.parametrize("what", ["roll", "truncate"])
    def test_nothing_moves_on_over_a_transaction_that_is_not_indexed(self, sim: SimLog, what: str) -> None:
        self.aborted_but_not_indexed(sim, errno.ENOSPC)
        sim.disk.fail_next("write", "*.txnindex", errno.ENOSPC, times=2)
        sim.append(batch(1))
        act = sim.log.roll if what == "roll" else lambda: sim.log.truncate_to(3)
        with pytest.raises(StorageError):
            act()
        assert holds(sim.log) == [(0, 1), (2, 2), (3, 3)]
        act()
        sim.all_moved_to_end()
        assert sim.log.last_stable_offset == sim.log.log_end_offset
        assert sim.log.aborted_transactions(0, 9) == ((7, 0, 2, 3),)

    @pytest.mark.spec("LS-31", "LS-46")
    def test_transactions_behind_the_failed_one_wait_for_it(self, sim: SimLog) -> None:
        sim.append(in_transaction(8, 0))
        self.aborted_but_not_indexed_at_one(sim)
        sim.disk.fail_next("write", "*.txnindex", errno.ENOSPC)
        end(sim, 8, commit=True)
        sim.all_moved_to_end()
        assert sim.log.last_stable_offset == 0
        sim.append(produced_by(9, 0))
        sim.all_moved_to_end()
        assert sim.log.last_stable_offset == sim.log.log_end_offset
        assert file_bytes(sim.world, TXN_INDEX) == struct.pack(">hqqqq", 0, 7, 1, 2, 0)

    def aborted_but_not_indexed_at_one(self, sim: SimLog) -> None:
        sim.append(in_transaction(7, 0))
        sim.disk.fail_next("write", "*.txnindex", errno.ENOSPC)
        end(sim, 7)

    @pytest.mark.spec("LS-31")
    def test_an_entry_that_was_made_late_says_what_was_stable_at_its_marker(self, sim: SimLog) -> None:
        """Or a search would end at it, before the abort of what the same producer began meanwhile."""
        self.aborted_but_not_indexed(sim, errno.ENOSPC)
        sim.append(batch(1), in_transaction(7, 2), batch(1, 5000), in_transaction(8, 0))
        end(sim, 8, commit=True)
        end(sim, 7)
        sim.all_moved_to_end()
        assert sim.log.aborted_transactions(0, 99) == ((7, 0, 2, 3), (7, 4, 8, 9))
        assert sim.log.read(4, 200, Isolation.TXN_COMMITTED).aborted == ((7, 4, 8, 9),)
