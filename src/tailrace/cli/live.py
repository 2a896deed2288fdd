"""What goes on, on a terminal: one line that is renewed while it goes on, and a sum at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn
from rich.text import Text

from tailrace.cli.lines import Item
from tailrace.cli.output import printable
from tailrace.cli.terminal import Terminal
from tailrace.cli.throughput import Throughput, shown_amount, shown_rate

RENEWED_EVERY_S: Final = 0.2


class LiveLine:
    """On standard error, so that it is not in the way of what goes to standard output; or on a terminal of both."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self._clock = clock
        self._due_s = clock()
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TaskProgressColumn(),
            console=self.console,
            transient=True,
            auto_refresh=False,
        )
        self._line = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            console=self.console,
            transient=True,
            auto_refresh=False,
        )
        self._shown: Progress | None = None

    def show(self, throughput: Throughput, done: int = 0, total: int | None = None, more: str = "") -> None:
        """With a bar where `total` is known. As often as one likes: it is renewed some times a second."""
        if self._clock() < self._due_s:
            return
        self._due_s = self._clock() + RENEWED_EVERY_S
        if self._shown is None:
            self._shown = self._line if total is None else self._bar
            self._shown.add_task("", total=total)
            self._shown.start()
        words = f"{shown_amount(throughput.records, throughput.bytes)} · {shown_rate(*throughput.now())}"
        task = self._shown.task_ids[0]
        self._shown.update(task, description=f"{words}{more}", completed=done, total=total)
        self._shown.refresh()

    def __enter__(self) -> LiveLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.stop()


def show_produced(item: Item) -> None:
    terminal = Terminal()
    amount = shown_amount(item["records"], item["bytes"])
    rate = shown_rate(item["records_per_s"], item["bytes_per_s"])
    line = Text.assemble(("✓ ", "bold green"), f"{amount} to {printable(item['topic'])} in {item['seconds']:.1f} s")
    terminal.print(Text.assemble(line, (f"  {rate}", "dim")))
    spans = [f"{number}: {first:,}–{last:,}" for number, (first, last) in item["offsets"].items()]
    if spans:
        more = f" and {len(spans) - 8} more" if len(spans) > 8 else ""
        terminal.print(Text(f"  offsets by partition  {',  '.join(spans[:8])}{more}", style="dim"))
