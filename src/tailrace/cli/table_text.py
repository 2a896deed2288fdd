"""Tables that topics became, on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from rich.text import Text

from tailrace.cli.group_text import bar, lag_text
from tailrace.cli.lines import Item
from tailrace.cli.pipeline import Position
from tailrace.cli.sizes import counted, shown_size
from tailrace.cli.table_items import shown
from tailrace.cli.tables import NOTHING, Cell, Column, Screen

BAR_WIDTH: Final = 16
JOINED: Final = "\N{NO-BREAK SPACE}"
"""Where a line must not be folded."""
MOST_PARTITIONS: Final = 8
PARTITION_COLUMNS: Final = (
    Column("partition", is_number=True),
    Column("table", is_number=True),
    Column("topic", is_number=True),
    Column("behind", is_number=True),
    Column(""),
)
VERSION_COLUMNS: Final = (
    Column("version", is_number=True),
    Column("made"),
    Column("what"),
    Column("rows", is_number=True),
    Column("offsets", is_folded=True),
)
FILE_COLUMNS: Final = (
    Column("file", is_folded=True),
    Column("rows", is_number=True),
    Column("size", is_number=True),
)
COLUMN_COLUMNS: Final = (Column("column", is_wide=True), Column("type", is_folded=True), Column(""))


def show_status(items: Sequence[Item]) -> None:
    table, *partitions = items
    screen = Screen()
    screen.heading(table["table"], f"{table['format']} table of topic {table['topic']}, {table['mode']}")
    if table["version"] is None:
        screen.note("there is no table yet", "yellow")
    else:
        made = "" if table["made_ms"] is None else f", made {moment(table['made_ms'])}"
        facts: list[tuple[str, Cell]] = [
            ("version", f"{table['version']}{made}"),
            ("rows", f"{table['rows']:,} in {counted(table['files'], 'file')}, {shown_size(table['bytes'])}"),
        ]
        if table["dead_letters"]:
            facts.append(("dead letters", Text(f"{table['dead_letters']:,}", style="yellow")))
        screen.facts([*facts, ("behind", lag_text(table["behind"]))])
    if partitions:
        screen.blank()
        most = max(each["behind"] or 0 for each in partitions)
        screen.table(PARTITION_COLUMNS, [_partition_row(each, most) for each in partitions])


def _partition_row(item: Item, most: int) -> Sequence[Cell]:
    return (
        str(item["partition"]),
        f"{item['offset']:,}",
        Text("gone", style="red") if item["end"] is None else f"{item['end']:,}",
        lag_text(item["behind"]),
        bar(item["behind"] or 0, most, BAR_WIDTH),
    )


def show_history(name: str, items: Sequence[Item]) -> None:
    screen = Screen()
    screen.heading(name, counted(len(items), "version"))
    screen.table(VERSION_COLUMNS, [_version_row(each) for each in items])


def _version_row(item: Item) -> Sequence[Cell]:
    rows = item["facts"].get("rows")
    is_ours = item["offsets"] is not None
    return (
        str(item["version"]),
        moment(item["made_ms"]),
        item["operation"] if is_ours else Text(f"{item['operation']}, by somebody else", style="yellow"),
        f"{rows:,}" if isinstance(rows, int) else str(rows or ""),
        offsets(item["offsets"]) if is_ours else "",
    )


def show_first_version(name: str, wanted: Sequence[Position], item: Item) -> None:
    screen = Screen()
    screen.heading(f"version {item['version']}", f"of {name}")
    screen.facts(
        [
            ("made", moment(item["made_ms"])),
            ("by", item["operation"]),
            ("offsets", offsets(item["offsets"])),
        ]
    )
    if item["is_oldest_kept"]:
        screen.note(f"it is the oldest that is kept: an older one may have had {shown(wanted)} already", "yellow")


def show_files(name: str, version: int, items: Sequence[Item]) -> None:
    screen = Screen()
    screen.heading(name, f"version {version}")
    if items:
        screen.table(FILE_COLUMNS, [(each["path"], f"{each['rows']:,}", shown_size(each["bytes"])) for each in items])
    rows, size = sum(each["rows"] for each in items), sum(each["bytes"] for each in items)
    screen.note(f"{counted(len(items), 'file')}, {counted(rows, 'row')}, {shown_size(size)}")


def show_dry_run(items: Sequence[Item]) -> None:
    plan, *columns = items
    screen = Screen()
    screen.heading(plan["table"], f"{plan['format']} table of topic {plan['topic']}, {plan['mode']}; nothing was done")
    facts: list[tuple[str, Cell]] = []
    if plan["creates"]:
        facts.append(("would make", "\n".join(plan["creates"])))
    if plan["partition_by"]:
        facts.append(("parts by", ", ".join(plan["partition_by"])))
    if plan["records"]:
        batches = counted(plan["batches"], "batch", "es")
        facts.append(("would read", f"{counted(plan['records'], 'record')} in {batches}"))
        facts.append(("offsets", ranges(plan["start"], plan["end"])))
    else:
        facts.append(("would read", "nothing: the table would have all there is"))
    facts += [(f"would compact, {name}", counted(count, "file")) for name, count in plan["compactions"].items()]
    removed = removed_text(plan["removed"])
    if removed:
        facts.append(("would remove", removed))
    screen.facts(facts)
    screen.blank()
    new = Text("new", style="green")
    screen.table(COLUMN_COLUMNS, [(each["column"], each["kind"], new if each["is_new"] else "") for each in columns])


def show_report(item: Item) -> None:
    screen = Screen()
    rate = f"{item['records_per_s']:,} records/s, {shown_size(item['bytes_per_s'])}/s"
    screen.done(f"{item['table']}: {counted(item['records'], 'record')} of {item['topic']} in {item['seconds']:.1f} s")
    put = f"{item['rows']:,} put, {item['deleted']:,} deleted" if item["mode"] == "upsert" else f"{item['rows']:,}"
    facts: list[tuple[str, Cell]] = [
        ("table", f"{item['format']}, {item['mode']}, {'new, ' if item['created'] else ''}version {item['version']}"),
        ("rows", put),
    ]
    if item["dead_letters"]:
        facts.append(("dead letters", Text(f"{item['dead_letters']:,}", style="yellow")))
    facts += [
        ("files", f"{item['files']:,} in {counted(item['batches'], 'batch', 'es')}, {shown_size(item['bytes'])}"),
        ("offsets", ranges(item["start"], item["offsets"])),
        ("rate", rate),
    ]
    if item["compacted"]:
        facts.append(("compacted", counted(item["compacted"], "file")))
    if removed := removed_text(item["removed"]):
        facts.append(("removed", removed))
    if item["replans"]:
        facts.append(("planned again", f"{counted(item['replans'], 'time')}: somebody else had committed"))
    screen.facts(facts)


def removed_text(removed: Mapping[str, int]) -> str:
    if not any(removed.values()):
        return ""
    versions = counted(removed["versions"], "version")
    return f"{versions}, {counted(removed['files'], 'file')}, {shown_size(removed['bytes'])}"


def offsets(by_partition: Mapping[str, int] | None) -> Text:
    """`0: 1,500  1: 1,502`, and how many more there are."""
    return _several([f"{number}:{JOINED}{offset:,}" for number, offset in (by_partition or {}).items()])


def ranges(start: Mapping[str, int], end: Mapping[str, int]) -> Text:
    return _several([f"{number}:{JOINED}{start.get(number, 0):,}–{offset:,}" for number, offset in end.items()])


def _several(parts: Sequence[str]) -> Text:
    more = [f"and {len(parts) - MOST_PARTITIONS:,} more"] if len(parts) > MOST_PARTITIONS else []
    return Text("  ".join([*parts[:MOST_PARTITIONS], *more]) or NOTHING)


def moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
