"""The demo drawn: a frame of its live picture, and the sum at the end. Pure: facts in, something to print out."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tailrace.cli.demo_facts import (
    Audited,
    Auditing,
    Counted,
    Counting,
    Facts,
    PartitionFacts,
    Rate,
    Sales,
    Scene,
    Tabled,
    Tabling,
)
from tailrace.cli.output import printable
from tailrace.cli.sizes import counted, shown_size

NAMES_WIDTH: Final = 11
RATES_WIDTH: Final = 46
"""Of a name, two rates and the room around them."""
OFFSETS_WIDTH: Final = 47
WIDEST: Final = 110
LEAST_DRAWN: Final = 10
LEVELS: Final = "▁▂▃▄▅▆▇█"
GOOD: Final = "bold green"
BAD: Final = "bold red"
UNKNOWN: Final = "–"


def frame(scene: Scene, facts: Facts, history: Sequence[tuple[Rate, Rate]], width: int) -> RenderableType:
    """`history` are the rates of the frames before, the oldest first."""
    inner = min(width, WIDEST) - 2
    return Group(
        title(scene, facts.seconds, inner),
        Text(),
        rate_line("in", facts.produced, [each for each, _ in history], inner, "cyan"),
        rate_line("out", facts.consumed, [each for _, each in history], inner, "green"),
        fact("latency", latency(facts), inner),
        fact("broker", broker(scene, facts), inner),
        *(fact("spark", text, inner) for text in spark(facts.counted, facts.sent)),
        *(fact("table", text, inner) for text in table(facts.tabled, facts.sent)),
        *(fact("audit", text, inner) for text in audit(facts.audited)),
        Text(),
        partition_table(facts.partitions, inner),
        Text(),
        fact("last order", Text(printable(facts.last_order), "dim"), inner),
        fact("so far", outcome(facts, is_over=False), inner),
        Text(),
        Text("  In another terminal", "bold"),
        commands(things_to_try(scene, facts), inner),
        Text("  Ctrl-C ends it.", "dim"),
    )


def title(scene: Scene, seconds: float, width: int) -> Text:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{hours}:{minutes:02}:{rest:02}"
    words = Text.assemble(("Tailrace", "bold"), "  a broker for Kafka's clients on ", (scene.bootstrap, "bold cyan"))
    gap = max(width - len(words) - len(clock), 2)
    return Text.assemble(words, " " * gap, (clock, "dim"))


def fact(name: str, value: Text, width: int | None = None) -> Text:
    """One line, shortened where it is wider than `width`."""
    line = Text.assemble((f"  {name:<{NAMES_WIDTH}}", "dim"), value)
    if width is not None:
        line.truncate(width, overflow="ellipsis")
    return line


def rate_line(name: str, rate: Rate, before: Sequence[Rate], width: int, style: str) -> Text:
    value = Text.assemble((f"{rate.records_per_s:>8,.0f}", "bold"), f" orders/s  {shown_bytes_per_s(rate):>10}")
    room = width - RATES_WIDTH
    if room >= LEAST_DRAWN:
        value.append("   ")
        value.append(sparkline([each.records_per_s for each in before], room), style)
    return fact(name, value)


def shown_bytes_per_s(rate: Rate) -> str:
    return f"{shown_size(round(rate.bytes_per_s))}/s"


def sparkline(values: Sequence[float], width: int) -> str:
    """The last `width` values as blocks, the highest of them the whole height."""
    shown = values[-width:]
    highest = max(shown, default=0.0)
    if highest <= 0:
        return LEVELS[0] * len(shown)
    return "".join(LEVELS[round(value / highest * (len(LEVELS) - 1))] for value in shown)


def latency(facts: Facts) -> Text:
    return Text.assemble(
        "p50 ",
        (shown_ms(facts.p50_s), "bold"),
        "   p99 ",
        (shown_ms(facts.p99_s), "bold"),
        ("   from the producer to the consumer", "dim"),
    )


def shown_ms(seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    milliseconds = seconds * 1000
    return f"{milliseconds:.1f} ms" if milliseconds < 100 else f"{milliseconds:,.0f} ms"


def broker(scene: Scene, facts: Facts) -> Text:
    parts = []
    if facts.usage.memory_bytes is not None:
        parts.append(f"{shown_size(facts.usage.memory_bytes)} memory")
    if facts.usage.cores is not None:
        parts.append(f"{facts.usage.cores:.0%} of a core".replace("%", " %"))
    parts.append(f"ready in {scene.ready_s:.2f} s")
    if facts.restarts:
        parts.append(counted(facts.restarts, "restart"))
    return Text("   ".join(parts))


def spark(counted: Counted, sent: int) -> list[Text]:
    """A line on what Spark counts; none where nobody asked for it."""
    match counted.state:
        case Counting.OFF:
            return []
        case Counting.MISSING:
            return [Text.assemble(("pip install 'tailrace[spark]'", "cyan"), ("   and Spark counts them too", "dim"))]
        case Counting.STARTING:
            return [Text("a streaming query is starting", "dim")]
        case Counting.FAILED:
            return [Text.assemble(("failed", BAD), f": {printable(counted.trouble)}")]
    text = Text.assemble((f"{counted.orders:,} counted", "bold"))
    if counted.orders != sent:
        text.append(f"   {sent - counted.orders:,} to come" if counted.orders < sent else "   MORE THAN SENT")
    text.append(f"   batch {counted.batches:,}", "dim")
    if counted.best_item:
        text.append(f"   best seller: {printable(counted.best_item)}, {counted.best_cents / 100:,.2f}")
    return [text]


def table(tabled: Tabled, sent: int) -> list[Text]:
    """A line on the table that the orders go into; none where there is none to be."""
    match tabled.state:
        case Tabling.OFF:
            return []
        case Tabling.MISSING:
            return [Text.assemble(("pip install 'tailrace[tables]'", "cyan"), ("   and they go into a table", "dim"))]
        case Tabling.STARTING:
            return [Text("a table is being made", "dim")]
        case Tabling.FAILED:
            return [Text.assemble(("failed", BAD), f": {printable(tabled.trouble)}")]
    text = Text.assemble((f"{tabled.rows:,} rows", "bold"))
    if tabled.state is Tabling.FULL:
        text.append("   that is enough: it ends here", "dim")
    elif tabled.rows != sent:
        text.append(f"   {sent - tabled.rows:,} to come" if tabled.rows < sent else "   MORE THAN SENT")
    text.append(f"   version {tabled.version}", "dim")
    return [text]


def audit(audited: Audited) -> list[Text]:
    """A line on whether all that was written is as it should be; none where nobody looked."""
    match audited.state:
        case Auditing.OFF | Auditing.SKIPPED:
            return []
        case Auditing.READY | Auditing.RUNNING:
            return [Text("every byte that was written is being checked; Ctrl-C skips it", "dim")]
        case Auditing.FAILED:
            return [Text.assemble(("failed", BAD), f": {printable(audited.trouble)}")]
    read = f"{counted(audited.partitions, 'partition')}, {counted(audited.segments, 'segment')}"
    text = Text.assemble(
        ("nothing is wrong", GOOD) if not audited.findings else (counted(audited.findings, "finding").upper(), BAD),
        f" in {read}, {shown_size(audited.size_bytes)}",
        (f"   {audited.seconds:.1f} s", "dim"),
    )
    return [text, *([Text(printable(audited.first))] if audited.first else [])]


def sales_table(sales: Sequence[Sales]) -> Padding:
    """What SQL makes of the table."""
    shown = Table(box=None, header_style="dim", padding=(0, 3, 0, 0), pad_edge=False)
    shown.add_column("item", no_wrap=True)
    for name in ("orders", "sales"):
        shown.add_column(name, justify="right", no_wrap=True)
    for each in sales:
        shown.add_row(printable(each.item), f"{each.orders:,}", f"{each.cents / 100:,.2f}")
    return Padding(shown, (0, 0, 0, NAMES_WIDTH + 2), expand=False)


def partition_table(partitions: Sequence[PartitionFacts], width: int) -> Padding:
    room = width - OFFSETS_WIDTH
    highest = max((each.end for each in partitions), default=0)
    table = Table(box=None, header_style="dim", padding=(0, 3, 0, 0), pad_edge=False)
    table.add_column("partition", justify="right", no_wrap=True)
    for name in ("from", "to", "behind"):
        table.add_column(name, justify="right", no_wrap=True, min_width=8)
    if room >= LEAST_DRAWN:
        table.add_column("", no_wrap=True)
    for each in partitions:
        cells: list[str | Text] = [str(each.number), f"{each.start:,}", f"{each.end:,}", f"{each.behind:,}"]
        table.add_row(*cells, *([offsets_bar(each, highest, room)] if room >= LEAST_DRAWN else []))
    return Padding(table, (0, 0, 0, 2), expand=False)


def offsets_bar(partition: PartitionFacts, highest: int, width: int) -> Text:
    """All partitions to one scale: what retention has removed, and what is there."""
    start = partition.start * width // max(highest, 1)
    end = partition.end * width // max(highest, 1)
    return Text.assemble(("░" * start, "dim"), ("█" * (end - start), "blue"))


def outcome(facts: Facts, *, is_over: bool) -> Text:
    """What counts: every order once, in its turn. What is under way is not missing before it is over."""
    missing = facts.missing if is_over else 0
    text = Text.assemble((f"{facts.sent if is_over else facts.returned:,} orders", "bold"), ": ")
    text.append(f"{missing:,} LOST" if missing else "none lost", BAD if missing else GOOD)
    text.append(", ")
    if facts.unexpected:
        text.append(f"{counted(facts.unexpected, 'record')} that nobody waited for", "bold yellow")
    else:
        text.append("none twice", GOOD)
    text.append(", ")
    turn = f"{facts.out_of_order:,} OUT OF ORDER" if facts.out_of_order else "all in order"
    text.append(turn, BAD if facts.out_of_order else GOOD)
    return text


def things_to_try(scene: Scene, facts: Facts) -> list[tuple[str, str]]:
    where = "" if scene.port == 9092 else f" --bootstrap {scene.bootstrap}"
    things = [
        (f"{scene.program} consume {scene.topic} --follow{where}", "the orders themselves"),
        (f"kcat -b {scene.bootstrap} -t {scene.topic} -C -o end", "with any client of Kafka's"),
    ]
    if facts.pid is not None:
        things.append((f"kill -9 {facts.pid}", "starts again, nothing is lost"))
    if facts.tabled.state is Tabling.FILLING:
        place = shlex.quote(facts.tabled.place)
        things.append((f"{scene.program} pipeline table {scene.topic} --to {place} --history", "the table's versions"))
    if scene.metrics_url is not None:
        things.append((f"curl {scene.metrics_url}", "for Prometheus"))
    return things


def commands(things: Sequence[tuple[str, str]], width: int) -> Text:
    """A line each. A command is to be copied: what it means gives way first."""
    whole = [command for command, meaning in things if 4 + len(command) + 3 + len(meaning) <= width]
    column = max(map(len, whole), default=0)
    lines = []
    for command, meaning in things:
        shown = Text.assemble(f"    {command:<{column}}   ", (meaning, "dim"))
        shown.stylize("cyan", 4, 4 + max(column, len(command)))
        if len(shown) > width:
            shown = shown[: 4 + len(command)]
        lines.append(shown)
    return Text("\n").join(lines)


def line(facts: Facts) -> str:
    """A moment where there is no terminal."""
    if facts.audited.state is Auditing.RUNNING:
        return "auditing what was written"
    if facts.waits_for_spark:
        so_far = f": {facts.counted.orders:,} of {facts.sent:,} counted" if facts.sent else ""
        if so_far and facts.tabled.state is Tabling.FILLING:
            so_far += f", {facts.tabled.rows:,} in the table, {facts.tabled.summed:,} of them summed up"
        return f"waiting for Spark{so_far}"
    memory = facts.usage.memory_bytes
    parts = [
        f"{facts.seconds:5.1f} s",
        f"in {facts.produced.records_per_s:,.0f} orders/s, {shown_bytes_per_s(facts.produced)}",
        f"out {facts.consumed.records_per_s:,.0f} orders/s, {shown_bytes_per_s(facts.consumed)}",
        f"p99 {shown_ms(facts.p99_s)}",
        f"offsets {' '.join(str(each.end) for each in facts.partitions)}",
    ]
    if memory is not None:
        parts.append(f"broker {shown_size(memory)}")
    if facts.counted.state is Counting.COUNTING:
        parts.append(f"Spark has counted {facts.counted.orders:,}")
    if facts.tabled.state is Tabling.FILLING:
        parts.append(f"the table has {facts.tabled.rows:,}")
    return " | ".join(parts)


def shortfalls(facts: Facts) -> list[Text]:
    """What Spark had not done when the demo stopped waiting for it, with the numbers; nothing if it has done all."""
    counted, tabled, sent = facts.counted, facts.tabled, facts.sent
    reasons = []
    if counted.state is Counting.STARTING:
        reasons.append("Spark had not started its query")
    elif counted.state is Counting.COUNTING and counted.orders != sent:
        reasons.append(f"Spark had counted {counted.orders:,} of {sent:,} orders")
    if tabled.state is Tabling.STARTING:
        reasons.append(f"the table had 0 of {sent:,} orders")
    elif tabled.state is Tabling.FILLING and tabled.rows != sent:
        reasons.append(f"the table had {tabled.rows:,} of {sent:,} orders")
    elif tabled.state is Tabling.FILLING and tabled.summed != sent:
        reasons.append(f"the sales were of {tabled.summed:,} of {sent:,} orders in the table")
    return [Text(f"{reason} when the demo stopped waiting", BAD) for reason in reasons]


def summary(scene: Scene, facts: Facts, width: int, *, is_once: bool) -> RenderableType:
    is_counted = facts.counted.is_sound(facts.sent) and facts.tabled.is_sound(facts.sent)
    is_sound = facts.is_sound and (not is_once or (is_counted and facts.audited.is_sound))
    mark = Text.assemble(("✓ ", GOOD)) if is_sound else Text.assemble(("✗ ", BAD))
    ends = "  ".join(f"{each.number}: {each.end:,}" for each in facts.partitions)
    return Group(
        Text.assemble(mark, outcome(facts, is_over=True), f" ({facts.seconds:.1f} s)"),
        *(fact("incomplete", text) for text in (shortfalls(facts) if is_once else ())),
        rate_line("in", facts.produced, (), 0, ""),
        rate_line("out", facts.consumed, (), 0, ""),
        fact("latency", latency(facts)),
        fact("broker", broker(scene, facts)),
        fact("offsets", Text(ends)),
        *(fact("spark", text) for text in spark(facts.counted, facts.sent)),
        *(fact("table", text) for text in table(facts.tabled, facts.sent)),
        *([sales_table(facts.tabled.sales)] if facts.tabled.sales else []),
        *(fact("audit", text) for text in audit(facts.audited)),
        *([fact("report", Text(facts.audited.report, "cyan"))] if facts.audited.report else []),
        Text(),
        Text("What next", "bold"),
        commands(next_steps(scene, is_once=is_once), width),
    )


def next_steps(scene: Scene, *, is_once: bool) -> list[tuple[str, str]]:
    steps = [(f"{scene.program} demo", "the same, live, until Ctrl-C")] if is_once else []
    data = shlex.quote(scene.data_dir)
    if scene.keeps_data:
        steps.append((f"{scene.program} log dirs {data}", "what the broker left on the disk"))
    return [
        *steps,
        (f"{scene.program} serve --data ./data", "a broker that keeps its data"),
        (f"{scene.program} demo --crash", "the log, crashed and recovered"),
        (f"{scene.program} --help", "everything else"),
    ]
