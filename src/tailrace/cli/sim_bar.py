"""The progress of simulated runs on a terminal: two lines that are renewed, and gone at the end."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final, Protocol

from tailrace.cli.durations import shown_duration
from tailrace.cli.sizes import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console
    from rich.progress import Progress

SHOWN_SEEDS: Final = 4


class Sums(Protocol):
    simulated_s: float
    events: int
    faults: int

    @property
    def counts(self) -> Mapping[str, int]: ...


class SimBar:
    """On standard output, or on standard error if only that is a terminal; otherwise nothing is shown."""

    def __init__(self, *, is_json: bool = False, on_stderr: bool = False) -> None:
        """`on_stderr`: leave standard output to results, also if it is a terminal."""
        self.console: Console | None = None
        self._progress: Progress | None = None
        self._began_s = time.monotonic()
        if sys.stdout.isatty() and not is_json and not on_stderr:
            from tailrace.cli.terminal import Terminal

            self.console = Terminal()
        elif sys.stderr.isatty() and (on_stderr or not sys.stdout.isatty()):
            from rich.console import Console

            self.console = Console(stderr=True, highlight=False)

    def __enter__(self) -> SimBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, sums: Sums, share: float, seeds: Sequence[int], failed: int) -> None:
        """`share` of the work is done, from 0 to 1; `seeds` are those that run now."""
        if self.console is not None:
            self.describe(progress_text(sums, seeds, failed, time.monotonic() - self._began_s), share)

    def describe(self, text: str, share: float | None = None) -> None:
        if self.console is None:
            return
        if self._progress is None:
            self._progress = _new_progress(self.console)
            self._progress.add_task("", total=None if share is None else 1.0)
            self._progress.start()
        self._progress.update(self._progress.task_ids[0], description=text, completed=share or 0.0)


def progress_text(sums: Sums, seeds: Sequence[int], failed: int, elapsed_s: float) -> str:
    shown = ", ".join(map(str, sorted(seeds)[:SHOWN_SEEDS])) + (", …" if len(seeds) > SHOWN_SEEDS else "")
    ratio = sums.simulated_s / max(elapsed_s, 0.001)
    first = f"seed {shown} · {shown_duration(sums.simulated_s)} simulated · {ratio:,.0f} x real time"
    second = f"{counted(sums.events, 'event')} · {counted(sums.faults, 'fault')}"
    for name, count in list(sums.counts.items())[:1]:
        second += f" · {count:,} {name}"
    return f"{first}\n{second}" + (f" · {failed} failed" if failed else "")


def _new_progress(console: Console) -> Progress:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn

    return Progress(
        SpinnerColumn(),
        BarColumn(bar_width=12),
        TaskProgressColumn(),
        TextColumn("{task.description}", markup=False),
        console=console,
        transient=True,
    )
