"""Damage that hides: batches that reach too far, faults before zeros, markers and indexes that cannot be believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.logs.builders import in_transaction, marker, real_log
from support.records.column_runs import resealed
from support.spark.directory_source import (
    PARTITION,
    bases_of,
    batches_in,
    expected_rows,
    note,
    offsets_in,
    options_for,
    read_batches,
    read_rows,
    segment_file,
    whole_piece,
    write_log,
)
from tailrace.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from tailrace.config.log import LogConfig
from tailrace.model.errors import CorruptMessageError
from tailrace.record.shallow import ShallowBatch, batches
from tailrace.spark.errors import DataLossError
from tailrace.spark.source.loss import LossPolicy
from tailrace.spark.source.ranges import OffsetRange
from tailrace.storage.origin import Origin
from tailrace.storage.transaction_index import AbortedTxn

WHOLE = OffsetRange(PARTITION, 0, 300)
TRANSACTIONS = LogConfig(segment_bytes=1500, segment_index_bytes=240, index_interval_bytes=200)


def _batch_in(folder: Path, base: int, place: int) -> ShallowBatch:
    return list(batches(segment_file(folder, base).read_bytes()))[place]


def _patch(folder: Path, base: int, position: int, data: bytes) -> None:
    path = segment_file(folder, base)
    found = bytearray(path.read_bytes())
    found[position : position + len(data)] = data
    path.write_bytes(found)


# A batch that says that it goes on behind the end of its file


@pytest.mark.parametrize("is_compacted", [True, False])
@pytest.mark.parametrize("segment", [0, 1, -1])
@pytest.mark.parametrize("length", [b"\0\1\0\0", b"\x7f\xff\xff\xff"])
def test_a_batch_that_reaches_too_far_is_damage(
    length: bytes, segment: int, is_compacted: bool, tmp_path: Path
) -> None:
    """And no gap, which would be normal in a compacted log."""
    folder = write_log(tmp_path / "t-0", [5] * 60)
    if is_compacted:
        note(tmp_path, "cleaner-offset-checkpoint", {PARTITION: 300})
    base = bases_of(folder)[segment]
    wrong = _batch_in(folder, base, 3)
    _patch(folder, base, wrong.position + 8, length)
    with pytest.raises(CorruptMessageError, match=rf"t-0: .* offset {wrong.base_offset} on: .* goes beyond its end"):
        read_rows(options_for(tmp_path, "t"), WHOLE)
    told: list[tuple[int, int]] = []
    rows = read_rows(options_for(tmp_path, "t", skip_corrupt=True), WHOLE, corrupt=told)
    assert told == [(wrong.base_offset, wrong.base_offset + 5)]
    assert len(rows) == 295


def test_half_a_batch_at_the_end_of_a_segment_that_is_not_the_last_is_damage(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [5] * 60)
    note(tmp_path, "cleaner-offset-checkpoint", {PARTITION: 300})
    base, behind = bases_of(folder)[:2]
    path = segment_file(folder, base)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorruptMessageError, match=f"from offset {behind - 5} on"):
        read_rows(options_for(tmp_path, "t"), WHOLE)
    told: list[tuple[int, int]] = []
    rows = read_rows(options_for(tmp_path, "t", skip_corrupt=True), WHOLE, corrupt=told)
    assert (told, len(rows)) == ([(behind - 5, behind)], 295)


def test_half_a_batch_at_the_end_of_the_log_is_its_end(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [5] * 60)
    path = segment_file(folder, bases_of(folder)[-1])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataLossError, match="offsets 295 to 299 are lost"):
        read_rows(options_for(tmp_path, "t"), WHOLE)


def test_a_fault_before_zeros_is_not_forgotten(tmp_path: Path) -> None:
    """A file may be longer than what was written to it; the last batch has a record more than it says."""
    folder = write_log(tmp_path / "t-0", [5] * 60)
    base = bases_of(folder)[-1]
    last = _batch_in(folder, base, -1)
    _patch(folder, base, last.position + 57, b"\0\0\0\x04")
    path = segment_file(folder, base)
    path.write_bytes(resealed(bytearray(path.read_bytes())) + bytes(3000))
    with pytest.raises(CorruptMessageError, match=r"t-0: offsets 299 to 299 cannot be read"):
        read_rows(options_for(tmp_path, "t"), WHOLE)


# Transactions


def test_a_damaged_marker_ends_its_transaction_all_the_same(tmp_path: Path) -> None:
    log = real_log(tmp_path / "t-0", TRANSACTIONS)
    log.append_as_leader([in_transaction(1, 0, 3)], 0)
    log.append_as_leader([marker(1, commit=False)], 0, Origin.COORDINATOR)
    log.append_as_leader([in_transaction(1, 3, 3)], 0)
    log.append_as_leader([marker(1, commit=True)], 0, Origin.COORDINATOR)
    log.close()
    abort = _batch_in(tmp_path / "t-0", 0, 1)
    _patch(tmp_path / "t-0", 0, abort.position + 17, bytes(4))
    told: list[tuple[int, int]] = []
    options = options_for(tmp_path, "t", isolation=READ_COMMITTED, skip_corrupt=True)
    rows = read_rows(options, OffsetRange(PARTITION, 0, 8), corrupt=told)
    assert (offsets_in(rows), told) == ([4, 5, 6], [(3, 4)])


def test_no_entry_of_an_index_with_nonsense_ends_the_search(tmp_path: Path) -> None:
    """One that says that nothing before the piece's end is open, and is wrong, as is what follows it."""
    log = real_log(tmp_path / "t-0", TRANSACTIONS)
    log.append_as_leader([in_transaction(2, 0)], 0)  # open all the while
    for number in range(12):
        log.append_as_leader([in_transaction(1, number)], 0)
        log.append_as_leader([marker(1, commit=False)], 0, Origin.COORDINATOR)
    log.append_as_leader([marker(2, commit=False)], 0, Origin.COORDINATOR)
    log.close()
    folder = tmp_path / "t-0"
    options = options_for(tmp_path, "t", isolation=READ_COMMITTED)
    end = whole_piece(options, PARTITION).end
    assert expected_rows(folder, 0, end, committed=True) == []
    index = segment_file(folder, bases_of(folder)[0], ".txnindex")
    data = bytearray(index.read_bytes())
    assert len(data) >= 68
    last_offset = AbortedTxn(*(int.from_bytes(data[at : at + 8], "big") for at in (2, 10, 18, 26))).last_offset
    data[26:34] = last_offset.to_bytes(8, "big")
    data[34:] = b"\xff" * (len(data) - 34)
    index.write_bytes(data)
    assert batches_in(folder)[0][1].producer_id == 2
    assert read_rows(options, OffsetRange(PARTITION, 0, 2)) == []


# Another topic


@pytest.mark.parametrize("isolation", [READ_UNCOMMITTED, READ_COMMITTED])
def test_a_topic_that_is_made_again_while_it_is_read_is_lost_behind_the_open_segment(
    isolation: int, tmp_path: Path
) -> None:
    config = LogConfig(segment_bytes=1 << 21, segment_index_bytes=1 << 16)
    folder = write_log(tmp_path / "t-0", [2000] * 60, config=config, value_bytes=50)
    first, second = bases_of(folder)[:2]
    loss = LossPolicy(fails=False)
    options = options_for(tmp_path, "t", isolation=isolation, fail_on_data_loss=False)
    reading = read_batches(options, OffsetRange(PARTITION, first, 120_000), loss=loss)
    found = next(reading).num_rows
    folder.rename(tmp_path / "t-0.0123456789abcdef0123456789abcdef-delete")
    write_log(folder, [2000] * 60, config=LogConfig(segment_bytes=1 << 20, segment_index_bytes=1 << 16), value_bytes=50)
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    found += sum(batch.num_rows for batch in reading)
    assert (found, loss.lost_offsets) == (second, 120_000 - second)
