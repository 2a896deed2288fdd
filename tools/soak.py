"""`make soak`: the two searches that never end, for as long as you let them.

    crash points    a log under a random workload loses power at every file operation in turn, and must come back as a
                    log that it was (tests/properties/test_log_crashes.py)
    hostile inputs  damaged bytes go through every reader, which must end in an answer or in a typed error
                    (tests/properties/test_hostile_bytes.py); a tenth of those that reach kernels runs interpreted

Each is cut into pieces that run in processes of their own, so that a crash of the interpreter is a finding like any
other. What is printed at the end are rows for docs/soak.md. A finding is printed whole and makes the exit code 1;
Ctrl-C ends the run with the figures so far. `--seed` repeats a run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

ROOT = Path(__file__).resolve().parent.parent
SUPPORT = ROOT / "tests" / "support"
CRASH_TEST = "tests/properties/test_log_crashes.py"
CRASH_PIECE = 50_000
PIECE_INPUTS = {"directories": 2_000, "appends": 2_000}
USUAL_PIECE_INPUTS = 20_000
REACH_KERNELS = ("batches", "leader sets")
ADDRESS_SPACE_BYTES = 1 << 30
SHOWN_LINES = 60


@dataclass(frozen=True)
class Piece:
    """One process: `inputs` of a target from number `first` on, or so many crash points."""

    target: str | None
    seed: int
    first: int
    inputs: int
    is_interpreted: bool = False


@dataclass
class Figures:
    crash_points: int = 0
    inputs: dict[str, int] = field(default_factory=dict)
    interpreted: int = 0
    slowest_ms: int = 0
    peak_bytes: int = 0
    findings: list[str] = field(default_factory=list)


def shares() -> dict[str, int]:
    """How many inputs of each target the long test takes: the soak keeps their proportions."""
    sys.path[:0] = [str(ROOT / "tools"), str(SUPPORT)]
    from hostile_run import SHARES

    return dict(SHARES)


def plan(crash_points: int, inputs: int, seed: int, weights: dict[str, int]) -> list[Piece]:
    """Every process of a run, long ones first; at least as many inputs and crash points as asked for."""
    pieces = [
        Piece(None, seed + number, first, min(CRASH_PIECE, crash_points - first))
        for number, first in enumerate(range(0, crash_points, CRASH_PIECE))
    ]
    for target, weight in weights.items():
        wanted = -(-inputs * weight // sum(weights.values()))
        compiled = wanted - wanted // 10 if target in REACH_KERNELS else wanted
        pieces += _cut(target, seed, 0, compiled)
        pieces += _cut(target, seed, compiled, wanted, is_interpreted=True)
    return pieces


def _cut(target: str, seed: int, first: int, end: int, is_interpreted: bool = False) -> Iterator[Piece]:
    size = PIECE_INPUTS.get(target, USUAL_PIECE_INPUTS)
    for start_at in range(first, end, size):
        yield Piece(target, seed, start_at, min(size, end - start_at), is_interpreted)


class Soak:
    """Runs pieces side by side and adds up what they say."""

    def __init__(self, jobs: int, advance: Callable[[Piece, int], None]) -> None:
        self.figures = Figures()
        self._jobs = jobs
        self._advance = advance
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._is_stopped = False

    def run(self, pieces: list[Piece]) -> None:
        with ThreadPoolExecutor(self._jobs) as threads:
            try:
                for done in as_completed([threads.submit(self._run_piece, piece) for piece in pieces]):
                    done.result()
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            for process in self._running:
                process.terminate()

    def _run_piece(self, piece: Piece) -> None:
        lines: list[str] = []
        told = 0
        with self._lock:
            if self._is_stopped:
                return
            process = start(piece)
            self._running.add(process)
        with process:
            for line in process.stdout or ():
                lines.append(line)
                found = progress_in(line)
                if found is not None and found > told:
                    self._advance(piece, found - told)
                    told = found
        with self._lock:
            self._running.discard(process)
            if not self._is_stopped:
                self._advance(piece, piece.inputs - told)
                self._add(piece, lines, process.returncode)

    def _add(self, piece: Piece, lines: list[str], code: int) -> None:
        figures = self.figures
        if code:
            figures.findings.append(f"{piece} ended with {code}:\n{''.join(lines[-SHOWN_LINES:])}")
        if piece.target is None:
            found = re.search(r"(\d+) crash points", "".join(lines))
            figures.crash_points += int(found[1]) if found else 0
            return
        if code not in (0, 1):
            return
        told: dict[str, Any] = json.loads(lines[-1])
        figures.inputs[piece.target] = figures.inputs.get(piece.target, 0) + told["inputs"]
        figures.interpreted += told["inputs"] if not told["compiled"] else 0
        figures.slowest_ms = max(figures.slowest_ms, told["slowest_ms"])
        figures.peak_bytes = max(figures.peak_bytes, told["peak_bytes"])


def start(piece: Piece) -> subprocess.Popen[str]:
    environment = dict(os.environ)
    if piece.target is None:
        environment["TAILRACE_CRASH_POINTS"] = str(piece.inputs)
        command = ["-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", f"--hypothesis-seed={piece.seed}", CRASH_TEST]
    else:
        environment["PYTHONPATH"] = f"{ROOT / 'tools'}:{SUPPORT}"
        if piece.is_interpreted:
            environment["TAILRACE_KERNELS"] = "interpreted"
        command = [
            str(SUPPORT / "hostile_run.py"),
            piece.target,
            "--seed",
            str(piece.seed),
            "--first",
            str(piece.first),
        ]
        command += ["--count", str(piece.inputs), "--memory-limit-bytes", str(ADDRESS_SPACE_BYTES)]
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def progress_in(line: str) -> int | None:
    """How many inputs a process says that it has done."""
    if line.startswith('{"inputs"'):
        return int(json.loads(line)["inputs"])
    return None


def rows(figures: Figures, seconds: float, seed: int, day: str) -> Iterator[str]:
    """Rows for docs/soak.md."""
    verdict = f"{len(figures.findings)} findings" if figures.findings else "no findings"
    if figures.crash_points:
        yield f"| {day} | crash points | {figures.crash_points:,}; {verdict}; seed {seed}, {seconds:.0f} s in all |"
    if figures.inputs:
        each = ", ".join(f"{target} {count:,}" for target, count in figures.inputs.items())
        yield (
            f"| {day} | hostile inputs | {sum(figures.inputs.values()):,} ({each}; {figures.interpreted:,} of them "
            f"with interpreted kernels); {verdict}; slowest input {figures.slowest_ms} ms of processor time, greatest "
            f"allocation {figures.peak_bytes / (1 << 20):.1f} MiB; seed {seed}, {seconds:.0f} s in all |"
        )


def show(progress: Progress, pieces: list[Piece]) -> Callable[[Piece, int], None]:
    """A bar for each kind of work; returns what moves it."""
    totals: dict[str, int] = {}
    for piece in pieces:
        totals[piece.target or "crash points"] = totals.get(piece.target or "crash points", 0) + piece.inputs
    bars: dict[str, TaskID] = {name: progress.add_task(name, total=total) for name, total in totals.items()}
    return lambda piece, count: progress.advance(bars[piece.target or "crash points"], count)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--crash-points", type=int, default=200_000, metavar="N", help="default 200,000; 0 for none")
    parser.add_argument("--inputs", type=int, default=2_000_000, metavar="N", help="default 2,000,000; 0 for none")
    parser.add_argument("--seed", type=int, default=None, help="default: another one every time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes at a time")
    args = parser.parse_args(arguments)
    seed = int(time.time()) if args.seed is None else args.seed
    pieces = plan(args.crash_points, args.inputs, seed, shares())
    console = Console()
    started = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        soak = Soak(args.jobs, show(progress, pieces))
        try:
            soak.run(pieces)
        except KeyboardInterrupt:
            console.print("stopped")
    figures = soak.figures
    for finding in figures.findings:
        print(finding)
    for row in rows(figures, time.monotonic() - started, seed, datetime.now(UTC).date().isoformat()):
        print(row)
    return 1 if figures.findings else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as with Ctrl-C, the processes too
    sys.exit(main())
