"""Data directories for people: a heading, a row for each partition with a bar of what is clean and dirty in it, and
what else is there. For pipes the same facts are dictionaries with keys that stay, see `items_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from tailrace.cli.dir_facts import Cleaning, DirectoryFacts, PartitionFacts
from tailrace.cli.dump_text import shown_time
from tailrace.cli.lines import Item
from tailrace.cli.output import printable
from tailrace.cli.sizes import counted, shown_size
from tailrace.storage.cleaner.uncleanable import Uncleanable

CLEAN_STYLE: Final = "green"
DIRTY_STYLE: Final = "yellow"
WAITING_STYLE: Final = "bright_black"
FAILED_STYLE: Final = "red"
CLEAN_MARK: Final = "█"
DIRTY_MARK: Final = "▓"
WAITING_MARK: Final = "░"
FAILED_MARK: Final = "▒"

LEAST_BAR: Final = 10
WIDEST_BAR: Final = 30
LEAST_NAME: Final = 16
GAP: Final = "  "


def items_of(facts: DirectoryFacts, partitions: Sequence[PartitionFacts]) -> Iterator[Item]:
    """A `directory`, then a `partition` for each of those given, then an `other` for each stranger."""
    meta, holder = facts.meta, facts.holder
    yield {
        "type": "directory",
        "path": facts.path,
        "cluster_id": meta.cluster_id if meta is not None else None,
        "node_id": meta.node_id if meta is not None else None,
        "directory_id": str(meta.directory_id) if meta is not None and meta.directory_id is not None else None,
        "in_use": holder is not None,
        "pid": holder.pid if holder is not None else None,
        "clean_shutdown": facts.is_clean,
        "partitions": len(facts.partitions),
        "segments": facts.segments,
        "log_bytes": facts.log_bytes,
        "disk_bytes": facts.disk_bytes,
        "free_bytes": facts.free_bytes,
        "total_bytes": facts.total_bytes,
    }
    for each in partitions:
        yield partition_item(facts, each)
    for other in facts.others:
        yield {
            "type": "other",
            "directory": facts.path,
            "name": other.name,
            "kind": other.kind,
            "bytes": other.size_bytes,
        }


def partition_item(facts: DirectoryFacts, each: PartitionFacts) -> Item:
    cleaning = each.cleaning
    uncleanable = cleaning.uncleanable if cleaning is not None else None
    return {
        "type": "partition",
        "directory": facts.path,
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "log_bytes": each.log_bytes,
        "disk_bytes": each.disk_bytes,
        "segments": each.segments,
        "log_start": each.log_start,
        "log_end": each.log_end,
        "recovery_point": each.recovery_point,
        "high_watermark": each.high_watermark,
        "compacts": cleaning is not None,
        "cleaner_checkpoint": cleaning.checkpoint if cleaning is not None else None,
        "clean_bytes": cleaning.clean_bytes if cleaning is not None else None,
        "dirty_bytes": cleaning.dirty_bytes if cleaning is not None else None,
        "waiting_bytes": cleaning.waiting_bytes if cleaning is not None else None,
        "dirty_ratio": round(cleaning.dirty_ratio, 4) if cleaning is not None else None,
        "uncleanable": None if uncleanable is None else uncleanable_item(uncleanable),
        "problem": each.problem.message if each.problem is not None else None,
    }


def uncleanable_item(why: Uncleanable) -> Item:
    return {
        "reason": why.reason,
        "since_ms": why.since_ms,
        "failed_ms": why.failed_ms,
        "failures": why.failures,
        "retry_at_ms": why.retry_at_ms,
    }


# For a terminal


class Column(NamedTuple):
    title: str
    value: Callable[[PartitionFacts], str]
    is_wanted: Callable[[Sequence[PartitionFacts]], bool] = lambda _: True


def _offset(offset: int | None) -> str:
    return "–" if offset is None else f"{offset:,}"


ALWAYS: Final = (
    Column("size", lambda each: shown_size(each.log_bytes)),
    Column("segments", lambda each: f"{each.segments:,}"),
    Column("log start", lambda each: _offset(each.log_start), lambda all_: any(each.log_start for each in all_)),
    Column("log end", lambda each: _offset(each.log_end)),
)
IF_THERE_IS_ROOM: Final = (
    Column("high watermark", lambda each: _offset(each.high_watermark)),
    Column("recovery point", lambda each: _offset(each.recovery_point)),
)


class Pictures:
    """`facts` by `facts` onto a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def show(self, facts: DirectoryFacts, partitions: Sequence[PartitionFacts]) -> None:
        """`partitions` are those to be shown, in their order."""
        self._line(Text(printable(facts.path), style="bold"))
        for line in heading(facts):
            self._line(Text.assemble(GAP, line))
        if partitions:
            self._line()
            self._rows(partitions, len(facts.partitions) - len(partitions))
        self._uncleanable(partitions)
        self._others(facts)
        self._line()

    def _line(self, line: Text | str = "") -> None:
        self._console.print(line, soft_wrap=True)

    def _rows(self, partitions: Sequence[PartitionFacts], left: int) -> None:
        has_bars = any(each.cleaning is not None for each in partitions)
        layout = Layout(partitions, self._console.width - len(GAP), has_bars=has_bars)
        self._line(Text.assemble(GAP, layout.head()))
        for each in partitions:
            self._line(Text.assemble(GAP, layout.row(each)))
        if left:
            self._line(Text(f"{GAP}… and {left:,} more", style="dim"))
        if has_bars:
            self._line()
            has_failed = any(each.cleaning is not None and each.cleaning.uncleanable is not None for each in partitions)
            for line in legend(self._console.width - len(GAP), has_failed=has_failed):
                self._line(Text.assemble(GAP, line))

    def _uncleanable(self, partitions: Sequence[PartitionFacts]) -> None:
        failed = [(each, each.cleaning.uncleanable) for each in partitions if each.cleaning is not None]
        shown = [(each, why) for each, why in failed if why is not None]
        if not shown:
            return
        self._line()
        self._line(Text(f"{GAP}cannot be cleaned, and why", style="dim"))
        for each, why in shown:
            times = f"failed {counted(why.failures, 'time')} since {_moment(why.since_ms)}"
            self._line(Text.assemble(GAP, (str(each.partition), FAILED_STYLE)))
            for text, style in (
                (printable(why.reason), ""),
                (f"{times}; a running broker tries again at {_moment(why.retry_at_ms)}", "dim"),
            ):
                self._console.print(Padding(Text(text, style=style), (0, 0, 0, 4), expand=False))

    def _others(self, facts: DirectoryFacts) -> None:
        if not facts.others:
            return
        self._line()
        self._line(Text(f"{GAP}also here", style="dim"))
        width = max(len(each.kind) for each in facts.others)
        for each in facts.others:
            size = "" if each.size_bytes is None else shown_size(each.size_bytes)
            self._line(Text.assemble(GAP, f"{each.kind:<{width}}{GAP}{size:>8}{GAP}", printable(each.name)))


