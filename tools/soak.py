"""`make soak`: the searches that never end, for as long as you let them.

    crash points             a log under a random workload loses power at every file operation in turn, and must come
                             back as a log that it was (tests/properties/test_log_crashes.py)
    compaction crash points  the same for logs that are compacted, retired and moved about
                             (tests/properties/test_compaction_property.py)
    kills                    processes that compact and delete are ended with SIGKILL, and what they leave is held
                             against a model (tests/support/stress/log_kills/run.py)
    copier kills             a broker is ended with SIGKILL while copiers move records in transactions: the copy must be
                             the original (tests/support/stress/copier_kills.py)
    spark kills              Spark drivers and executors are ended with SIGKILL, and stopped and doubled, while they
                             copy 1,000,000 records exactly once: the copy must be the original
                             (tests/support/stress/sink_kills.py); also on a real Kafka
    table kills              Spark drivers and workers are ended with SIGKILL, and stopped and doubled, while a topic of
                             1,000,000 records becomes a table, in each format and mode: it must be what a plain model
                             says (tests/support/stress/table_kills.py)
    storms                   groups and transactions in the simulator, over a network that loses, doubles and delays,
                             with a broker that is killed, the exactly-once sink, and tables with two drivers; each
                             seed is a story that must come out right (tests/sim/test_group_storms.py,
                             tests/sim/test_transaction_storms.py, tests/sim/test_exactly_once_storms.py,
                             tests/sim/test_table_storms.py)
    quorums                  a quorum of controllers with brokers and administrators in the cluster simulator, with all
                             kinds of faults; each seed must keep the promises of docs/simulator.md
    hostile inputs           damaged bytes go through every reader, which must end in an answer or in a typed error
                             (tests/properties/test_hostile_bytes.py); a tenth of those that reach kernels runs
                             interpreted
    hostile requests         damaged and absurd requests go to a broker over its sockets, which must go on serving
                             everybody else and not grow (tests/support/hostile/request_load.py)

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
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

ROOT = Path(__file__).resolve().parent.parent
PATHS = os.pathsep.join((str(ROOT / "tools"), str(ROOT / "tests")))
CRASH_TESTS = {
    "crash points": ("tests/properties/test_log_crashes.py", "TAILRACE_CRASH_POINTS"),
    "compaction crash points": ("tests/properties/test_compaction_property.py", "TAILRACE_COMPACTION_CRASH_POINTS"),
}
STORM_TESTS = {
    "group storms": "tests/sim/test_group_storms.py",
    "transaction storms": "tests/sim/test_transaction_storms.py",
    "exactly-once storms": "tests/sim/test_exactly_once_storms.py",
    "table storms": "tests/sim/test_table_storms.py",
}
KILLS = "kills"
COPIERS = "copier kills"
SPARK = "spark kills"
SPARK_ON_KAFKA = "spark kills on Kafka"
TABLES = {
    f"table kills, {kind} {mode}": (kind, mode)
    for kind, mode in (
        ("parquet", "append"),
        ("delta", "append"),
        ("delta", "upsert"),
        ("iceberg", "append"),
        ("iceberg", "upsert"),
    )
}
REQUESTS = "hostile requests"
QUORUMS = "quorums"
PIECE_INPUTS = {
    "crash points": 50_000,
    "compaction crash points": 20_000,
    KILLS: 100,
    COPIERS: 25,
    SPARK: 20,
    SPARK_ON_KAFKA: 20,
    **dict.fromkeys(TABLES, 20),
    REQUESTS: 50_000,
    QUORUMS: 50,
    "group storms": 100,
    "transaction storms": 100,
    "exactly-once storms": 1000,
    "table storms": 100,
    "directories": 2_000,
    "appends": 2_000,
}
USUAL_PIECE_INPUTS = 20_000
REACH_KERNELS = ("batches", "leader sets")
ADDRESS_SPACE_BYTES = 1 << 30
SHOWN_LINES = 60


@dataclass(frozen=True)
class Piece:
    """One process: `inputs` of a target from number `first` on, or so many crash points or kills."""

    target: str
    seed: int
    first: int
    inputs: int
    is_interpreted: bool = False


@dataclass
class Figures:
    crash_points: dict[str, int] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)
    storms: Counter[str] = field(default_factory=Counter)
    copiers: Counter[str] = field(default_factory=Counter)
    spark: dict[str, Counter[str]] = field(default_factory=dict)
    tables: dict[str, Counter[str]] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    quorums: Counter[str] = field(default_factory=Counter)
    growth_bytes: int = 0
    """The most that a broker has grown under hostile requests."""
    inputs: dict[str, int] = field(default_factory=dict)
    interpreted: int = 0
    slowest_ms: int = 0
    peak_bytes: int = 0
    findings: list[str] = field(default_factory=list)

    def add_quorums(self, summary: dict[str, Any]) -> None:
        """What `tailrace sim run --json` has printed at its end."""
        self.quorums.update({each: summary[each] for each in ("seeds", "simulated_s", "events", "faults")})


def shares() -> dict[str, int]:
    """How many inputs of each target the long test takes: the soak keeps their proportions."""
    sys.path[:0] = PATHS.split(os.pathsep)
    from support.hostile.run import SHARES

    return dict(SHARES)


def plan(wanted_of: dict[str, int], inputs: int, seed: int, weights: dict[str, int]) -> list[Piece]:
    """Every process of a run, long ones first; at least as many inputs, crash points and kills as asked for."""
    pieces = [
        replace(piece, seed=seed + number)
        for target, wanted in wanted_of.items()
        for number, piece in enumerate(_cut(target, seed, 0, wanted))
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
        if piece.target in CRASH_TESTS:
            found = re.search(r"(\d+) crash points", "".join(lines))
            points = figures.crash_points.get(piece.target, 0) + (int(found[1]) if found else 0)
            figures.crash_points[piece.target] = points
            return
        if piece.target in STORM_TESTS:
            figures.storms[piece.target] += piece.inputs
            return
        if code not in (0, 1) or not lines or not lines[-1].startswith("{"):
            return  # it died before its figures
        told: dict[str, Any] = json.loads(lines[-1])
        if piece.target == KILLS:
            figures.kills.update({each: told[each] for each in ("kills", "in_a_clean", "in_retention", "before_work")})
            figures.kills.update(told["counts"])
            return
        if piece.target == COPIERS:
            counts = ("kills", "killed_starts", "copied", "committed", "aborted")
            figures.copiers.update({each: told[each] for each in counts})
            return
        if piece.target in (SPARK, SPARK_ON_KAFKA):
            counts = ("records", "kills", "workers_killed", "stops", "drivers", "batches")
            figures.spark.setdefault(piece.target, Counter()).update({each: told[each] for each in counts})
            return
        if piece.target in TABLES:
            counts = ("records", "rows", "dead_letters", "kills", "workers_killed", "stops", "drivers", "batches")
            figures.tables.setdefault(piece.target, Counter()).update({each: told[each] for each in counts})
            return
        if piece.target == QUORUMS:
            figures.add_quorums(json.loads(lines[-1]))
            return
        if piece.target == REQUESTS:
            figures.requests.update({each: told[each] for each in ("requests", "answered", "closed", "given_up")})
            figures.growth_bytes = max(figures.growth_bytes, told["rss_after_bytes"] - told["rss_before_bytes"])
            return
        figures.inputs[piece.target] = figures.inputs.get(piece.target, 0) + told["inputs"]
        figures.interpreted += told["inputs"] if not told["compiled"] else 0
        figures.slowest_ms = max(figures.slowest_ms, told["slowest_ms"])
        figures.peak_bytes = max(figures.peak_bytes, told["peak_bytes"])


def start(piece: Piece) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": PATHS}
    if piece.target in CRASH_TESTS:
        test, variable = CRASH_TESTS[piece.target]
        environment[variable] = str(piece.inputs)
        command = ["-m", "pytest", "-q", "-s", "-m", "long", "-p", "no:cacheprovider"]
        command += [f"--hypothesis-seed={piece.seed}", test]
    elif piece.target in STORM_TESTS:
        environment["TAILRACE_SEEDS"] = f"{piece.first}:{piece.first + piece.inputs}"
        command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", STORM_TESTS[piece.target]]
    elif piece.target == KILLS:
        command = ["-m", "support.stress.log_kills.run", "--kills", str(piece.inputs), "--seed", str(piece.seed)]
    elif piece.target == COPIERS:
        command = ["-m", "support.stress.copier_kills", "--kills", str(piece.inputs), "--seed", str(piece.seed)]
        command += ["--protocol", "consumer" if piece.seed % 2 else "classic"]
    elif piece.target in (SPARK, SPARK_ON_KAFKA):
        command = ["-m", "support.stress.sink_kills", "--kills", str(piece.inputs), "--seed", str(piece.seed)]
        command += ["--kafka"] if piece.target == SPARK_ON_KAFKA else []
        if piece.seed % 2:  # a local master does not speculate, and has no executors to kill
            command += ["--speculation", "--master", "local-cluster[2,1,1024]"]
    elif piece.target in TABLES:
        kind, mode = TABLES[piece.target]
        command = ["-m", "support.stress.table_kills", "--kills", str(piece.inputs), "--seed", str(piece.seed)]
        command += ["--format", kind, "--mode", mode]
        on_a_cluster = (piece.seed + list(TABLES).index(piece.target)) % 2  # of neighbours one is
        command += ["--executors", "local-cluster" if on_a_cluster else "local"]
    elif piece.target == QUORUMS:
        first = piece.seed + piece.first  # other seeds in each run
        command = ["-m", "tailrace", "sim", "run", "--scenario", "quorum", "--json"]
        command += ["--seed", str(first), "--seeds", str(piece.inputs)]
    elif piece.target == REQUESTS:
        command = ["-m", "support.hostile.request_load", "--count", str(piece.inputs), "--seed", str(piece.seed)]
    else:
        if piece.is_interpreted:
            environment["TAILRACE_KERNELS"] = "interpreted"
        command = [
            "-m",
            "support.hostile.run",
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
    ending = f"seed {seed}, {seconds:.0f} s in all |"
    for target, points in figures.crash_points.items():
        yield f"| {day} | {target} | {points:,}; {verdict}; {ending}"
    for target, seeds in figures.storms.items():
        yield f"| {day} | {target} | {seeds:,} seeds; {verdict}; {ending}"
    kills = figures.kills
    if kills:
        yield (
            f"| {day} | kills | {kills['kills']:,}, {kills['in_a_clean']:,} of them in a clean, "
            f"{kills['in_retention']:,} in retention, {kills['before_work']:,} while logs were opened; "
            f"{kills['acknowledged']:,} acknowledged batches, of their records {kills['records_compacted']:,} "
            f"compacted away, {kills['aborted_dropped']:,} dropped as aborted, {kills['records_retired']:,} retired; "
            f"{kills['probes']:,} old batches sent again; {verdict}; {ending}"
        )
    copiers = figures.copiers
    if copiers:
        yield (
            f"| {day} | copier kills | {copiers['kills']:,}, {copiers['killed_starts']:,} of them during a start; "
            f"{copiers['copied']:,} records copied in {copiers['committed']:,} transactions, {copiers['aborted']:,} "
            f"others aborted; {verdict}; {ending}"
        )
    for target, spark in figures.spark.items():
        yield (
            f"| {day} | {target} | {spark['kills']:,} drivers and {spark['workers_killed']:,} executors killed, "
            f"{spark['stops']:,} drivers stopped and doubled; {spark['records']:,} records copied by "
            f"{spark['drivers']:,} drivers in {spark['batches']:,} batches; {verdict}; {ending}"
        )
    for target, tables in figures.tables.items():
        yield (
            f"| {day} | {target} | {tables['kills']:,} drivers and {tables['workers_killed']:,} workers or executors "
            f"killed, {tables['stops']:,} drivers stopped and doubled; {tables['records']:,} records became "
            f"{tables['rows']:,} rows and {tables['dead_letters']:,} dead letters, by {tables['drivers']:,} drivers in "
            f"{tables['batches']:,} batches; {verdict}; {ending}"
        )
    quorums = figures.quorums
    if quorums:
        yield (
            f"| {day} | quorums | {quorums['seeds']:,} seeds, {quorums['simulated_s'] / 3600:,.1f} simulated hours, "
            f"{quorums['events']:,} events, {quorums['faults']:,} faults; {verdict}; {ending}"
        )
    requests = figures.requests
    if requests:
        yield (
            f"| {day} | hostile requests | {requests['requests']:,}: {requests['answered']:,} answered, "
            f"{requests['closed']:,} met by a closed connection, {requests['given_up']:,} not waited for; {verdict}; "
            f"a broker grew by {figures.growth_bytes / (1 << 20):.1f} MiB at most; {ending}"
        )
    if figures.inputs:
        each = ", ".join(f"{target} {count:,}" for target, count in figures.inputs.items())
        yield (
            f"| {day} | hostile inputs | {sum(figures.inputs.values()):,} ({each}; {figures.interpreted:,} of them "
            f"with interpreted kernels); {verdict}; slowest input {figures.slowest_ms} ms of processor time, greatest "
            f"allocation {figures.peak_bytes / (1 << 20):.1f} MiB; {ending}"
        )


def show(progress: Progress, pieces: list[Piece]) -> Callable[[Piece, int], None]:
    """A bar for each kind of work; returns what moves it."""
    totals: dict[str, int] = {}
    for piece in pieces:
        totals[piece.target] = totals.get(piece.target, 0) + piece.inputs
    bars: dict[str, TaskID] = {name: progress.add_task(name, total=total) for name, total in totals.items()}
    return lambda piece, count: progress.advance(bars[piece.target], count)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--crash-points", type=int, default=200_000, metavar="N", help="default 200,000; 0 for none")
    parser.add_argument(
        "--compaction-crash-points", type=int, default=100_000, metavar="N", help="default 100,000; 0 for none"
    )
    parser.add_argument("--kills", type=int, default=200, metavar="N", help="default 200; 0 for none")
    parser.add_argument("--copier-kills", type=int, default=50, metavar="N", help="default 50; 0 for none")
    parser.add_argument("--spark-kills", type=int, default=20, metavar="N", help="default 20; 0 for none")
    parser.add_argument(
        "--spark-kills-on-kafka", type=int, default=0, metavar="N", help="the same on a real Kafka; default 0"
    )
    parser.add_argument(
        "--table-kills", type=int, default=20, metavar="N", help="in each format and mode; default 20; 0 for none"
    )
    parser.add_argument(
        "--storms", type=int, default=1_000, metavar="N", help="seeds of each; default 1,000; 0 for none"
    )
    parser.add_argument("--quorums", type=int, default=500, metavar="N", help="seeds; default 500; 0 for none")
    parser.add_argument("--requests", type=int, default=100_000, metavar="N", help="default 100,000; 0 for none")
    parser.add_argument("--inputs", type=int, default=2_000_000, metavar="N", help="default 2,000,000; 0 for none")
    parser.add_argument("--seed", type=int, default=None, help="default: another one every time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes at a time")
    args = parser.parse_args(arguments)
    seed = int(time.time()) if args.seed is None else args.seed
    wanted = {
        KILLS: args.kills,
        COPIERS: args.copier_kills,
        SPARK: args.spark_kills,
        SPARK_ON_KAFKA: args.spark_kills_on_kafka,
        **dict.fromkeys(TABLES, args.table_kills),
        REQUESTS: args.requests,
        QUORUMS: args.quorums,
        **dict.fromkeys(STORM_TESTS, args.storms),
        "compaction crash points": args.compaction_crash_points,
        "crash points": args.crash_points,
    }
    pieces = plan(wanted, args.inputs, seed, shares())
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
