"""`tailrace sim replay`: one seed again, with its event log, its diagram and its fault schedule."""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final, TextIO

from tailrace.cli.interrupts import Interrupts
from tailrace.cli.lines import Item, plain_line, print_items
from tailrace.cli.output import CommandError, prepare_stdout
from tailrace.cli.sim_args import parameters_of, replay_command
from tailrace.cli.sim_bar import SimBar
from tailrace.cli.sizes import counted
from tailrace.model.errors import InvalidConfigError
from tailrace.sim.diagram import space_time_diagram
from tailrace.sim.event_log import EventLog
from tailrace.sim.fault_schedule import FaultSchedule
from tailrace.sim.run import Run, RunReport
from tailrace.sim.scenarios import ScenarioParameters, build_run
from tailrace.sim.seed_result import Failure, completed

FAILED: Final = 1
INTERRUPTED: Final = 128 + signal.SIGINT
WRITTEN_AT_ONCE: Final = 1_000  # far fewer than the log keeps


def run(args: argparse.Namespace) -> int:
    prepare_stdout()
    check_usage(args)
    parameters = replace(parameters_of(args), until_event=args.until, schedule=read_schedule(args.faults))
    simulated = built(args, parameters)
    if args.list_faults:
        print(simulated.injector.schedule, end="")
        return 0
    if args.minimize:
        return minimize(args, parameters, simulated.injector.schedule)
    try:
        with ExitStack() as stack:
            log = stack.enter_context(opened(args.log)) if args.log not in (None, "-") else None
            diagram = stack.enter_context(opened(args.diagram)) if args.diagram is not None else None
            item, failure = replay(args, simulated, sys.stdout if args.log == "-" else log, diagram)
    except OSError as error:
        if args.log == "-":
            raise
        files = " or ".join(path for path in (args.log, args.diagram) if path is not None)
        raise CommandError(f"cannot write {files}: {error.strerror}", "free space, or pass another file") from error
    show(args, item, failure)
    return FAILED if failure is not None else INTERRUPTED if item["interrupted"] else 0


def check_usage(args: argparse.Namespace) -> None:
    """Options that would have no effect are refused."""
    mode = "--minimize" if args.minimize else "--list-faults" if args.list_faults else None
    given = {"--until": args.until, "--log": args.log, "--diagram": args.diagram, "--json": args.json or None}
    for option, value in given.items():
        if mode is not None and value is not None:
            raise CommandError(f"{option} has no effect with {mode}", f"leave out {option} or {mode}")


def read_schedule(path: str | None) -> FaultSchedule | None:
    if path is None:
        return None
    try:
        return FaultSchedule.parse(Path(path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise CommandError(
            f"cannot read {path}: {reason}", "--faults takes a file, as --list-faults prints it"
        ) from error
    except InvalidConfigError as error:
        raise CommandError(f"cannot read {path}: {error}", "--list-faults prints a schedule in this format") from error


def built(args: argparse.Namespace, parameters: ScenarioParameters) -> Run:
    try:
        return build_run(args.scenario, args.seed, parameters)
    except InvalidConfigError as error:
        hint = "--list-faults prints a schedule that fits; pass the --brokers and --clients of the run"
        raise CommandError(f"cannot inject the schedule of {args.faults}: {error}", hint) from error


def opened(path: str) -> TextIO:
    try:
        return open(path, "w")
    except OSError as error:
        raise CommandError(
            f"cannot write {path}: {error.strerror}", "pass a file in a directory that exists"
        ) from error


class LogWriter:
    """Writes events while a run goes on, so that a log may be longer than what is kept."""

    def __init__(self, log: EventLog, file: TextIO | None) -> None:
        self._log = log
        self._file = file
        self._written = 0

    def write(self, at_least: int = 1) -> None:
        missing = self._log.count - self._written
        if self._file is not None and missing >= at_least:
            self._written = self._log.count
            self._file.writelines(f"{event}\n" for event in self._log.last(missing))


def replay(
    args: argparse.Namespace, simulated: Run, log: TextIO | None, diagram: TextIO | None
) -> tuple[Item, Failure | None]:
    writer = LogWriter(simulated.universe.log, log)
    failure, is_interrupted = None, False
    with Interrupts() as interrupts:

        def on_progress() -> None:
            if interrupts.asked:
                raise KeyboardInterrupt
            writer.write(at_least=WRITTEN_AT_ONCE)

        try:
            failure = completed(simulated, on_progress).failure
        except KeyboardInterrupt:
            is_interrupted = True
        writer.write()
    if diagram is not None:
        title = f"tailrace sim replay {args.seed}"
        message = f"{failure.kind}: {failure.message}" if failure is not None else ""
        diagram.write(space_time_diagram(simulated.universe.log.events, simulated.in_columns(), title, message))
    return replay_item(args, simulated.report(), failure, is_interrupted=is_interrupted), failure


def replay_item(args: argparse.Namespace, report: RunReport, failure: Failure | None, *, is_interrupted: bool) -> Item:
    return {
        "type": "replay",
        "scenario": args.scenario,
        "seed": args.seed,
        "error": failure.kind if failure is not None else None,
        "message": failure.message if failure is not None else None,
        "events": report.events,
        "steps": report.steps,
        "faults": report.faults,
        "counts": dict(report.counts),
        "simulated_s": round(report.simulated_s, 3),
        "until": args.until,
        "hash": report.hash,
        "log": args.log if args.log != "-" else None,
        "diagram": args.diagram,
        "interrupted": is_interrupted,
    }


def show(args: argparse.Namespace, item: Item, failure: Failure | None) -> None:
    """On standard error if the event log goes to standard output."""
    if args.log == "-":
        sys.stdout.flush()
        print(plain_line(item), file=sys.stderr)
    elif args.json or not sys.stdout.isatty():
        print_items([item], as_json=args.json)
    else:
        from tailrace.cli import sim_text

        sim_text.show_replay(item)
        if failure is not None:
            sim_text.show_details(failure.last_events, failure.trace)
        return
    if failure is not None and failure.trace:
        print(failure.trace, file=sys.stderr, end="")


def minimize(args: argparse.Namespace, parameters: ScenarioParameters, schedule: FaultSchedule) -> int:
    runs, fewest = 0, len(schedule)
    with Interrupts() as interrupts, SimBar(on_stderr=True) as bar:

        def check_interrupt() -> None:
            if interrupts.asked:
                raise KeyboardInterrupt

        def fails(part: FaultSchedule) -> bool:
            nonlocal runs, fewest
            runs += 1
            text = f"{counted(fewest, 'fault')} of {len(schedule)}\nrun {runs} with {counted(len(part), 'fault')}"
            bar.describe(text)
            has_failed = completed(built(args, replace(parameters, schedule=part)), check_interrupt).failure is not None
            fewest = min(fewest, len(part)) if has_failed else fewest
            return has_failed

        if not fails(schedule):
            command = replay_command(args, args.seed)
            raise CommandError(f"seed {args.seed} does not fail", f"--minimize takes a failing run; `{command}` passes")
        minimal = schedule.minimized(fails)
    print(minimal, end="")
    replaying = f"{replay_command(args, args.seed)} --faults FILE"
    needed = (
        f"{counted(len(minimal), 'fault')} of {len(schedule)} needed" if minimal.faults else "it fails without faults"
    )
    found = f"{needed}, found with {counted(runs, 'run')}"
    print(f"{found}\nreplay: {replaying}", file=sys.stderr)
    return 0
