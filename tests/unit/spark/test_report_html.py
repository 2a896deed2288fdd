"""A page as a file: well formed, escaped, closed to the world, and whole for whatever it is given."""

from __future__ import annotations

import base64
import hashlib
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from tailrace.spark.report.html import ReportError, policy, render, write
from tailrace.spark.report.markup import Markup, tag, text
from tailrace.spark.report.page import (
    Bar,
    BarChart,
    Bin,
    Cell,
    Column,
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

HARM = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>&\x00\udcff\u202e]]>-->"


def page_of(*parts: Part, words: str = "words") -> Page:
    return Page(
        words,
        words,
        [Section(words, parts, words)],
        words,
        Verdict("error", words, words),
        [Tile(words, words, words)],
        words,
    )


def parts_with(words: str) -> list[Part]:
    table = Table(
        words,
        [Column(words, "tone"), Column(words, "code")],
        [[Cell(words, 1.5, "error", words), Cell(words, detail=words)], [Cell("b", tone="note"), Cell("c")]],
        words,
        has_filter=True,
        empty=words,
    )
    return [
        LineChart(words, [Series(words, [(0, 1), (60, 2)]), Series(words, [(0, 5)])], words),
        LineChart(words, [Series(words, [(0, 1), (60, 2)])] * 2, words, is_stacked=True, x_width=60),
        BarChart(words, [Bar(words, 1, words, words, words, part=0.5), Bar(words, 0, words)], words),
        Histogram(words, [Bin(0, 1, 5), Bin(1, 2, 0)], words, noun=words),
        table,
        Facts(words, [(words, words)]),
        Folded(table),
        *(LineChart(words, [], empty=words), BarChart(words, [], empty=words), Histogram(words, [], empty=words)),
        Table(words, [], [], empty=words),
    ]


def body_of(html: str) -> ET.Element:
    """As XML: every tag is closed, every attribute quoted. Style and script are text that XML would read as tags."""
    plain = re.sub(r"<(style|script)>.*?</\1>", r"<\1/>", html, flags=re.DOTALL)
    assert plain.startswith("<!DOCTYPE html>\n<html")
    return ET.fromstring(plain.removeprefix("<!DOCTYPE html>\n"))


def test_everything_is_escaped() -> None:
    html = render(page_of(*parts_with(HARM), words=HARM))
    root = body_of(html)
    assert len(re.findall("<script", html)) == 1
    assert not [each for each in root.iter() if each.tag in ("img", "iframe", "link", "object", "form", "base")]
    assert not [name for each in root.iter() for name in each.attrib if name.startswith("on") or name == "style"]
    shown = root.findtext(".//h1")
    assert shown == "\"'><script>alert(1)</script><img src=x onerror=alert(1)>&\\x00\\udcff\\u202e]]>-->"
    html.encode()


@given(st.text(st.characters(), max_size=40))
@settings(max_examples=examples(60))
def test_any_text_makes_a_page_that_is_well_formed(words: str) -> None:
    html = render(page_of(*parts_with(words), words=words))
    body_of(html)
    html.encode()


def test_nothing_is_named_that_would_be_fetched() -> None:
    html = render(page_of(*parts_with("words")))
    root = body_of(html)
    assert "://" not in html
    assert "url(" not in html
    assert "@import" not in html
    assert not [each for each in root.iter() if "src" in each.attrib]
    assert {each.attrib["href"] for each in root.iter() if "href" in each.attrib} <= {"#s0"}


def test_the_policy_allows_only_what_the_file_holds() -> None:
    html = render(page_of())
    assert policy().startswith("default-src 'none';")
    for name in ("style", "script"):
        (content,) = re.findall(rf"<{name}>(.*?)</{name}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy()
    (stated,) = [
        each.attrib["content"]
        for each in body_of(html).iter("meta")
        if each.attrib.get("http-equiv") == "Content-Security-Policy"
    ]
    assert stated == policy()
    assert "unsafe" not in stated


def test_html_closes_what_it_opens() -> None:
    """As browsers parse it, who know no `<div/>`."""

    class Checker(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.open.append(tag)

        def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag in ("meta", "input", "rect", "line", "circle", "path")

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

    checker = Checker()
    checker.feed(render(page_of(*parts_with("words"))))
    assert checker.open == []


@pytest.mark.parametrize("value", [0.0, 1e-300, 1.0, 2.0**63, 1e18, 1e300])
def test_numbers_of_any_size_are_drawn(value: float) -> None:
    count = int(min(value, 2**63))
    parts: list[Part] = [
        LineChart("a", [Series("a", [(0, value)])], x_width=60, y_unit="count"),
        LineChart("a", [Series("a", [(0, 0), (1, value)])] * 3, x_unit="share", is_stacked=True),
        BarChart("a", [Bar("a", value, "a", part=value), Bar("b", value / 3, "b"), Bar("c", -value, "c")]),
        Histogram("a", [Bin(0, value, count), Bin(value, value * 2, 1)]),
    ]
    html = render(page_of(*parts))
    body_of(html)
    assert "nan" not in html.split("</style>")[1].split("<script>")[0]
    assert "inf%" not in html


def test_parts_without_anything_say_so() -> None:
    parts: list[Part] = [
        LineChart("a", [Series("a", [])], empty="no lines"),
        BarChart("a", [], empty="no bars"),
        Histogram("a", [Bin(0, 1, 0)], empty="no bins"),
        Table("a", [Column("a")], [], empty="no rows"),
    ]
    root = body_of(render(page_of(*parts)))
    assert [each.text for each in root.iter("p") if each.attrib["class"] == "empty"] == [
        "no lines",
        "no bars",
        "no bins",
        "no rows",
    ]


def test_without_scripts_every_row_is_there_and_no_control() -> None:
    root = body_of(render(page_of(*parts_with("words"))))
    assert len(root.findall(".//div[@class='card part wide']//tbody/tr")) == 2
    controls = root.findall(".//div[@class='controls']")
    assert controls
    assert all("hidden" in each.attrib for each in controls)
    assert root.findall(".//*[@class='strip']/title")


def test_a_series_keeps_its_color() -> None:
    chart = LineChart("a", [Series("a", [(0, 1), (1, 2)], color=3), Series("b", [(0, 1), (1, 2)])])
    root = body_of(render(page_of(chart)))
    assert {each.attrib["class"] for each in root.iter("path") if "line" in each.attrib.get("class", "")} == {
        "line c3",
        "line c1",
    }
    legend = root.find(".//ul[@class='legend']")
    assert legend is not None
    assert [each.attrib["class"] for each in legend.iter("rect")] == ["c3", "c1"]


def test_tags() -> None:
    assert tag("a", "<", Markup("<b/>"), class_='x"y', data_sort=1.50, hidden=True, id=None) == (
        '<a class="x&quot;y" data-sort="1.5" hidden="">&lt;<b/></a>'
    )
    assert text("a\tb\u2028c") == "a\\x09b\\u2028c"


def test_a_file_is_written_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")
    write(page_of(), str(path))
    assert path.read_text().startswith("<!DOCTYPE html>")
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"report\.html cannot be written: No such file"):
        write(page_of(), str(tmp_path / "missing" / "report.html"))
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(ReportError, match="cannot be written"):
        write(page_of(), str(tmp_path / "folder.html"))
    assert [each.name for each in tmp_path.iterdir()] == ["folder.html"]
