"""How a page looks: light or dark as the reader's system is, from a phone's width on, and plain on paper.

Colors of series are told apart by people who do not see all colors; tones always come with a word.
"""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root {
  color-scheme: light dark;
  --page: #f4f6f8; --card: #ffffff; --edge: #e1e6eb; --ink: #16202b; --soft: #57646f; --faint: #6f7c88;
  --grid: #e8ecf0; --base: #b9c3cc; --track: #f0f3f6; --pale: #cfe0f5; --tip: #16202b; --tip-ink: #f4f6f8;
  --c0: #2a6fd6; --c1: #12a594; --c2: #e8a317; --c3: #8a55d7; --c4: #e0567a; --c5: #7d8b97;
  --good: #1a8a4b; --note: #5b7083; --warning: #a96800; --error: #cf3131;
  --good-pale: #e5f5eb; --note-pale: #edf1f4; --warning-pale: #fdf2dc; --error-pale: #fdeaea;
  --warning-bar: #e8a317;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0e141a; --card: #161e26; --edge: #26313c; --ink: #e7edf3; --soft: #a0adb9; --faint: #8593a0;
    --grid: #222d37; --base: #43515e; --track: #1d2731; --pale: #244163; --tip: #e7edf3; --tip-ink: #16202b;
    --c0: #5b9bf3; --c1: #2cc5b2; --c2: #f0b740; --c3: #ae86f0; --c4: #f07f9d; --c5: #8b99a6;
    --good: #4cc97f; --note: #9db0c0; --warning: #f0b740; --error: #ff7a72;
    --good-pale: #14301f; --note-pale: #212c36; --warning-pale: #34290f; --error-pale: #3a1b1c;
    --warning-bar: #e0a52e;
  }
}
* { box-sizing: border-box; }
[hidden] { display: none !important; }
html { scroll-behavior: smooth; scroll-padding-top: 64px; -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 Inter, system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif;
  font-variant-numeric: tabular-nums;
}
.inner { max-width: 1200px; margin-inline: auto; padding-inline: 24px; }
header { padding-block: 34px 4px; }
.kind { display: flex; align-items: center; gap: 10px; color: var(--soft); font-weight: 600; font-size: 13px; }
.kind svg { width: 26px; height: 26px; fill: none; stroke: var(--c0); stroke-width: 2.6; stroke-linecap: round; }
.kind svg path:nth-child(2) { stroke: var(--c1); }
h1 { margin: 10px 0 4px; font-size: 30px; line-height: 1.2; letter-spacing: -0.015em; overflow-wrap: anywhere; }
.subtitle { margin: 0; color: var(--soft); overflow-wrap: anywhere; }
.verdict {
  display: flex; gap: 16px; align-items: center; margin: 24px 0 0; padding: 18px 22px; border-radius: 14px;
  background: var(--note-pale); border: 1px solid transparent;
}
.verdict.good { background: var(--good-pale); } .verdict.error { background: var(--error-pale); }
.verdict.warning { background: var(--warning-pale); }
.verdict svg { flex: none; width: 38px; height: 38px; }
.verdict circle { fill: var(--note); } .verdict.good circle { fill: var(--good); }
.verdict.error circle { fill: var(--error); } .verdict.warning circle { fill: var(--warning); }
.verdict path { fill: none; stroke: var(--card); stroke-width: 3; stroke-linecap: round; stroke-linejoin: round; }
.verdict strong { display: block; font-size: 19px; line-height: 1.3; letter-spacing: -0.01em; }
.verdict span { color: var(--soft); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(158px, 1fr)); gap: 14px; margin: 14px 0 0; }
.card { background: var(--card); border: 1px solid var(--edge); border-radius: 14px; }
.tile { padding: 14px 18px 13px; min-width: 0; container-type: inline-size; }
.tile b {
  display: block; white-space: nowrap; font-size: clamp(18px, 17cqi, 25px); line-height: 1.25;
  letter-spacing: -0.02em; font-weight: 650;
}
.tile span { display: block; color: var(--soft); font-size: 13px; }
.tile small { display: block; color: var(--faint); font-size: 12px; overflow-wrap: anywhere; }
.tile.error b { color: var(--error); } .tile.warning b { color: var(--warning); } .tile.good b { color: var(--good); }
nav {
  position: sticky; top: 0; z-index: 2; margin-top: 22px; background: var(--page);
  border-bottom: 1px solid var(--edge);
}
nav .inner { display: flex; gap: 22px; overflow-x: auto; scrollbar-width: none; }
nav a {
  padding: 12px 0 11px; color: var(--soft); text-decoration: none; white-space: nowrap; font-size: 14px;
  font-weight: 550;
}
nav a:hover, nav a:focus-visible { color: var(--ink); box-shadow: inset 0 -2px var(--c0); }
section { margin: 34px 0 0; }
h2 { margin: 0 0 2px; font-size: 20px; letter-spacing: -0.01em; }
.lead { margin: 0; max-width: 76ch; color: var(--soft); }
.parts { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 16px; margin-top: 14px; }
.part { padding: 18px 20px 16px; min-width: 0; container-type: inline-size; }
.wide { grid-column: 1 / -1; }
h3 { margin: 0; font-size: 15px; font-weight: 650; }
.words { margin: 1px 0 0; color: var(--soft); font-size: 13px; }
.empty {
  margin: 14px 0 4px; padding: 28px 16px; border-radius: 10px; background: var(--track); color: var(--soft);
  text-align: center; font-size: 14px;
}
.chart { display: grid; grid-template-columns: 62px minmax(0, 1fr); gap: 8px; margin-top: 12px; }
.chart svg { display: block; width: 100%; overflow: visible; }
.axis text, .plot text { fill: var(--faint); font-size: 12px; }
.left { text-anchor: end; } .below { text-anchor: middle; } .below.last { text-anchor: end; }
.grid { stroke: var(--grid); } .base { stroke: var(--base); }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.reference { stroke: var(--faint); stroke-width: 1.5; stroke-dasharray: 4 5; }
.area { opacity: .16; stroke: none; } .area.solid { opacity: 1; stroke: var(--card); stroke-width: 1.5; }
.line.c0 { stroke: var(--c0); } .line.c1 { stroke: var(--c1); } .line.c2 { stroke: var(--c2); }
.line.c3 { stroke: var(--c3); } .line.c4 { stroke: var(--c4); } .line.c5 { stroke: var(--c5); }
.area.c0, .dot.c0 { fill: var(--c0); } .area.c1, .dot.c1 { fill: var(--c1); } .area.c2, .dot.c2 { fill: var(--c2); }
.area.c3, .dot.c3 { fill: var(--c3); } .area.c4, .dot.c4 { fill: var(--c4); } .area.c5, .dot.c5 { fill: var(--c5); }
.room { fill: transparent; } .cross { stroke: var(--faint); } .dot { stroke: var(--card); stroke-width: 1.5; }
.strip .cross, .strip .dot { opacity: 0; } .strip:hover .cross, .strip:hover .dot { opacity: 1; }
.column { fill: var(--c0); stroke: var(--card); stroke-width: 2; } .strip:hover .column { fill: var(--c1); }
.legend {
  display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 10px 0 0; padding: 0; list-style: none; font-size: 13px;
  color: var(--soft);
}
.legend li { display: flex; align-items: center; gap: 7px; min-width: 0; overflow-wrap: anywhere; }
.legend svg { flex: none; width: 12px; height: 12px; }
.legend .c0 { fill: var(--c0); } .legend .c1 { fill: var(--c1); } .legend .c2 { fill: var(--c2); }
.legend .c3 { fill: var(--c3); } .legend .c4 { fill: var(--c4); } .legend .c5 { fill: var(--c5); }
.bars {
  display: grid; grid-template-columns: fit-content(42%) minmax(60px, 1fr) auto; gap: 9px 12px; margin-top: 14px;
  align-items: center; font-size: 14px;
}
.bars .row { display: contents; }
.bars .name { overflow-wrap: anywhere; line-height: 1.35; }
.bars svg { display: block; width: 100%; }
.bars .value { text-align: right; font-weight: 600; white-space: nowrap; }
.bars .value small { color: var(--soft); font-weight: 400; font-size: 13px; }
.track { fill: var(--track); } .pale { fill: var(--pale); } .bar { fill: var(--c0); }
.bar.good { fill: var(--c1); }
.bar.note { fill: var(--c5); }
.bar.warning { fill: var(--warning-bar); }
.bar.error { fill: var(--error); }
.scroll { overflow: auto; max-height: 620px; margin: 12px -20px -16px; border-radius: 0 0 13px 13px; }
thead th { position: sticky; top: 0; z-index: 1; }
table { width: 100%; border-collapse: collapse; font-size: 13.5px; }
th, td { padding: 8px 12px; text-align: left; vertical-align: top; border-top: 1px solid var(--grid); }
th:first-child, td:first-child { padding-left: 20px; } th:last-child, td:last-child { padding-right: 20px; }
th { color: var(--soft); font-weight: 600; font-size: 12.5px; white-space: nowrap; background: var(--track); }
.sortable { cursor: pointer; user-select: none; } .sortable:hover { color: var(--ink); }
th[aria-sort="ascending"]::after { content: " \\2191"; } th[aria-sort="descending"]::after { content: " \\2193"; }
td.number, th.number { text-align: right; white-space: nowrap; }
td.whole { white-space: nowrap; }
td.text { overflow-wrap: break-word; min-width: 6em; }
td small { display: block; color: var(--faint); font-size: 12px; overflow-wrap: anywhere; }
td.code {
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 12.5px;
}
td.code { overflow-wrap: anywhere; min-width: 26em; }
tbody tr:hover { background: var(--track); }
.chip {
  display: inline-flex; align-items: center; gap: 6px; padding: 1px 9px; border: 1px solid transparent;
  border-radius: 99px; font: inherit; font-size: 12.5px; font-weight: 600; white-space: nowrap; color: var(--note);
  background: var(--note-pale);
}
.chip::before { content: ""; width: 7px; height: 7px; border-radius: 50%; background: currentColor; }
.chip.error { color: var(--error); background: var(--error-pale); }
.chip.good { color: var(--good); background: var(--good-pale); }
.chip.warning { color: var(--warning); background: var(--warning-pale); }
.controls { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin-top: 12px; }
.controls input {
  flex: 1 1 220px; max-width: 380px; padding: 7px 12px; border: 1px solid var(--edge); border-radius: 9px;
  background: var(--page); color: inherit; font: inherit; font-size: 14px;
}
button.chip { padding: 4px 12px; cursor: pointer; } button.chip[aria-pressed="true"] { border-color: currentColor; }
.count { margin-left: auto; color: var(--soft); font-size: 13px; }
:focus-visible { outline: 2px solid var(--c0); outline-offset: 1px; }
details summary { cursor: pointer; font-size: 15px; font-weight: 650; } details summary + .words { margin-top: 4px; }
.facts {
  display: grid; grid-template-columns: fit-content(40%) minmax(0, 1fr); gap: 7px 18px; margin: 12px 0 2px;
  font-size: 14px;
}
.facts dt { color: var(--soft); }
.facts dd { margin: 0; overflow-wrap: anywhere; white-space: pre-line; padding-top: 1px; }
.tip {
  position: fixed; z-index: 3; max-width: min(340px, 90vw); padding: 7px 11px; border-radius: 9px;
  background: var(--tip); color: var(--tip-ink); font-size: 12.5px; line-height: 1.45; white-space: pre-line;
  pointer-events: none; overflow-wrap: anywhere;
}
footer {
  margin: 40px 0 0; padding: 16px 0 36px; border-top: 1px solid var(--edge); color: var(--faint); font-size: 13px;
  overflow-wrap: anywhere;
}
@container (max-width: 430px) { .odd { display: none; } }
@media (max-width: 860px) { .parts { grid-template-columns: minmax(0, 1fr); } }
@media (max-width: 520px) {
  .inner { padding-inline: 14px; } header { padding-top: 22px; } h1 { font-size: 24px; }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 10px; }
  .tile { padding: 12px 14px; }
  .part { padding: 15px 14px 14px; } .scroll { margin: 12px -14px -14px; }
  .chart { grid-template-columns: 54px minmax(0, 1fr); } .axis text, .plot text { font-size: 11px; }
  .verdict { padding: 14px 16px; gap: 12px; } .verdict strong { font-size: 17px; }
  .bars { grid-template-columns: minmax(0, 1fr) auto; gap: 3px 12px; }
  .bars svg { grid-column: 1 / -1; grid-row: auto; order: 0; margin-bottom: 8px; }
  .bars .row { display: grid; grid-column: 1 / -1; grid-template-columns: subgrid; row-gap: 3px; }
  .bars .value { grid-column: 2; grid-row: 1; }
}
@media print {
  body { background: #fff; }
  nav, .controls { display: none !important; }
  .scroll { max-height: none; overflow: visible; }
  .card { break-inside: avoid; }
}
"""
