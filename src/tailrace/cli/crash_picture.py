"""A log drawn to scale: its segments as one bar of offsets, and under it the four offsets that matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tailrace.cli.crash_story import Offsets, SegmentFacts

INACTIVE_STYLES: Final = ("cyan", "blue")
ACTIVE_STYLE: Final = "green"
MARKER_STYLES: Final = {
    "log start": "white",
    "last stable offset": "yellow",
    "high watermark": "magenta",
    "log end": "green",
}


def picture(segments: Sequence[SegmentFacts], offsets: Offsets, width: int) -> RenderableType:
    """`width` is in characters; a few dozen are needed to tell anything."""
    lines = [bar(segments, offsets, width)]
    marks = [
        ("log start", offsets.log_start),
        ("last stable offset", offsets.last_stable),
        ("high watermark", offsets.high_watermark),
        ("log end", offsets.log_end),
    ]
    columns = [column_of(offset, offsets, width) for _, offset in marks]
    lines.append(carets(columns, [MARKER_STYLES[name] for name, _ in marks], width))
    for place, (name, offset) in enumerate(marks):
        lines.append(label(f"{name} {offset:,}", MARKER_STYLES[name], columns[place], columns[place + 1 :], width))
    return Group(*lines, Text(""), segment_table(segments))


def column_of(offset: int, offsets: Offsets, width: int) -> int:
    length = max(offsets.log_end - offsets.log_start, 1)
    return (offset - offsets.log_start) * (width - 1) // length


def style_of(place: int, count: int) -> str:
    return ACTIVE_STYLE if place == count - 1 else INACTIVE_STYLES[place % len(INACTIVE_STYLES)]


def bar(segments: Sequence[SegmentFacts], offsets: Offsets, width: int) -> Text:
    line = Text()
    for place, segment in enumerate(segments):
        end = width if place == len(segments) - 1 else column_of(segment.next_offset, offsets, width)
        blocks = max(end - len(line), 1)
        line.append("█" * (blocks - 1) + ("█" if place == len(segments) - 1 else "▊"), style_of(place, len(segments)))
    return line


def carets(columns: Sequence[int], styles: Sequence[str], width: int) -> Text:
    line = Text(" " * width)
    for column, style in zip(columns, styles, strict=True):
        line = Text.assemble(line[:column], ("▲", style), line[column + 1 :])
    return line


def label(words: str, style: str, column: int, still_open: Sequence[int], width: int) -> Text:
    """A corner under its caret with words on the side that has room, and the lines of the carets to its right."""
    if column > len(words):
        start, shown = column - len(words) - 1, f"{words} ┘"
    else:
        start, shown = column, f"└ {words}"
    line = Text.assemble(" " * start, (shown, style))
    for other in still_open:
        if other >= len(line):
            line.append(" " * (other - len(line)))
            line.append("│", "dim")
    return line[:width] if len(line) > width else line


def segment_table(segments: Sequence[SegmentFacts]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("segment", no_wrap=True)
    for title in ("offsets", "bytes", "index", "time", "aborted"):
        table.add_column(title, justify="right", no_wrap=True)
    for place, segment in enumerate(segments):
        table.add_row(
            Text.assemble(("█ ", style_of(place, len(segments))), segment.name),
            f"{segment.first_offset:,}–{segment.next_offset - 1:,}",
            f"{segment.bytes:,}",
            str(segment.index_entries),
            str(segment.time_entries),
            str(segment.aborted or ""),
        )
    return table
