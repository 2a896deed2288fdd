"""Formatted directories on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from tailrace.cli.lines import Item
from tailrace.cli.tables import NOTHING, Cell, Column, Screen
from tailrace.metadata.versions import METADATA_VERSION


def show_storage(items: Sequence[Item]) -> None:
    screen = Screen()
    for item in items:
        if item["type"] == "metadata":
            _show_metadata(screen, item)
    columns = (Column("directory", is_wide=True), Column("holds"), Column("state"), Column("directory id"))
    rows: list[Sequence[Cell]] = [
        (each["path"], each["holds"], _state(each["state"]), each["directory_id"] or NOTHING)
        for each in items
        if each["type"] == "directory"
    ]
    screen.table(columns, rows)


def _show_metadata(screen: Screen, item: Item) -> None:
    screen.heading(f"cluster {item['cluster_id']}", f"node {item['node_id']}")
    facts: list[tuple[str, Cell]] = []
    if item["features"] is not None:
        others = (f"{name}={level}" for name, level in item["features"].items() if name != METADATA_VERSION)
        release = item["release"] or f"level {item['features'].get(METADATA_VERSION)}"
        facts.append(("began with", "\n".join([f"{METADATA_VERSION} {release}", *others])))
    if item["controllers"] is not None:
        facts.append(("first voters", "\n".join(item["controllers"])))
    if item["log_end"] is not None:
        facts.append(("log ends", f"at offset {item['log_end']} in epoch {item['log_epoch']}"))
    if item["voters"] is not None:
        facts.append(("voters", "\n".join(item["voters"])))
    screen.facts(facts)
    screen.blank()


def _state(state: str) -> Text:
    good = state in ("formatted", "formatted now")
    return Text(state, style="green" if good else "bold red")
