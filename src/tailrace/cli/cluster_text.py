"""The cluster on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from tailrace.cli.lines import Item
from tailrace.cli.sizes import counted, shown_size
from tailrace.cli.tables import NOTHING, Cell, Column, Screen
from tailrace.cli.topic_text import state

BAR_WIDTH: Final = 24


def show_cluster(items: Sequence[Item]) -> None:
    head, *brokers = items
    screen = Screen()
    screen.heading(f"cluster {head['cluster_id']}")
    topics = f"{counted(head['topics'], 'topic')}, {counted(head['partitions'], 'partition')}"
    screen.facts([("holds", topics), ("state", state(head))])
    screen.blank()
    columns = (
        Column("broker", is_number=True),
        Column("address", is_wide=True),
        Column("rack"),
        Column("leads", is_number=True),
        Column("replicas", is_number=True),
        Column("state"),
    )
    rows: list[Sequence[Cell]] = [
        (
            str(each["broker"]),
            each["address"],
            each["rack"] or "",
            f"{each['leads']:,}",
            f"{each['replicas']:,}",
            Text("fenced", style="bold red") if each["fenced"] else Text("running", style="green"),
        )
        for each in brokers
    ]
    screen.table(columns, rows)


def show_quorum(items: Sequence[Item]) -> None:
    head, *replicas = items
    screen = Screen()
    screen.heading("metadata quorum", f"epoch {head['epoch']}")
    voters, observers = counted(head["voters"], "voter"), counted(head["observers"], "observer")
    screen.facts(
        [
            ("leader", f"node {head['leader']}" if head["leader"] >= 0 else Text("none", style="bold red")),
            ("committed", f"up to offset {head['high_watermark']:,}"),
            ("members", f"{voters}, {observers}"),
        ]
    )
    screen.blank()
    columns = (
        Column("node", is_number=True),
        Column("role"),
        Column("log end", is_number=True),
        Column("lag", is_number=True),
        Column("caught up", is_number=True),
        Column("endpoints", is_folded=True),
    )
    rows: list[Sequence[Cell]] = [
        (
            str(each["node"]),
            Text(each["role"], style="bold" if each["role"] == "leader" else ""),
            f"{each['log_end']:,}",
            Text(f"{each['lag']:,}", style="yellow" if each["lag"] else ""),
            NOTHING if each["caught_up_ms_ago"] is None else _ago(each["caught_up_ms_ago"]),
            "\n".join(each["endpoints"]),
        )
        for each in replicas
    ]
    screen.table(columns, rows)


def _ago(milliseconds: int) -> str:
    seconds = milliseconds / 1000
    if seconds < 60:
        return "now" if seconds < 1 else f"{seconds:.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 3600 else f"{seconds / 3600:.0f} h ago"


def show_dirs(items: Sequence[Item], limit: int) -> None:
    """Each directory, and the largest of its partitions."""
    screen = Screen()
    for at, item in enumerate(items):
        if item["type"] != "directory":
            continue
        if at:
            screen.blank()
        key = (item["broker"], item["path"])
        partitions = [
            each for each in items if each["type"] == "partition" and (each["broker"], each["directory"]) == key
        ]
        _directory(screen, item, partitions, limit)


def _directory(screen: Screen, item: Item, partitions: Sequence[Item], limit: int) -> None:
    screen.heading(item["path"], f"broker {item['broker']}")
    if item["error"] is not None:
        screen.note(f"offline: {item['error']}; look at the disk and its mount, and into the broker's log", "bold red")
        return
    facts: list[tuple[str, Cell]] = [
        ("holds", f"{counted(item['partitions'], 'partition')}, {shown_size(item['log_bytes'])}")
    ]
    if item["total_bytes"]:
        facts.append(("disk", _disk(item["free_bytes"] or 0, item["total_bytes"])))
    if item["cordoned"]:
        facts.append(("state", Text("cordoned: takes no new partitions", style="yellow")))
    screen.facts(facts)
    if not partitions:
        return
    screen.blank()
    columns = (
        Column("partition", is_wide=True),
        Column("size", is_number=True),
        Column("lag", is_number=True),
        Column(""),
    )
    largest = max(each["bytes"] for each in partitions)
    rows: list[Sequence[Cell]] = [
        (
            f"{each['topic']}-{each['partition']}" + (" (moving here)" if each["moving_here"] else ""),
            shown_size(each["bytes"]),
            f"{each['lag']:,}" if each["lag"] else "",
            Text("█" * (round(BAR_WIDTH * each["bytes"] / largest) if largest else 0), style="cyan"),
        )
        for each in partitions[:limit]
    ]
    screen.table(columns, rows)
    if len(partitions) > limit:
        screen.note(f"… and {len(partitions) - limit:,} more")


def _disk(free: int, total: int) -> Text:
    used = round(BAR_WIDTH * (total - free) / total)
    share = free / total
    style = "red" if share < 0.05 else "yellow" if share < 0.15 else "green"
    bar = Text.assemble(("█" * used, style), ("░" * (BAR_WIDTH - used), "bright_black"))
    return Text.assemble(bar, f"  {shown_size(free)} of {shown_size(total)} free")


def show_features(items: Sequence[Item]) -> None:
    columns = (
        Column("feature", is_wide=True),
        Column("level", is_number=True),
        Column("supported", is_number=True),
        Column("state"),
    )
    rows: list[Sequence[Cell]] = [
        (
            each["feature"],
            NOTHING if each["level"] is None else str(each["level"]),
            f"{each['supported_from']} to {each['supported_to']}",
            _feature_state(each),
        )
        for each in items
    ]
    Screen().table(columns, rows)


def _feature_state(item: Item) -> Text:
    if item["level"] is None:
        return Text("not finalised", style="dim")
    if item["level"] < item["supported_to"]:
        return Text("can be raised", style="yellow")
    return Text("newest", style="green")
