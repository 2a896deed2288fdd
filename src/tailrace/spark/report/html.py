"""A page as one HTML file.

Nothing is fetched: style and script stand in the file, are allowed by their hashes, and everything else is forbidden by
the file's own Content-Security-Policy. A name in a log that looks like a tag is text, and would not run if it were one.
"""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import Final

from tailrace.spark.errors import PipelineError
from tailrace.spark.report.bars import bar_chart
from tailrace.spark.report.markup import NONE, Markup, tag
from tailrace.spark.report.page import (
    BarChart,
    Facts,
    Folded,
    Histogram,
    LineChart,
    Page,
    Part,
    Section,
    Series,
    Table,
    Tile,
    Verdict,
)
from tailrace.spark.report.plots import color_of, columns, line_chart
from tailrace.spark.report.script import SCRIPT
from tailrace.spark.report.style import STYLE
from tailrace.spark.report.tables import table

_SIGNS: Final = {"good": "M13 20.5l5 5 9.5-11", "plain": "M20 18v10M20 12.5v.1", "note": "M20 18v10M20 12.5v.1"}
_TROUBLE: Final = "M20 11v11.5M20 28.2v.1"
_WAVES: Final = (
    "M2 9c4-4 7-4 11 0s7 4 11 0",
    "M2 16c4-4 7-4 11 0s7 4 11 0",
    "M2 23c4-4 7-4 11 0s7 4 11 0",
)


class ReportError(PipelineError):
    """A report could not be written. What stood in its place is as it was."""

    hint = "name a file in a folder that is there and may be written to"


def write(page: Page, path: str) -> None:
    """In one step: whoever opens the file sees a whole page, the one before or this one."""
    beside = f"{path}.{os.getpid()}.tmp"
    try:
        Path(beside).write_text(render(page), encoding="utf-8")
        os.replace(beside, path)
    except OSError as problem:
        Path(beside).unlink(missing_ok=True)
        raise ReportError(f"the report {path} cannot be written: {problem.strerror or problem}") from problem


def render(page: Page) -> str:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy()),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", page.title),
        Markup(f"<style>{STYLE}</style>"),
    )
    sections = [_section(at, section) for at, section in enumerate(page.sections)]
    main = tag("main", *sections, tag("footer", page.footer), class_="inner")
    body = tag("body", _header(page), _navigation(page), main, Markup(f"<script>{SCRIPT}</script>"))
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def policy() -> str:
    return (
        f"default-src 'none'; style-src '{_digest(STYLE)}'; script-src '{_digest(SCRIPT)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _header(page: Page) -> Markup:
    waves = tag("svg", *(tag("path", d=way) for way in _WAVES), viewBox="0 0 26 32", aria_hidden="true")
    inside = [
        tag("div", waves, tag("span", page.kind), class_="kind"),
        tag("h1", page.title),
        tag("p", page.subtitle, class_="subtitle"),
    ]
    if page.verdict is not None:
        inside.append(_verdict(page.verdict))
    if page.tiles:
        inside.append(tag("div", *(_tile(each) for each in page.tiles), class_="tiles"))
    return tag("header", *inside, class_="inner")


def _verdict(verdict: Verdict) -> Markup:
    drawn = [tag("circle", cx=20, cy=20, r=19), tag("path", d=_SIGNS.get(verdict.tone, _TROUBLE))]
    sign = tag("svg", *drawn, viewBox="0 0 40 40", aria_hidden="true")
    words = tag("div", tag("strong", verdict.title), tag("span", verdict.words))
    return tag("div", sign, words, class_=f"verdict {verdict.tone}", role="status")


def _tile(tile: Tile) -> Markup:
    inside = [tag("span", tile.label), tag("b", tile.value)]
    if tile.detail:
        inside.append(tag("small", tile.detail))
    return tag("div", *inside, class_=f"card tile {tile.tone}")


def _navigation(page: Page) -> Markup:
    links = [tag("a", section.title, href=f"#s{at}") for at, section in enumerate(page.sections)]
    return tag("nav", tag("div", *links, class_="inner"), aria_label="Sections") if len(links) > 1 else NONE


def _section(at: int, section: Section) -> Markup:
    lead = [tag("p", section.words, class_="lead")] if section.words else []
    parts = tag("div", *(_part(part) for part in section.parts), class_="parts")
    return tag("section", tag("h2", section.title), *lead, parts, id=f"s{at}")


def _part(part: Part) -> Markup:
    match part:
        case LineChart():
            has_points = any(series.points for series in part.series)
            inside = [line_chart(part), _legend(part)] if has_points else [_empty(part.empty)]
        case BarChart():
            inside = [bar_chart(part)] if part.bars else [_empty(part.empty)]
        case Histogram():
            inside = [columns(part)] if any(each.count for each in part.bins) else [_empty(part.empty)]
        case Table():
            inside = [table(part)] if part.rows else [_empty(part.empty)]
        case Facts():
            items = [tag("dt", name) + tag("dd", value) for name, value in part.items]
            inside = [tag("dl", *(Markup(item) for item in items), class_="facts")]
        case Folded():
            return _folded(part.table)
    is_wide = isinstance(part, Table) or part.is_wide
    words = [] if isinstance(part, Facts) or not part.words else [tag("p", part.words, class_="words")]
    return tag("div", tag("h3", part.title), *words, *inside, class_="card part wide" if is_wide else "card part")


def _folded(shown: Table) -> Markup:
    words = [tag("p", shown.words, class_="words")] if shown.words else []
    inside = table(shown) if shown.rows else _empty(shown.empty)
    return tag("details", tag("summary", shown.title), *words, inside, class_="card part wide")


def _empty(words: str) -> Markup:
    return tag("p", words, class_="empty")


def _legend(chart: LineChart) -> Markup:
    """Where there is more than one line. Of areas, the highest comes first, as it is seen."""
    named: list[tuple[int, Series]] = list(enumerate(chart.series))
    if len(named) < 2 and chart.reference is None:
        return NONE
    items = [
        tag("li", _swatch(tag("rect", width=12, height=12, rx=3, class_=color_of(each, at))), tag("span", each.name))
        for at, each in named
    ]
    if chart.reference is not None:
        dashes = tag("line", x1=0, x2=12, y1=6, y2=6, class_="reference")
        items.append(tag("li", _swatch(dashes), tag("span", chart.reference.name)))
    return tag("ul", *items, class_="legend")


def _swatch(drawn: Markup) -> Markup:
    return tag("svg", drawn, viewBox="0 0 12 12", aria_hidden="true")
