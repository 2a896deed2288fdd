"""The transaction index: its bytes, its range search, what it refuses, damage."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watched_files import WatchedFiles

from tailrace.env import Mode
from tailrace.env.real.files import RealFiles
from tailrace.model.errors import CorruptIndexError, IndexAppendError, SegmentGoneError
from tailrace.sim.disk import SimDisk
from tailrace.sim.faults import Survival
from tailrace.storage.transaction_index import AbortedTxn, TransactionIndex

TRANSACTIONS = [
    AbortedTxn(producer_id=0, first_offset=0, last_offset=10, last_stable_offset=11),
    AbortedTxn(producer_id=1, first_offset=5, last_offset=15, last_stable_offset=13),
    AbortedTxn(producer_id=2, first_offset=18, last_offset=35, last_stable_offset=25),
    AbortedTxn(producer_id=3, first_offset=32, last_offset=50, last_stable_offset=40),
]


def index_at(tmp_path: Path, files: WatchedFiles | None = None) -> TransactionIndex:
    return TransactionIndex(files or WatchedFiles(RealFiles()), str(tmp_path / "00000000000000000000.txnindex"), 0)


def filled(index: TransactionIndex) -> TransactionIndex:
    for aborted in TRANSACTIONS:
        index.append(aborted)
    return index


@pytest.mark.spec("LS-05")
def test_an_entry_has_34_bytes_behind_its_version(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    index.append(AbortedTxn(1, 2, 3, 4))
    assert Path(index.path).read_bytes() == bytes.fromhex(
        "0000 0000000000000001 0000000000000002 0000000000000003 0000000000000004"
    )
    index.append(AbortedTxn(2**63 - 1, 2**62, 2**63 - 1, 2**63 - 1))
    assert Path(index.path).stat().st_size == 68


@pytest.mark.spec("LS-05")
def test_the_file_is_made_at_the_first_abort_and_never_mapped(tmp_path: Path) -> None:
    files = WatchedFiles(RealFiles())
    index = index_at(tmp_path, files)
    assert index.collect(0, 100) == ([], False)
    assert index.all() == []
    index.truncate_to(0)
    index.reset()
    index.sync()
    index.sanity_check()
    assert list(tmp_path.iterdir()) == []
    filled(index)
    index.collect(0, 100)
    assert [path.name for path in tmp_path.iterdir()] == ["00000000000000000000.txnindex"]
    assert files.maps == 0


@pytest.mark.spec("LS-05")
def test_a_range_gets_what_overlaps_it_and_learns_whether_that_is_all(tmp_path: Path) -> None:
    a, b, c, d = TRANSACTIONS
    index = filled(index_at(tmp_path))
    assert index.collect(0, 100) == ([a, b, c, d], False)
    assert index.collect(0, 32) == ([a, b, c], True)
    assert index.collect(0, 35) == ([a, b, c, d], True)
    assert index.collect(10, 35) == ([a, b, c, d], True)
    assert index.collect(11, 35) == ([b, c, d], True)
    assert index.collect(20, 41) == ([c, d], False)
    assert index.collect(20, 40) == ([c, d], True)
    assert index.collect(51, 100) == ([], False)
    assert index.collect(0, 5) == ([a], True)
    assert index.collect(0, 0) == ([], True)


@pytest.mark.spec("LS-05")
def test_the_search_stops_at_the_entry_that_answers(tmp_path: Path) -> None:
    """Behind an entry whose last stable offset reaches the bound nothing is looked at, however it overlaps."""
    index = index_at(tmp_path)
    index.append(AbortedTxn(1, 0, 10, 30))
    index.append(AbortedTxn(2, 5, 20, 21))
    assert index.collect(0, 30) == ([AbortedTxn(1, 0, 10, 30)], True)
    assert index.collect(0, 31) == (index.all(), False)


def test_the_last_offset_must_increase_also_after_it_was_opened_again(tmp_path: Path) -> None:
    for index in (filled(index_at(tmp_path)), index_at(tmp_path)):
        for last_offset in (50, 49):
            with pytest.raises(IndexAppendError, match=f"{last_offset} does not come after .* at 50"):
                index.append(AbortedTxn(9, 40, last_offset, 40))
    index.append(AbortedTxn(9, 40, 51, 40))
    assert index_at(tmp_path).all() == [*TRANSACTIONS, AbortedTxn(9, 40, 51, 40)]


def test_a_number_that_is_no_int64_is_refused(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    with pytest.raises(IndexAppendError, match="int64"):
        index.append(AbortedTxn(2**63, 0, 0, 0))
    assert index.all() == []


@given(st.integers(0, 60), st.integers(0, 5))
def test_truncation_drops_what_ended_at_or_after_the_offset(offset: int, reopened: int) -> None:
    disk = SimDisk()
    index = filled(TransactionIndex(disk, "/t", 0))
    if reopened:
        index = TransactionIndex(disk, "/t", 0)
    index.truncate_to(offset)
    kept = [aborted for aborted in TRANSACTIONS if aborted.last_offset < offset]
    assert index.all() == kept
    assert (index.entries, disk.size("/t")) == (len(kept), len(kept) * 34)
    index.append(AbortedTxn(9, 0, 60, 60))
    assert index.all() == [*kept, AbortedTxn(9, 0, 60, 60)]


def test_reset_empties_it(tmp_path: Path) -> None:
    index = filled(index_at(tmp_path))
    index.reset()
    assert (index.all(), Path(index.path).stat().st_size) == ([], 0)
    index.append(TRANSACTIONS[0])
    assert index.all() == TRANSACTIONS[:1]


def test_many_entries_are_read_in_pieces(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    entries = [AbortedTxn(n, n, n, n) for n in range(2500)]
    Path(index.path).write_bytes(b"".join(struct.pack(">hqqqq", 0, *entry) for entry in entries))
    assert index.all() == entries
    assert index.collect(2400, 2450) == (entries[2400:2450], True)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (struct.pack(">hqqqq", 0, 1, 2, 3, 4) + b"\0", "35 bytes"),
        (struct.pack(">hqqqq", 1, 1, 2, 3, 4), "unknown version 1"),
        (struct.pack(">hqqqq", -1, 1, 2, 3, 4), "unknown version -1"),
        (struct.pack(">hqqqq", 0, 1, 2, -1, 4), "does not come after"),
        (struct.pack(">hqqqq", 0, 1, 2, 3, 4) * 2, "does not come after"),
        (struct.pack(">hqqqq", 0, 1, 4, 3, 4), "does not end after its beginning"),
        (struct.pack(">hqqqq", 0, 1, -4, 3, 4), "does not end after its beginning"),
    ],
)
def test_a_damaged_file_is_found_out(tmp_path: Path, data: bytes, problem: str) -> None:
    index = index_at(tmp_path)
    Path(index.path).write_bytes(data)
    with pytest.raises(CorruptIndexError, match=problem):
        index.sanity_check()


def test_an_entry_from_before_the_segment_is_found_out(tmp_path: Path) -> None:
    path = filled(index_at(tmp_path)).path
    TransactionIndex(RealFiles(), path, 10).sanity_check()
    with pytest.raises(CorruptIndexError, match="base of the segment is 11"):
        TransactionIndex(RealFiles(), path, 11).sanity_check()


def test_a_torn_entry_is_not_read_and_is_overwritten(tmp_path: Path) -> None:
    index = filled(index_at(tmp_path))
    with Path(index.path).open("ab") as file:
        file.write(b"\0" * 20)
    index = index_at(tmp_path)
    assert index.all() == TRANSACTIONS
    index.append(AbortedTxn(9, 40, 60, 60))
    assert Path(index.path).stat().st_size == 5 * 34
    index.sanity_check()


@given(st.binary(max_size=200))
def test_no_file_makes_it_fail_other_than_as_corrupt(data: bytes) -> None:
    disk = SimDisk()
    disk.open("/t", Mode.CREATE).write_at((data,), 0)
    index = TransactionIndex(disk, "/t", 0)
    for use in (index.sanity_check, index.all, lambda: index.collect(0, 2**40), lambda: index.truncate_to(5)):
        try:
            use()
        except CorruptIndexError:
            index.reset()
            assert index.all() == []


def test_synced_entries_survive_lost_power() -> None:
    disk = SimDisk()
    index = filled(TransactionIndex(disk, "/t", 0))
    index.sync()
    disk.sync_dir("/")
    index.append(AbortedTxn(9, 40, 60, 60))
    index.truncate_to(60)
    disk.fail_next("sync", "/t")
    with pytest.raises(OSError, match="Input/output error"):
        index.sync()
    index.sync()
    disk.crash()
    disk.restart(Survival.NOTHING)
    index = TransactionIndex(disk, "/t", 0)
    index.sanity_check()
    assert index.all() == TRANSACTIONS


def test_a_sync_with_nothing_new_does_nothing(tmp_path: Path) -> None:
    files = WatchedFiles(RealFiles())
    index = filled(index_at(tmp_path, files))
    index.sync()
    index.sync()
    assert files.syncs == [index.path]


def test_no_descriptor_is_held_between_calls(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    index = filled(index_at(tmp_path))
    index.collect(0, 5)
    index.truncate_to(20)
    index.sync()
    assert len(os.listdir("/proc/self/fd")) == before


def test_it_can_be_renamed_and_deleted_with_or_without_a_file(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    index.rename_to(index.path + ".swap")
    index.append(TRANSACTIONS[0])
    index.rename_to(index.path.removesuffix(".swap"))
    assert [path.name for path in tmp_path.iterdir()] == ["00000000000000000000.txnindex"]
    index.delete()
    index.delete()
    assert list(tmp_path.iterdir()) == []


def test_a_closed_index_says_that_it_is_gone(tmp_path: Path) -> None:
    index = filled(index_at(tmp_path))
    index.close()
    index.close()
    for use in (index.all, lambda: index.collect(0, 9), lambda: index.append(TRANSACTIONS[3]), index.reset, index.sync):
        with pytest.raises(SegmentGoneError):
            use()


def test_it_follows_its_directory(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    index = filled(index_at(tmp_path / "a"))
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(SegmentGoneError):
        index.all()
    index.moved_to(str(tmp_path / "b" / "00000000000000000000.txnindex"))
    assert index.all() == TRANSACTIONS
