"""Topics on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from tailrace.cli.lines import Item
from tailrace.cli.sizes import counted, shown_size
from tailrace.cli.tables import NOTHING, Cell, Column, Screen, listed

LIST_COLUMNS: Final = (
    Column("topic", is_wide=True),
    Column("partitions", is_number=True),
    Column("replicas", is_number=True),
    Column("records", is_number=True),
    Column("size", is_number=True),
    Column("state"),
)
PARTITION_COLUMNS: Final = (
    Column("partition", is_number=True),
    Column("leader", is_number=True),
    Column("replicas", is_wide=False),
    Column("in sync"),
    Column("offline"),
    Column("earliest", is_number=True),
    Column("latest", is_number=True),
    Column("records", is_number=True),
    Column("size", is_number=True),
)


def show_list(items: Sequence[Item]) -> None:
    screen = Screen()
    if not items:
        screen.note("there are no topics yet; make one: tailrace topic create NAME")
        return
    screen.table(LIST_COLUMNS, [_row(item) for item in items])
    partitions = counted(sum(item["partitions"] for item in items), "partition")
    sizes = [item["bytes"] for item in items if item["bytes"] is not None]
    size = f", {shown_size(sum(sizes))}" if sizes else ""
    screen.note(f"{counted(len(items), 'topic')}, {partitions}{size}")


def _row(item: Item) -> Sequence[Cell]:
    return (
        item["topic"],
        f"{item['partitions']:,}",
        f"{item['replication_factor']:,}",
        "" if item["records"] is None else f"{item['records']:,}",
        "" if item["bytes"] is None else shown_size(item["bytes"]),
        state(item),
    )


def state(item: Item) -> Text:
    if item["without_leader"]:
        return Text(f"{item['without_leader']} without leader", style="bold red")
    if item["under_replicated"]:
        return Text(f"{item['under_replicated']} under-replicated", style="yellow")
    return Text("healthy", style="green")


def show_description(items: Sequence[Item]) -> None:
    """Each topic, and the partitions behind it."""
    screen = Screen()
    for at, item in enumerate(items):
        if item["type"] != "topic":
            continue
        if at:
            screen.blank()
        partitions = [each for each in items if each["type"] == "partition" and each["topic"] == item["topic"]]
        _describe(screen, item, partitions)


def _describe(screen: Screen, item: Item, partitions: Sequence[Item]) -> None:
    screen.heading(item["topic"], item["id"])
    amount = f"{counted(item['partitions'], 'partition')} × {counted(item['replication_factor'], 'replica')}"
    stored = f"{counted(item['records'], 'record')}, {shown_size(item['bytes'])}"
    screen.facts(
        [
            ("holds", f"{amount}: {stored}"),
            ("state", state(item)),
            *([("kind", "internal: the brokers keep it for themselves")] if item["internal"] else []),
            ("settings", "\n".join(f"{key}={value}" for key, value in item["configs"].items()) or "all by default"),
        ]
    )
    screen.blank()
    screen.table(PARTITION_COLUMNS, [_partition_row(each) for each in partitions])


def _partition_row(item: Item) -> Sequence[Cell]:
    behind = set(item["replicas"]) - set(item["in_sync"])
    return (
        str(item["partition"]),
        Text("none", style="bold red") if item["leader"] is None else str(item["leader"]),
        listed(item["replicas"]),
        Text(listed(item["in_sync"]), style="yellow" if behind else ""),
        Text(listed(item["offline"]), style="red"),
        _number(item["earliest"]),
        _number(item["latest"]),
        _number(item["records"]),
        NOTHING if item["bytes"] is None else shown_size(item["bytes"]),
    )


def _number(value: int | None) -> str:
    return NOTHING if value is None else f"{value:,}"
