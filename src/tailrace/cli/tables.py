"""Tables and facts for a terminal. Rich is loaded with this module, so only where there is a terminal.

Names give way when it is narrow: columns that are `wide` are shortened or folded, numbers never are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from rich.table import Table
from rich.text import Text

from tailrace.cli.output import printable
from tailrace.cli.terminal import Terminal

GAP: Final = "  "
NOTHING: Final = "–"

Cell = str | Text


class Column(NamedTuple):
    title: str
    is_number: bool = False
    is_wide: bool = False
    is_folded: bool = False
    """Several lines rather than a part of the text."""


def table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> Table:
    """Columns that are empty in all rows are left out."""
    cells = [[text_of(each) for each in row] for row in rows]
    wanted = [at for at in range(len(columns)) if any(len(row[at]) for row in cells)]
    shown = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)
    for at in wanted:
        column = columns[at]
        shown.add_column(
            column.title,
            justify="right" if column.is_number else "left",
            no_wrap=not column.is_folded,
            overflow="fold" if column.is_folded else "ellipsis",
            min_width=12 if column.is_wide or column.is_folded else None,
            ratio=None,
        )
    for row in cells:
        shown.add_row(*(row[at] for at in wanted))
    return shown


def text_of(cell: Cell) -> Text:
    """Lines stay lines; whatever else could move a cursor is escaped."""
    return cell if isinstance(cell, Text) else Text("\n".join(map(printable, cell.split("\n"))))


class Printer(Protocol):
    """What a screen needs of rich.Console."""

    def print(self, *objects: Any, soft_wrap: bool | None = None) -> None: ...


class Screen:
    """Headings, facts and tables, one below the other."""

    def __init__(self, console: Printer | None = None) -> None:
        self.console: Printer = console or Terminal()

    def heading(self, text: str, aside: str = "") -> None:
        line = Text(printable(text), style="bold")
        if aside:
            line.append(f"{GAP}{printable(aside)}", style="not bold dim")
        self.console.print(line, soft_wrap=True)

    def facts(self, pairs: Iterable[tuple[str, Cell]]) -> None:
        """`name  value`, names in a column."""
        shown = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        shown.add_column(style="dim", no_wrap=True)
        shown.add_column(overflow="fold")
        for name, value in pairs:
            shown.add_row(name, text_of(value))
        self.console.print(shown)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
        self.console.print(table(columns, rows))

    def note(self, text: str, style: str = "dim") -> None:
        self.console.print(Text(printable(text), style=style))

    def done(self, text: str) -> None:
        self.console.print(Text.assemble(("✓ ", "bold green"), printable(text)))

    def blank(self) -> None:
        self.console.print()


def listed(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))
