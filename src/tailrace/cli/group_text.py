"""Groups on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rich.text import Text

from tailrace.cli.lines import Item
from tailrace.cli.sizes import counted
from tailrace.cli.tables import NOTHING, Cell, Column, Screen

BAR_WIDTH: Final = 16
LIST_COLUMNS: Final = (
    Column("group", is_wide=True),
    Column("kind"),
    Column("state"),
    Column("members", is_number=True),
    Column("lag", is_number=True),
    Column("protocol"),
    Column("coordinator", is_number=True),
)
MEMBER_COLUMNS: Final = (
    Column("client", is_wide=True),
    Column("host"),
    Column("epoch", is_number=True),
    Column("protocol"),
    Column("has", is_folded=True),
    Column("wants", is_folded=True),
    Column("instance"),
    Column("member", is_wide=True),
)
PARTITION_COLUMNS: Final = (
    Column("topic", is_wide=True),
    Column("partition", is_number=True),
    Column("committed", is_number=True),
    Column("end", is_number=True),
    Column("lag", is_number=True),
    Column("", is_wide=False),
    Column("client", is_wide=True),
)
STATES: Final = {"Stable": "green", "Empty": "dim", "Dead": "red", "NotReady": "yellow"}


def show_list(items: Sequence[Item], *, is_filtered: bool) -> None:
    screen = Screen()
    if not items:
        none = "no group is like that" if is_filtered else "there are no groups yet; join one: tailrace consume TOPIC"
        screen.note(none if is_filtered else f"{none} --group NAME")
        return
    screen.table(LIST_COLUMNS, [_row(item) for item in items])
    lags = [item["lag"] for item in items if item["lag"] is not None]
    behind = f", {counted(sum(lags), 'record')} behind" if lags else ""
    screen.note(f"{counted(len(items), 'group')}{behind}")


def _row(item: Item) -> Sequence[Cell]:
    measured = item["members"] is not None
    return (
        item["group"],
        item["kind"],
        state(item["state"] or ""),
        f"{item['members']:,}" if measured else "",
        lag_text(item["lag"]) if measured else "",
        item["protocol"] or "",
        str(item["coordinator"]),
    )


def state(name: str) -> Text:
    return Text(name, style=STATES.get(name, "yellow"))


def lag_text(lag: int | None) -> Text:
    """None where it is not known."""
    if lag is None:
        return Text(NOTHING, style="dim")
    return Text(f"{lag:,}", style="green" if lag == 0 else "bold")


def show_descriptions(items: Sequence[Item]) -> None:
    """Each group, its members and its partitions behind it."""
    screen = Screen()
    for at, item in enumerate(items):
        if item["type"] != "group":
            continue
        if at:
            screen.blank()
        of_group = [each for each in items if each["group"] == item["group"]]
        members = [each for each in of_group if each["type"] == "member"]
        _heading(screen, item)
        if members:
            screen.blank()
            screen.table(MEMBER_COLUMNS, [_member_row(item, each) for each in members])
        show_partitions(screen, [each for each in of_group if each["type"] == "partition"])


def _heading(screen: Screen, item: Item) -> None:
    screen.heading(item["group"], f"{item['kind']} group")
    facts: list[tuple[str, Cell]] = [("state", state(item["state"]))]
    by = f", who share partitions by {item['assignor']}" if item["assignor"] else ""
    facts.append(("members", f"{item['members']:,}{by}" if item["members"] else "none"))
    if item["epoch"] is not None:
        behind = "" if item["assignment_epoch"] == item["epoch"] else f", assigned as of {item['assignment_epoch']}"
        facts.append(("epoch", f"{item['epoch']}{behind}"))
    facts.append(("coordinator", f"broker {item['coordinator']}"))
    if item["lag"] is not None:
        facts.append(("lag", Text.assemble(lag_text(item["lag"]), f" in {counted(item['partitions'], 'partition')}")))
    screen.facts(facts)


def _member_row(group: Item, item: Item) -> Sequence[Cell]:
    has = ", ".join(item["tasks"]) if item["tasks"] else by_topic(item["partitions"])
    return (
        item["client"],
        item["host"],
        "" if item["epoch"] is None else str(item["epoch"]),
        item["protocol"] if item["protocol"] != group["kind"] else "",
        has or Text("nothing", style="dim"),
        Text(by_topic(item["wanted"]) or "nothing", style="yellow") if item["wanted"] is not None else "",
        item["instance"] or "",
        Text(item["member"], style="dim"),
    )


def by_topic(partitions: Iterable[str]) -> str:
    """`orders 0–2, 5`, a line for each topic."""
    topics: dict[str, list[int]] = {}
    for each in partitions:
        topic, _, number = each.rpartition("-")
        topics.setdefault(topic, []).append(int(number))
    return "\n".join(f"{topic} {_spans(sorted(numbers))}" for topic, numbers in sorted(topics.items()))


def _spans(numbers: Sequence[int]) -> str:
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in spans)


def show_partitions(screen: Screen, partitions: Sequence[Item]) -> None:
    if not partitions:
        return
    screen.blank()
    most = max((each["lag"] or 0 for each in partitions), default=0)
    screen.table(PARTITION_COLUMNS, [_partition_row(each, most) for each in partitions])


def _partition_row(item: Item, most: int) -> Sequence[Cell]:
    return (
        item["topic"],
        str(item["partition"]),
        NOTHING if item["offset"] is None else f"{item['offset']:,}",
        Text("gone", style="red") if item["end"] is None else f"{item['end']:,}",
        lag_text(item["lag"]),
        bar(item["lag"] or 0, most, BAR_WIDTH),
        item["client"] or "",
    )


def bar(value: int, most: int, width: int) -> Text:
    filled = -(-width * value // most) if most else 0
    return Text("█" * filled, style="cyan")


def show_lag(items: Sequence[Item]) -> None:
    group, *partitions = items
    screen = Screen()
    _heading(screen, group)
    if not partitions:
        screen.note("it has committed no offsets yet, and has no partitions")
    show_partitions(screen, partitions)
