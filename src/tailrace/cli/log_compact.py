"""`tailrace log compact`: plan, run and outcome of an offline compaction, and the exit code.

A partition that cannot be cleaned gets an error line and a hint, the others are compacted all the same, and the exit
code is 1. Ctrl-C ends the run well: the logs are closed as after any other run, and what was not cleaned stays as it
was. A second Ctrl-C ends it at once, as a crash would: the next start recovers the directories.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from tailrace.cli.compact_plan import RUNNING_HINT, Plan, make_plan
from tailrace.cli.compact_run import FAILED, CompactionRun, Settings, Work
from tailrace.cli.compact_text import Output, output
from tailrace.cli.output import CommandError, prepare_stdout, printable, report
from tailrace.config.log import ConfigError
from tailrace.env.real import RealFiles
from tailrace.model.errors import LogDirLockedError
from tailrace.storage import names
from tailrace.storage.manager.clean_shutdown import CLEAN_SHUTDOWN_FILE

FAILURE: Final = 1
INTERRUPTION: Final = 128 + signal.SIGINT
CLEANER: Final = "tailrace.storage.cleaner"
TOLD_OTHERWISE: Final = (CLEANER, "tailrace.storage.manager.log_loading")
SETTINGS_HINT: Final = "change the option of that name; `tailrace log compact --help` lists them"
ENDING: Final = "interrupted: ending safely; interrupt again to stop at once, as a crash would"


def run(args: argparse.Namespace) -> int:
    prepare_stdout()
    settings = settings_of(args)
    plan = make_plan(RealFiles(), args.directories, args.topic, drops_keyless=args.drop_keyless)
    shown = output(as_json=args.json)
    shown.plan(plan)
    began = time.monotonic()
    compaction = work_through(plan, settings, shown)
    done = sorted(compaction.work.values(), key=lambda work: work.partition)
    unclean = [path for path in plan.directories if not os.path.exists(names.join(path, CLEAN_SHUTDOWN_FILE))]
    shown.results(done, time.monotonic() - began, unclean)
    sys.stdout.flush()
    for work in done:
        if work.outcome == FAILED:
            report(failure(work))
    if compaction.is_interrupted:
        return INTERRUPTION
    return FAILURE if any(work.outcome == FAILED for work in done) else 0


def settings_of(args: argparse.Namespace) -> Settings:
    try:
        return Settings.of(
            delete_retention_ms=args.delete_retention_ms,
            segment_bytes=args.segment_bytes,
            min_dirty_ratio=args.min_dirty_ratio,
            threads=args.threads,
            dedupe_buffer_bytes=args.dedupe_buffer_size,
            all_committed=args.all_committed,
        )
    except ConfigError as error:
        raise CommandError(str(error), SETTINGS_HINT) from None


def work_through(plan: Plan, settings: Settings, shown: Output) -> CompactionRun:
    compaction = CompactionRun(plan, settings, shown.tick)
    with shown, warnings_on_stderr(), interruptible(compaction):
        try:
            compaction.run()
        except LogDirLockedError as error:  # by a broker that was started just now
            raise CommandError(str(error), RUNNING_HINT) from None
    return compaction


def failure(work: Work) -> CommandError:
    path = f"{work.directory}/{work.partition}"
    hint = f"the log is as it was; `tailrace log verify {path}` tells what is damaged"
    return CommandError(f"{path} cannot be cleaned: {work.reason}", hint)


@contextmanager
def interruptible(compaction: CompactionRun) -> Iterator[None]:
    """The first interrupt ends the run well, the second at once."""

    def end_well(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        compaction.interrupt()
        print(ENDING, file=sys.stderr)

    before = signal.signal(signal.SIGINT, end_well)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _WarningLines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        is_trouble = record.levelno >= logging.ERROR and record.name.startswith(CLEANER)
        if is_trouble or not record.name.startswith(TOLD_OTHERWISE):
            print(f"{record.levelname.lower()}: {printable(record.getMessage())}", file=sys.stderr)


@contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """What opening and closing the logs has to say: repairs, mostly."""
    logger, handler = logging.getLogger("tailrace"), _WarningLines(logging.WARNING)
    logger.addHandler(handler)
    was_propagating, logger.propagate = logger.propagate, False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = was_propagating
