"""Lines, areas and columns as SVG that is as wide as its place.

Everything that may stretch is given in percent of the width; paths, which know no percent, stand in an SVG within the
SVG that stretches alone. So text is never scaled: it is as large on a phone as on a wide screen.

Each x has a strip from top to bottom that shows a line, dots and its numbers when it is pointed at. That is CSS and a
`<title>`; the page's script only makes the title come at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from tailrace.spark.report.amounts import shown
from tailrace.spark.report.markup import Markup, joined, tag
from tailrace.spark.report.page import Histogram, LineChart, Series, Unit
from tailrace.spark.report.scale import ticks, time_ticks

HEIGHT_PX: Final = 190
BELOW_PX: Final = 26
ABOVE_PX: Final = 8
COLORS: Final = 6
"""The last one is grey: for all that is not named."""
_STRETCH: Final = 1000
_MOST_LABELS: Final = 7
_LEAST_COLUMNS: Final = 8
"""Fewer stand in the middle, and are no wider."""
_MOST_STRIPS: Final = 241


def line_chart(chart: LineChart) -> Markup:
    """Only for charts that have points."""
    drawn = _stacked(chart.series) if chart.is_stacked else list(chart.series)
    first = min(series.points[0][0] for series in drawn if series.points)
    last = max(series.points[-1][0] for series in drawn if series.points) + chart.x_width
    last = last if last > first else first + 1.0
    top = max(y for series in drawn for _, y in series.points)
    marks = ticks(chart.y_top if chart.y_top is not None else top, chart.y_unit)
    frame = _Frame(first, last, marks[-1])
    inside = [_grid(frame, marks)]
    if chart.reference is not None:
        inside.append(_path(frame, chart.reference.points, "line reference", 0.0))
    inside += _lines(frame, chart, drawn)
    inside += _below(frame, chart)
    inside += _strips(frame, chart, drawn)
    return _plot(chart.title, marks, chart.y_unit, inside)


def columns(chart: Histogram) -> Markup:
    """Only for charts that have bins with a count."""
    marks = ticks(max(each.count for each in chart.bins), "count")
    beside = max(_LEAST_COLUMNS - len(chart.bins), 0) / 2
    frame = _Frame(-beside, len(chart.bins) + beside, marks[-1])
    total = sum(each.count for each in chart.bins)
    inside = [_grid(frame, marks)]
    for at, each in enumerate(chart.bins):
        y = frame.y(each.count)
        words = f"{_edges(each.low, each.high, chart.x_unit)}\n{each.count:,} {chart.noun}".rstrip()
        words += f" ({shown(each.count / total, 'share')})"
        left, wide = frame.x(at), frame.x(at + 1) - frame.x(at)
        height = max(HEIGHT_PX - y, 1.5) if each.count else 0.0
        bar = tag("rect", class_="column", x=_percent(left), width=_percent(wide), y=HEIGHT_PX - height, height=height)
        room = tag("rect", class_="room", x=_percent(left), width=_percent(wide), y=0, height=HEIGHT_PX)
        inside.append(tag("g", room, bar, tag("title", words), class_="strip"))
    every = -(-len(chart.bins) // _MOST_LABELS)
    edges = [(float(at), shown(each.low, chart.x_unit)) for at, each in enumerate(chart.bins) if at % every == 0]
    if len(chart.bins) < _MOST_LABELS:
        edges.append((float(len(chart.bins)), shown(chart.bins[-1].high, chart.x_unit)))
    inside += _labels(frame, edges)
    return _plot(chart.title, marks, "count", inside)


class _Frame:
    """Where numbers are drawn: x in percent, y in pixels."""

    def __init__(self, first: float, last: float, top: float) -> None:
        self.first = first
        self.last = last
        self._top = top

    def x(self, value: float) -> float:
        return (value - self.first) / (self.last - self.first) * 100

    def y(self, value: float) -> float:
        return HEIGHT_PX * (1 - value / self._top)


def _plot(title: str, marks: Sequence[float], unit: Unit, inside: list[Markup]) -> Markup:
    """The axis on the left stands in a column of its own, whose width is fixed."""
    height = HEIGHT_PX + BELOW_PX + ABOVE_PX
    labels = [
        tag("text", shown(mark, unit), x="100%", y=ABOVE_PX + HEIGHT_PX * (1 - mark / marks[-1]) + 4, class_="left")
        for mark in marks
    ]
    axis = tag("svg", *labels, class_="axis", height=height, aria_hidden="true")
    moved = tag("svg", joined(inside), y=ABOVE_PX, width="100%", height=HEIGHT_PX + BELOW_PX, class_="moved")
    plot = tag("svg", moved, class_="plot", height=height, role="img", aria_label=title)
    return tag("div", axis, plot, class_="chart")


def color_of(series: Series, place: int) -> str:
    """A class of the style: a series has its own color, or that of its place in the chart."""
    return f"c{(place if series.color is None else series.color) % COLORS}"


def _grid(frame: _Frame, marks: Sequence[float]) -> Markup:
    return joined(
        [
            tag("line", x1=0, x2="100%", y1=frame.y(mark), y2=frame.y(mark), class_="grid" if mark else "base")
            for mark in marks
        ]
    )


def _lines(frame: _Frame, chart: LineChart, drawn: Sequence[Series]) -> list[Markup]:
    """The last of stacked areas is the highest: drawn first, so that the others lie upon it."""
    found = []
    for at in reversed(range(len(drawn))):
        points, color = drawn[at].points, color_of(drawn[at], at)
        if not points:
            continue
        if chart.is_stacked or len(drawn) == 1:
            kind = "area solid" if chart.is_stacked else "area"
            found.append(_path(frame, points, f"{kind} {color}", chart.x_width, is_closed=True))
        if not chart.is_stacked:
            found.append(_path(frame, points, f"line {color}", chart.x_width))
    return found


def _path(
    frame: _Frame, points: Sequence[tuple[float, float]], kind: str, x_width: float, is_closed: bool = False
) -> Markup:
    steps = []
    for x, y in points:
        steps.append((frame.x(x), frame.y(y)))
        if x_width:
            steps.append((frame.x(x + x_width), frame.y(y)))
    if is_closed:
        steps = [(steps[0][0], HEIGHT_PX), *steps, (steps[-1][0], HEIGHT_PX)]
    way = "L".join(f"{x * _STRETCH / 100:.1f} {y:.1f}" for x, y in steps)
    path = tag("path", d=f"M{way}{'Z' if is_closed else ''}", class_=kind, vector_effect="non-scaling-stroke")
    box = f"0 0 {_STRETCH} {HEIGHT_PX}"
    return tag("svg", path, viewBox=box, preserveAspectRatio="none", width="100%", height=HEIGHT_PX, class_="stretched")


def _below(frame: _Frame, chart: LineChart) -> list[Markup]:
    if chart.x_unit == "time":
        return _labels(frame, time_ticks(frame.first, frame.last, _MOST_LABELS))
    return _labels(frame, [(mark, shown(mark, chart.x_unit)) for mark in ticks(frame.last, chart.x_unit)])


def _labels(frame: _Frame, marks: Sequence[tuple[float, str]]) -> list[Markup]:
    """Every other one is left out where the chart is narrow."""
    found = []
    for at, (value, words) in enumerate(marks):
        x = frame.x(value)
        kind = ("below odd" if at % 2 else "below") + (" last" if x > 98 else "")
        found.append(tag("text", words, x=_percent(x), y=HEIGHT_PX + 18, class_=kind))
    return found


def _strips(frame: _Frame, chart: LineChart, drawn: Sequence[Series]) -> list[Markup]:
    every = sorted({x for series in drawn for x, _ in series.points})
    if len(every) > _MOST_STRIPS:
        every = every[:: -(-len(every) // _MOST_STRIPS)]
    found = []
    for at, x in enumerate(every):
        middle = frame.x(x + chart.x_width / 2)
        left = frame.x(x) if chart.x_width else (frame.x(every[at - 1]) + middle) / 2 if at else middle
        right = frame.x(x + chart.x_width)
        if not chart.x_width:
            right = (frame.x(every[at + 1]) + middle) / 2 if at + 1 < len(every) else middle
        room = tag("rect", class_="room", x=_percent(left), width=_percent(right - left), y=0, height=HEIGHT_PX)
        cross = tag("line", class_="cross", x1=_percent(middle), x2=_percent(middle), y1=0, y2=HEIGHT_PX)
        dots = [
            tag("circle", cx=_percent(middle), cy=frame.y(y), r=3.5, class_=f"dot {color_of(series, number)}")
            for number, series in enumerate(drawn)
            if (y := _value(series, x)) is not None
        ]
        found.append(tag("g", room, cross, *dots, tag("title", _words(chart, x)), class_="strip"))
    return found


def _words(chart: LineChart, x: float) -> str:
    head = shown(x, chart.x_unit)
    if chart.x_width and chart.x_unit == "time":
        head += " – " + shown(x + chart.x_width, "time").partition(" ")[2]
    lines = [head]
    named = len(chart.series) > 1
    for series in chart.series:
        value = _value(series, x)
        if value is not None:
            lines.append(f"{series.name}: {shown(value, chart.y_unit)}" if named else shown(value, chart.y_unit))
    return "\n".join(lines)


def _value(series: Series, x: float) -> float | None:
    at = bisect_left(series.points, (x,))
    return series.points[at][1] if at < len(series.points) and series.points[at][0] == x else None


def _stacked(series: Sequence[Series]) -> list[Series]:
    """Each upon those before it."""
    found: list[Series] = []
    below = [0.0] * (len(series[0].points) if series else 0)
    for each in series:
        below = [under + y for under, (_, y) in zip(below, each.points, strict=True)]
        points = [(x, y) for (x, _), y in zip(each.points, below, strict=True)]
        found.append(Series(each.name, points, each.color))
    return found


def _edges(low: float, high: float, unit: Unit) -> str:
    return shown(low, unit) if high - low <= 1 else f"{shown(low, unit)} – {shown(high, unit)}"


def _percent(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") + "%"
