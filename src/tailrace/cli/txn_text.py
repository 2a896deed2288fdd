"""Transactions on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from tailrace.cli.dump_text import shown_time
from tailrace.cli.durations import shown_duration
from tailrace.cli.group_text import by_topic
from tailrace.cli.lines import Item
from tailrace.cli.sizes import counted
from tailrace.cli.tables import NOTHING, Cell, Column, Screen

STYLES: Final = {"Ongoing": "cyan", "CompleteCommit": "green", "CompleteAbort": "red", "Empty": "dim", "Dead": "red"}
LIST_COLUMNS: Final = (
    Column("transactional id", is_wide=True),
    Column("state"),
    Column("producer", is_number=True),
    Column("coordinator", is_number=True),
)
PRODUCER_COLUMNS: Final = (
    Column("partition", is_wide=True),
    Column("producer", is_number=True),
    Column("epoch", is_number=True),
    Column("sequence", is_number=True),
    Column("last written"),
    Column("open since", is_number=True),
)


def state(name: str) -> Text:
    return Text(name, style=STYLES.get(name, "yellow"))


def show_list(items: Sequence[Item]) -> None:
    screen = Screen()
    if not items:
        screen.note("there are no such transactional ids")
        return
    rows: list[Sequence[Cell]] = [
        (each["id"], state(each["state"]), str(each["producer_id"]), str(each["coordinator"])) for each in items
    ]
    screen.table(LIST_COLUMNS, rows)
    ongoing = sum(each["state"] == "Ongoing" for each in items)
    screen.note(f"{counted(len(items), 'transactional id')}, {counted(ongoing, 'transaction')} under way")


def show_descriptions(items: Sequence[Item]) -> None:
    screen = Screen()
    for at, item in enumerate(items):
        if at:
            screen.blank()
        screen.heading(item["id"])
        screen.facts(_facts(item))


def _facts(item: Item) -> list[tuple[str, Cell]]:
    timeout_s = item["timeout_ms"] / 1000
    facts: list[tuple[str, Cell]] = [("state", state(item["state"]))]
    if item["open_ms"] is not None:
        open_s = item["open_ms"] / 1000
        words = f"for {shown_duration(open_s)}, since {shown_time(item['began_ms'])}"
        facts.append(("open", Text(words, style="bold yellow" if open_s > timeout_s else "")))
    facts += [
        ("timeout", shown_duration(timeout_s)),
        ("producer", f"{item['producer_id']}, epoch {item['epoch']}"),
        ("coordinator", f"broker {item['coordinator']}"),
        ("partitions", by_topic(item["partitions"]) or Text("none", style="dim")),
    ]
    return facts


def show_producers(items: Sequence[Item]) -> None:
    screen = Screen()
    if not items:
        screen.note("no such producer is remembered")
        return
    screen.table(PRODUCER_COLUMNS, [_producer_row(each) for each in items])
    still_open = sum(each["start_offset"] is not None for each in items)
    screen.note(f"{counted(len(items), 'producer')}, {counted(still_open, 'open transaction')}")


def _producer_row(item: Item) -> Sequence[Cell]:
    return (
        f"{item['topic']}-{item['partition']}",
        str(item["producer_id"]),
        str(item["epoch"]),
        NOTHING if item["last_sequence"] is None else f"{item['last_sequence']:,}",
        NOTHING if item["last_timestamp"] is None else shown_time(item["last_timestamp"]),
        "" if item["start_offset"] is None else Text(f"{item['start_offset']:,}", style="bold cyan"),
    )


def show_hanging(items: Sequence[Item]) -> None:
    screen = Screen()
    if not items:
        screen.done("no transaction hangs")
        return
    screen.table(PRODUCER_COLUMNS, [_producer_row(each) for each in items])
    screen.blank()
    screen.note("nobody will end these; make sure that no producer still writes them, then:", "yellow")
    for each in items:
        screen.console.print(Text(f"  {each['abort']}", style="cyan"), soft_wrap=True)
