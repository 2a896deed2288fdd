"""The cluster on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from tailrace.cli.lines import Item
from tailrace.cli.sizes import counted, shown_size
from tailrace.cli.tables import NOTHING, Cell, Column, Screen, listed
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


def show_quorum(items: Sequence[Item], screen: Screen | None = None) -> None:
    head, *replicas = items
    screen = screen or Screen()
    is_led = head["leader"] >= 0
    screen.heading("metadata quorum", f"epoch {head['epoch']}" if is_led else "")
    facts: list[tuple[str, Cell]] = [
        ("leader", f"node {head['leader']}" if is_led else Text("none", style="bold red")),
    ]
    if is_led:
        facts += [
            ("committed", f"up to offset {head['high_watermark']:,}"),
            ("members", f"{counted(head['voters'], 'voter')}, {counted(head['observers'], 'observer')}"),
            ("majority", f"{head['majority']} of {head['voters']}, {head['caught_up']} caught up"),
            ("voters", _voter_kind(head["kraft_version"])),
        ]
    facts.append(("state", _quorum_state(head)))
    screen.facts(facts)
    if replicas:
        screen.blank()
        screen.table(QUORUM_COLUMNS, [_replica_row(each) for each in replicas])


QUORUM_COLUMNS: Final = (
    Column("node", is_number=True),
    Column("role"),
    Column("log end", is_number=True),
    Column("lag", is_number=True),
    Column("caught up", is_number=True),
    Column("address", is_folded=True),
    Column("directory", is_folded=True),
)


def _replica_row(item: Item) -> Sequence[Cell]:
    is_well = item["health"] in ("leader", "caught up", "unknown")
    caught_up = NOTHING if item["caught_up_ms_ago"] is None else _ago(item["caught_up_ms_ago"])
    return (
        str(item["node"]),
        Text(item["role"], style="bold" if item["role"] == "leader" else ""),
        f"{item['log_end']:,}",
        Text(f"{item['lag']:,}", style="yellow" if item["lag"] else ""),
        caught_up if is_well else Text(f"{item['health']}, {caught_up}", style="bold red"),
        "\n".join(each.partition("://")[2] for each in item["endpoints"]),
        item["directory_id"] or "",
    )


def _voter_kind(version: int | None) -> str:
    if version is None:
        return NOTHING
    kind = "records of the metadata log" if version else "static, from controller.quorum.voters"
    return f"{kind} (kraft.version {version})"


def _quorum_state(head: Item) -> Cell:
    if not head["problems"]:
        count = head["may_fail"]
        return Text(f"healthy, {counted(count, 'voter')} may fail" if head["voters"] > 1 else "healthy", style="green")
    return Text("\n".join(head["problems"]), style="bold red" if head["leader"] < 0 else "yellow")


def show_plan(item: Item) -> None:
    """What a change of the voters would do."""
    screen = Screen()
    screen.heading(f"{item['action']} controller {item['node']}", f"directory {item['directory_id']}")
    pairs: list[tuple[str, Cell]] = [
        ("voters", f"{listed(item['voters'])} → {listed(item['voters_after'])}"),
        ("majority", _before_after(item, "majority", "{} of {}")),
        ("caught up", _before_after(item, "caught_up", "{} of {}")),
        ("may fail", f"{item['may_fail']} → {item['may_fail_after']}"),
    ]
    screen.facts(pairs)
    for each in item["notes"]:
        screen.note(each, "yellow")


def _before_after(item: Item, key: str, form: str) -> str:
    before = form.format(item[key], len(item["voters"]))
    return f"{before} → {form.format(item[f'{key}_after'], len(item['voters_after']))}"


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
        return Text("not finalized", style="dim")
    if item["level"] < item["supported_to"]:
        return Text("can be raised", style="yellow")
    return Text("newest", style="green")
