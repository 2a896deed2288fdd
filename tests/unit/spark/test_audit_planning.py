"""Cutting segments, packing tasks, making waves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.logs.data_dirs import DataDirectory
from tailrace.config.log import LogConfig
from tailrace.record.shallow import batches
from tailrace.spark.auditing.job.folder_rules import FolderFacts
from tailrace.spark.auditing.job.listing import find_places
from tailrace.spark.auditing.job.places import Folder
from tailrace.spark.auditing.job.planning import (
    PIECE_BYTES,
    PIECE_COST_BYTES,
    TASKS_PER_CORE,
    WAVE_BYTES_PER_CORE,
    WAVE_PIECES,
    cut,
    packed,
    split_positions,
    waves,
    whole_piece,
)
from tailrace.spark.source.files.read_only import ReadOnlyFiles
from tailrace.storage.epoch_cache import EpochEntry

FILES = ReadOnlyFiles()
ONE_SEGMENT = LogConfig(segment_bytes=1 << 20, segment_index_bytes=80_000, index_interval_bytes=500)
jobs_of = st.lists(st.integers(0, 2 * WAVE_BYTES_PER_CORE), max_size=60)


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    directory = DataDirectory(tmp_path / "data")
    directory.add("t-0", 400, config=ONE_SEGMENT)
    return directory


def folder_of(data: DataDirectory) -> Folder:
    return find_places(FILES, [str(data)]).folders[0]


def boundaries(data: DataDirectory) -> set[int]:
    content = (data / "t-0" / "00000000000000000000.log").read_bytes()
    return {batch.position for batch in batches(content)}


class TestCutting:
    def test_pieces_begin_at_batches_and_cover_the_segment(self, data: DataDirectory) -> None:
        folder = folder_of(data)
        positions = split_positions(FILES, folder.segments[0], 10_000)
        assert len(positions) >= 4
        assert set(positions) <= boundaries(data)
        assert all(after > before for before, after in pairwise([0, *positions]))
        assert all(after - before < 12_000 for before, after in pairwise([0, *positions]))

    def test_small_segments_are_not_cut(self, data: DataDirectory) -> None:
        segment = folder_of(data).segments[0]
        assert split_positions(FILES, segment, segment.size) == []
        assert split_positions(FILES, segment) == []

    def test_an_index_that_lies_about_batches_is_not_believed(self, data: DataDirectory) -> None:
        index = data / "t-0" / "00000000000000000000.index"
        entries = bytearray(index.read_bytes())
        for at in range(4, len(entries), 8):
            entries[at + 3] ^= 1
        index.write_bytes(entries)
        assert split_positions(FILES, folder_of(data).segments[0], 10_000) == []

    @given(content=st.binary(max_size=400))
    @settings(max_examples=examples(40))
    def test_whatever_an_index_says_pieces_begin_at_batches(
        self, content: bytes, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        directory = DataDirectory(tmp_path_factory.mktemp("any") / "data")
        directory.add("t-0", 400, config=ONE_SEGMENT)
        (directory / "t-0" / "00000000000000000000.index").write_bytes(content)
        found = split_positions(FILES, folder_of(directory).segments[0], 10_000)
        assert set(found) <= boundaries(directory)
        assert found == sorted(set(found))

    def test_without_index_or_file_it_stays_whole(self, data: DataDirectory) -> None:
        segment = folder_of(data).segments[0]
        (data / "t-0" / "00000000000000000000.index").unlink()
        assert split_positions(FILES, segment, 10_000) == []
        Path(segment.path).unlink()
        assert split_positions(FILES, segment, 10_000) == []

    def test_pieces_meet(self, data: DataDirectory) -> None:
        folder = folder_of(data)
        epochs = (EpochEntry(1, 5),)
        whole = whole_piece(folder, folder.segments[0], FolderFacts(epochs))
        pieces = cut(whole, [100, 300])
        assert [(piece.start, piece.end) for piece in pieces] == [(0, 100), (100, 300), (300, None)]
        assert [piece.is_first for piece in pieces] == [True, False, False]
        assert {(piece.epochs, piece.judged_to, piece.next_base) for piece in pieces} == {(epochs, 400, None)}
        assert cut(whole, []) == [whole]


class TestPacking:
    @given(sizes=jobs_of, cores=st.integers(1, 8))
    def test_every_job_is_in_one_task(self, sizes: list[int], cores: int) -> None:
        tasks = packed([(number, size) for number, size in enumerate(sizes)], cores)
        assert sorted(number for task in tasks for number in task) == list(range(len(sizes)))
        assert all(tasks)
        assert len(tasks) <= cores * TASKS_PER_CORE

    @given(sizes=st.lists(st.integers(0, PIECE_BYTES), min_size=1, max_size=200), cores=st.integers(1, 8))
    def test_tasks_are_balanced(self, sizes: list[int], cores: int) -> None:
        tasks = packed([(size, size) for size in sizes], cores)
        loads = [sum(size + PIECE_COST_BYTES for size in task) for task in tasks]
        assert max(loads) - min(loads) <= PIECE_BYTES + PIECE_COST_BYTES

    def test_all_cores_have_something(self) -> None:
        assert len(packed([(number, 10) for number in range(100)], 4)) == 4
        assert len(packed([(number, PIECE_BYTES) for number in range(20)], 2)) == 4
        assert len(packed([(number, PIECE_BYTES) for number in range(500)], 2)) == 2 * TASKS_PER_CORE
        assert packed([], 2) == []

    def test_a_core_that_is_alone_gets_one_task(self) -> None:
        assert [sorted(task) for task in packed([(number, PIECE_BYTES) for number in range(500)], 1)] == [[*range(500)]]


class TestWaves:
    @given(sizes=jobs_of, cores=st.integers(1, 3))
    def test_all_jobs_in_their_order(self, sizes: list[int], cores: int) -> None:
        jobs = list(enumerate(sizes))
        found = list(waves(jobs, cores))
        assert [job for wave in found for job in wave] == jobs
        for wave in found:
            assert len(wave) == 1 or sum(size for _, size in wave) <= cores * WAVE_BYTES_PER_CORE

    def test_not_more_pieces_than_the_driver_can_take(self) -> None:
        found = list(waves([(number, 1) for number in range(3 * WAVE_PIECES)], 2))
        assert [len(wave) for wave in found] == [WAVE_PIECES] * 3

    def test_they_are_planned_when_they_are_needed(self) -> None:
        planned: list[int] = []

        def jobs() -> Iterator[tuple[int, int]]:
            for number in range(100):
                planned.append(number)
                yield number, WAVE_BYTES_PER_CORE

        next(waves(jobs(), 2))
        assert len(planned) == 3
