"""The crash demo on the screen: runs the story and draws each step as it is done."""

from __future__ import annotations

import logging
import os
import shlex
import tempfile
import time
from typing import Final

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tailrace.cli.crash_picture import picture
from tailrace.cli.crash_story import (
    ABORTING,
    COMMITTING,
    IDEMPOTENT,
    MILLISECONDS_BETWEEN_RECORDS,
    PARTITION,
    ROUNDS_AFTER,
    ROUNDS_BEFORE,
    UNDECIDED,
    Story,
)
from tailrace.cli.dump_text import shown_time
from tailrace.cli.output import CommandError, prepare_stdout
from tailrace.cli.program import program_name
from tailrace.cli.terminal import Terminal
from tailrace.env.real import real_env
from tailrace.model.errors import StorageError
from tailrace.record.kernels import COMPILED
from tailrace.storage.append import AppendResult
from tailrace.storage.fetch import Isolation
from tailrace.storage.names import partition_dir_name

LEVELS: Final = {
    Isolation.LOG_END: ("log end", "a follower"),
    Isolation.HIGH_WATERMARK: ("high watermark", "read_uncommitted"),
    Isolation.TXN_COMMITTED: ("last stable offset", "read_committed"),
}
GOOD: Final = "bold green"
BAD: Final = "bold red"


def run(directory: str | None) -> int:
    prepare_stdout()
    began = time.perf_counter()
    try:
        parent = prepare(directory)
        show = Show(Story(real_env(), parent))
        show.all()
    except OSError as error:
        if error.filename is None:  # not a file's: our own output's
            raise
        raise StorageError("make the demo's log", error) from error
    show.farewell(time.perf_counter() - began)
    return 0 if show.is_sound else 1


def prepare(directory: str | None) -> str:
    """The directory that will hold the partition's."""
    if directory is None:
        return tempfile.mkdtemp(prefix="tailrace-demo-")
    parent = directory.rstrip("/") or "/"
    partition = f"{parent}/{partition_dir_name(PARTITION)}"
    if os.path.exists(partition):
        raise CommandError(f"{partition} exists already", "remove it, or give another directory")
    os.makedirs(parent, exist_ok=True)
    return parent


