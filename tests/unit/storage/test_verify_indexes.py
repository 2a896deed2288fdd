from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from support.logs.sample_log import ABORTING, COMMITTING, copy_sample, open_sample
from support.logs.verification import FILES, all_findings, edit, errors, logs, positions, single
from tailrace.record.builder import batch_of
from tailrace.record.control import COMMIT, end_txn_marker
from tailrace.storage import names
from tailrace.storage.transaction_index import AbortedTxn, TransactionIndex


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return copy_sample(tmp_path / "t-0")


@pytest.mark.parametrize(
    ("suffix", "entry", "words"),
    [
        (".index", struct.pack(">ii", 0, 40), "but no batch begins there"),
        (".index", struct.pack(">ii", 1, 40), "but no batch begins there"),
        (".index", struct.pack(">ii", -1, 40), "is below"),
        (".index", struct.pack(">ii", 4, -1), "is below"),
        (".index", struct.pack(">ii", 1, 50_000), "lies behind the end of the log"),
        (".timeindex", struct.pack(">qi", 1_700_000_000_001, 5), "but the batch there has 1700000001002"),
        (".timeindex", struct.pack(">qi", 1_600_000_000_000, 2), "but the batch there has 1700000000002"),
        (".timeindex", struct.pack(">qi", -5, 2), "is below"),
        (".timeindex", struct.pack(">qi", 1_900_000_000_000, 5_000), "lies behind the end of the log"),
    ],
)
def test_index_entries_that_are_not_true(sample: Path, suffix: str, entry: bytes, words: str) -> None:
    index = logs(sample)[0].with_suffix(suffix)
    index.write_bytes(entry)
    found = single(errors(sample))
    assert (found.file, found.position) == (index.name, 0)
    assert words in found.problem


def test_an_offset_index_entry_with_another_batchs_offset(sample: Path) -> None:
    log = logs(sample)[0]
    second = positions(log)[1]
    index = log.with_suffix(".index")
    index.write_bytes(struct.pack(">ii", 4, second))
    assert "but the batch there ends with 5" in single(errors(sample)).problem
    index.write_bytes(struct.pack(">ii", 7, second))
    assert "no batch ends with that offset" in single(errors(sample)).problem
    index.write_bytes(struct.pack(">ii", 5_000, second))
    assert "the log ends before that offset" in single(errors(sample)).problem


def test_one_entry_for_batches_appended_together_is_how_kafka_did_it(sample: Path) -> None:
    log = logs(sample)[0]
    log.with_suffix(".index").write_bytes(struct.pack(">ii", 8, positions(log)[1]))
    assert errors(sample) == []


def test_a_time_index_entry_may_name_any_record_of_the_batch(sample: Path) -> None:
    index = logs(sample)[0].with_suffix(".timeindex")
    index.write_bytes(struct.pack(">qi", 1_700_000_001_002, 4))
    assert errors(sample) == []


def test_a_time_index_entry_after_a_larger_timestamp(tmp_path: Path) -> None:
    log = open_sample(tmp_path / "t-0")
    log.append_as_leader([batch_of([(9000, b"k", b"v")]), batch_of([(5000, b"k", b"v")])], 0)
    log.close()
    index = tmp_path / "t-0" / names.time_index_name(0)
    assert index.read_bytes() == struct.pack(">qi", 9000, 0)
    index.write_bytes(struct.pack(">qi", 5000, 1))
    assert "but before it stands 9000" in single(errors(tmp_path / "t-0")).problem


