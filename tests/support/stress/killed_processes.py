"""The harness of stress tests that kill processes.

A test kills processes with SIGKILL while they work, and compares what they leave behind with what it knows:

    prepare   start what the first round needs: topics, clients
    round     start a process, let it work, kill it; adds to `figures.kills`
    complete  after the last kill: let the work come to its end without faults
    close     end clients and processes, also after an error
    check     compare: whatever is wrong goes into `figures.differences`

No round follows a difference. The seed decides when and what to kill and what clients do. What a process is doing at
that time also depends on the machine, so that a seed repeats the choices of a run, not the run.

As a program a test prints `{"inputs": kills}` after each round and the figures as the last line, both as JSON. The exit
code is 1 if there was a difference.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

MAX_DIFFERENCES = 20


@dataclass
class Figures:
    seed: int = 0
    kills: int = 0
    seconds: float = 0.0
    differences: list[str] = field(default_factory=list)

    def assert_passed(self, kills: int) -> None:
        """No difference after this many kills."""
        print(self)
        assert not self.differences, "\n".join((f"seed {self.seed}, kill {self.kills}:", *self.differences))
        assert self.kills == kills


FiguresT = TypeVar("FiguresT", bound=Figures)
Progress = Callable[[int], None]
"""Is called with the number of kills so far."""


class KillTest(ABC, Generic[FiguresT]):
    def __init__(self, figures: FiguresT, seed: int, kills: int, progress: Progress | None = None) -> None:
        self.figures = figures
        self.random = random.Random(seed)
        self.is_complete = False
        """There is nothing left to do, whether or not all kills have happened."""
        self._kills = kills
        self._progress = progress
        figures.seed = seed

    def run(self) -> FiguresT:
        figures, began = self.figures, time.monotonic()
        self.prepare()
        try:
            while figures.kills < self._kills and not figures.differences and not self.is_complete:
                self.round()
                if self._progress is not None:
                    self._progress(figures.kills)
            self.complete()
        finally:
            self.close()
        self.check()
        del figures.differences[MAX_DIFFERENCES:]
        figures.seconds = time.monotonic() - began
        return figures

    def prepare(self) -> None:
        """Runs before the first round."""

    @abstractmethod
    def round(self) -> None: ...

    @abstractmethod
    def complete(self) -> None: ...

    def close(self) -> None:
        """Runs after `complete`, and after an error in a round."""

    @abstractmethod
    def check(self) -> None: ...

    def note_difference(self, text: str) -> None:
        self.figures.differences.append(text)

    def pause(self, longest_seconds: float, shortest_seconds: float = 0.0) -> None:
        """Let processes work for a random time."""
        time.sleep(self.random.uniform(shortest_seconds, longest_seconds))

    def wait(self, is_done: Callable[[], bool], patience_seconds: float, what: str) -> bool:
        """Wait for a condition; a difference and False if it does not come in time."""
        deadline = time.monotonic() + patience_seconds
        while not is_done():
            if time.monotonic() > deadline:
                self.note_difference(f"{what} within {patience_seconds:g} s")
                return False
            time.sleep(0.01)
        return True


def print_progress(inputs: int) -> None:
    print(json.dumps({"inputs": inputs}), flush=True)


def parser(description: str | None, kills: int = 20) -> argparse.ArgumentParser:
    """Options of every program that runs a `KillTest`; `description` is the docstring of its module."""
    made = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    made.add_argument("--kills", type=int, default=kills)
    made.add_argument("--seed", type=int, default=1)
    return made


def run_program(options: argparse.ArgumentParser, run: Callable[[argparse.Namespace], Figures]) -> int:
    """Exit code. SIGTERM ends the test as Ctrl-C does: processes are ended on the way out."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    figures = run(options.parse_args())
    for difference in figures.differences:
        print(difference)
    print(json.dumps(vars(figures)))
    return 1 if figures.differences else 0
