"""Metrics as text for Prometheus, format 0.0.4.

The names are those of the JMX exporter with its usual configuration for Kafka, so dashboards and alerts
made for Kafka work. From the MBean `kafka.<group>:type=<type>,name=<name>,<tag>=<value>…`:

    gauge         kafka_<group>_<type>_<name>{<tag>="<value>"}
    meter         the same with `PerSec` at the end of the name replaced by `_total`
    histogram     the same with quantile="0.50" … "0.999", and with `_count` and `_sum` at the end of the name

all in small letters, with `_` for everything that is neither letter nor digit; tags keep their spelling. Times in a
name that ends in `Ms` are milliseconds.

Who may call: any thread; nothing here belongs to the broker.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from tailrace.metrics.count import Count
from tailrace.metrics.distribution import Distribution
from tailrace.metrics.metrics import Sample
from tailrace.metrics.quantiles import SHARES, RecentQuantiles
from tailrace.metrics.row import Columns, Row

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
LINES_AT_ONCE: Final = 500  # in a piece of text: joining them takes well under a millisecond

_ODD: Final = re.compile("[^a-z0-9]")
_QUANTILES: Final = tuple(f'quantile="{share:<04}"' for share in SHARES)
_MICROSECONDS: Final = {"Ms": 1000}  # values in a Distribution for one of the unit that its name ends in


class Page:
    """Lines by family, as the format wants them together, whatever order samples come in."""

    def __init__(self, quantiles: RecentQuantiles, now_ms: int) -> None:
        self._quantiles = quantiles
        self._now_ms = now_ms
        self._families: dict[str, tuple[str, list[str]]] = {}
        self._columns: dict[Columns, list[tuple[str, list[str]]]] = {}

    def add(self, sample: Sample) -> None:
        if isinstance(sample, Row):
            self._add_row(sample)
        elif isinstance(sample, Distribution):
            self._add_distribution(sample)
        else:
            name = metric_name(sample.group, sample.type, sample.name, is_count=isinstance(sample, Count))
            kind = "counter" if isinstance(sample, Count) else "gauge"
            self._lines(name, kind).append(f"{name}{labels_text(sample.tags)} {number(sample.value)}\n")

    def _lines(self, name: str, kind: str) -> list[str]:
        found = self._families.get(name)
        if found is None:
            found = self._families[name] = (kind, [])
        return found[1]

    def _add_row(self, row: Row) -> None:
        columns = row.columns
        families = self._columns.get(columns)
        if families is None:
            kind = "counter" if columns.are_counts else "gauge"
            names = [metric_name(columns.group, columns.type, name, columns.are_counts) for name in columns.names]
            families = self._columns[columns] = [(name, self._lines(name, kind)) for name in names]
        labels = labels_text(zip(columns.tags, map(str, row.labels), strict=True))
        for (name, lines), value in zip(families, row.values, strict=True):
            if value or not columns.are_counts:
                lines.append(f"{name}{labels} {number(value)}\n")

    def _add_distribution(self, sample: Distribution) -> None:
        name = metric_name(sample.group, sample.type, sample.name, is_count=False)
        unit = _MICROSECONDS.get(sample.name[-2:], 1)
        tags = labels_text(sample.tags)
        lines = self._lines(name, "summary")
        inner = tags[1:-1] + "," if tags else ""
        for quantile, value in zip(_QUANTILES, self._quantiles.of(sample, self._now_ms), strict=True):
            lines.append(f"{name}{{{inner}{quantile}}} {number(value / unit)}\n")
        lines.append(f"{name}_sum{tags} {number(sample.total / unit)}\n")
        lines.append(f"{name}_count{tags} {sum(sample.counts)}\n")

    def pieces(self) -> Iterator[bytes]:
        for name, (kind, lines) in self._families.items():
            if lines:
                yield f"# TYPE {name} {kind}\n".encode()
            for start in range(0, len(lines), LINES_AT_ONCE):
                yield "".join(lines[start : start + LINES_AT_ONCE]).encode()


_names: dict[tuple[str, str, str, bool], str] = {}


def metric_name(group: str, type_: str, name: str, is_count: bool) -> str:
    key = (group, type_, name, is_count)
    found = _names.get(key)
    if found is None:
        if is_count and not name.endswith("-total"):
            name = name.partition("PerSec")[0] + "_total"
        found = _names[key] = _ODD.sub("_", f"kafka_{group}_{type_}_{name}".lower())
    return found


def labels_text(tags: Iterable[tuple[str, str]]) -> str:
    """`{topic="orders",partition="0"}`, or nothing."""
    inner = ",".join([f'{_ODD_LABEL.sub("_", name)}="{escaped(value)}"' for name, value in tags])
    return f"{{{inner}}}" if inner else ""


_ODD_LABEL: Final = re.compile("[^a-zA-Z0-9_]")


def escaped(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return value


def number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}" if abs(value) < 1e6 else repr(value)
