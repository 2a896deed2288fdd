"""Spark drivers are killed while they work on a topic: what such tests share.

A driver is a program (`sink_driver`, `table_driver`) that prints a line for each batch. It is ended with SIGKILL, its
JVM too: at a given step of its protocol, from within, or at a random moment. The next driver continues from what the
killed one has left. Now and then one of its workers is killed instead, and the driver must continue without it. After
the kills a driver is stopped with SIGSTOP, another one is started on the same data, and when that has done a batch the
first is continued. The last driver works until the end of the topic.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Final, TypeVar

from support.kafka.killable import killable_broker
from support.stress.killed_processes import Figures, KillTest, parser, print_progress

BATCHES_PER_DRIVER: Final = 3
"""At least as many before a driver reaches the end of the topic."""


@dataclass
class DriverFigures(Figures):
    records: int = 0
    killed_at: Counter[str] = field(default_factory=Counter)
    """Kills from within, by step."""
    workers_killed: int = 0
    stops: int = 0
    given_up: int = 0
    """Drivers that ended because another one had taken over."""
    drivers: int = 0
    batches: int = 0


class Driver:
    """A process with a session of its own, by which its children are found."""

    def __init__(self, program: Path, arguments: list[str], environment: dict[str, str]) -> None:
        """Its Python workers connect by a socket of the file system. To a port, a client that still looks for a broker
        could connect: the beginning of its request looks like a worker's secret, and Spark ends the query because the
        secret is wrong."""
        self.lines: list[str] = []
        self.errors = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115  # as long as the process
        self.process = subprocess.Popen(
            [sys.executable, str(program), *arguments],
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYSPARK_UDS_MODE": "true", **environment},
        )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.strip())

    @property
    def batches(self) -> int:
        return sum(line.startswith("batch") for line in self.lines)

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def has_finished(self) -> bool:
        return not self.is_running and self.process.returncode == 0

    @property
    def was_killed(self) -> bool:
        return not self.is_running and self.process.returncode == -signal.SIGKILL

    def signal_group(self, number: int) -> None:
        """To Python and JVM of the driver. Python workers have groups of their own and end later."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def members(self, containing: str = "") -> list[int]:
        """Processes of its session with this in their command lines."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                session = int((folder / "stat").read_text().rpartition(")")[2].split()[3])
                if session == self.process.pid and containing.encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
        return found

    def kill(self) -> None:
        self.signal_group(signal.SIGKILL)
        self.process.wait()
        self._reader.join(5)

    def close(self) -> None:
        """End it with all its processes, also if it is stopped."""
        self.signal_group(signal.SIGCONT)
        if self.is_running:
            self.kill()
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._reader.join(5)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.errors.close()

    def complaint(self) -> str:
        self.errors.seek(0)
        return self.errors.read()[-3000:]


FiguresT = TypeVar("FiguresT", bound=DriverFigures)


class DriverKillTest(KillTest[FiguresT]):
    """`schedule` has the step before or after which each driver is killed, in turn; None: at a random moment.

    `options` are those of `driver_options` and of the subject.
    """

    schedule: list[str | None]
    worker_process = "CoarseGrainedExecutorBackend"
    """What the command line of a worker contains."""
    kills_per_worker: int
    batches_without_worker: int
    max_batches: int
    """A driver with more batches has passed its step."""
    work_seconds: float
    stop_seconds: float
    patience_seconds: float
    may_be_taken_over: bool
    """A second driver may end the first."""

    def __init__(self, figures: FiguresT, options: argparse.Namespace, folder: Path, address: str) -> None:
        super().__init__(figures, options.seed, options.kills, print_progress)
        figures.records = options.records
        drivers = options.kills + 2 * options.stops + 1
        self.options = options
        self.folder = folder
        self.address = address
        self.rows_per_batch = max(1, options.records // (BATCHES_PER_DRIVER * drivers))
        self._began = time.monotonic()

    @abstractmethod
    def start(self, step: str | None) -> Driver: ...

    @abstractmethod
    def is_at_work(self, driver: Driver) -> bool:
        """It may be killed at a random moment from now on."""

    def check(self) -> None:
        if not self.figures.differences:
            self.compare()

    @abstractmethod
    def compare(self) -> None:
        """The result and the topic."""

    def round(self) -> None:
        step = self.schedule[self.figures.kills % len(self.schedule)]
        with self._driver(step) as driver:
            if step is not None:
                if self._wait(driver, lambda: driver.batches > self.max_batches, may_be_killed=True):
                    driver.kill()
                elif driver.was_killed:
                    self.figures.killed_at[step] += 1
            elif self._wait(driver, lambda: self.is_at_work(driver)):
                self.pause(self.work_seconds)
                self._kill_a_worker(driver)
                driver.kill()
            self.figures.kills += not driver.has_finished
            self.is_complete = driver.has_finished

    def complete(self) -> None:
        for _ in range(self.options.stops):
            if not self.is_complete and not self.figures.differences:
                self._stop_a_driver()
        while not self.is_complete and not self.figures.differences:
            with self._driver() as driver:
                self._wait_for_end(driver)

    def _kill_a_worker(self, driver: Driver) -> None:
        figures, workers = self.figures, driver.members(self.worker_process)
        if not workers or figures.workers_killed * self.kills_per_worker > figures.kills:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.random.choice(workers), signal.SIGKILL)
        figures.workers_killed += 1
        self.log("a worker is killed")
        enough = driver.batches + self.batches_without_worker
        self._wait(driver, lambda: driver.batches >= enough)

    def _stop_a_driver(self) -> None:
        """Two drivers on the same data."""
        with self._driver() as first:
            if not self._wait(first, lambda: first.batches > 0):
                self.is_complete = first.has_finished
                return
            self.pause(self.stop_seconds)
            self.log("it is stopped")
            first.signal_group(signal.SIGSTOP)
            self.figures.stops += 1
            with self._driver() as second:
                self._wait(second, lambda: second.batches > 0)
                self.log("it is continued")
                first.signal_group(signal.SIGCONT)
                self._wait_for_end(first, may_fail=self.may_be_taken_over)
                self._wait_for_end(second, may_fail=self.may_be_taken_over)
                self.figures.given_up += (not first.has_finished) + (not second.has_finished)

    @contextmanager
    def _driver(self, step: str | None = None) -> Iterator[Driver]:
        self.figures.drivers += 1
        self.log(f"driver {self.figures.drivers}, to be killed at {step}")
        driver = self.start(step)
        try:
            yield driver
        finally:
            self.log(f"it has ended with {driver.process.poll()} after {driver.batches} batches")
            self.figures.batches += driver.batches
            driver.close()

    def _wait_for_end(self, driver: Driver, *, may_fail: bool = False) -> None:
        self._wait(driver, lambda: False, may_fail=may_fail)
        self.is_complete |= driver.has_finished

    def _wait(
        self, driver: Driver, is_done: Callable[[], bool], *, may_be_killed: bool = False, may_fail: bool = False
    ) -> bool:
        """False if the driver has ended, which is a difference unless it reached the end of the topic or may."""
        deadline, seen = time.monotonic() + self.patience_seconds, len(driver.lines)
        while driver.is_running and not is_done():
            if len(driver.lines) > seen:
                deadline, seen = time.monotonic() + self.patience_seconds, len(driver.lines)
            if time.monotonic() > deadline:
                self.note_difference(f"a driver did nothing for {self.patience_seconds:g} s: {driver.complaint()}")
                return False
            time.sleep(0.02)
        if driver.is_running:
            return True
        is_expected = may_fail or driver.has_finished or (may_be_killed and driver.was_killed)
        if not is_expected:
            self.note_difference(f"a driver ended with {driver.process.returncode}: {driver.complaint()}")
        return False

    def log(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s: {text}", file=sys.stderr, flush=True)


@contextmanager
def folder_and_broker(settings: dict[str, str], *, is_kafka: bool = False) -> Iterator[tuple[Path, str]]:
    """A temporary folder, and the address of a running broker."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with killable_broker(settings, folder / "kafka" if is_kafka else None) as broker:
            broker.launch()
            broker.wait_until_ready()
            yield folder, broker.bootstrap_servers


def driver_options(description: str | None) -> argparse.ArgumentParser:
    options = parser(description)
    options.add_argument("--stops", type=int, default=1)
    options.add_argument("--records", type=int, default=1_000_000)
    return options
