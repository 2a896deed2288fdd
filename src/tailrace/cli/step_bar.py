"""A bar for work in steps, on a terminal; nothing elsewhere, so that pipes get results and nothing else."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

STARTING: Final = "starting Spark"


class StepBar:
    """`tell` may be called from any thread, and does not raise."""

    def __init__(self, *, is_shown: bool) -> None:
        self.bars: Bars | None = None
        if is_shown and sys.stdout.isatty():
            self.bars = new_bars()

    def __enter__(self) -> StepBar:
        if self.bars is not None:
            self._task = self.bars.add_task(STARTING, total=None, more="")
            self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bars is not None:
            self.bars.stop()

    def tell(self, doing: str, done: int, whole: int, more: str = "") -> None:
        if self.bars is None:
            return
        (task,) = self.bars.tasks
        task.total = whole or None  # for `update` None is no news
        task.finished_time = None
        self.bars.update(self._task, description=doing, completed=done, more=more)


def new_bars() -> Bars:
    """A bar with what is done before it and more behind it; gone when it is over."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn

    from tailrace.cli.terminal import Terminal

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TextColumn("{task.fields[more]}", markup=False, style="dim"),
        console=Terminal(),
        transient=True,
    )
