"""The order of batches and upkeep in a run, and which time counts as busy."""

from __future__ import annotations

import threading
from typing import Any, cast

from tailrace.spark.tables.job.loop import Loop
from tailrace.spark.tables.job.planning import Batch, Limits
from tailrace.spark.tables.job.report import TableReport
from tailrace.spark.tables.job.settings import table_settings
from tailrace.spark.tables.store import Offsets

BATCH_S, COMPACTION_S, RETENTION_S = 10.0, 3.0, 0.5


class Job:
    """Topic, batches and upkeep in one: what was asked of them, in order. Each step takes its time."""

    def __init__(self, batches: int) -> None:
        self.steps: list[str] = []
        self.now_s = 0.0
        self.stopping = threading.Event()
        self.report = TableReport("orders", "/lake/orders", "parquet", "append")
        self._left = batches

    def loop(self) -> Loop:
        settings = table_settings("orders", to="/lake/orders", path="/logs", format="parquet")
        here = cast(Any, self)
        return Loop(settings, here, here, here, stopping=self.stopping, clock=lambda: self.now_s)

    def look(self) -> Job:
        return self

    def ends(self) -> Offsets:
        return {}

    def next(self, limits: Limits, until: Offsets | None) -> Batch | None:
        if not self._left:
            return None
        self._left -= 1
        self._step("batch", BATCH_S)
        return Batch({}, {}, (), left=1)

    def compact(self) -> None:
        self._step("compact", COMPACTION_S)

    def retain(self, *, is_due: bool = False) -> None:
        self._step("retain", RETENTION_S)
        if not self._left:
            self.stopping.set()

    def _step(self, name: str, seconds: float) -> None:
        self.steps.append(name)
        self.now_s += seconds


def test_a_run_that_ends_compacts_after_each_batch_and_at_its_end() -> None:
    job = Job(batches=2)
    report = job.loop().once()
    assert job.steps == ["batch", "compact", "batch", "compact", "compact", "retain"]
    assert (report.busy_seconds, report.seconds) == (2 * (BATCH_S + COMPACTION_S), job.now_s)


def test_a_run_that_goes_on_compacts_after_each_batch() -> None:
    job = Job(batches=2)
    report = job.loop().run()
    assert job.steps == ["batch", "compact", "retain", "batch", "compact", "retain"]
    assert (report.busy_seconds, report.seconds) == (2 * (BATCH_S + COMPACTION_S), job.now_s)
