"""Runs seeds one after the other, or on several processes: the results and their order are the same.

A worker process runs a seed at a time. It reads seeds from its connection and writes `RunReport`s while a seed runs,
and then its `SeedResult`. It ignores Ctrl-C, which reaches the whole group of a terminal, and ends when its connection
closes.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Final

from tailrace.model.errors import TailraceError
from tailrace.sim.run import Run, RunReport
from tailrace.sim.scenarios import ScenarioParameters, build_run
from tailrace.sim.seed_result import SeedResult, completed

REPORT_S: Final = 0.1
KEPT_EVENTS: Final = 1_000  # of a run that is not looked at
MAX_AHEAD: Final = 8  # finished seeds that a worker may be ahead of the slowest one


class WorkerEndedError(TailraceError):
    """A worker process has ended in the middle of a seed."""


class SeriesWatcher(ABC):
    """Decides which seeds of a series run, and sees them run."""

    @abstractmethod
    def wants(self, pending: int) -> bool:
        """Whether to start another seed while as many have started and have not been returned."""

    @abstractmethod
    def on_progress(self, pending: Mapping[int, RunReport]) -> None:
        """Called some times a second with the seeds that have started and have not been returned.

        May raise `KeyboardInterrupt` to end the series.
        """


def seed_results(
    scenario: str, first: int, parameters: ScenarioParameters, watcher: SeriesWatcher, workers: int = 1
) -> Generator[SeedResult, None, None]:
    """Results in the order of the seeds, as long as the watcher wants another one."""
    parameters = replace(parameters, kept_events=KEPT_EVENTS)
    if workers == 1:
        return _alone(scenario, first, parameters, watcher)
    return _shared(scenario, first, parameters, watcher, workers)


def _alone(
    scenario: str, seed: int, parameters: ScenarioParameters, watcher: SeriesWatcher
) -> Generator[SeedResult, None, None]:
    while watcher.wants(0):
        run = build_run(scenario, seed, parameters)
        yield completed(run, _Regularly(run, lambda report: watcher.on_progress({report.seed: report})))
        seed += 1


def _shared(
    scenario: str, first: int, parameters: ScenarioParameters, watcher: SeriesWatcher, count: int
) -> Generator[SeedResult, None, None]:
    workers: list[_Worker] = []
    done: dict[int, SeedResult] = {}
    returned = started = first
    try:
        while True:
            while started - returned < count * MAX_AHEAD and watcher.wants(started - returned):
                idle = next((each for each in workers if each.seed is None), None)
                if idle is None:
                    if len(workers) == count:
                        break
                    idle = _Worker(scenario, parameters)
                    workers.append(idle)
                idle.start(started)
                started += 1
            if not watcher.wants(0):
                return
            if returned in done:
                yield done.pop(returned)
                returned += 1
                continue
            for worker in _ready(workers):
                received = worker.receive()
                if received is not None:
                    done[received.report.seed] = received
            waiting = {seed: result.report for seed, result in done.items()}
            running = {each.seed: each.report for each in workers if each.seed is not None and each.report}
            watcher.on_progress(waiting | running)
    finally:
        for worker in workers:
            worker.end()


def _ready(workers: list[_Worker]) -> list[_Worker]:
    found = wait([each.connection for each in workers if each.seed is not None], REPORT_S)
    return [each for each in workers if each.connection in found]


class _Regularly:
    """Reports a run some times a second."""

    def __init__(self, run: Run, report: Callable[[RunReport], object]) -> None:
        self._run = run
        self._report = report
        self._due_s = 0.0

    def __call__(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._due_s:
            self._due_s = now_s + REPORT_S
            self._report(self._run.report())


class _Worker:
    """A worker process, as its parent sees it."""

    def __init__(self, scenario: str, parameters: ScenarioParameters) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.seed: int | None = None
        self.report: RunReport | None = None
        self._process: BaseProcess = context.Process(
            target=_work, args=(theirs, scenario, parameters), name="tailrace-sim", daemon=True
        )
        self._process.start()
        theirs.close()

    def start(self, seed: int) -> None:
        self.seed, self.report = seed, None
        with suppress(BrokenPipeError):  # it has ended: `receive` reports it
            self.connection.send(seed)

    def receive(self) -> SeedResult | None:
        try:
            received: RunReport | SeedResult = self.connection.recv()
        except (EOFError, ConnectionResetError) as error:
            self._process.join()
            raise WorkerEndedError(
                f"the process that ran seed {self.seed} has ended with exit code {self._process.exitcode}"
            ) from error
        if isinstance(received, RunReport):
            self.report = received
            return None
        self.seed = self.report = None
        return received

    def end(self) -> None:
        self._process.terminate()
        self._process.join()
        self.connection.close()


def _work(connection: Connection, scenario: str, parameters: ScenarioParameters) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            run = build_run(scenario, connection.recv(), parameters)
            connection.send(completed(run, _Regularly(run, connection.send)))
