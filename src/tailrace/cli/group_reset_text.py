"""Offsets that are, or would be, reset: on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from tailrace.cli.lines import Item
from tailrace.cli.sizes import counted
from tailrace.cli.tables import NOTHING, Cell, Column, Screen

COLUMNS: Final = (
    Column("topic", is_wide=True),
    Column("partition", is_number=True),
    Column("from", is_number=True),
    Column("to", is_number=True),
    Column("change", is_number=True),
    Column("note", is_wide=True),
)


def show(items: Sequence[Item], group: str, *, is_new: bool, is_executed: bool) -> None:
    screen = Screen()
    screen.table(COLUMNS, [_row(item) for item in items])
    moved = sum(item["before"] != item["offset"] for item in items)
    amount = f"{counted(moved, 'offset')} of {counted(len(items), 'partition')}"
    if is_executed:
        screen.done(f"{group}: {amount} changed")
        return
    if is_new:
        screen.note(f"there is no group {group} yet: it would be made", "yellow")
    if not moved:
        screen.note("nothing would change")
        return
    screen.note(f"nothing is changed yet; {amount} would be: say --execute to do it", "yellow")


def _row(item: Item) -> Sequence[Cell]:
    before, after, asked = item["before"], item["offset"], item["asked"]
    change = 0 if before is None else after - before
    style = "green" if change > 0 else "red" if change < 0 else "dim"
    note = "" if asked == after else f"{asked:,} is {'before its beginning' if asked < after else 'behind its end'}"
    return (
        item["topic"],
        str(item["partition"]),
        NOTHING if before is None else f"{before:,}",
        Text(f"{after:,}", style="bold"),
        Text("new" if before is None else f"{change:+,}" if change else "same", style=style),
        Text(note, style="yellow"),
    )
