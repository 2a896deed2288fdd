from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tailrace.env.real.files import RealFiles
from tailrace.model.errors import OutOfOrderSequenceError
from tailrace.model.invariant import InvariantError
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.storage.origin import Origin
from tailrace.storage.producer_entry import BatchMetadata, CompletedTxn
from tailrace.storage.producer_state import ProducerStateManager

DAY_MS = 86_400_000
NOW = 10 * DAY_MS


class Marker(NamedTuple):
    type: int
    coordinator_epoch: int = 0


ABORT = Marker(0)
COMMIT = Marker(1)


class Log:
    """The owner of the state, reduced to what it asks of it: offsets grow, each append is one batch."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.end = 0
        self.state = self.opened()

    def opened(self) -> ProducerStateManager:
        return ProducerStateManager(RealFiles(), str(self.directory))

    def data(
        self, producer_id: int, seq: int, *, epoch: int = 0, records: int = 1, txn: bool = False, at_ms: int = NOW
    ) -> int:
        """Append a batch; its first offset."""
        offset = self.end
        info = self.state.prepare_update(producer_id, Origin.CLIENT)
        place = LogOffsetMetadata(offset, 0, offset * 100)
        info.append_data(epoch, seq, seq + records - 1, at_ms, place, offset + records - 1, txn)
        self.state.update(info)
        self.advance(offset + records)
        return offset

    def end_txn(self, producer_id: int, marker: Marker = COMMIT, *, epoch: int = 0) -> CompletedTxn | None:
        """Append a marker without completing the transaction."""
        info = self.state.prepare_update(producer_id, Origin.COORDINATOR)
        completed = info.append_end_txn_marker(marker, epoch, self.end, NOW)
        self.state.update(info)
        self.advance(self.end + 1)
        return completed

    def complete(self, producer_id: int, marker: Marker = COMMIT) -> None:
        completed = self.end_txn(producer_id, marker)
        assert completed is not None
        self.state.complete_txn(completed)

    def advance(self, end: int) -> None:
        self.end = end
        self.state.update_map_end_offset(end)

    def unstable(self) -> int | None:
        first = self.state.first_unstable_offset
        return None if first is None else first.offset

    def snapshots(self) -> list[int]:
        return sorted(int(path.stem) for path in self.directory.glob("*.snapshot"))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    return Log(directory)


class TestDuplicates:
    @pytest.mark.spec("LS-29")
    def test_resend_is_answered_with_the_offsets_of_the_first_append(self, log: Log) -> None:
        log.advance(40)
        log.data(7, 0, records=5)
        log.data(8, 0)
        log.data(7, 5, records=2)
        found = log.state.find_duplicate(7, 0, 0, 4)
        assert found == BatchMetadata(4, 44, 4, NOW)
        assert (found.first_offset, found.last_offset, found.timestamp) == (40, 44, NOW)

    @pytest.mark.spec("LS-29")
    @pytest.mark.parametrize(("epoch", "first", "last"), [(0, 0, 3), (0, 1, 4), (0, 5, 9), (1, 0, 4)])
    def test_only_both_sequences_in_the_same_epoch_make_a_duplicate(
        self, log: Log, epoch: int, first: int, last: int
    ) -> None:
        log.data(7, 0, records=5)
        assert log.state.find_duplicate(7, epoch, first, last) is None

    @pytest.mark.spec("LS-29")
    def test_the_last_five_batches_are_known_the_sixth_is_not(self, log: Log) -> None:
        for seq in range(6):
            log.data(7, seq)
        assert log.state.find_duplicate(7, 0, 0, 0) is None
        assert [log.state.find_duplicate(7, 0, seq, seq) for seq in range(1, 6)] == [
            BatchMetadata(seq, seq, 0, NOW) for seq in range(1, 6)
        ]

    def test_of_an_unknown_producer_nothing_is_a_duplicate(self, log: Log) -> None:
        assert log.state.find_duplicate(7, 0, 0, 0) is None


def test_nothing_is_believed_before_update(log: Log) -> None:
    info = log.state.prepare_update(7, Origin.CLIENT)
    info.append_data(0, 0, 0, NOW, LogOffsetMetadata(0), 0, True)
    assert log.state.is_empty
    assert log.state.first_unstable_offset is None
    log.state.update(info)
    assert not log.state.is_empty
    assert log.unstable() == 0


def test_negative_producer_id_is_a_bug_of_the_caller(log: Log) -> None:
    with pytest.raises(InvariantError):
        log.state.prepare_update(-1, Origin.CLIENT)


class TestTransactions:
    @pytest.mark.spec("LS-31")
    def test_unstable_from_the_first_batch_until_the_marker_is_replicated(self, log: Log) -> None:
        log.data(7, 0)
        assert log.unstable() is None
        first = log.data(8, 0, txn=True)
        log.data(8, 1, txn=True)
        assert log.state.first_unstable_offset == LogOffsetMetadata(first, 0, first * 100)
        assert log.state.first_undecided_offset == first
        log.complete(8)
        assert log.state.first_undecided_offset is None
        assert log.unstable() == first
        log.state.on_high_watermark_updated(log.end - 1)  # the marker itself is not below it
        assert log.unstable() == first
        log.state.on_high_watermark_updated(log.end)
        assert log.unstable() is None

    @pytest.mark.spec("LS-31")
    def test_earliest_of_ongoing_and_unreplicated(self, log: Log) -> None:
        early = log.data(7, 0, txn=True)
        middle = log.data(8, 0, txn=True)
        late = log.data(9, 0, txn=True)
        log.complete(8)
        assert log.unstable() == early
        log.complete(7)
        assert log.unstable() == early
        assert log.state.first_undecided_offset == late
        log.state.on_high_watermark_updated(log.end - 1)  # replicates the marker of 8, not that of 7
        assert log.unstable() == early
        log.state.on_high_watermark_updated(log.end)
        assert log.unstable() == late
        assert middle < late
        log.complete(9)
        assert log.unstable() == late
        log.state.on_high_watermark_updated(log.end)
        assert log.unstable() is None

    @pytest.mark.spec("LS-31")
    def test_last_stable_offset_of_a_completed_transaction(self, log: Log) -> None:
        log.data(7, 0, txn=True)
        other = log.data(8, 0, txn=True)
        completed = log.end_txn(7, ABORT)
        assert completed == CompletedTxn(7, 0, 2, is_aborted=True)
        assert log.state.last_stable_offset(completed) == other
        assert log.state.first_undecided_offset == 0  # asked, not yet completed
        log.state.complete_txn(completed)
        last = log.end_txn(8)
        assert last is not None
        assert log.state.last_stable_offset(last) == last.last_offset + 1

    def test_two_transactions_of_one_producer_in_one_append(self, log: Log) -> None:
        info = log.state.prepare_update(7, Origin.REPLICATION)
        info.append_data(0, 0, 0, NOW, LogOffsetMetadata(0), 0, True)
        completed = info.append_end_txn_marker(COMMIT, 0, 1, NOW)
        info.append_data(0, 1, 1, NOW, LogOffsetMetadata(2), 2, True)
        log.state.update(info)
        assert completed is not None
        assert log.state.last_stable_offset(completed) == 2
        log.state.complete_txn(completed)
        assert [txn.first_offset.offset for txn in log.state.ongoing] == [2]
        assert log.unstable() == 0

    def test_completing_what_never_began_is_a_bug_of_the_caller(self, log: Log) -> None:
        log.data(7, 0, txn=True)
        with pytest.raises(InvariantError, match="never begun"):
            log.state.complete_txn(CompletedTxn(7, 1, 2, False))

    @pytest.mark.spec("LS-31")
    def test_log_start_beyond_the_marker_makes_stable(self, log: Log) -> None:
        log.data(7, 0, txn=True)
        log.complete(7)
        log.state.on_log_start_offset_incremented(2)
        assert log.unstable() is None
        assert 7 in log.state.producers

    def test_late_transaction(self, log: Log) -> None:
        assert not log.state.has_late_transaction(NOW + DAY_MS)
        log.data(7, 0, txn=True)
        allowed_ms = 900_000 + 300_000
        assert not log.state.has_late_transaction(NOW + allowed_ms)
        assert log.state.has_late_transaction(NOW + allowed_ms + 1)
        log.data(7, 1, txn=True, at_ms=NOW + 5)
        assert not log.state.has_late_transaction(NOW + allowed_ms + 1)
        log.complete(7)
        assert not log.state.has_late_transaction(NOW + 2 * DAY_MS)


class TestExpiry:
    @pytest.mark.spec("LS-29")
    def test_idle_producer_is_forgotten_and_may_begin_anywhere(self, log: Log) -> None:
        log.data(7, 0)
        log.state.remove_expired(NOW + DAY_MS - 1)
        with pytest.raises(OutOfOrderSequenceError):
            log.data(7, 5)
        log.state.remove_expired(NOW + DAY_MS)
        assert log.state.is_empty
        log.data(7, 5)

    @pytest.mark.spec("LS-29")
    def test_expiry_follows_its_setting(self, log: Log) -> None:
        log.state.producer_expiration_ms = 1000
        log.data(7, 0)
        log.data(8, 0, at_ms=NOW + 1)
        log.state.remove_expired(NOW + 1000)
        assert list(log.state.producers) == [8]

    @pytest.mark.spec("LS-29")
    def test_open_transaction_keeps_its_producer(self, log: Log) -> None:
        log.data(7, 0, txn=True)
        log.state.remove_expired(NOW + 2 * DAY_MS)
        assert 7 in log.state.producers
        log.complete(7)
        log.state.remove_expired(NOW + 2 * DAY_MS)
        assert 7 not in log.state.producers

    def test_verifications_expire_too(self, log: Log) -> None:
        log.state.maybe_create_verification_state(7, 0, 0, False, NOW)
        log.state.remove_expired(NOW + DAY_MS)
        assert log.state.verification_entry(7) is None


def test_verification_reaches_the_check_of_an_append(log: Log) -> None:
    waiting = log.state.maybe_create_verification_state(7, 4, 0, False, NOW)
    assert log.state.maybe_create_verification_state(7, 3, 0, False, NOW) is waiting
    with pytest.raises(OutOfOrderSequenceError, match="while 3 waits"):
        log.data(7, 4, txn=True)
    log.data(7, 3, txn=True)
    log.state.settle_verification(7, 0, brings_epoch=False)
    assert log.state.verification_entry(7) is None
    log.data(7, 4, txn=True)


class TestSnapshots:
    @pytest.mark.spec("LS-30")
    def test_snapshot_is_named_by_the_end_of_the_state(self, log: Log) -> None:
        log.data(7, 0, records=3)
        assert log.state.take_snapshot() == f"{log.directory}/00000000000000000003.snapshot"
        assert log.state.take_snapshot() is None  # nothing new
        log.data(7, 3)
        assert log.state.take_snapshot(sync=True) == f"{log.directory}/00000000000000000004.snapshot"
        assert log.snapshots() == [3, 4]
        assert (log.state.oldest_snapshot_offset, log.state.latest_snapshot_offset) == (3, 4)
        assert log.state.snapshot_file_for(3) == f"{log.directory}/00000000000000000003.snapshot"
        assert log.state.snapshot_file_for(2) is None

    def test_empty_log_takes_none(self, log: Log) -> None:
        assert log.state.take_snapshot() is None
        assert log.state.latest_snapshot_offset is None
        assert log.state.oldest_snapshot_offset is None

    @pytest.mark.spec("LS-30", "LS-49")
    def test_restart_takes_the_newest_snapshot(self, log: Log) -> None:
        log.data(7, 0)
        log.state.take_snapshot()
        log.data(7, 1)
        log.data(8, 0, epoch=3, txn=True)
        log.state.take_snapshot()
        before = log.state
        log.state = log.opened()
        log.state.truncate_and_reload(0, 10, NOW)
        assert log.state.map_end_offset == 3
        assert log.state.producers[8] == before.producers[8]
        assert log.state.producers[7] == before.producers[7]._replace(batches=(BatchMetadata(1, 1, 0, NOW),))
        assert log.unstable() == 2
        assert log.state.take_snapshot() is None
        log.data(7, 2)

    @pytest.mark.spec("LS-30", "LS-49")
    @pytest.mark.parametrize(
        "damage",
        [
            lambda data: b"",
            lambda data: data[:-1],
            lambda data: bytes(len(data)),
            lambda data: data + b"\0",
            lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:],
            lambda data: b"\0\2" + data[2:],
        ],
        ids=["empty", "cut", "zeros", "grown", "flipped", "version 2"],
    )
    def test_corrupt_snapshot_is_deleted_and_the_next_older_one_taken(
        self, log: Log, damage: Callable[[bytes], bytes]
    ) -> None:
        log.data(7, 0)
        log.state.take_snapshot()
        log.data(7, 1)
        log.state.take_snapshot()
        newest = log.directory / "00000000000000000002.snapshot"
        newest.write_bytes(damage(newest.read_bytes()))
        log.state = log.opened()
        log.state.truncate_and_reload(0, 10, NOW)
        assert log.state.map_end_offset == 1
        assert log.state.producers[7].last_seq == 0
        assert log.snapshots() == [1]

    @pytest.mark.spec("LS-30", "LS-49")
    def test_without_a_good_snapshot_the_replay_begins_at_the_log_start(self, log: Log) -> None:
        for name in ("00000000000000000005.snapshot", "00000000000000000009.snapshot"):
            (log.directory / name).write_bytes(b"nonsense")
        log.state = log.opened()
        log.state.truncate_and_reload(3, 10, NOW)
        assert log.state.is_empty
        assert log.state.map_end_offset == 3
        assert log.snapshots() == []

    def test_snapshot_lost_behind_our_back_is_passed_over(self, log: Log) -> None:
        log.data(7, 0)
        log.state.take_snapshot()
        log.state = log.opened()
        (log.directory / "00000000000000000001.snapshot").unlink()
        log.state.truncate_and_reload(0, 10, NOW)
        assert log.state.is_empty
        assert log.state.latest_snapshot_offset is None

    @pytest.mark.spec("LS-49")
    def test_snapshots_outside_the_log_are_deleted_not_used(self, log: Log) -> None:
        for seq in range(6):
            log.data(7, seq)
            log.state.take_snapshot()
        log.state.truncate_and_reload(2, 4, NOW)
        assert log.snapshots() == [2, 3, 4]
        assert log.state.map_end_offset == 4
        assert log.state.producers[7].last_seq == 3
        assert log.state.first_unstable_offset is None

    def test_truncation_forgets_what_was_above(self, log: Log) -> None:
        log.data(7, 0)
        log.state.take_snapshot()
        log.data(8, 0, txn=True)
        log.data(9, 0, txn=True)
        log.complete(9)
        log.state.truncate_and_reload(0, 1, NOW)
        assert list(log.state.producers) == [7]
        assert log.unstable() is None
        assert log.state.map_end_offset == 1

    def test_reload_at_the_same_end_keeps_the_state(self, log: Log) -> None:
        for seq in range(3):
            log.data(7, seq)
        before = dict(log.state.producers)
        log.state.truncate_and_reload(2, 3, NOW)
        assert log.state.producers == before

    @pytest.mark.spec("LS-31", "LS-49")
    def test_loaded_transactions_stand_in_the_order_of_their_beginning(self, log: Log) -> None:
        log.data(7, 0)
        log.data(8, 0, txn=True)
        log.data(7, 1, txn=True)
        log.state.take_snapshot()
        log.state = log.opened()
        log.state.truncate_and_reload(0, 10, NOW)
        assert [txn.producer_id for txn in log.state.ongoing] == [8, 7]
        assert log.unstable() == 1

    @pytest.mark.spec("LS-29", "LS-30")
    def test_expired_producers_are_not_loaded_unless_in_a_transaction(self, log: Log) -> None:
        log.data(7, 0)
        log.data(8, 0, txn=True)
        log.data(9, 0, at_ms=NOW + 1)
        log.state.take_snapshot()
        log.state = log.opened()
        log.state.truncate_and_reload(0, 10, NOW + DAY_MS)
        assert sorted(log.state.producers) == [8, 9]

    def test_full_truncation(self, log: Log) -> None:
        log.data(7, 0, txn=True)
        log.state.take_snapshot()
        log.complete(7)
        log.state.truncate_fully_and_start_at(50)
        assert log.state.is_empty
        assert log.unstable() is None
        assert log.snapshots() == []
        assert log.state.latest_snapshot_offset is None
        assert log.state.map_end_offset == 50
        assert log.state.take_snapshot() == f"{log.directory}/00000000000000000050.snapshot"

    def test_log_emptied_below_its_snapshots_takes_new_ones(self, log: Log) -> None:
        log.advance(100)
        log.state.take_snapshot()
        log.state.truncate_fully_and_start_at(50)
        assert log.state.take_snapshot() is not None
        assert log.snapshots() == [50]

    def test_log_start_carries_the_state_along(self, log: Log) -> None:
        log.state.on_log_start_offset_incremented(20)
        assert log.state.map_end_offset == 20
        assert log.state.take_snapshot() is None  # an empty log at its start has nothing to keep
        log.advance(30)
        log.state.on_log_start_offset_incremented(25)
        assert log.state.map_end_offset == 30
        assert log.state.take_snapshot() is not None

    @pytest.mark.spec("LS-38")
    @pytest.mark.parametrize(
        ("bases", "kept"),
        [
            ([0, 10, 20], [10, 20, 40]),  # 40: the largest above the last base, from a clean shutdown
            ([0, 10, 40], [10, 40]),
            ([0, 10, 50], [10]),  # the largest stray is below the last base
            ([0, 40], [40]),
            ([], [40]),
        ],
    )
    def test_stray_snapshots_are_removed(self, log: Log, bases: list[int], kept: list[int]) -> None:
        for offset in (10, 15, 20, 30, 40):
            log.advance(offset)
            log.state.take_snapshot()
        log.state = log.opened()
        log.state.remove_stray_snapshots(bases)
        assert log.snapshots() == kept
        assert log.state.latest_snapshot_offset == kept[-1]

    @pytest.mark.spec("LS-38")
    def test_stray_removal_sees_files_that_came_later(self, log: Log) -> None:
        (log.directory / "00000000000000000005.snapshot").touch()
        log.state.remove_stray_snapshots([0, 10])
        assert log.snapshots() == []

    def test_other_names_are_left_alone(self, log: Log) -> None:
        names = ["5.snapshot", "0000000000000000000x.snapshot", "00000000000000000007.snapshot.deleted"]
        names += ["99999999999999999999.snapshot", "00000000000000000007.log", ".snapshot"]
        names += ["00000000000000000007.1.snapshot", "٠" * 20 + ".snapshot"]
        for name in names:
            (log.directory / name).touch()
        (log.directory / "00000000000000000009.snapshot").mkdir()
        log.state = log.opened()
        assert log.state.latest_snapshot_offset is None
        log.state.remove_stray_snapshots([])
        log.state.truncate_fully_and_start_at(0)
        assert all((log.directory / name).exists() for name in names)

    def test_marked_snapshot_is_renamed_and_forgotten(self, log: Log) -> None:
        for offset in (10, 20):
            log.advance(offset)
            log.state.take_snapshot()
        renamed = log.state.mark_snapshot_for_deletion(10)
        assert renamed == f"{log.directory}/00000000000000000010.snapshot.deleted"
        assert Path(renamed).exists()
        assert log.snapshots() == [20]
        (log.directory / "00000000000000000020.snapshot").unlink()
        assert log.state.mark_snapshot_for_deletion(20) is None
        assert log.state.mark_snapshot_for_deletion(30) is None
        assert log.state.latest_snapshot_offset is None

    def test_renamed_directory_takes_its_snapshots_along(self, log: Log) -> None:
        log.advance(10)
        log.state.take_snapshot()
        moved = log.directory.rename(log.directory.with_name("orders-1"))
        log.state.move_to(str(moved))
        assert log.state.snapshot_file_for(10) == f"{moved}/00000000000000000010.snapshot"
        log.state.truncate_fully_and_start_at(0)
        assert list(moved.iterdir()) == []

    def test_missing_directory_has_no_snapshots(self, tmp_path: Path) -> None:
        state = ProducerStateManager(RealFiles(), f"{tmp_path}/none-0")
        assert state.latest_snapshot_offset is None
