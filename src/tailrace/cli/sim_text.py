"""Failed seeds, summaries and replays on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from tailrace.cli.durations import shown_duration
from tailrace.cli.lines import Item
from tailrace.cli.output import printable
from tailrace.cli.sizes import counted
from tailrace.cli.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

OK: Final = ("✓ ", "bold green")
WRONG: Final = ("✗ ", "bold red")
STOPPED: Final = ("■ ", "bold yellow")


def show_failure(item: Item, console: Console | None = None) -> None:
    console = console or Terminal(soft_wrap=True)
    error = "" if item["error"] == "Violation" else f"{item['error']}: "
    where = f"at event {item['event']}, {item['time']}, after {counted(item['faults'], 'fault')}"
    console.print(Text.assemble(WRONG, f"seed {item['seed']}: {printable(error + item['message'])}"), soft_wrap=True)
    console.print(Text(f"  {where}", style="dim"), soft_wrap=True)
    console.print(Text.assemble(("  replay: ", "dim"), item["replay"]), soft_wrap=True)


def show_summary(item: Item) -> None:
    terminal = Terminal(soft_wrap=True)
    words = counted(item["seeds"], "seed")
    words += f" in {shown_duration(item['simulated_s'])} of simulated time"
    if item["failed"]:
        mark, result = WRONG, f"{item['failed']:,} of {words} failed"
    else:
        mark, result = OK, f"{words}, no violation"
    if item["interrupted"]:
        mark, result = mark if item["failed"] else STOPPED, f"interrupted: {result}"
    terminal.print(Text.assemble(mark, result))
    ratio = item["simulated_s"] / max(item["real_s"], 0.001)
    parts = [counted(item["events"], "event"), counted(item["faults"], "fault")]
    parts += [f"{count:,} {name}" for name, count in item["counts"].items()]
    parts += [f"{shown_duration(item['real_s'])} of real time, {ratio:,.0f} x"]
    terminal.print(Text(f"  {' · '.join(parts)}", style="dim"))
    terminal.print(Text(f"  hash {item['hash']}", style="dim"))


def show_replay(item: Item) -> None:
    terminal = Terminal(soft_wrap=True)
    if item["message"] is None:
        words = "interrupted" if item["interrupted"] else "no violation"
        if item["until"] is not None:
            words += f" until event {item['until']}"
        mark = STOPPED if item["interrupted"] else OK
        terminal.print(Text.assemble(mark, f"seed {item['seed']}: {words}"))
    else:
        error = "" if item["error"] == "Violation" else f"{item['error']}: "
        terminal.print(Text.assemble(WRONG, f"seed {item['seed']}: {printable(error + item['message'])}"))
    parts = [counted(item["events"], "event"), f"{item['simulated_s']:.3f} s simulated"]
    parts += [counted(item["faults"], "fault"), *(f"{count:,} {name}" for name, count in item["counts"].items())]
    terminal.print(Text(f"  {' · '.join(parts)}", style="dim"))
    terminal.print(Text(f"  hash {item['hash']}", style="dim"))
    for name in ("log", "diagram"):
        if item[name] is not None:
            terminal.print(Text(f"  {name} {printable(item[name])}", style="dim"))


def show_details(last_events: Iterable[str], trace: str) -> None:
    """What a failed run did last, below its result."""
    terminal = Terminal(soft_wrap=True)
    for line in (*last_events, *trace.splitlines()):
        terminal.print(Text(f"  {printable(line)}", style="dim"))
