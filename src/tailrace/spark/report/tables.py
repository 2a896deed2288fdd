"""Tables. A script filters and sorts them; without one, or without scripts at all, every row is there."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.spark.report.markup import NONE, Markup, tag
from tailrace.spark.report.page import Cell, Column, Table


def table(shown: Table) -> Markup:
    """Only for tables that have rows."""
    head = tag("tr", *(tag("th", each.title, scope="col", class_=each.kind) for each in shown.columns))
    rows = [_row(shown.columns, row) for row in shown.rows]
    drawn = tag("table", tag("thead", head), tag("tbody", *rows))
    controls = _controls(shown) if shown.has_filter else NONE
    return tag("div", controls, tag("div", drawn, class_="scroll"), class_="table")


def _row(columns: Sequence[Column], row: Sequence[Cell]) -> Markup:
    cells = [_cell(column, cell) for column, cell in zip(columns, row, strict=True)]
    tone = next((cell.tone for column, cell in zip(columns, row, strict=True) if column.kind == "tone"), None)
    return tag("tr", *cells, data_tone=tone)


def _cell(column: Column, cell: Cell) -> Markup:
    """`data-sort` is what the script sorts by; without it, the text."""
    inside = tag("span", cell.text, class_=f"chip {cell.tone}") if column.kind == "tone" else cell.text
    detail = [tag("small", cell.detail)] if cell.detail else []
    kind = f"{column.kind} {cell.tone}" if cell.tone != "plain" and column.kind != "tone" else column.kind
    kind += " whole" if cell.is_whole else ""
    return tag("td", inside, *detail, class_=kind, data_sort=None if cell.sort is None else f"{cell.sort:.17g}")


def _controls(shown: Table) -> Markup:
    """Hidden until the script shows them: without it they would do nothing."""
    tones: dict[str, str] = {}
    for row in shown.rows:
        for column, cell in zip(shown.columns, row, strict=True):
            if column.kind == "tone":
                tones.setdefault(cell.tone, cell.text)
    buttons = [
        tag("button", words, type="button", data_tone=tone, aria_pressed="false", class_=f"chip {tone}")
        for tone, words in tones.items()
        if len(tones) > 1
    ]
    field = tag(
        "input",
        type="search",
        name="filter",
        placeholder="Filter rows",
        aria_label="Filter the table",
    )
    count = tag("span", class_="count", aria_live="polite")
    return tag("div", field, *buttons, count, class_="controls", hidden=True)
