"""An offline compaction for people and for programs: what was chosen, how far it is, what became of each partition."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from rich.padding import Padding
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn
from rich.text import Text

from tailrace.cli.compact_plan import Plan
from tailrace.cli.compact_run import (
    COMPACTED,
    FAILED,
    INTERRUPTED,
    NOT_REPLICATED,
    CompactionRun,
    Work,
)
from tailrace.cli.dir_text import GAP, shortened
from tailrace.cli.lines import Item, plain_line
from tailrace.cli.output import printable
from tailrace.cli.sizes import counted, shown_size
from tailrace.cli.terminal import Terminal

ARROW: Final = " → "
LEAST_NAME: Final = 16
NAME_IN_BAR: Final = 28
NO_WATERMARK: Final = (
    "not compacted, since replication-offset-checkpoint has no high watermark of them: --all-committed takes every "
    "record for replicated"
)


def plan_item(plan: Plan) -> Item:
    return {
        "type": "plan",
        "directories": list(plan.directories),
        "topics": dict(plan.topics),
        "left_topics": list(plan.left_topics),
        "partitions": len(plan.partitions),
    }


def partition_item(work: Work) -> Item:
    return {
        "type": "partition",
        "directory": work.directory,
        "topic": work.partition.topic,
        "partition": work.partition.partition,
        "outcome": work.outcome,
        "reason": work.reason or None,
        "bytes_before": work.before.bytes,
        "bytes_after": work.after.bytes,
        "segments_before": work.before.segments,
        "segments_after": work.after.segments,
        "records_before": work.records_before,
        "records_after": work.records_after,
        "keyless_dropped": work.keyless_dropped,
        "passes": len(work.cleans),
    }


def summary_item(done: Sequence[Work], seconds: float, unclean: Sequence[str]) -> Item:
    return {
        "type": "summary",
        "partitions": len(done),
        "compacted": sum(work.outcome == COMPACTED for work in done),
        "failed": sum(work.outcome == FAILED for work in done),
        "interrupted": sum(work.outcome == INTERRUPTED for work in done),
        "without_high_watermark": sum(work.outcome == NOT_REPLICATED for work in done),
        "bytes_before": sum(work.before.bytes for work in done),
        "bytes_after": sum(work.after.bytes for work in done),
        "segments_before": sum(work.before.segments for work in done),
        "segments_after": sum(work.after.segments for work in done),
        "records_before": sum(work.records_before or 0 for work in done),
        "records_after": sum(work.records_after or 0 for work in done),
        "seconds": round(seconds, 3),
        "not_shut_down_cleanly": list(unclean),
    }


class ItemLines:
    """One line for each thing: JSON, or `type key=value …`."""

    def __init__(self, *, as_json: bool) -> None:
        self._line = json.dumps if as_json else plain_line
        self._as_json = as_json

    def __enter__(self) -> ItemLines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def plan(self, plan: Plan) -> None:
        item = plan_item(plan)
        if not self._as_json:
            lists = {key: ",".join(item[key]) or None for key in ("directories", "topics", "left_topics")}
            item = {**item, **lists}
        print(self._line(item), flush=True)

    def tick(self, run: CompactionRun) -> None:
        pass

    def results(self, done: Sequence[Work], seconds: float, unclean: Sequence[str]) -> None:
        for work in done:
            print(self._line(partition_item(work)))
        item = summary_item(done, seconds, unclean)
        if not self._as_json:
            item["not_shut_down_cleanly"] = ",".join(unclean) or None
        print(self._line(item))


class Picture:
    """A progress bar while it works, then a table."""

    def __init__(self) -> None:
        self._console = Terminal()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[amount]}", markup=False, style="dim"),
            console=self._console,
            transient=True,
        )
        self._task: TaskID | None = None
        self._partitions = 0

    def __enter__(self) -> Picture:
        self._task = self._bar.add_task("opening logs", total=None, amount="")
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def plan(self, plan: Plan) -> None:
        self._partitions = len(plan.partitions)
        self._line(Text(printable(", ".join(plan.directories)), style="bold"))
        width = max(map(len, plan.topics))
        for topic, why in plan.topics.items():
            self._line(Text.assemble(GAP, f"{topic:<{width}}", (f"{GAP}{why}", "dim")))
        if plan.left_topics:
            self._note(f"left as they are: {_several(plan.left_topics, 8)}", "dim")
        self._console.print()

    def _line(self, line: Text) -> None:
        self._console.print(line, soft_wrap=True)

    def _note(self, words: str, style: str) -> None:
        self._console.print(Padding(Text(printable(words), style=style), (0, 0, 0, len(GAP)), expand=False))

    def tick(self, run: CompactionRun) -> None:
        if self._task is None:
            return
        if not run.work:
            self._bar.update(self._task, completed=run.opened, total=self._partitions)
            return
        now, total = run.moved
        names = [shortened(str(each), NAME_IN_BAR) for each in run.under_way]
        doing = "ending" if run.is_interrupted else _several(names, 1) or "closing logs"
        amount = f"{shown_size(now)} of {shown_size(total)}"
        self._bar.update(self._task, description=doing, completed=now, total=total, amount=amount)

    def results(self, done: Sequence[Work], seconds: float, unclean: Sequence[str]) -> None:
        shown = [work for work in done if work.cleans]
        if shown:
            self._table(shown)
        self._others(done)
        for path in unclean:
            self._note(f"{path} is not marked as shut down cleanly: the next start recovers its logs", "yellow")
        self._summary(done, seconds)

    def _table(self, shown: Sequence[Work]) -> None:
        rows = [_cells(work) for work in shown]
        titles = ("size", "records", "segments", "saved")
        widths = [max(len(title), *(len(row[at]) for row in rows)) for at, title in enumerate(titles)]
        room = self._console.width - sum(widths) - (len(titles) + 1) * len(GAP)
        longest = max(len("partition"), *(len(str(work.partition)) for work in shown))
        name_width = min(longest, max(room, LEAST_NAME))
        head = GAP.join((f"{'partition':<{name_width}}", *map(_right, titles, widths)))
        self._line(Text(f"{GAP}{head}", style="dim"))
        for work, row in zip(shown, rows, strict=True):
            name = shortened(str(work.partition), name_width)
            line = GAP.join((f"{name:<{name_width}}", *map(_right, row, widths)))
            style = "" if work.outcome == COMPACTED else "red" if work.outcome == FAILED else "yellow"
            self._line(Text(f"{GAP}{line}", style=style))
        self._console.print()

    def _others(self, done: Sequence[Work]) -> None:
        idle = [work for work in done if not work.cleans and work.outcome not in (FAILED, INTERRUPTED, NOT_REPLICATED)]
        for works, note, style in (
            (idle, "nothing to compact; active segments stay as they are", "dim"),
            ([work for work in done if work.outcome == NOT_REPLICATED], NO_WATERMARK, "yellow"),
            ([work for work in done if work.outcome == INTERRUPTED], "not finished: interrupted", "yellow"),
        ):
            if works:
                names = _several([str(work.partition) for work in works], 3)
                self._note(f"{names}: {note}", style)
        keyless = sum(work.keyless_dropped for work in done)
        if keyless:
            self._note(f"{counted(keyless, 'record')} without a key removed", "yellow")

    def _summary(self, done: Sequence[Work], seconds: float) -> None:
        item = summary_item(done, seconds, ())
        before, after = item["bytes_before"], item["bytes_after"]
        size = f"{shown_size(before)}{ARROW}{shown_size(after)}"
        records = f"{item['records_before']:,}{ARROW}{item['records_after']:,} records"
        segments = f"{item['segments_before']:,}{ARROW}{item['segments_after']:,} segments"
        failed, interrupted = item["failed"], item["interrupted"]
        if failed:
            outcome, style = f"{counted(failed, 'partition')} could not be cleaned", "bold red"
        elif interrupted:
            outcome, style = "interrupted, and ended well", "bold yellow"
        else:
            outcome, style = f"done in {seconds:.1f} s", "bold green"
        self._line(Text.assemble(f"{size}, {records}, {segments}: ", (outcome, style)))


def _cells(work: Work) -> tuple[str, str, str, str]:
    before, after = work.before, work.after
    return (
        f"{shown_size(before.bytes)}{ARROW}{shown_size(after.bytes)}",
        f"{work.records_before:,}{ARROW}{work.records_after:,}",
        f"{before.segments:,}{ARROW}{after.segments:,}",
        f"{100 * (before.bytes - after.bytes) / before.bytes if before.bytes else 0:.0f} %",
    )


def _right(text: str, width: int) -> str:
    return f"{text:>{width}}"


def _several(names: Iterable[str], most: int) -> str:
    """The first few, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - most:,} more" if len(listed) > most else ""
    return printable(", ".join(listed[:most])) + more


Output: TypeAlias = ItemLines | Picture


def output(*, as_json: bool) -> Output:
    return Picture() if sys.stdout.isatty() and not as_json else ItemLines(as_json=as_json)
