"""Bars from the left: each a row with its name, its bar and its number. Names are text that can be selected and cut."""

from __future__ import annotations

from typing import Final

from tailrace.spark.report.markup import Markup, joined, tag
from tailrace.spark.report.page import Bar, BarChart

BAR_PX: Final = 14


def bar_chart(chart: BarChart) -> Markup:
    """Only for charts that have bars."""
    longest = max(max(bar.value for bar in chart.bars), chart.top or 0.0) or 1.0
    return tag("div", *(_row(bar, longest) for bar in chart.bars), class_="bars", role="list")


def _row(bar: Bar, longest: float) -> Markup:
    long = max(bar.value, 0.0) / longest * 100
    filled = long if bar.part is None else max(min(bar.part, bar.value), 0.0) / longest * 100
    drawn = [tag("rect", class_="track", width="100%", height=BAR_PX, rx=3)]
    if bar.part is not None and long > 0:
        drawn.append(tag("rect", class_="pale", width=f"{long:.2f}%", height=BAR_PX, rx=3))
    if filled > 0:
        drawn.append(tag("rect", class_=f"bar {bar.tone}", width=f"{max(filled, 0.4):.2f}%", height=BAR_PX, rx=3))
    words = f"{bar.label}: {bar.shown}" + "".join(f"\n{each}" for each in (bar.detail, bar.hint) if each)
    name = tag("div", bar.label, class_="name")
    plot = tag("svg", tag("g", joined(drawn), tag("title", words), class_="strip"), height=BAR_PX, role="presentation")
    value = tag("div", bar.shown, *([tag("small", " " + bar.detail)] if bar.detail else []), class_="value")
    return tag("div", name, plot, value, class_="row", role="listitem")
