"""The ways to show a table that is being filled: a bar on a terminal, a line for each batch elsewhere."""

from __future__ import annotations

import json
import sys
import threading
from typing import TYPE_CHECKING, Final

from tailrace.cli.lines import Item, plain_line
from tailrace.cli.sizes import counted
from tailrace.cli.step_bar import new_bars
from tailrace.cli.table_items import batch_item, report_item
from tailrace.cli.throughput import Throughput

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from tailrace.cli.table_run import Show
    from tailrace.spark.tables.job.report import Progress, TableReport
    from tailrace.spark.tables.job.settings import TableSettings

STARTING: Final = "starting Spark"
ENDING: Final = "ending after this batch; Ctrl-C again ends at once"
READING: Final = "reading"
DOING: Final = {
    READING: "reading",
    "committing": "committing",
    "compacting": "putting small files together",
    "retaining": "removing old versions",
}


def chosen_show(settings: TableSettings, *, as_json: bool) -> Show:
    return LineShow(as_json=as_json) if as_json or not sys.stdout.isatty() else BarShow(settings.topic)


class LineShow:
    """JSON, or `batch key=value …`; the last line is the summary."""

    def __init__(self, *, as_json: bool) -> None:
        self._line = json.dumps if as_json else plain_line
        self._before: TableReport | None = None
        self._lock = threading.Lock()

    def told(self, progress: Progress) -> None:
        with self._lock:
            self._committed(progress.report)

    def ending(self) -> None:
        pass

    def end(self, report: TableReport) -> None:
        self._committed(report)
        self._print(report_item(report))

    def __enter__(self) -> LineShow:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _committed(self, report: TableReport) -> None:
        done = 0 if self._before is None else self._before.batches
        if report.batches > done:
            self._print(batch_item(report, self._before))
            self._before = report

    def _print(self, item: Item) -> None:
        print(self._line(item), flush=True)


class BarShow:
    """One bar for the batch that is under way, with how fast it goes and what is left of the topic."""

    def __init__(self, topic: str) -> None:
        self.bars: Bars = new_bars()
        self._topic = topic
        self._throughput = Throughput()
        self._is_ending = False

    def told(self, progress: Progress) -> None:
        done = max(progress.report.records + progress.records_done - self._throughput.records, 0)
        self._throughput.add(done, 0)
        rate, _ = self._throughput.now()
        left = max(progress.left - progress.records_done, 0)
        (task,) = self.bars.tasks
        task.total = progress.records_total if progress.doing == READING else None  # for `update` None is no news
        task.finished_time = None
        self.bars.update(
            self._task,
            description=self._words(progress),
            completed=progress.records_done,
            more=f"{counted(left, 'record')} left · {rate:,.0f}/s" if progress.left else "",
        )

    def ending(self) -> None:
        self._is_ending = True
        self.bars.update(self._task, description=ENDING)

    def end(self, report: TableReport) -> None:
        from tailrace.cli.table_text import show_report

        show_report(report_item(report))

    def __enter__(self) -> BarShow:
        self._task = self.bars.add_task(STARTING, total=None, more="")
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def _words(self, progress: Progress) -> str:
        if self._is_ending:
            return ENDING
        if progress.doing not in DOING:
            return f"{self._topic}: version {progress.report.version}, waiting"
        return f"{self._topic}: batch {progress.batch:,}, {DOING[progress.doing]}"
