"""The items of a dump for people: `key=value` lines for pipes, tables for terminals. Nothing in a file can reach the
terminal unescaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tailrace.cli.lines import Item, bytes_of
from tailrace.cli.output import printable, shown_bytes

NOTHING: Final = "-"
WIDE_CELL: Final = 16
LEFT: Final = (0, 0, 0, 2)
ROWS_PER_TABLE: Final = 1000  # a table is laid out whole, so a long file is shown as several
_MAX_SHOWN_MS: Final = 253_402_300_799_999  # the year 9999


class Column(NamedTuple):
    """`word` is the key in plain lines, `title` stands above the column; `value` gives NOTHING where there is none.

    A column that says nothing but `usual` is left out of its table.
    """

    word: str
    title: str
    value: Callable[[Item], str]
    is_number: bool = False
    is_wide: bool = False  # may take the width that is left, and be folded
    usual: str = NOTHING


def field(name: str) -> Callable[[Item], str]:
    def value(item: Item) -> str:
        found = item[name]
        return NOTHING if found is None or found == -1 else printable(str(found))

    return value


def time_of(name: str) -> Callable[[Item], str]:
    return lambda item: shown_time(item[name])


def shown_time(timestamp_ms: int | None) -> str:
    """UTC, to the millisecond; the bare number where a calendar has no date for it."""
    if timestamp_ms is None or timestamp_ms == -1:
        return NOTHING
    if not 0 <= timestamp_ms <= _MAX_SHOWN_MS:
        return str(timestamp_ms)
    moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"


def span(first: object, last: object) -> str:
    if last is None or last == -1:
        return NOTHING
    return f"{'?' if first is None else first}..{last}"


def producer(item: Item) -> str:
    return NOTHING if item["producer_id"] == -1 else f"{item['producer_id']}/{item['producer_epoch']}"


FLAGS: Final = {"txn": "transactional", "control": "control"}


def flags(item: Item) -> str:
    names = [name for name, key in FLAGS.items() if item[key]]
    if item["delete_horizon_ms"] is not None:
        names.append(f"delete-horizon:{shown_time(item['delete_horizon_ms'])}")
    return ",".join(names) or NOTHING


def crc(item: Item) -> str:
    return "ok" if item["crc_ok"] else f"WRONG ({item['crc']})"


def content(name: str) -> Callable[[Item], str]:
    return lambda item: shown_bytes(bytes_of(item, name))


def headers(item: Item) -> str:
    pairs = (f"{shown_bytes(bytes_of(each, 'key'))}={shown_bytes(bytes_of(each, 'value'))}" for each in item["headers"])
    return ",".join(pairs) or NOTHING


def control(item: Item) -> str:
    if item["control"] is None:
        return NOTHING
    epoch = item["coordinator_epoch"]
    return item["control"] if epoch is None else f"{item['control']} by coordinator epoch {epoch}"


COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    "batch": (
        Column("offsets", "offsets", lambda item: span(item["base_offset"], item["last_offset"])),
        Column("records", "records", field("records"), is_number=True),
        Column("position", "position", field("position"), is_number=True),
        Column("bytes", "bytes", field("bytes"), is_number=True),
        Column("magic", "magic", field("magic"), is_number=True, usual="2"),
        Column("epoch", "epoch", field("leader_epoch"), is_number=True),
        Column("codec", "codec", field("codec")),
        Column("clock", "clock", field("timestamp_type"), usual="CreateTime"),
        Column("max_timestamp", "largest timestamp", time_of("max_timestamp")),
        Column("producer", "producer", producer),
        Column("sequence", "sequence", lambda item: span(item["base_sequence"], item["last_sequence"])),
        Column("flags", "flags", flags),
        Column("crc", "crc", crc),
    ),
    "record": (
        Column("offset", "offset", field("offset"), is_number=True),
        Column("timestamp", "timestamp", time_of("timestamp")),
        Column("sequence", "seq", field("sequence"), is_number=True),
        Column("key", "key", content("key"), is_wide=True),
        Column("value", "value", content("value"), is_wide=True),
        Column("headers", "headers", headers, is_wide=True),
        Column("control", "control", control),
    ),
    "unreadable": (
        Column("position", "position", field("position"), is_number=True),
        Column("problem", "problem", field("problem"), is_wide=True),
    ),
    "offset_index_entry": (
        Column("offset", "offset", field("offset"), is_number=True),
        Column("log_position", "position in the log", field("log_position"), is_number=True),
    ),
    "time_index_entry": (
        Column("timestamp", "largest timestamp so far", time_of("timestamp")),
        Column("offset", "at offset", field("offset"), is_number=True),
    ),
    "transaction_index_entry": (
        Column("producer", "producer", field("producer_id"), is_number=True),
        Column("first_offset", "first offset", field("first_offset"), is_number=True),
        Column("last_offset", "abort marker at", field("last_offset"), is_number=True),
        Column("last_stable_offset", "last stable offset", field("last_stable_offset"), is_number=True),
    ),
    "producer": (
        Column("producer", "producer", producer),
        Column("last_sequence", "last sequence", field("last_sequence"), is_number=True),
        Column("last_offset", "last offset", field("last_offset"), is_number=True),
        Column("offset_delta", "offset delta", field("offset_delta"), is_number=True),
        Column("timestamp", "timestamp", time_of("timestamp")),
        Column("coordinator_epoch", "coordinator epoch", field("coordinator_epoch"), is_number=True),
        Column("txn_first_offset", "open transaction from", field("txn_first_offset"), is_number=True),
    ),
    "leader_epoch": (
        Column("epoch", "leader epoch", field("epoch"), is_number=True),
        Column("start_offset", "from offset", field("start_offset"), is_number=True),
    ),
    "partition_metadata": (Column("topic_id", "topic id", field("topic_id")),),
    "checkpoint_offset": (
        Column("topic", "topic", field("topic")),
        Column("partition", "partition", field("partition"), is_number=True),
        Column("offset", "offset", field("offset"), is_number=True),
    ),
    "preallocated": (
        Column("position", "from position", field("position"), is_number=True),
        Column("bytes", "zero bytes, not filled yet", field("bytes"), is_number=True),
    ),
}
INDENTED: Final = ("record", "unreadable")
LINES: Final = ("unreadable", "preallocated")


class PlainText:
    """One line per item: `type key=value …`. Keys without a value are left out."""

    def write(self, path: str, items: Iterable[Item]) -> None:
        print(f"# {printable(path)}")
        for item in items:
            print(plain_line(item))


def plain_line(item: Item) -> str:
    kind = item["type"]
    pairs = ((column.word, column.value(item)) for column in COLUMNS[kind])
    shown = " ".join(f"{word}={value}" for word, value in pairs if value != NOTHING)
    return f"  {kind} {shown}" if kind in INDENTED else f"{kind} {shown}"


class Tables:
    """Rows of one type that follow each other make a table; a batch with its records is a line above them."""

    def __init__(self, console: Console, *, with_records: bool) -> None:
        self._console = console
        self._with_records = with_records
        self._rows: list[Item] = []

    def write(self, path: str, items: Iterable[Item]) -> None:
        self._console.print(Text(printable(path), style="bold"))
        is_empty = True
        try:
            for item in items:
                is_empty = False
                self._add(item)
        finally:  # what was good stands before the complaint
            self._print_rows()
        if is_empty:
            self._console.print(Text("  empty", style="dim"))
        self._console.print()

    def _add(self, item: Item) -> None:
        rows = self._rows
        if rows and (item["type"] != rows[0]["type"] or len(rows) == ROWS_PER_TABLE):
            self._print_rows()
        if item["type"] in LINES or (self._with_records and item["type"] == "batch"):
            self._print_line(item)
        else:
            self._rows.append(item)

    def _print_line(self, item: Item) -> None:
        self._console.print(Padding(Text(plain_line(item).strip(), style=style_of(item) or "cyan"), LEFT, expand=False))

    def _print_rows(self) -> None:
        rows, self._rows = self._rows, []
        if not rows:
            return
        columns = COLUMNS[rows[0]["type"]]
        cells = [[column.value(row) for column in columns] for row in rows]
        used = [
            at for at, column in enumerate(columns) if any(line[at] not in (NOTHING, column.usual) for line in cells)
        ]
        if self._least_width(columns, cells, used) > self._console.width:
            for row in rows:
                self._print_line(row)
            return
        table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)
        for at in used:
            table.add_column(
                columns[at].title,
                justify="right" if columns[at].is_number else "left",
                overflow="fold",
                no_wrap=not columns[at].is_wide,
            )
        for row, line in zip(rows, cells, strict=True):
            shown = ("" if line[at] == NOTHING else line[at] for at in used)
            table.add_row(*map(Text, shown), style=style_of(row))
        self._console.print(Padding(table, LEFT, expand=False))

    def _least_width(self, columns: tuple[Column, ...], cells: list[list[str]], used: list[int]) -> int:
        """Below this width a table is harder to read than lines."""
        width = 2 * len(used)
        for at in used:
            longest = max(len(columns[at].title), *(len(line[at]) for line in cells))
            width += min(longest, WIDE_CELL) if columns[at].is_wide else longest
        return width


def style_of(item: Item) -> str:
    kind = item["type"]
    if kind == "unreadable" or (kind == "batch" and not item["crc_ok"]):
        return "red"
    if kind == "preallocated":
        return "dim"
    if (kind == "batch" and item["control"]) or (kind == "record" and item["control"] is not None):
        return "magenta"
    if kind == "batch" and item["transactional"]:
        return "yellow"
    return ""
