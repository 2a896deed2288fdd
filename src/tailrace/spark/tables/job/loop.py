"""Batch after batch: up to where the topic ended when the run began, or on and on."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tailrace.spark.errors import ChangedMeanwhileError
from tailrace.spark.tables.job.batch import Batches
from tailrace.spark.tables.job.planning import Batch, Limits
from tailrace.spark.tables.job.report import WAITING, Progress, TableReport, Told
from tailrace.spark.tables.job.settings import TableSettings
from tailrace.spark.tables.job.topic import Topic
from tailrace.spark.tables.job.upkeep import Upkeep
from tailrace.spark.tables.store import Offsets

LONGEST_PAUSE_S: Final = 1.0
"""After a refusal: two drivers that go on at the same moment refuse each other the longer."""


class Loop:
    """One thread runs it; any may ask for the report."""

    def __init__(
        self,
        settings: TableSettings,
        topic: Topic,
        batches: Batches,
        upkeep: Upkeep,
        told: Told | None = None,
        *,
        stopping: threading.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._batches = batches
        self._upkeep = upkeep
        self._told = told
        self._stopping = stopping or threading.Event()
        self._clock = clock
        self._began_s = clock()
        self._ended_s: float | None = None
        self._busy_s = 0.0

    def report(self) -> TableReport:
        until = self._clock() if self._ended_s is None else self._ended_s
        return replace(self._batches.report, seconds=until - self._began_s, busy_seconds=self._busy_s)

    def once(self) -> TableReport:
        """Up to where the topic ends now. What comes meanwhile is for the next run."""
        try:
            until = self._topic.look().ends()
            while self._batch(Limits(self._settings.max_offsets), until) is not None:
                self._timed(self._upkeep.compact)
            self._upkeep.compact()
            self._upkeep.retain(is_due=True)
        finally:
            self._ended_s = self._clock()
        return self.report()

    def run(self) -> TableReport:
        """Until somebody says stop. The batch under way is finished."""
        try:
            self._go_on()
        finally:
            self._ended_s = self._clock()
        return self.report()

    def _go_on(self) -> None:
        source, every_s = self._settings.source, (self._settings.trigger_ms or 0) / 1000
        last_s: float | None = None
        due_s = self._clock()
        while not self._stopping.is_set():
            now_s = self._clock()
            limits = Limits(
                self._settings.max_offsets,
                source.min_offsets_per_trigger,
                None if last_s is None else int((now_s - last_s) * 1000),
                source.max_trigger_delay_ms,
            )
            batch = self._batch(limits, None)
            if batch is not None:
                last_s = now_s
                self._timed(self._upkeep.compact)
            self._upkeep.retain()
            if batch is not None and not batch.is_last:
                continue
            due_s = max(due_s + every_s, self._clock())
            if due_s > self._clock():
                self._say_waiting()
                self._stopping.wait(due_s - self._clock())

    def _batch(self, limits: Limits, until: Offsets | None) -> Batch | None:
        """Planned again for as long as somebody else goes before."""
        began_s = self._clock()
        while True:
            try:
                batch = self._batches.next(limits, until)
                break
            except ChangedMeanwhileError:
                self._batches.forget()
                if self._stopping.wait(random.uniform(0, LONGEST_PAUSE_S)):
                    return None
        if batch is not None:
            self._busy_s += self._clock() - began_s
        return batch

    def _timed(self, work: Callable[[], None]) -> None:
        began_s = self._clock()
        work()
        self._busy_s += self._clock() - began_s

    def _say_waiting(self) -> None:
        if self._told is not None:
            report = self.report()
            self._told(Progress(WAITING, report.batches, 0, 0, 0, report))
