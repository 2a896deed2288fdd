"""`tailrace sim run`: a series of seeds, its progress, its failed seeds and its summary."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from tailrace.cli.interrupts import Interrupts
from tailrace.cli.lines import Item, print_items
from tailrace.cli.output import CommandError
from tailrace.cli.sim_args import parameters_of, replay_command
from tailrace.cli.sim_bar import SimBar
from tailrace.sim.event_log import shown_time
from tailrace.sim.run import RunReport
from tailrace.sim.seed_result import Failure, SeedResult
from tailrace.sim.seed_series import SeriesWatcher, WorkerEndedError, seed_results

FAILED: Final = 1
INTERRUPTED: Final = 128 + signal.SIGINT
DEFAULT_HOURS: Final = 1.0


@dataclass
class Totals:
    """Sums over reports."""

    simulated_s: float = 0.0
    events: int = 0
    steps: int = 0
    faults: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, report: RunReport) -> None:
        self.simulated_s += report.simulated_s
        self.events += report.events
        self.steps += report.steps
        self.faults += report.faults
        self.counts.update(report.counts)

    def with_pending(self, pending: Mapping[int, RunReport]) -> Totals:
        sums = Totals(self.simulated_s, self.events, self.steps, self.faults, Counter(self.counts))
        for report in pending.values():
            sums.add(report)
        return sums


class Series(SeriesWatcher):
    """The seeds that a command asks for, and the sums of those that have run."""

    def __init__(self, args: argparse.Namespace, bar: SimBar, interrupts: Interrupts) -> None:
        self.totals = Totals()
        self.seeds = 0
        self.failed = 0
        self._hash = blake2b(digest_size=16)
        self._args = args
        self._bar = bar
        self._interrupts = interrupts
        self._target_s = None if args.seeds is not None else 3600 * (args.hours or DEFAULT_HOURS)

    def wants(self, pending: int) -> bool:
        if self._interrupts.asked:
            raise KeyboardInterrupt
        if self.failed >= self._args.max_failures:
            return False
        if self._target_s is None:
            return self.seeds + pending < int(self._args.seeds)
        return self.totals.simulated_s + pending * float(self._args.seconds) < self._target_s

    def on_progress(self, pending: Mapping[int, RunReport]) -> None:
        if self._interrupts.asked:
            raise KeyboardInterrupt
        sums = self.totals.with_pending(pending)
        total_s = self._target_s
        if total_s is None:
            seeds_done = self.seeds + sum(each.simulated_s for each in pending.values()) / self._args.seconds
            self._bar.show(sums, min(seeds_done / self._args.seeds, 1.0), list(pending), self.failed)
        else:
            self._bar.show(sums, min(sums.simulated_s / total_s, 1.0), list(pending), self.failed)

    def add(self, result: SeedResult) -> None:
        self.seeds += 1
        self.failed += result.failure is not None
        self.totals.add(result.report)
        self._hash.update(f"{result.report.seed} {result.report.hash}\n".encode())

    def summary(self, real_s: float, *, is_interrupted: bool) -> Item:
        sums = self.totals
        return {
            "type": "summary",
            "scenario": self._args.scenario,
            "seeds": self.seeds,
            "failed": self.failed,
            "simulated_s": round(sums.simulated_s, 3),
            "events": sums.events,
            "steps": sums.steps,
            "faults": sums.faults,
            "counts": dict(sums.counts),
            "hash": self._hash.hexdigest(),
            "real_s": round(real_s, 3),
            "interrupted": is_interrupted,
        }


def run(args: argparse.Namespace) -> int:
    parameters = parameters_of(args)
    began_s, is_interrupted = time.monotonic(), False
    with Interrupts() as interrupts, SimBar(is_json=args.json) as bar:
        series = Series(args, bar, interrupts)
        results = seed_results(args.scenario, args.seed, parameters, series, args.workers)
        try:
            for result in results:
                series.add(result)
                if result.failure is not None:
                    show_failure(args, result.report, result.failure, bar)
        except KeyboardInterrupt:
            is_interrupted = True
        except WorkerEndedError as error:
            raise CommandError(str(error), "run with fewer --workers if memory is short") from error
        finally:
            results.close()
    show_summary(args, series.summary(time.monotonic() - began_s, is_interrupted=is_interrupted))
    return FAILED if series.failed else INTERRUPTED if is_interrupted else 0


def failure_item(args: argparse.Namespace, report: RunReport, failure: Failure) -> Item:
    return {
        "type": "failure",
        "seed": report.seed,
        "error": failure.kind,
        "message": failure.message,
        "event": failure.event,
        "time": shown_time(failure.time_us),
        "faults": report.faults,
        "hash": report.hash,
        "replay": replay_command(args, report.seed),
    }


def show_failure(args: argparse.Namespace, report: RunReport, failure: Failure, bar: SimBar) -> None:
    item = failure_item(args, report, failure)
    if args.json or not sys.stdout.isatty():
        print_items([item], as_json=args.json)
        sys.stdout.flush()
        return
    from tailrace.cli import sim_text

    sim_text.show_failure(item, bar.console)


def show_summary(args: argparse.Namespace, item: Item) -> None:
    if args.json or not sys.stdout.isatty():
        print_items([item], as_json=args.json)
        return
    from tailrace.cli import sim_text

    sim_text.show_summary(item)
