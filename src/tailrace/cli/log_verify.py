"""`tailrace log verify`: which directories, a line for each finding, a summary, and the exit code."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from tailrace.cli.log_dump import OFFSET_CHECKPOINTS, is_partition_name, kind_of
from tailrace.cli.output import CommandError, prepare_stdout, printable
from tailrace.cli.sizes import counted
from tailrace.cli.terminal import Terminal
from tailrace.env import Files
from tailrace.env.real import real_env
from tailrace.model.errors import StorageError, TailraceError
from tailrace.storage.checkpoint import OffsetCheckpoint
from tailrace.storage.verify import ERROR, DirectoryCheck, Finding

FOUND_ERRORS: Final = 1
DIRECTORY_HINT: Final = (
    "give a partition's directory, such as data/orders-0, or the log.dirs directory that holds it; "
    "for a single file there is `tailrace log dump`"
)


class Totals(NamedTuple):
    segments: int = 0
    batches: int = 0
    bytes: int = 0
    errors: int = 0
    notes: int = 0

    def plus(self, check: DirectoryCheck) -> Totals:
        return self._replace(
            segments=self.segments + check.segments,
            batches=self.batches + check.batches,
            bytes=self.bytes + check.bytes,
        )

    def with_finding(self, finding: Finding) -> Totals:
        if finding.severity == ERROR:
            return self._replace(errors=self.errors + 1)
        return self._replace(notes=self.notes + 1)


def run(args: argparse.Namespace) -> int:
    prepare_stdout()
    files = real_env().files
    targets = [target for directory in args.directories for target in targets_of(directory)]
    totals = Totals()
    output: Output = JsonLines() if args.json else Lines()
    with output:
        for target in targets:
            totals = verify(files, target, output, totals)
    output.summary(totals)
    return FOUND_ERRORS if totals.errors else 0


def verify(files: Files, target: str, output: Output, totals: Totals) -> Totals:
    if os.path.isdir(target):
        output.begin(target)
        check = DirectoryCheck(files, target, progress=output.progress, notes=True)
        for finding in check.run():
            output.finding(target, finding)
            totals = totals.with_finding(finding)
        return totals.plus(check)
    for finding in checkpoint_findings(files, target):
        output.finding(os.path.dirname(target), finding)
        totals = totals.with_finding(finding)
    return totals


def checkpoint_findings(files: Files, path: str) -> Iterator[Finding]:
    name = os.path.basename(path)
    try:
        OffsetCheckpoint(files, path).read()
    except TailraceError as error:
        yield Finding(name, None, str(error).removeprefix(path).lstrip(": "))
    except OSError as error:
        yield Finding(name, None, f"cannot be read: {error.strerror or error}")


def targets_of(directory: str) -> list[str]:
    """The directory itself, or the partitions' directories in it and the checkpoints beside them."""
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except FileNotFoundError:
        raise CommandError(f"{directory or repr(directory)} does not exist", DIRECTORY_HINT) from None
    except NotADirectoryError:
        raise CommandError(f"{directory} is not a directory", DIRECTORY_HINT) from None
    except OSError as error:
        raise StorageError(f"list {directory}", error) from error
    path = directory.rstrip("/") or "/"
    partitions = [f"{path}/{entry.name}" for entry in entries if entry.is_dir() and is_partition_name(entry.name)]
    checkpoints = [f"{path}/{entry.name}" for entry in entries if entry.is_file() and entry.name in OFFSET_CHECKPOINTS]
    if partitions or checkpoints:
        return [*checkpoints, *partitions]
    is_partition = is_partition_name(os.path.basename(os.path.abspath(path)))
    if is_partition or any(kind_of(entry.name) is not None for entry in entries):
        return [path]
    raise CommandError(f"{directory} holds no partition's files", DIRECTORY_HINT)


class JsonLines:
    progress = None

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, directory: str) -> None:
        pass

    def finding(self, directory: str, finding: Finding) -> None:
        print(json.dumps({"type": "finding", "directory": directory, **finding._asdict()}))

    def summary(self, totals: Totals) -> None:
        print(json.dumps({"type": "summary", **totals._asdict()}))


class Lines:
    """Lines of text; on a terminal coloured, with a progress bar under them while it works."""

    def __init__(self) -> None:
        self._console = Terminal(soft_wrap=True)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Lines:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, directory: str) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(printable(os.path.basename(directory)), total=None)

    def progress(self, done_bytes: int, total_bytes: int) -> None:
        if self._task is not None:
            self._bar.update(self._task, completed=done_bytes, total=total_bytes)

    def finding(self, directory: str, finding: Finding) -> None:
        place = "" if finding.position is None else f" at position {finding.position}"
        style = "bold red" if finding.severity == ERROR else "yellow"
        line = Text(f"{finding.severity}: ", style=style)
        line.append(printable(f"{directory}/{finding.file}{place}: {finding.problem}"), style="default not bold")
        self._console.print(line)

    def summary(self, totals: Totals) -> None:
        read = (
            f"{counted(totals.segments, 'segment')}, {counted(totals.batches, 'batch', 'es')}, {totals.bytes:,} bytes"
        )
        if not totals.errors and not totals.notes:
            outcome, style = "no findings", "bold green"
        elif not totals.errors:
            outcome, style = f"no errors, {counted(totals.notes, 'note')}", "bold green"
        else:
            notes = f", {counted(totals.notes, 'note')}" if totals.notes else ""
            outcome, style = f"{counted(totals.errors, 'error')}{notes}", "bold red"
        self._console.print(Text.assemble(f"{read}: ", (outcome, style)))


Output: TypeAlias = JsonLines | Lines
