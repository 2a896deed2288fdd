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

One JSON line is printed for each kill, `{"inputs": kills}`, and the figures as the last one; the exit code is 1 when
there was a difference. The directories of a storm with a difference are kept, and named.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from support import programs
from support.stress.log_kills.journal import Orders, lines_of
from support.stress.log_kills.model import Model
from support.stress.log_kills.opened_logs import Sighting
from support.stress.log_kills.workload import DIRECTORIES, PARTITIONS

VICTIM = "support.stress.log_kills.process"
AIMS = {"start": 3, "any": 3, "append": 3, "cleaned": 4, "swap": 4, "retention": 3}
JOURNAL_TAIL_BYTES = 8192
LONGEST_START_SECONDS = 60.0
WORK_SECONDS = (0.05, 0.5)
LONGEST_AIM_SECONDS = 0.6
DELAYS_SECONDS = (0.0, 0.003, 0.01, 0.03)
SHOWN_DIFFERENCES = 20


@dataclass
class Figures:
    kills: int = 0
    aims: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    """How many kills left files of each kind behind."""
    in_a_clean: int = 0
    in_retention: int = 0
    before_work: int = 0
    sightings: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    seconds: float = 0.0


class Victim:
    """A process. It has imported everything when it is told to begin, so that another one's end is not waited for."""

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
        with suppress(BrokenPipeError):  # it ended by itself, and will be found so
            self.process.stdin.write(f"{orders}\n")
            self.process.stdin.flush()

    def wait_for_work(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.readline()

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> str:
        """With SIGKILL; returns what it has complained of."""
        self.process.kill()
        return self.process.communicate()[1]

    def close(self) -> str:
        """Let it end by itself."""
        return self.process.communicate(timeout=LONGEST_START_SECONDS)[1]


class Storm:
    """One directory and its model. A context: leaving it ends the processes and removes the directory."""

    def __init__(self, seed: int, program: str = VICTIM, told: Callable[[int], None] | None = None) -> None:
        self.figures = Figures()
        self.root = Path(tempfile.mkdtemp(prefix="kill-storm-"))
        self._random = random.Random(seed)
        self._program = program
        self._told = told
        self._model = Model(PARTITIONS)
        self._run = 0
        self._start_seconds = 0.1
        self._aims: list[str] = []
        self._spare = Victim(program)

    def __enter__(self) -> Storm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spare.kill()
        if not self.figures.differences and not isinstance(error, Exception):
            shutil.rmtree(self.root)

    def run(self, kills: int) -> Figures:
        began = time.monotonic()
        while self.figures.kills < kills and not self.figures.differences:
            self._round()
            if self._told is not None:
                self._told(self.figures.kills)
        if not self.figures.differences:
            self._end_cleanly()
        self.figures.counts = asdict(self._model.counts)
        self.figures.seconds = time.monotonic() - began
        return self.figures

    # One life

    def _round(self) -> None:
        aim = self._next_aim()
        victim = self._begin()
        try:
            if aim == "start":
                time.sleep(self._random.uniform(0, self._start_seconds * 1.2))
            else:
                began = time.monotonic()
                victim.wait_for_work()
                self._start_seconds = time.monotonic() - began
                self._take_aim(victim, aim)
        finally:
            ended_by_itself = victim.has_ended
            complaints = victim.kill()
        self.figures.kills += 1
        self.figures.aims[aim] += 1
        self._count_leftovers()
        self._take_stock(complaints if not ended_by_itself else f"the process ended by itself\n{complaints}")

    def _next_aim(self) -> str:
        """Dealt like cards, so that every few kills have some of each."""
        if not self._aims:
            self._aims = [aim for aim, count in AIMS.items() for _ in range(count)]
            self._random.shuffle(self._aims)
        return self._aims.pop()

    def _begin(self) -> Victim:
        victim, self._spare = self._spare, Victim(self._program)
        models = self._model.partitions
        waiting = [attempt for each in models.values() for attempt, _ in each.to_resend.values()]
        waiting += [attempt for each in models.values() for attempt, _ in each.in_flight if attempt.producer_id >= 0]
        unique = {attempt.number: attempt for attempt in waiting}
        path = self.root / f"orders-{self._run}"
        Orders(
            root=str(self.root),
            run=self._run,
            seed=self._random.getrandbits(32),
            next_number=self._model.next_number,
            producers={name: each.producers for name, each in models.items()},
            waiting=[unique[number] for number in sorted(unique)],
        ).write(path)
        victim.begin(path)
        return victim

    def _take_aim(self, victim: Victim, aim: str) -> None:
        time.sleep(self._random.uniform(*WORK_SECONDS))
        if aim == "any":
            return
        end = time.monotonic() + LONGEST_AIM_SECONDS
        while time.monotonic() < end and not victim.has_ended:
            if self._is_under_way(aim):
                if aim != "append":
                    time.sleep(self._random.uniform(0, self._random.choice(DELAYS_SECONDS)))
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

    # After it

    def _count_leftovers(self) -> None:
        of_compacted, of_others = self._names(True), self._names(False)
        for kind in ("cleaned", "swap", "deleted"):
            self.figures.found[kind] += any(name.endswith(f".{kind}") for name in of_compacted + of_others)
        self.figures.in_a_clean += any(name.endswith((".cleaned", ".swap")) for name in of_compacted)
        self.figures.in_retention += any(name.endswith(".deleted") for name in of_others)

    def _take_stock(self, complaints: str) -> None:
        """What the process that is now dead has seen, then what it has done, and all that against the model."""
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
            f"run {self._run} on {self.root}: {each}" for each in differences[:SHOWN_DIFFERENCES]
        )
        if not self.figures.differences:
            for path in (sighting, journal, self.root / f"orders-{self._run}"):
                path.unlink(missing_ok=True)
        self._run += 1

    def _end_cleanly(self) -> None:
        """Two processes that are allowed to end: the second opens what the first has closed."""
        for _ in range(2):
            victim = self._begin()
            try:
                victim.wait_for_work()
                time.sleep(self._random.uniform(*WORK_SECONDS))
                complaints = victim.close()
            finally:
                victim.process.kill()
            self._take_stock(complaints)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--victim", default=VICTIM, metavar="MODULE", help="another program to kill")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as with Ctrl-C, the processes too
    with Storm(args.seed, args.victim, lambda kills: print(json.dumps({"inputs": kills}), flush=True)) as storm:
        figures: dict[str, Any] = vars(storm.run(args.kills))
    for difference in figures["differences"]:
        print(difference)
    print(json.dumps(figures))
    return 1 if figures["differences"] else 0


if __name__ == "__main__":
    sys.exit(main())
