"""What `peers_run.py` shows: a table on the terminal, JSON, a section of docs/benchmarks.md and a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from peer_row import Row, short

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "benchmarks.md"
PICTURE = DOCS / "bench-peers.svg"
BEGIN = "<!-- bench-peers: begin -->"
END = "<!-- bench-peers: end -->"
CLUSTERS_BEGIN = "<!-- bench-peers-clusters: begin -->"
CLUSTERS_END = "<!-- bench-peers-clusters: end -->"
BUSY_GENERATOR = 0.9


def as_json(row: Row) -> dict[str, Any]:
    return {
        "key": row.key,
        "name": row.name,
        "unit": row.unit,
        "labels": row.labels,
        "rounds": row.rounds,
        "ratio": row.ratio,
        "spread": [row.ratios[0], row.ratios[-1]],
        "mark": row.mark,
        "more_is_better": row.more_is_better,
        "holds": row.holds,
        "details": row.details,
    }


def show_facts(console: Console, facts: dict[str, Any]) -> None:
    console.print(f"{' and '.join(facts['sides'])}, {facts['rounds']} rounds, Kafka {facts['kafka']}", highlight=False)
    for key, value in facts["settings"].items():
        console.print(f"  {key}={value}", highlight=False)
    if facts["is_quick"]:
        console.print("[yellow]quick: these figures mean nothing[/yellow]")


def table(rows: Sequence[Row], names: tuple[str, str]) -> Table:
    made = Table(title=f"{names[0]} / {names[1]}")
    for column in ("row", names[0], names[1], "ratio, median (spread)", "mark", ""):
        made.add_column(column, justify="left" if column in ("row", "") else "right")
    for row in rows:
        made.add_row(*cells(row), "" if row.holds else "[red]not reached[/red]")
    return made


def cells(row: Row) -> tuple[str, str, str, str, str]:
    sign = "≥" if row.more_is_better else "≤"
    low, high = row.ratios[0], row.ratios[-1]
    spread = f" ({low:.2f}–{high:.2f})" if len(row.ratios) > 1 else ""
    return (row.name, figure(row, 0), figure(row, 1), f"{row.ratio:.2f}{spread}", f"{sign} {row.mark:g}")


def figure(row: Row, place: int) -> str:
    return f"{short(row.middle(place))} {row.unit}"


def warnings(rows: Sequence[Row]) -> list[str]:
    """Where the load generator was at its limit, so that the figure speaks of it and not of the broker."""
    found = []
    for row in rows:
        busy = max((seen.get("generator_cpu", 0.0) for seen in row.details), default=0.0)
        if busy >= BUSY_GENERATOR:
            found.append(f"{row.key}: the load generator used {busy:.2f} of a core: it may be the limit")
    return found


def write_docs(rows: Sequence[Row], facts: dict[str, Any]) -> list[Path]:
    PICTURE.write_text(picture(rows))
    PAGE.write_text(replace_section(PAGE.read_text(), BEGIN, END, page_section(rows, facts)))
    return [PAGE, PICTURE]


def write_cluster_docs(rows: Sequence[Row], facts: dict[str, Any]) -> list[Path]:
    PAGE.write_text(replace_section(PAGE.read_text(), CLUSTERS_BEGIN, CLUSTERS_END, cluster_section(rows, facts)))
    return [PAGE]


def replace_section(text: str, begin: str, end: str, section: str) -> str:
    """The page with this between its two marks; at its end where the marks are not there yet."""
    marked = f"{begin}\n{section}{end}\n"
    before, found, after = text.partition(begin)
    if found:
        return before + marked + after.partition(end)[2].removeprefix("\n")
    return text.rstrip("\n") + "\n\n" + marked


def page_section(rows: Sequence[Row], facts: dict[str, Any]) -> str:
    lines = [
        "## Beside Apache Kafka",
        "",
        "`make bench-peers` measures this anew: the same load against Tailrace and a real Kafka 4.3.1 (heap 1 GB,",
        "warmed up by two runs), both up at once and taking turns,",
        f"{facts['rounds']} rounds of at most 1.5 GB with a sync between; medians, and in brackets the spread of the",
        "rounds' ratios. Load: `benchmarks/peers/wireload.c` (requests made beforehand) and",
        " `benchmarks/peers/rdload.c` (librdkafka from C). The CPU time is the broker's, from `/proc`.",
        "",
        "![Tailrace / Kafka, row by row](bench-peers.svg)",
        "",
        "| row | Tailrace | Kafka | ratio, median (spread) | mark | |",
        "|---|---|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(cells(row))} | {'' if row.holds else 'not reached'} |" for row in rows]
    settings = ", ".join(f"`{key}={value}`" for key, value in facts["settings"].items())
    load = " ".join(str(value) for value in facts["load_average"])
    lines += [
        "",
        f"Measured on {facts['date']}: CPython {facts['python']}, kernels {facts['kernels']}, {facts['cores']} cores,",
        f"load average {load} at the start. Server settings beside Kafka's defaults, the same on both sides:",
        f"{settings}.",
        "The rows of many partitions and of idle clients compare Tailrace with itself (left: many, right: few); they",
        "hold also where the spread has 1 in it. Of Kafka's time after `kill -9` some 9 s are not recovery: until",
        "`broker.session.timeout.ms` is over, its controller takes the new broker for a second one of the same id.",
        "",
    ]
    return "\n".join(lines) + "\n"


def cluster_section(rows: Sequence[Row], facts: dict[str, Any]) -> str:
    loads = [seen["load_average"] for row in rows for seen in row.details]
    lines = [
        "## Clusters beside Apache Kafka",
        "",
        '`make bench-peers ARGS="--rows clusters --rounds 3"` measures this: three combined nodes of each kind on one',
        "machine, static voters, Kafka 4.3.1 with a heap of 512 MB, all other settings at Kafka's defaults. One",
        "cluster is up at a time. Each round forms a new cluster of each kind, formatted before the clock starts, and",
        "takes all rows from it. A command is a CreateTopics request that succeeds on any node. Partitions count as",
        "created when ListOffsets succeeds on each; topics have 100 partitions with one replica and are created one",
        "after the other. Memory is the sum of VmRSS of the three processes.",
        "",
        "| row | Tailrace | Kafka | ratio, median (spread) | mark | |",
        "|---|---|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(cells(row))} | {'' if row.holds else 'not reached'} |" for row in rows]
    lines += [
        "",
        f"Measured on {facts['date']} in {len(rows[0].rounds)} rounds: CPython {facts['python']}, kernels",
        f"{facts['kernels']}, {facts['cores']} cores,",
        f"load average {min(loads):g} to {max(loads):g} before each cluster was formed.",
        "",
    ]
    return "\n".join(lines) + "\n"


# ---- the picture ------------------------------------------------------------------------------------------------

ROW_PX = 34
LEFT_PX = 400
WIDE_PX = 420
RIGHT_PX = 150
TOP_PX = 64
FOOT = "times, memory and CPU: as many times less than Kafka · many partitions, idle clients: Tailrace beside itself"
STYLE = """
  text { font: 13px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #24292f }
  .small { font-size: 11px; fill: #57606a } .title { font-size: 15px; font-weight: 600 }
  .grid { stroke: #d0d7de } .one { stroke: #57606a; stroke-width: 1.5 }
  .good { fill: #2da44e } .bad { fill: #cf5a4c } .mark { stroke: #24292f; stroke-width: 2 }
  .spread { stroke: #24292f; opacity: .55 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9198a1 } .grid { stroke: #30363d } .one { stroke: #9198a1 }
    .good { fill: #3fb950 } .bad { fill: #e5705f } .mark { stroke: #e6edf3 } .spread { stroke: #e6edf3 }
  }"""


def picture(rows: Sequence[Row]) -> str:
    """A bar a row from 1 (as Kafka) to the ratio, on a logarithmic scale, with spread and mark. Right is better."""
    reach = max([8.0, *(max(better(row, value) for value in (*row.ratios, row.mark)) for row in rows)])
    least = min([0.5, *(min(better(row, value) for value in (*row.ratios, row.mark)) for row in rows)])
    low, high = math.log2(least), math.log2(reach)

    def x(value: float) -> float:
        return LEFT_PX + WIDE_PX * (math.log2(value) - low) / (high - low)

    bottom = TOP_PX + ROW_PX * len(rows)
    wide = LEFT_PX + WIDE_PX + RIGHT_PX
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {bottom + 44}" role="img" '
        'aria-label="How many times better than Kafka, row by row">',
        f"<style>{STYLE}\n</style>",
        '<text x="12" y="24" class="title">Tailrace beside Apache Kafka 4.3.1: how many times better</text>',
        '<text x="12" y="44" class="small">bar: median · thin line: spread of the rounds · tick: the mark</text>',
    ]
    for power in range(math.ceil(low), math.floor(high) + 1):
        at, kind = x(2.0**power), "one" if power == 0 else "grid"
        out.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP_PX - 8}" y2="{bottom}" class="{kind}"/>')
        label = f"{2**power}×" if power >= 0 else f"1/{2**-power}"
        out.append(f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle" class="small">{label}</text>')
    for place, row in enumerate(rows):
        out += bar(row, TOP_PX + ROW_PX * place, x)
    out.append(f'<text x="12" y="{bottom + 36}" class="small">{FOOT}</text>')
    return "\n".join([*out, "</svg>\n"])


def better(row: Row, ratio: float) -> float:
    """How many times better than Kafka: where less is better the ratio turns round."""
    return ratio if row.more_is_better else 1 / ratio


def bar(row: Row, top: float, x: Any) -> list[str]:
    middle = top + ROW_PX / 2
    value = better(row, row.ratio)
    left, right = sorted((x(1.0), x(value)))
    ends = sorted(x(better(row, ratio)) for ratio in (row.ratios[0], row.ratios[-1]))
    name = row.name.replace("&", "&amp;").replace("<", "&lt;")
    mark = x(better(row, row.mark))
    return [
        f'<text x="{LEFT_PX - 14}" y="{middle + 4}" text-anchor="end">{name}</text>',
        f'<rect x="{left:.1f}" y="{top + 8}" width="{max(right - left, 1):.1f}" height="{ROW_PX - 16}" rx="2" '
        f'class="{"good" if row.holds else "bad"}"/>',
        f'<line x1="{ends[0]:.1f}" x2="{ends[1]:.1f}" y1="{middle}" y2="{middle}" class="spread"/>',
        f'<line x1="{mark:.1f}" x2="{mark:.1f}" y1="{top + 4}" y2="{top + ROW_PX - 4}" class="mark"/>',
        f'<text x="{LEFT_PX + WIDE_PX + 12}" y="{middle + 4}">{value:.2f}× <tspan class="small">'
        f"(mark {better(row, row.mark):.2g}×)</tspan></text>",
    ]
