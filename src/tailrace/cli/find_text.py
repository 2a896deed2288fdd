"""Records that a search found, on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from tailrace.cli.consume_text import shown
from tailrace.cli.dump_text import shown_time
from tailrace.cli.durations import shown_duration
from tailrace.cli.output import printable
from tailrace.cli.sizes import counted
from tailrace.cli.tables import Screen

if TYPE_CHECKING:
    from tailrace.spark.searching.found import Found, Matches

STATES: Final = {"aborted": "red", "open": "yellow"}


def show_matches(matches: Matches) -> None:
    screen = Screen()
    width = max((len(place(each)) for each in matches), default=0)
    for each in matches:
        screen.console.print(line(each, width), soft_wrap=True)
    looked = f"{counted(matches.offsets, 'offset')} looked through in {shown_duration(matches.seconds)}"
    if matches.left_out:
        screen.note(f"{len(matches):,} of {counted(matches.total, 'record')}; --limit shows more · {looked}")
    else:
        screen.note(f"{counted(matches.total, 'record')} · {looked}")


def place(found: Found) -> str:
    return f"{found.partition}:{found.offset}"


def line(found: Found, width: int) -> Text:
    """`2:1500  2026-01-31T12:00:00.000Z  key value  header=value  aborted`"""
    text = Text.assemble(
        (f"{place(found):>{width}}", "cyan"), (f"  {shown_time(found.timestamp_ms)}  ", "bright_black")
    )
    if found.key is not None:
        text.append(f"{shown(found.key)} ", style="yellow")
    text.append("deleted" if found.value is None else shown(found.value), "dim italic" if found.value is None else "")
    for name, value in found.headers:
        text.append(f"  {printable(name)}={'null' if value is None else shown(value)}", style="magenta")
    if found.state in STATES:
        text.append(f"  {found.state}", style=STATES[found.state])
    return text
