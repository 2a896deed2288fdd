"""Real Kafka's directories, read as a source, against what Kafka itself said of them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from golden.corpus import Golden, cases
from support.spark.directory_source import (
    expected_rows,
    log_dir_of,
    note,
    options_for,
    read_rows,
    whole_piece,
)
from tailrace.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from tailrace.model.ids import TopicPartition
from tailrace.spark.source.files.origin import DirectoryOrigin
from tailrace.spark.source.loss import LossPolicy

ISOLATIONS = (READ_UNCOMMITTED, READ_COMMITTED)
HOLES = {"legacy-v0": 1}
"""Offsets between the messages of a planted log that nobody cleaned. (Within a wrapper none is missed.)"""

every_case = pytest.mark.parametrize("golden", cases(), ids=lambda golden: golden.name)


def _partition(golden: Golden) -> TopicPartition:
    return TopicPartition(golden.name, 0)


def _contents(directory: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        found.update(f"{path} {path.stat().st_mtime_ns}".encode())
        found.update(path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()


@every_case
def test_bounds_are_kafkas(golden: Golden, tmp_path: Path) -> None:
    answers = golden.expected["answers"]
    directory = log_dir_of(golden, tmp_path / "logs")
    partition = _partition(golden)
    for isolation, latest in zip(ISOLATIONS, ("latest", "latest_read_committed"), strict=True):
        origin = DirectoryOrigin(options_for(directory, golden.name, isolation=isolation))
        assert origin.bounds([partition])[partition] == (answers["earliest"][0], answers[latest][0])


@every_case
def test_ids_are_kafkas(golden: Golden, tmp_path: Path) -> None:
    options = options_for(log_dir_of(golden, tmp_path / "logs"), golden.name)
    (line,) = [line for line in golden.expected["partition_metadata"].splitlines() if "topic_id" in line]
    assert DirectoryOrigin(options).partitions(options.subscription) == {_partition(golden): line.split()[1]}


@every_case
def test_offsets_by_time_are_kafkas(golden: Golden, tmp_path: Path) -> None:
    partition = _partition(golden)
    origin = DirectoryOrigin(options_for(log_dir_of(golden, tmp_path / "logs"), golden.name))
    for time_ms, offset, *_ in golden.expected["answers"]["by_timestamp"]:
        found = origin.at_times({partition: time_ms})[partition]
        assert (-1 if found is None else found) == offset, time_ms


@every_case
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_rows_are_all_there(golden: Golden, isolation: int, tmp_path: Path) -> None:
    directory = log_dir_of(golden, tmp_path / "logs")
    before = _contents(directory)
    options = options_for(directory, golden.name, isolation=isolation, fail_on_data_loss=golden.name not in HOLES)
    piece = whole_piece(options, _partition(golden))
    loss = LossPolicy(options.fail_on_data_loss)
    rows = read_rows(options, piece, loss=loss)
    assert rows == expected_rows(golden.folder, piece.start, piece.end, committed=isolation == READ_COMMITTED)
    assert loss.lost_offsets == HOLES.get(golden.name, 0)
    assert _contents(directory) == before


@every_case
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_every_piece_gives_its_rows(golden: Golden, isolation: int, tmp_path: Path) -> None:
    options = options_for(
        log_dir_of(golden, tmp_path / "logs"), golden.name, isolation=isolation, fail_on_data_loss=False
    )
    piece = whole_piece(options, _partition(golden))
    rows = expected_rows(golden.folder, piece.start, piece.end, committed=isolation == READ_COMMITTED)
    for start in range(piece.start, piece.end, 7):
        part = piece._replace(start=start, end=min(start + 11, piece.end))
        wanted = [row for row in rows if part.start <= row[0] < part.end]
        assert read_rows(options, part) == wanted, part


@every_case
@pytest.mark.parametrize("lost", [(".index",), (".timeindex",), (".index", ".timeindex", ".txnindex", ".snapshot")])
def test_without_what_can_be_derived_it_is_the_same(golden: Golden, lost: tuple[str, ...], tmp_path: Path) -> None:
    directory = log_dir_of(golden, tmp_path / "logs")
    for path in (directory / f"{golden.name}-0").iterdir():
        if path.suffix in lost:
            path.unlink()
    options = options_for(directory, golden.name, isolation=READ_COMMITTED, fail_on_data_loss=False)
    piece = whole_piece(options, _partition(golden))
    assert piece.end == golden.expected["answers"]["latest_read_committed"][0]
    if ".txnindex" not in lost:  # of segments that are not written any more, aborts are known from it alone
        assert read_rows(options, piece) == expected_rows(golden.folder, piece.start, piece.end, committed=True)
    origin = DirectoryOrigin(options_for(directory, golden.name))
    for time_ms, offset, *_ in golden.expected["answers"]["by_timestamp"]:
        found = origin.at_times({_partition(golden): time_ms})[_partition(golden)]
        assert (-1 if found is None else found) == offset


@every_case
def test_a_folder_on_its_own_is_read_to_its_end(golden: Golden, tmp_path: Path) -> None:
    folder = golden.copy_to(tmp_path)
    options = options_for(folder, golden.name, fail_on_data_loss=False)
    piece = whole_piece(options, _partition(golden))
    assert piece.end == golden.expected["answers"]["latest"][0]
    assert read_rows(options, piece) == expected_rows(folder, piece.start, piece.end)


def test_gaps_of_a_compacted_log_are_loss_where_nothing_says_that_it_is_one(tmp_path: Path) -> None:
    (golden,) = [each for each in cases() if each.name == "compacted"]
    directory = log_dir_of(golden, tmp_path / "logs")
    options = options_for(directory, golden.name, fail_on_data_loss=False)
    piece = whole_piece(options, _partition(golden))
    loss = LossPolicy(fails=False)
    read_rows(options, piece, loss=loss)
    assert loss.lost_offsets == 0
    note(directory, "cleaner-offset-checkpoint", {})
    read_rows(options, piece, loss=loss)
    gaps = [gap for found in golden.expected["gaps"].values() for gap in found]
    assert loss.lost_offsets >= sum(after - before - 1 for before, after in gaps) > 0