class Show:
    def __init__(self, story: Story) -> None:
        self._story = story
        self._console = Terminal()
        self._step = 0
        self.is_sound = True

    def all(self) -> None:
        self._console.print(Text.assemble(("Tailrace", "bold"), "  a log in Apache Kafka's own file format"))
        self._console.print(Text(f"in {self._story.directory}", style="dim"), soft_wrap=True)
        self._orders()
        self._producers()
        self._log()
        self._readers()
        self._lookup()
        self._crash()
        self._verify()

    def _head(self, title: str) -> None:
        self._step += 1
        self._console.print()
        self._console.print(Text.assemble((f"{self._step}  ", "dim"), (title, "bold")))

    def _body(self, content: RenderableType) -> None:
        self._console.print(Padding(content, (0, 0, 0, 3), expand=False))

    def _orders(self) -> None:
        self._head("Orders")
        written = self._story.write_orders(ROUNDS_BEFORE)
        kernels = "compiled kernels" if COMPILED else "interpreted kernels, slow: there was no C compiler"
        self._body(
            Text.assemble(
                f"{written.records:,} records in batches of every codec. Each record checked, offsets given, written "
                f"and indexed in ",
                (milliseconds(written.appending_s), "bold"),
                f", with the fsync of every full segment ({kernels}).",
            )
        )
        self._console.print()
        self._body(self._codecs())

    def _producers(self) -> None:
        self._head("Producers")
        sent = self._story.write_idempotently()
        self._body(
            Text.assemble(
                f"Producer {IDEMPOTENT} is idempotent. Its batch got offsets {span(sent.first)}; sent again, it was ",
                (f"known and not written twice ({span(sent.resent)})", GOOD)
                if sent.resent.is_duplicate
                else ("WRITTEN TWICE", BAD),
                "; one behind a gap in the sequence was refused: ",
                (sent.gap.name if sent.gap is not None else "IT WAS TAKEN", GOOD if sent.gap else BAD),
                ".",
            )
        )
        self._is_expected(sent.resent.is_duplicate and sent.gap is not None)
        self._story.write_transactions()
        self._body(
            Text.assemble(
                f"Three transactions: producer {COMMITTING} ",
                ("commits", "green"),
                f", {ABORTING} ",
                ("aborts", "red"),
                f", {UNDECIDED} ",
                ("stays open", "yellow"),
                ".",
            )
        )

    def _log(self) -> None:
        self._head("The log")
        before = self._story.offsets().log_end
        self._story.write_orders(ROUNDS_AFTER)
        self._story.follow()
        offsets = self._story.offsets()
        self._body(Text(f"{offsets.log_end - before:,} more orders, then it looks like this:"))
        self._console.print()
        self._body(picture(self._story.segments(), offsets, min(self._console.width, 110) - 6))
        self._body(Text("index, time and aborted: how many entries the segment's indexes have", style="dim"))

    def _codecs(self) -> Table:
        written = self._story.written()
        plain = written.codecs[0].stored_bytes / written.codecs[0].records
        table = grid("codec", "records", "bytes/record", "")
        for codec in written.codecs:
            each = codec.stored_bytes / codec.records
            table.add_row(codec.name, f"{codec.records:,}", f"{each:.1f}", Text("▇" * round(each / plain * 24), "cyan"))
        return table

    def _readers(self) -> None:
        self._head("Readers")
        table = grid("sees up to", "offset", "records", "aborted", "read in", "who reads so")
        for isolation, (bound, reader) in LEVELS.items():
            read = self._story.read_back(isolation)
            table.add_row(
                bound,
                f"{read.up_to:,}",
                f"{read.records:,}",
                f"{read.hidden:,}" if isolation is Isolation.TXN_COMMITTED else "",
                milliseconds(read.took_s),
                Text(reader, "dim"),
            )
        self._body(table)
        self._body(
            Text(
                f"The last stable offset waits for producer {UNDECIDED}; the high watermark for a follower that lags.",
                style="dim",
            )
        )

    def _lookup(self) -> None:
        self._head("By time")
        found = self._story.look_up(minutes_after_start=30)
        if found.found is None:
            self._is_expected(False)
            return
        self._body(
            Text.assemble(
                f"The first order at or after {shown_time(found.timestamp)} is at offset ",
                (f"{found.found.offset:,}", "bold"),
                f", found in {milliseconds(found.took_s)} through the time index "
                f"(one order every {MILLISECONDS_BETWEEN_RECORDS} ms).",
            )
        )

    def _crash(self) -> None:
        self._head("The process dies in the middle of a write")
        with LoggedLines() as logged:
            recovery = self._story.crash_and_recover()
        is_whole = recovery.end_after == recovery.end_before and recovery.resent.is_duplicate
        self._is_expected(is_whole)
        outcome = ("nothing is lost", GOOD) if is_whole else ("SOMETHING IS LOST", BAD)
        self._body(
            Text.assemble(
                f"Nothing was closed, and {recovery.torn_bytes:,} bytes of a half-written batch stand at "
                f"the end. Opened again in ",
                (milliseconds(recovery.took_s), "bold"),
                f": every byte from the recovery point {recovery.proven_from:,} on is proven by its CRC, the half "
                f"batch is cut off, indexes and producers are made anew. The log ends at {recovery.end_after:,} as "
                f"before: ",
                outcome,
                f". The batch of producer {IDEMPOTENT}, sent a third time, is still known.",
            )
        )
        for line in logged.lines:
            self._body(Text(f"logged: {line.replace(self._story.directory + '/', '')}", "dim"))

    def _verify(self) -> None:
        self._head("Proof")
        verified = self._story.close_and_verify()
        check = verified.check
        self._is_expected(not verified.findings)
        outcome = ("no findings", GOOD) if not verified.findings else (f"{len(verified.findings)} FINDINGS", BAD)
        self._body(
            Text.assemble(
                f"Every file read again and held against the others: {check.segments} segments, {check.batches} "
                f"batches, {check.bytes:,} bytes in {milliseconds(verified.took_s)}: ",
                outcome,
                ".",
            )
        )
        for finding in verified.findings:
            self._body(Text(f"{finding.file}: {finding.problem}", style="red"))

    def _is_expected(self, is_so: bool) -> None:
        self.is_sound = self.is_sound and is_so

    def farewell(self, took_s: float) -> None:
        directory, program = shlex.quote(self._story.directory), program_name()
        self._console.print()
        self._console.print(Text(f"Done in {took_s:.1f} s. The files stay; look at them:"))
        for meaning, command in (
            ("every batch, index entry, snapshot and checkpoint", f"{program} log dump {directory}"),
            ("the records themselves", f"{program} log dump {directory} --records --limit 1"),
            ("the proof above, for any log of Tailrace or Kafka", f"{program} log verify {directory}"),
        ):
            self._body(Text(meaning, "dim"))
            self._console.print(Text(f"     {command}", "bold"), soft_wrap=True)  # never broken: it is to be copied


class LoggedLines(logging.Handler):
    """Warnings of the library while the block runs, kept for the screen instead of going to stderr."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        self._logger = logging.getLogger("tailrace")

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def __enter__(self) -> LoggedLines:
        self._propagated, self._logger.propagate = self._logger.propagate, False
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagated


def grid(*titles: str) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False, show_header=any(titles))
    for place, title in enumerate(titles):
        is_number = 0 < place < len(titles) - 1
        table.add_column(title, justify="right" if is_number else "left", no_wrap=True)
    return table


def span(result: AppendResult) -> str:
    return f"{result.first_offset:,}–{result.last_offset:,}"


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
