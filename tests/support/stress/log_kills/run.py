"""Processes that compact and delete are killed at random moments, and their logs are held against a model each time.

    PYTHONPATH=tests python -m support.stress.log_kills.run --kills 200 --seed 7

Each round starts a process (`support.stress.log_kills.process`) on the directories that the preceding one left, lets it
write, compact and delete for a fraction of a second, and ends it with SIGKILL. The process first reports what it finds.
That, and the journals of all preceding processes, go to `support.stress.log_kills.model`. At the end one process is
closed cleanly and another reports once more.

A moment is random, but not blind: most kills wait until the file system shows that something is under way.

    start      while logs are opened: recovery of what the kill before left
    any        whatever is going on
    cleaned    a `.cleaned` file is there: a clean writes
    swap       a `.swap` file is there: segments are being put in place
    retention  a `.deleted` file is there in a log without compaction, or a log start is being written
    append     the journal says that a batch is on its way

The directories of a test that found a difference are kept, and named.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from support import programs
from support.stress.killed_processes import (
    MAX_DIFFERENCES,
    Figures,
    KillTest,
    Progress,
    parser,
    print_progress,
    run_program,
)
from support.stress.log_kills.journal import Orders, lines_of
from support.stress.log_kills.model import Model
from support.stress.log_kills.opened_logs import Sighting
from support.stress.log_kills.workload import DIRECTORIES, PARTITIONS

PROGRAM = "support.stress.log_kills.process"
AIMS = {"start": 3, "any": 3, "append": 3, "cleaned": 4, "swap": 4, "retention": 3}
JOURNAL_TAIL_BYTES = 8192
MAX_START_SECONDS = 60.0
MIN_WORK_SECONDS, MAX_WORK_SECONDS = 0.05, 0.5
MAX_AIM_SECONDS = 0.6
DELAYS_SECONDS = (0.0, 0.003, 0.01, 0.03)


@dataclass
class LogFigures(Figures):
    aims: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    """How many kills left files of each kind behind."""
    in_a_clean: int = 0
    in_retention: int = 0
    before_work: int = 0
    sightings: int = 0
    counts: dict[str, int] = field(default_factory=dict)


class LogProcess:
    """A process. It has imported everything when its work begins, so that a round does not wait for imports."""

    def __init__(self, program: str) -> None:
        self.process = subprocess.Popen(
            programs.command(program),
            env=programs.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def begin(self, orders: Path) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, which is found later
            self.process.stdin.write(f"{orders}\n")
            self.process.stdin.flush()

    def wait_for_work(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.readline()

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> str:
        """With SIGKILL; returns its stderr."""
        self.process.kill()
        return self.process.communicate()[1]

    def close(self) -> str:
        """Let it end; returns its stderr."""
        return self.process.communicate(timeout=MAX_START_SECONDS)[1]


class LogKills(KillTest[LogFigures]):
    """One directory and its model."""

    def __init__(self, seed: int, kills: int, program: str = PROGRAM, progress: Progress | None = None) -> None:
        super().__init__(LogFigures(), seed, kills, progress)
        self._program = program
        self._model = Model(PARTITIONS)
        self._run = 0
        self._start_seconds = 0.1
        self._aims: list[str] = []

    def prepare(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="log-kills-"))
        self._spare = LogProcess(self._program)

    def close(self) -> None:
        self._spare.kill()
        if not self.figures.differences and not isinstance(sys.exception(), Exception):
            shutil.rmtree(self.root)

    def check(self) -> None:
        self.figures.counts = asdict(self._model.counts)

    def round(self) -> None:
        aim = self._next_aim()
        process = self._begin()
        try:
            if aim == "start":
                self.pause(self._start_seconds * 1.2)
            else:
                began = time.monotonic()
                process.wait_for_work()
                self._start_seconds = time.monotonic() - began
                self._take_aim(process, aim)
        finally:
            has_ended = process.has_ended
            complaints = process.kill()
        self.figures.kills += 1
        self.figures.aims[aim] += 1
        self._count_leftovers()
        self._take_stock(complaints if not has_ended else f"the process ended without being killed\n{complaints}")

    def _next_aim(self) -> str:
        """Drawn without replacement, so that every few kills have some of each."""
        if not self._aims:
            self._aims = [aim for aim, count in AIMS.items() for _ in range(count)]
            self.random.shuffle(self._aims)
        return self._aims.pop()

    def _begin(self) -> LogProcess:
        process, self._spare = self._spare, LogProcess(self._program)
        models = self._model.partitions
        waiting = [attempt for each in models.values() for attempt, _ in each.to_resend.values()]
        waiting += [attempt for each in models.values() for attempt, _ in each.in_flight if attempt.producer_id >= 0]
        unique = {attempt.number: attempt for attempt in waiting}
        path = self.root / f"orders-{self._run}"
        Orders(
            root=str(self.root),
            run=self._run,
            seed=self.random.getrandbits(32),
            next_number=self._model.next_number,
            producers={name: each.producers for name, each in models.items()},
            waiting=[unique[number] for number in sorted(unique)],
        ).write(path)
        process.begin(path)
        return process

    def _take_aim(self, process: LogProcess, aim: str) -> None:
        self.pause(MAX_WORK_SECONDS, MIN_WORK_SECONDS)
        if aim == "any":
            return
        end = time.monotonic() + MAX_AIM_SECONDS
        while time.monotonic() < end and not process.has_ended:
            if self._is_under_way(aim):
                if aim != "append":
                    self.pause(self.random.choice(DELAYS_SECONDS))
                return

    def _is_under_way(self, aim: str) -> bool:
        if aim == "append":
            return self._is_batch_on_its_way()
        if aim != "retention":
            return any(name.endswith(f".{aim}") for name in self._names(True))
        is_start_written = any(
            path.name.startswith("log-start") and path.suffix == ".tmp"
            for each in DIRECTORIES
            for path in (self.root / each).iterdir()
        )
        return is_start_written or any(name.endswith(".deleted") for name in self._names(False))

    def _is_batch_on_its_way(self) -> bool:
        with (self.root / f"journal-{self._run}").open("rb") as journal:
            journal.seek(max(journal.seek(0, 2) - JOURNAL_TAIL_BYTES, 0))
            lines = journal.read().splitlines()
        return bool(lines) and lines[-1].startswith((b'["try"', b'["again"'))

    def _names(self, of_compacted: bool) -> list[str]:
        return [
            path.name
            for partition in PARTITIONS.values()
            if partition.is_compacted == of_compacted and partition.path(self.root).exists()
            for path in partition.path(self.root).iterdir()
        ]

    def _count_leftovers(self) -> None:
        of_compacted, of_others = self._names(True), self._names(False)
        for kind in ("cleaned", "swap", "deleted"):
            self.figures.found[kind] += any(name.endswith(f".{kind}") for name in of_compacted + of_others)
        self.figures.in_a_clean += any(name.endswith((".cleaned", ".swap")) for name in of_compacted)
        self.figures.in_retention += any(name.endswith(".deleted") for name in of_others)

    def _take_stock(self, complaints: str) -> None:
        """Compare with the model what the killed process has found in its logs, then add what it has done."""
        differences: list[str] = []
        sighting = self.root / f"sighting-{self._run}"
        journal = self.root / f"journal-{self._run}"
        if complaints:
            differences.append(complaints)
        if sighting.exists():
            self.figures.sightings += 1
            differences += self._model.compare(Sighting.read(sighting))
            differences += self._model.read_journal(lines_of(journal), self._run)
        else:
            self.figures.before_work += 1
        self.figures.differences += (
            f"run {self._run} on {self.root}: {each}" for each in differences[:MAX_DIFFERENCES]
        )
        if not self.figures.differences:
            for path in (sighting, journal, self.root / f"orders-{self._run}"):
                path.unlink(missing_ok=True)
        self._run += 1

    def complete(self) -> None:
        """Two processes that are allowed to end: the second opens what the first has closed."""
        for _ in range(2):
            if self.figures.differences:
                return
            process = self._begin()
            try:
                process.wait_for_work()
                self.pause(MAX_WORK_SECONDS, MIN_WORK_SECONDS)
                complaints = process.close()
            finally:
                process.process.kill()
            self._take_stock(complaints)


def run(options: argparse.Namespace) -> LogFigures:
    return LogKills(options.seed, options.kills, options.process, print_progress).run()


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument("--process", default=PROGRAM, metavar="MODULE", help="another program to kill")
    sys.exit(run_program(options, run))
