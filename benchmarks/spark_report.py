"""What `spark_run.py` shows: a table on the terminal, JSON, a section of docs/benchmarks.md and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from rich.table import Table

from peer_report import DOCS, LEFT_PX, PAGE, RIGHT_PX, ROW_PX, STYLE, TOP_PX, WIDE_PX, figure, replace_section
from peer_row import Row
from spark_sections import SECTIONS, TOPICS, Section

PICTURE = DOCS / "bench-spark.svg"
LAG_BEGIN = "<!-- bench-spark-lag: begin -->"
LAG_END = "<!-- bench-spark-lag: end -->"
HEADS = ("row", "Tailrace", "beside", "ratio, median (spread)", "mark")


def table(rows: Sequence[Row]) -> Table:
    made = Table(title="Spark on topics, beside Spark on Parquet files")
    for column in (*HEADS, ""):
        made.add_column(column, justify="left" if column in ("row", "") else "right")
    for row in rows:
        made.add_row(*cells(row), "" if row.holds else "[red]not reached[/red]")
    return made


def cells(row: Row) -> tuple[str, str, str, str, str]:
    digits = 3 if row.ratio < 0.1 else 2
    low, high = row.ratios[0], row.ratios[-1]
    spread = f" ({low:.{digits}f}–{high:.{digits}f})" if len(row.ratios) > 1 else ""
    mark = f"{'≥' if row.more_is_better else '≤'} {row.mark:g}" if row.mark else ""
    return (row.name, figure(row, 0), figure(row, 1), f"{row.ratio:.{digits}f}{spread}", mark)


def profile(row: Row, rows_count: int) -> str:
    """CPU seconds for a million rows, the middle round's, by who used them."""
    seconds = sorted((seen["cpu_s"] for seen in row.details), key=lambda each: sum(each.values()))
    middle = seconds[len(seconds) // 2]
    return ", ".join(f"{who} {used / rows_count * 1e6:.2f}" for who, used in middle.items())


def write_docs(found: Mapping[str, Sequence[Row]], facts: dict[str, Any]) -> list[Path]:
    """The sections of which everything was measured."""
    written = []
    for section in SECTIONS:
        rows = section.rows_of(found)
        if rows is None:
            continue
        PAGE.write_text(replace_section(PAGE.read_text(), *section.marks, page_section(section, rows, facts)))
        written.append(PAGE)
        if section is TOPICS:
            PICTURE.write_text(picture(rows))
            written.append(PICTURE)
    return list(dict.fromkeys(written))


def write_lag_docs(rows: Sequence[Row], facts: dict[str, Any]) -> list[Path]:
    PAGE.write_text(replace_section(PAGE.read_text(), LAG_BEGIN, LAG_END, lag_section(rows, facts)))
    return [PAGE]


def lag_section(rows: Sequence[Row], facts: dict[str, Any]) -> str:
    load = " ".join(str(value) for value in facts["load_average"])
    lines = [
        "## How far a table is behind",
        "",
        f'`make bench-spark ARGS="--lag-minutes {facts["lag_minutes"]:g}"` measures this anew: 50,000 records a second',
        "into a topic, and a Delta table that follows with a trigger of 10 s, upkeep included, all on the same cores.",
        "",
        f"| {' | '.join(HEADS)} | |",
        "|---|---|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(cells(row))} | {'' if row.holds else 'not reached'} |" for row in rows]
    lines += ["", f"Measured on {facts['date']}: {facts['cores']} cores, load average {load} at the start.", ""]
    return "\n".join(lines) + "\n"


def page_section(section: Section, rows: Sequence[Row], facts: dict[str, Any]) -> str:
    load = " ".join(str(value) for value in facts["load_average"])
    words = f"`{section.command}` measures this anew: {section.words(facts)}"
    lines = [f"## {section.title}", "", fill(words, 118, break_on_hyphens=False)]
    lines += ["", f"![Spark on topics beside Spark on Parquet files]({PICTURE.name})"] if section is TOPICS else []
    lines += ["", f"| {' | '.join(HEADS)} | |", "|---|---|---|---|---|---|"]
    lines += [f"| {' | '.join(cells(row))} | {'' if row.holds else 'not reached'} |" for row in rows]
    shown = [row for row in rows if row.details]
    if shown:
        lines += ["", "CPU seconds for a million rows, of Spark's JVM, its Python workers and the broker:", ""]
        lines += [f"- {row.name}: {profile(row, facts['rows_of'][row.key])}" for row in shown]
    lines += [
        "",
        f"Measured on {facts['date']}: CPython {facts['python']}, PySpark {facts['pyspark']}, kernels",
        f"{facts['kernels']}, {facts['cores']} cores, load average {load} at the start.",
        "",
    ]
    return "\n".join(lines) + "\n"


# ---- the picture ------------------------------------------------------------------------------------------------


def picture(rows: Sequence[Row]) -> str:
    """A bar a row from 0 to its ratio, with spread and mark; those whose ratio is of bytes stay in the table."""
    drawn = [row for row in rows if row.more_is_better]
    reach = max([1.0, *(row.ratios[-1] for row in drawn)])

    def x(value: float) -> float:
        return LEFT_PX + WIDE_PX * value / reach

    bottom = TOP_PX + ROW_PX * len(drawn)
    wide = LEFT_PX + WIDE_PX + RIGHT_PX
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {bottom + 44}" role="img" '
        'aria-label="Rates of Spark on topics as parts of its rates on Parquet files">',
        f"<style>{STYLE}\n</style>",
        '<text x="12" y="24" class="title">Spark on topics beside Spark on Parquet files (1 = the same rate)</text>',
        '<text x="12" y="44" class="small">bar: median · thin line: spread of the rounds · tick: the mark</text>',
    ]
    for tenth in range(0, int(reach * 10) + 1, 2):
        at, kind = x(tenth / 10), "one" if tenth == 10 else "grid"
        out.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP_PX - 8}" y2="{bottom}" class="{kind}"/>')
        out.append(f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle" class="small">{tenth / 10:g}</text>')
    for place, row in enumerate(drawn):
        out += bar(row, TOP_PX + ROW_PX * place, x)
    foot = "streams: beside the same into Parquet files · segments: beside one"
    out.append(f'<text x="12" y="{bottom + 36}" class="small">{foot}</text>')
    return "\n".join([*out, "</svg>\n"])


def bar(row: Row, top: float, x: Any) -> list[str]:
    middle = top + ROW_PX / 2
    low, high = x(row.ratios[0]), x(row.ratios[-1])
    mark = f'<tspan class="small"> (mark {row.mark:g})</tspan>' if row.mark else ""
    drawn = [
        f'<text x="{LEFT_PX - 14}" y="{middle + 4}" text-anchor="end">{row.name}</text>',
        f'<rect x="{x(0):.1f}" y="{top + 8}" width="{max(x(row.ratio) - x(0), 1):.1f}" height="{ROW_PX - 16}" rx="2" '
        f'class="{"good" if row.holds else "bad"}"/>',
        f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}" class="spread"/>',
        f'<text x="{LEFT_PX + WIDE_PX + 12}" y="{middle + 4}">{row.ratio:.2f}{mark}</text>',
    ]
    if row.mark:
        at = x(row.mark)
        drawn.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{top + 4}" y2="{top + ROW_PX - 4}" class="mark"/>')
    return drawn
