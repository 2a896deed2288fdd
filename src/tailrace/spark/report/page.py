"""What is on a page, as plain values. Text is text: whatever it holds, `html` shows it as it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Tone = Literal["plain", "good", "note", "warning", "error"]
Unit = Literal["count", "count/s", "bytes", "bytes/s", "share", "ratio", "seconds", "time"]
"""`share`: 1 is everything; `ratio`: shown as ×; `time`: seconds since 1970."""


@dataclass(frozen=True)
class Verdict:
    """The one sentence that everybody reads."""

    tone: Tone
    title: str
    words: str = ""


@dataclass(frozen=True)
class Tile:
    """One number with its name."""

    label: str
    value: str
    detail: str = ""
    tone: Tone = "plain"


@dataclass(frozen=True)
class Series:
    """A line. Points ascend in x."""

    name: str
    points: Sequence[tuple[float, float]]
    color: int | None = None
    """The same thing has the same color in every chart of a page; None: by its place in this one."""


@dataclass(frozen=True)
class LineChart:
    title: str
    series: Sequence[Series]
    words: str = ""
    x_unit: Unit = "time"
    y_unit: Unit = "bytes"
    is_stacked: bool = False
    """Areas upon each other. All series must have the same x."""
    x_width: float = 0.0
    """Each point stands for [x, x + this): it is drawn as a step."""
    y_top: float | None = None
    """Where the axis has to end; None: at a round number above everything."""
    reference: Series | None = None
    """A dashed line to compare with."""
    is_wide: bool = False
    empty: str = "Nothing to show."


@dataclass(frozen=True)
class Bar:
    label: str
    value: float
    shown: str
    """The value as text, beside the bar."""
    detail: str = ""
    """Behind the value, small."""
    hint: str = ""
    """Only shown when the bar is pointed at."""
    tone: Tone = "plain"
    part: float | None = None
    """How much of the value is filled; the rest is pale. None: all."""


@dataclass(frozen=True)
class BarChart:
    """Bars from the left, with names before them."""

    title: str
    bars: Sequence[Bar]
    words: str = ""
    top: float | None = None
    """What a bar of full length stands for; None: the greatest value."""
    is_wide: bool = False
    empty: str = "Nothing to show."


@dataclass(frozen=True)
class Bin:
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Histogram:
    """Columns of the same width, whatever their bins are: made for bins that double."""

    title: str
    bins: Sequence[Bin]
    words: str = ""
    x_unit: Unit = "bytes"
    noun: str = ""
    """What is counted, in plural."""
    is_wide: bool = False
    empty: str = "Nothing to show."


@dataclass(frozen=True)
class Column:
    title: str
    kind: Literal["text", "number", "code", "tone"] = "text"


@dataclass(frozen=True)
class Cell:
    text: str
    sort: float | None = None
    """What it is sorted by, where that is not the text."""
    tone: Tone = "plain"
    detail: str = ""
    """Shown small below the text."""
    is_whole: bool = False
    """Never broken into lines."""


@dataclass(frozen=True)
class Table:
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    words: str = ""
    has_filter: bool = False
    """With a field to search in it and a button for each tone, where scripts run."""
    empty: str = "Nothing to show."


@dataclass(frozen=True)
class Facts:
    """Names and values, one below the other."""

    title: str
    items: Sequence[tuple[str, str]]
    is_wide: bool = False


@dataclass(frozen=True)
class Folded:
    """A table that opens when it is asked for."""

    table: Table


Part = LineChart | BarChart | Histogram | Table | Facts | Folded


@dataclass(frozen=True)
class Section:
    title: str
    parts: Sequence[Part]
    words: str = ""


@dataclass(frozen=True)
class Page:
    title: str
    subtitle: str
    sections: Sequence[Section]
    kind: str = ""
    """What sort of report it is, in small letters above the title."""
    verdict: Verdict | None = None
    tiles: Sequence[Tile] = ()
    footer: str = ""
