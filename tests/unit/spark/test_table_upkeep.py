"""Which files are compacted, and what upkeep does about trouble."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.stress.simulated.table_fakes import FakeStore, FakeTopic, FakeValues, FakeWork, Record, World
from tailrace.spark.errors import ChangedMeanwhileError, TableError
from tailrace.spark.tables.job.batch import Batches
from tailrace.spark.tables.job.places import Stores
from tailrace.spark.tables.job.planning import Limits
from tailrace.spark.tables.job.settings import table_settings
from tailrace.spark.tables.job.tables import TableSet
from tailrace.spark.tables.job.upkeep import LEAST_SMALL_FILES, Upkeep, groups_to_compact
from tailrace.spark.tables.store import DataFile, Removed

TARGET = 100


def file(number: int, size: int, day: str | None = None) -> DataFile:
    return DataFile(f"{number}.parquet", {"_day": day}, size, size)


def test_a_few_small_files_stay() -> None:
    assert groups_to_compact([file(each, 1) for each in range(LEAST_SMALL_FILES - 1)], TARGET) == []


def test_many_small_files_become_one() -> None:
    files = [file(each, 1) for each in range(LEAST_SMALL_FILES)]
    assert groups_to_compact([*files, file(99, 60)], TARGET) == [files]


def test_each_partition_value_by_itself() -> None:
    files = [file(each, 1, "2026-11-15" if each % 2 else None) for each in range(2 * LEAST_SMALL_FILES)]
    assert groups_to_compact(files, TARGET) == [files[0::2], files[1::2]]


@given(st.lists(st.tuples(st.integers(1, 120), st.sampled_from([None, "a", "b"])), max_size=60))
def test_groups_are_about_as_large_as_a_file(sizes: list[tuple[int, str | None]]) -> None:
    files = [file(number, size, day) for number, (size, day) in enumerate(sizes)]
    groups = groups_to_compact(files, TARGET)
    taken = [each for group in groups for each in group]
    assert len({each.path for each in taken}) == len(taken)
    for group in groups:
        assert len(group) > 1
        assert len({tuple(each.partition.items()) for each in group}) == 1
        assert sum(each.size_bytes for each in group) <= TARGET
        assert all(each.size_bytes * 2 < TARGET for each in group)


def test_rows_are_written_again_a_few_times_only() -> None:
    """A file comes with each batch. Whatever was compacted before is left alone until there is more of its size."""
    target, size, batches = 128 << 20, 50_000, 3_000
    files: list[DataFile] = []
    written = 0
    for number in range(batches):
        files.append(file(number, size))
        for group in groups_to_compact(files, target):
            whole = file(batches + number, sum(each.size_bytes for each in group))
            files = [each for each in files if each not in group] + [whole]
            written += whole.size_bytes
    assert written <= 4 * batches * size, "8, 64, 512 and 4096 times the size of the first ones"
    assert len(files) <= 5 * LEAST_SMALL_FILES


class Rig:
    def __init__(self, **given: Any) -> None:
        self.world = World({0: []})
        values: Any = FakeValues()
        self.settings = replace(table_settings("orders", to="x", brokers="b:1", **given), values=values)
        main = FakeStore(self.world, "orders")
        stores = Stores(main, main.beside("_dead_letters"), None)
        topic, self.work = FakeTopic(self.world), FakeWork(self.world)
        self.batches = Batches(self.settings, TableSet(self.settings, stores, topic), topic, self.work)
        self.now_s = 0.0
        self.upkeep = Upkeep(
            self.settings, stores, self.batches, self.work, clock=lambda: self.now_s, now_s=lambda: 1e6
        )

    def come(self, count: int) -> None:
        for _ in range(count):
            log = self.world.log[0]
            log.append(Record(0, len(log), "key", 1, False, False, "f0"))
            self.batches.next(Limits(1))


def test_compaction_is_a_commit_with_the_same_offsets() -> None:
    rig = Rig()
    rig.come(LEAST_SMALL_FILES)
    rig.upkeep.compact()
    newest = rig.world.tables["orders"][-1]
    assert (newest.operation, newest.offsets) == ("compact", {0: LEAST_SMALL_FILES})
    assert len(newest.files()) == 1
    assert rig.world.rows(newest.files()) == rig.world.log[0]
    assert rig.batches.report.compacted == LEAST_SMALL_FILES
    assert rig.batches.tables().main is newest
    rig.come(1)
    assert rig.batches.report.rows == LEAST_SMALL_FILES + 1


def test_nothing_is_compacted_where_nobody_wants_it() -> None:
    rig = Rig(upkeep=False)
    rig.come(LEAST_SMALL_FILES)
    rig.upkeep.compact()
    assert rig.world.tables["orders"][-1].operation == "append"


def test_somebody_else_went_before(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.come(LEAST_SMALL_FILES)

    def refuse(*_: object) -> list[DataFile]:
        raise ChangedMeanwhileError("meanwhile")

    monkeypatch.setattr(rig.work, "compact", refuse)
    rig.upkeep.compact()
    assert rig.batches.report.replans == 1
    rig.come(1)


def test_a_job_goes_on_where_compaction_failed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig()
    rig.come(LEAST_SMALL_FILES)

    def fail(*_: object) -> list[DataFile]:
        raise TableError("no space")

    monkeypatch.setattr(rig.work, "compact", fail)
    with caplog.at_level(logging.WARNING, "tailrace.spark"):
        rig.upkeep.compact()
    assert "no space" in caplog.text
    rig.come(1)


def test_retention_is_once_an_hour_unless_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def retain(store: FakeStore, since_ms: int, abandoned_ms: int, *, dry_run: bool = False) -> Removed:
        asked.append((since_ms, abandoned_ms))
        return Removed(1, 10, 0)

    monkeypatch.setattr(FakeStore, "retain", retain)
    rig = Rig(retain="1m")
    rig.upkeep.retain()
    rig.upkeep.retain()
    assert asked == [(10**9 - 60_000, 10**9 - 3_600_000)] * 2, "of the table and of its dead letters"
    rig.upkeep.retain(is_due=True)
    rig.now_s += 3_600
    rig.upkeep.retain()
    assert len(asked) == 6
    assert rig.batches.report.removed == Removed(6, 60, 0)
