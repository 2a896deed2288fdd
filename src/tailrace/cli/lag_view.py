"""A group's lag drawn live: how it moves, how fast is read and written, and the partitions that are furthest behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tailrace.cli.demo_view import sparkline
from tailrace.cli.durations import shown_duration
from tailrace.cli.group_text import bar, lag_text, state
from tailrace.cli.lag_meter import Pace, PartitionPace
from tailrace.cli.output import printable
from tailrace.cli.sizes import counted
from tailrace.cli.tables import NOTHING, Cell, Column, table
from tailrace.cli.terminal import Terminal
from tailrace.client.group_descriptions import GroupDescription

WIDEST: Final = 120
NAMES_WIDTH: Final = 9
NUMBERS_WIDTH: Final = 26
LEAST_DRAWN: Final = 10
BAR_WIDTH: Final = 12
SETTLED_S: Final = 6.0
"""Longer than consumers usually wait between two commits: before that, nobody can say that one does not read."""
LINES_AROUND: Final = 12
"""That are not rows of the table."""
COLUMNS: Final = (
    Column("partition", is_wide=True),
    Column("committed", is_number=True),
    Column("end", is_number=True),
    Column("lag", is_number=True),
    Column(""),
    Column("read/s", is_number=True),
    Column("written/s", is_number=True),
    Column("client", is_wide=True),
)
GIVES_WAY: Final = ("", "written/s", "client", "end", "committed", "read/s")
"""Columns that are left out where it is narrow, in this order."""
GAP: Final = 2
LEAST_NAME: Final = 12


class LagScreen:
    """One frame that is renewed; the last one stays when it ends."""

    def __init__(self) -> None:
        self._terminal = Terminal()
        self._live = Live(console=self._terminal, auto_refresh=False)

    def show(self, described: GroupDescription, pace: Pace) -> None:
        size = self._terminal.size
        self._live.update(frame(described, pace, size.width, size.height), refresh=True)

    def __enter__(self) -> LagScreen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


def frame(described: GroupDescription, pace: Pace, width: int, height: int) -> RenderableType:
    inner = min(width, WIDEST) - 2
    rows = max(height - LINES_AROUND, 3)
    shown, left = furthest(pace.partitions, rows)
    parts: list[RenderableType] = [
        title(described, pace.seconds, inner),
        Text(),
        lag_line(pace, inner),
        fact("read", f"{pace.read_per_s:>12,.0f} records/s"),
        fact("written", f"{pace.written_per_s:>12,.0f} records/s"),
        fact("done in", outlook(pace)),
        Text(),
    ]
    if shown:
        most = max(each.lag.lag or 0 for each in shown)
        parts.append(Padding(fitting_table([row(each, most) for each in shown], inner), (0, 0, 0, 2), expand=False))
        if left:
            parts.append(Text(f"  … and {counted(left, 'partition')} with no more lag than these", style="dim"))
    else:
        parts.append(Text("  it has committed no offsets yet, and has no partitions", style="dim"))
    parts += [Text(), Text("  Ctrl-C ends it.", style="dim")]
    return Group(*parts)


def furthest(partitions: Sequence[PartitionPace], count: int) -> tuple[list[PartitionPace], int]:
    """Those to be shown, in their order, and how many are left out: never one that is further behind."""
    if len(partitions) <= count:
        return list(partitions), 0
    behind = sorted(partitions, key=lambda each: -(each.lag.lag or 0))[:count]
    return sorted(behind, key=lambda each: each.lag.partition), len(partitions) - count


def title(described: GroupDescription, seconds: float, width: int) -> Text:
    members = counted(len(described.members), "member")
    clock = f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"
    words = Text.assemble(
        (printable(described.group_id), "bold"), f"  {described.kind} group  ", state(described.state), f"  {members}"
    )
    words.truncate(max(width - len(clock) - 2, 10), overflow="ellipsis")
    return Text.assemble(words, " " * max(width - len(words) - len(clock), 2), (clock, "dim"))


def fact(name: str, value: Cell) -> Text:
    return Text.assemble((f"  {name:<{NAMES_WIDTH}}", "dim"), value)


def lag_line(pace: Pace, width: int) -> Text:
    amount = NOTHING if pace.lag is None else f"{pace.lag:,}"
    line = fact("lag", Text.assemble((f"{amount:>12}", "bold"), " records   "))
    room = width - NUMBERS_WIDTH - NAMES_WIDTH
    if room >= LEAST_DRAWN:
        line.append(sparkline(pace.history, room), style="cyan")
    return line


def outlook(pace: Pace) -> Text:
    left_s = pace.caught_up_in_s
    if left_s == 0:
        return Text(f"{'':>5}nothing is left", style="green")
    if left_s is not None:
        return Text(f"{shown_duration(left_s):>12} at this pace")
    if pace.lag is None:
        return Text(f"{NOTHING:>12}", style="dim")
    if not pace.read_per_s and pace.seconds < SETTLED_S:
        return Text(f"{'':>5}measuring …", style="dim")
    if not pace.read_per_s:
        return Text(f"{'':>5}it does not read", style="yellow")
    return Text(f"{'':>5}it falls behind", style="bold yellow")


def fitting_table(rows: Sequence[Sequence[Cell]], width: int) -> Table:
    """With as many columns as there is room for: a number is shown whole, or not at all."""
    widths = [max(len(column.title), *(len(cells[at]) for cells in rows)) for at, column in enumerate(COLUMNS)]
    widths[0] = min(widths[0], LEAST_NAME)
    shown = list(range(len(COLUMNS)))
    for title in GIVES_WAY:
        if sum(widths[at] + GAP for at in shown) <= width:
            break
        shown = [at for at in shown if COLUMNS[at].title != title]
    return table([COLUMNS[at] for at in shown], [[cells[at] for at in shown] for cells in rows])


def row(pace: PartitionPace, most: int) -> Sequence[Cell]:
    lag = pace.lag
    drawn = bar(lag.lag or 0, most, BAR_WIDTH)
    drawn.pad_right(BAR_WIDTH - len(drawn))  # so that the column keeps its width from frame to frame
    return (
        str(lag.partition),
        NOTHING if lag.offset is None else f"{lag.offset:,}",
        Text("gone", style="red") if lag.end is None else f"{lag.end:,}",
        lag_text(lag.lag),
        drawn,
        f"{pace.read_per_s:,.0f}",
        f"{pace.written_per_s:,.0f}",
        lag.member.client_id if lag.member is not None else "",
    )