def _moment(timestamp_ms: int) -> str:
    """To the second."""
    return shown_time(timestamp_ms // 1000 * 1000).replace(".000Z", "Z")


def heading(facts: DirectoryFacts) -> Iterator[Text]:
    meta = facts.meta
    if meta is not None:
        directory = f" · directory {meta.directory_id}" if meta.directory_id is not None else ""
        yield Text(printable(f"cluster {meta.cluster_id} · node {meta.node_id}{directory}"), style="dim")
    yield state(facts)
    amounts = f"{counted(len(facts.partitions), 'partition')}, {counted(facts.segments, 'segment')}"
    space = f"{shown_size(facts.free_bytes)} of {shown_size(facts.total_bytes)} free"
    yield Text(f"{amounts}, {shown_size(facts.log_bytes)} of log; {space}")


def state(facts: DirectoryFacts) -> Text:
    if facts.holder is not None:
        who = "a process" if facts.holder.pid is None else f"process {facts.holder.pid}"
        return Text(f"in use: {who} holds its .lock", style="cyan")
    if facts.is_clean:
        return Text("not in use, shut down cleanly", style="green")
    return Text("not in use, and not shut down cleanly: the next start recovers its logs", style="yellow")


def legend(width: int, *, has_failed: bool) -> Iterator[Text]:
    parts = [
        Text.assemble((CLEAN_MARK, CLEAN_STYLE), " clean"),
        Text.assemble((DIRTY_MARK, DIRTY_STYLE), " dirty"),
        Text.assemble((WAITING_MARK, WAITING_STYLE), " not cleanable yet: active segment, or not replicated"),
    ]
    if has_failed:
        parts.insert(2, Text.assemble((FAILED_MARK, FAILED_STYLE), " dirty and cannot be cleaned"))
    line = parts.pop(0)
    for part in parts:
        if len(line) + len(part) + 3 > width:
            yield line
            line = part
        else:
            line = Text.assemble(line, "   ", part)
    yield line


class Layout:
    """Which columns there is room for, and how wide each is."""

    def __init__(self, partitions: Sequence[PartitionFacts], width: int, *, has_bars: bool) -> None:
        self._names = {each.path: str(each.partition) for each in partitions}
        longest = max(len("partition"), *map(len, self._names.values()))
        self._columns = [column for column in ALWAYS if column.is_wanted(partitions)]
        self._widths = [_width(column, partitions) for column in self._columns]
        wanted_bar = LEAST_BAR + len(GAP) + PERCENT_WIDTH if has_bars else 0
        for column in IF_THERE_IS_ROOM:
            column_width = _width(column, partitions)
            if longest + wanted_bar + sum(self._widths) + column_width + (len(self._columns) + 2) * len(GAP) <= width:
                self._columns.append(column)
                self._widths.append(column_width)
        others = sum(self._widths) + len(self._columns) * len(GAP)
        room = width - others - (wanted_bar + len(GAP) if has_bars else 0)
        self._name_width = longest if longest <= room else max(room, LEAST_NAME)
        left = width - others - self._name_width - (PERCENT_WIDTH + 2 * len(GAP))
        self._bar_width = min(max(left, LEAST_BAR), WIDEST_BAR) if has_bars else 0

    def head(self) -> Text:
        titles = (f"{column.title:>{wide}}" for column, wide in zip(self._columns, self._widths, strict=True))
        bar = "clean and dirty" if self._bar_width >= len("clean and dirty") else "dirty" if self._bar_width else ""
        return Text(GAP.join((f"{'partition':<{self._name_width}}", *titles, bar)).rstrip(), style="dim")

    def row(self, each: PartitionFacts) -> Text:
        cells = (f"{column.value(each):>{wide}}" for column, wide in zip(self._columns, self._widths, strict=True))
        style = FAILED_STYLE if each.problem is not None else ""
        name = shortened(self._names[each.path], self._name_width)
        line = Text(GAP.join((f"{name:<{self._name_width}}", *cells)), style=style)
        if each.cleaning is not None and each.log_bytes:
            line = Text.assemble(line, GAP, bar(each.cleaning, self._bar_width), GAP, percent(each.cleaning))
        return line


PERCENT_WIDTH: Final = len("100 %")


def _width(column: Column, partitions: Sequence[PartitionFacts]) -> int:
    return max(len(column.title), *(len(column.value(each)) for each in partitions))


def shortened(name: str, width: int) -> str:
    """In the middle: the number at the end tells the partitions of a topic apart."""
    if len(name) <= width:
        return name
    tail = min(len(name) - len(name.rpartition("-")[0]) + 2, width - 2)
    return f"{name[: width - tail - 1]}…{name[-tail:]}"


def bar(cleaning: Cleaning, width: int) -> Text:
    """Every part that is there has at least one mark."""
    parts = (cleaning.clean_bytes, cleaning.dirty_bytes, cleaning.waiting_bytes)
    failed = cleaning.uncleanable is not None
    styles = (CLEAN_STYLE, FAILED_STYLE if failed else DIRTY_STYLE, WAITING_STYLE)
    marks = (CLEAN_MARK, FAILED_MARK if failed else DIRTY_MARK, WAITING_MARK)
    line = Text()
    for count, mark, style in zip(shares(parts, width), marks, styles, strict=True):
        line.append(mark * count, style)
    line.append(" " * (width - len(line)))
    return line


def shares(parts: Sequence[int], width: int) -> list[int]:
    """How many of `width` marks each part gets; the largest gives way to those too small to be seen."""
    total = sum(parts)
    if not total:
        return [0] * len(parts)
    counts = [max(round(part * width / total), 1) if part else 0 for part in parts]
    counts[counts.index(max(counts))] += width - sum(counts)
    return counts


def percent(cleaning: Cleaning) -> Text:
    """Neither 0 nor 100 where it is not exactly that."""
    ratio = cleaning.dirty_ratio
    number = 0 if not ratio else 100 if ratio == 1 else min(max(round(ratio * 100), 1), 99)
    style = FAILED_STYLE if cleaning.uncleanable is not None else DIRTY_STYLE if number else "dim"
    return Text(f"{number:>3} %", style=style)
