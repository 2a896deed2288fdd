"""A space-time diagram of events: one self-contained HTML file, to be opened in any browser.

Time runs down, each machine is a vertical line: solid while its process lives, hatched while it is paused, dotted while
it is down. Arrows are messages, from the time they were sent; those that end in a cross were lost. Faults are marked in
red. The scale of time is not linear: a gap grows with the logarithm of its length, so that microseconds and minutes fit
into one picture, and gaps from a tenth of a second on are labelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from html import escape
from math import log10
from typing import Final, NamedTuple

from tailrace.sim.event_log import Event, shown_time

MAX_EVENTS: Final = 2_000  # more than that no browser scrolls well, and no reader

_COLUMN: Final = 260
_LEFT: Final = 150
_TOP: Final = 20
_LINE: Final = 15  # height of a label
MAX_SLOPE: Final = 60  # the label of a steeper arrow would be far from it
_LABEL_WIDTH: Final = 70  # of the name of a message
_LABEL_HEIGHT: Final = 9
_LABELLED_GAP_US: Final = 100_000
_MESSAGES: Final = ("message", "lost")
_LIVES: Final = ("start", "end", "pause", "resume", "power-off", "power-on")
_CLASSES: Final = {"fault": "fault", "fault-end": "healed", "healed": "healed", "defect": "fault", "damage": "fault"}
_QUIET: Final = ("asking",)

_STYLE: Final = """
:root { --ink: #1c2430; --dim: #8a94a3; --paper: #fff; --rule: #e4e8ee; --life: #2f6f9f; --message: #5b7fa6;
  --fault: #c4314b; --healed: #2f8f5b; --acked: #2f8f5b; --pause: #e0a030; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e8ef; --dim: #7d8899; --paper: #12161c; --rule: #262d37;
  --life: #6fb1e0; --message: #7f9fc4; --fault: #ff6b81; --healed: #5fd08f; --acked: #5fd08f; --pause: #f0c060; } }
body { margin: 0; background: var(--paper); color: var(--ink); font: 13px/1.5 system-ui, sans-serif; }
header { padding: 18px 24px 6px; } h1 { font-size: 19px; margin: 0 0 2px; } p { margin: 0; color: var(--dim); }
.legend span { margin-right: 18px; white-space: nowrap; }
.names { position: sticky; top: 0; background: var(--paper); border-bottom: 1px solid var(--rule); }
svg { display: block; } text { fill: var(--ink); font: 11px ui-monospace, monospace;
  paint-order: stroke; stroke: var(--paper); stroke-width: 3px; }
.names text { font: 600 13px system-ui, sans-serif; text-anchor: middle; }
.time { fill: var(--dim); } .gap { fill: var(--dim); font-style: italic; }
text.what { fill: var(--message); font-size: 9px; text-anchor: middle; }
.rule { stroke: var(--rule); } .alive { stroke: var(--life); stroke-width: 3; }
.down { stroke: var(--fault); stroke-width: 1.5; stroke-dasharray: 2 5; }
.off { stroke: var(--dim); stroke-width: 1.5; stroke-dasharray: 1 7; }
.paused { stroke: var(--pause); stroke-width: 7; stroke-dasharray: 3 3; }
.message { stroke: var(--message); stroke-width: 1.2; fill: none; marker-end: url(#arrow); }
.lost { stroke: var(--fault); stroke-width: 1.2; stroke-dasharray: 4 3; fill: none; marker-end: url(#cross); }
g.event:hover line { stroke-width: 3; } g.event:hover text { font-weight: 700; }
circle { fill: var(--life); } .fault circle { fill: var(--fault); } text.fault, .fault text { fill: var(--fault); }
.healed circle { fill: var(--healed); } .healed text, .acked text { fill: var(--healed); }
"""


class _Scale:
    """The y of each moment."""

    def __init__(self, events: Sequence[Event]) -> None:
        labels: dict[int, dict[str, int]] = {}
        moments: dict[int, None] = {}
        for event in events:
            moments[event.time_us] = None
            if event.kind in _MESSAGES:
                moments[max(event.sent_us, events[0].time_us)] = None
            elif event.kind not in _QUIET:
                counts = labels.setdefault(event.time_us, {})
                counts[event.machine] = counts.get(event.machine, 0) + 1
        self._y: dict[int, float] = {}
        self.gaps: list[tuple[float, int]] = []
        y, before, free = float(_TOP), None, float(_TOP)
        for moment in sorted(moments):
            if before is not None:
                gap_us = moment - before
                y += 3 + 5 * log10(1 + gap_us / 30)
                if gap_us >= _LABELLED_GAP_US:
                    y = max(y, free)
                    self.gaps.append((y + 2, gap_us))
                    y += _LINE
            lines = max(labels.get(moment, {}).values(), default=0)
            if lines:
                y = max(y, free)
                free = y + lines * _LINE
            self._y[moment] = y
            before = moment
        self.height = max(y, free) + 40

    def __getitem__(self, time_us: int) -> float:
        return self._y[time_us]


class _Life(NamedTuple):
    style: str
    since: float


def space_time_diagram(events: Iterable[Event], machines: Sequence[str], title: str, failure: str = "") -> str:
    """The HTML of the last MAX_EVENTS events. `machines` is the order of the lines, from left to right.

    `failure` is what ended the run after them.
    """
    shown = list(events)[-MAX_EVENTS:]
    if not shown:
        return _page(title, "no events", machines, "", 0)
    scale = _Scale(shown)
    x = {name: _LEFT + _COLUMN * index + 20 for index, name in enumerate(machines)}
    parts: list[str] = []
    width = _width(machines)
    for y, gap_us in scale.gaps:
        parts.append(f'<line class="rule" x1="{_LEFT}" x2="{width}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="gap" x="14" y="{y + 4:.1f}">{gap_us / 1_000_000:.3f} s pass</text>')
    parts += _lifelines(shown, machines, scale, x)
    taken: deque[tuple[float, float]] = deque(maxlen=20)
    parts += [_arrow(event, scale, x, shown[0].time_us, taken) for event in shown if event.kind in _MESSAGES]
    parts += _labels(shown, scale, x)
    if failure:
        y = scale.height - 14
        parts.append(f'<text class="fault" x="{_LEFT}" y="{y:.1f}">✗ {escape(failure)}</text>')
    first, last = shown[0], shown[-1]
    span = f"events {first.number} to {last.number}, {shown_time(first.time_us)} to {shown_time(last.time_us)}"
    return _page(title, f"{span} · ✗ {failure}" if failure else span, machines, "\n".join(parts), scale.height)


def _width(machines: Sequence[str]) -> int:
    return _LEFT + _COLUMN * len(machines) + 40


def _lifelines(events: list[Event], machines: Sequence[str], scale: _Scale, x: dict[str, int]) -> list[str]:
    """What a machine was before the first event of its life that is shown follows from that event."""
    before = {"start": "down", "end": "alive", "pause": "alive", "resume": "paused", "power-off": "alive"}
    after = {"start": "alive", "end": "down", "pause": "paused", "resume": "alive", "power-off": "off"}
    lives: dict[str, _Life] = {}
    parts: list[str] = []

    def line(name: str, life: _Life, until: float) -> None:
        if until > life.since:
            at = x[name]
            parts.append(f'<line class="{life.style}" x1="{at}" x2="{at}" y1="{life.since:.1f}" y2="{until:.1f}"/>')

    for event in events:
        if event.machine not in x or event.kind not in after:
            continue
        y = scale[event.time_us]
        life = lives.get(event.machine) or _Life(before.get(event.kind, "off"), 0)
        line(event.machine, life, y)
        is_off = life.style == "off" and event.kind == "end"  # the process ends with the power
        lives[event.machine] = _Life("off" if is_off else after[event.kind], y)
    for name in machines:
        line(name, lives.get(name) or _Life("alive", 0), scale.height)
    return parts


def _arrow(event: Event, scale: _Scale, x: dict[str, int], first_us: int, taken: deque[tuple[float, float]]) -> str:
    """`taken` are the positions of the labels of preceding arrows."""
    source, target = x.get(event.peer), x.get(event.machine)
    if source is None or target is None:
        return ""
    y1, y2 = scale[max(event.sent_us, first_us)], scale[event.time_us]
    if source == target:
        return f'<circle cx="{target}" cy="{y2:.1f}" r="2"><title>{escape(str(event))}</title></circle>'
    style, end = ("lost", (source + 2 * target) / 3) if event.kind == "lost" else ("message", target)
    inset = 5 if end > source else -5
    what = event.text.partition(",")[0].rpartition(f"{event.peer} → {event.machine} ")[2]
    is_named = "#" in what and style == "message"
    label = ""
    if is_named and abs(y2 - y1) < MAX_SLOPE:
        # A request and its response are apart, and so are two responses that leave together.
        shares = (0.45, 0.17) if what.startswith("response") else (0.27,)
        spots = [(source + share * (end - source), y1 + share * (y2 - y1) - 2) for share in shares]
        at, y = next((spot for spot in spots if _is_free(spot, taken)), spots[0])
        taken.append((at, y))
        label = f'<text class="what" x="{at:.0f}" y="{y:.1f}">{escape(what)}</text>'
    return (
        f'<g class="event"><title>{escape(str(event))}</title>'
        f'<line class="{style}" x1="{source}" y1="{y1:.1f}" x2="{end - inset:.1f}" y2="{y2:.1f}"/>'
        f"{label}</g>"
    )


def _is_free(spot: tuple[float, float], taken: Iterable[tuple[float, float]]) -> bool:
    return all(abs(spot[0] - at) >= _LABEL_WIDTH or abs(spot[1] - y) >= _LABEL_HEIGHT for at, y in taken)


def _labels(events: list[Event], scale: _Scale, x: dict[str, int]) -> list[str]:
    parts: list[str] = []
    used: dict[tuple[int, str], int] = {}
    timed = -100.0
    for event in events:
        if event.kind in _MESSAGES or event.kind in _QUIET:
            continue
        row = used[event.time_us, event.machine] = used.get((event.time_us, event.machine), -1) + 1
        y = scale[event.time_us] + row * _LINE
        at = x.get(event.machine, _LEFT)
        style = _CLASSES.get(event.kind, event.kind)
        text = event.text if event.kind in ("acked", "read", "closed", "fault") else f"{event.kind} {event.text}"
        mark = "✗ " if style == "fault" else ""
        parts.append(
            f'<g class="event {style}"><title>{escape(str(event))}</title><circle cx="{at}" cy="{y:.1f}" r="4"/>'
            f'<text x="{at + 9}" y="{y + 4:.1f}">{escape(_shortened(mark + text))}</text></g>'
        )
        if y - timed >= _LINE:
            timed = y
            parts.append(f'<text class="time" x="14" y="{y + 4:.1f}">{shown_time(event.time_us)}</text>')
    return parts


def _shortened(text: str) -> str:
    limit = _COLUMN // 7
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _page(title: str, subtitle: str, machines: Sequence[str], body: str, height: float) -> str:
    width = _width(machines)
    names = "".join(
        f'<text x="{_LEFT + _COLUMN * index + 20}" y="20">{escape(name)}</text>' for index, name in enumerate(machines)
    )
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style></head><body>
<header><h1>{escape(title)}</h1><p>{escape(subtitle)}</p>
<p class="legend"><span>━ process lives</span><span>┇ process is down, or power is off</span><span>▒ paused</span>
<span>→ message</span><span>⤍✗ lost</span><span>● event: point at it for its line of the log</span></p></header>
<svg class="names" width="{width}" height="30">{names}</svg>
<svg width="{width}" height="{height:.0f}"><defs>
<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0L8 4L0 8z" fill="var(--message)"/></marker>
<marker id="cross" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="8" markerHeight="8">
<path d="M0 0L8 8M8 0L0 8" stroke="var(--fault)" stroke-width="1.6"/></marker></defs>
{body}
</svg></body></html>
"""