def test_timestamp_zero_at_the_first_offset_is_an_entry(tmp_path: Path) -> None:
    log = open_sample(tmp_path / "t-0")
    log.append_as_leader([batch_of([(0, b"k", b"v")])], 0)
    log.roll()
    log.close()
    assert (tmp_path / "t-0" / names.time_index_name(0)).read_bytes() == bytes(12)
    assert errors(tmp_path / "t-0") == []


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_entries_that_do_not_ascend(sample: Path, suffix: str) -> None:
    index = logs(sample)[0].with_suffix(suffix)
    content = index.read_bytes()
    size = 8 if suffix == ".index" else 12
    assert len(content) >= 2 * size
    index.write_bytes(content[:size] + content[:size])
    assert "does not ascend" in single(errors(sample)).problem


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_zeros_behind_the_entries_belong_to_the_active_segment_only(sample: Path, suffix: str) -> None:
    first, last = logs(sample)[0].with_suffix(suffix), logs(sample)[-1].with_suffix(suffix)
    last.write_bytes(last.read_bytes() + bytes(120))
    assert all_findings(sample) == []
    size = first.stat().st_size
    first.write_bytes(first.read_bytes() + bytes(120))
    found = single(errors(sample))
    assert (found.file, found.position) == (first.name, size)
    assert "120 zero bytes" in found.problem


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_of_nothing_but_zeros(sample: Path, suffix: str) -> None:
    first, last = logs(sample)[0].with_suffix(suffix), logs(sample)[-1].with_suffix(suffix)
    last.write_bytes(bytes(120))
    assert errors(sample) == []
    first.write_bytes(bytes(120))
    assert "120 zero bytes" in single(errors(sample)).problem


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_bytes_behind_zeros_are_damage_everywhere(sample: Path, suffix: str) -> None:
    index = logs(sample)[-1].with_suffix(suffix)
    index.write_bytes(index.read_bytes() + bytes(119) + b"\x01")
    assert "zeros before other bytes" in single(errors(sample)).problem


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_an_index_of_a_length_that_cannot_be(sample: Path, suffix: str) -> None:
    index = next(log for log in logs(sample) if log.with_suffix(suffix).exists()).with_suffix(suffix)
    index.write_bytes(index.read_bytes() + b"\x00")
    assert "not a multiple" in single(errors(sample)).problem


def test_a_file_longer_than_any_index_is_not_read(sample: Path) -> None:
    index = logs(sample)[0].with_suffix(".index")
    with index.open("ab") as file:
        file.truncate(2**40)
    assert "no index is longer" in single(errors(sample)).problem


def test_a_hopeless_index_is_not_listed_entry_by_entry(sample: Path) -> None:
    index = logs(sample)[0].with_suffix(".index")
    index.write_bytes(struct.pack(">ii", -1, -1) * 5000)
    found = errors(sample)
    assert len(found) == 10
    assert "not listed" in found[-1].problem


def txn_index(directory: Path) -> Path:
    return next(directory.glob("*.txnindex"))


def write_txn_index(directory: Path, change: Callable[[AbortedTxn], AbortedTxn]) -> Path:
    path = txn_index(directory)
    (aborted,) = TransactionIndex(FILES, str(path), 0).all()
    path.write_bytes(struct.pack(">hqqqq", 0, *change(aborted)))
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda txn: txn._replace(producer_id=COMMITTING), f"but the marker is of producer {ABORTING}"),
        (lambda txn: txn._replace(last_offset=txn.last_offset - 1, last_stable_offset=0), "where no abort marker"),
        (lambda txn: txn._replace(last_offset=txn.last_offset + 1, last_stable_offset=0), "where no abort marker"),
        (lambda txn: txn._replace(last_offset=10**6), "lies behind the end of the log"),
        (lambda txn: txn._replace(first_offset=10**6), "is impossible"),
        (lambda txn: txn._replace(producer_id=-1), "is impossible"),
        (lambda txn: txn._replace(last_stable_offset=10**6), "has the last stable offset 1000000"),
    ],
)
def test_transaction_index_entries_that_are_not_true(
    sample: Path, change: Callable[[AbortedTxn], AbortedTxn], words: str
) -> None:
    path = write_txn_index(sample, change)
    found = single(errors(sample))
    assert (found.file, found.position) == (path.name, 0)
    assert words in found.problem


def test_a_transaction_index_of_another_version(sample: Path) -> None:
    edit(txn_index(sample), 0, b"\x00\x01")
    assert "unknown version 1" in single(errors(sample)).problem


def test_a_commit_marker_is_no_abort_marker(tmp_path: Path) -> None:
    log = open_sample(tmp_path / "t-0")
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    log.append_as_leader([batch_of([(1, b"k", b"v")], **fields)], 0)
    marker = end_txn_marker(COMMIT, producer_id=5, producer_epoch=0, coordinator_epoch=0, timestamp=1)
    log.append_from_raft_leader(patched(marker, 1), 0)
    log.close()
    (tmp_path / "t-0" / names.txn_index_name(0)).write_bytes(struct.pack(">hqqqq", 0, 5, 0, 1, 0))
    assert "where no abort marker stands" in single(errors(tmp_path / "t-0")).problem


def patched(batch: bytearray, base_offset: int) -> bytearray:
    batch[0:8] = struct.pack(">q", base_offset)
    batch[12:16] = bytes(4)
    return batch
