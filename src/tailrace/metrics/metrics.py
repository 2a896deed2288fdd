"""Where the parts of a broker offer their metrics and exporters find them.

A part registers a source: a function that reads its numbers as they are now. Nothing is kept or computed between two
readings, so what nobody looks at costs nothing, and gauges come and go with what they measure.

A reading may be cut into slices, with other work between two of them. So a source with many samples yields them one
by one and goes through a copy (`list(…)`) of what may change meanwhile; one that works long without having a sample
yields None now and then.

Who may call: the thread that owns what the sources read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tailrace.metrics.count import Count
from tailrace.metrics.distribution import Distribution
from tailrace.metrics.gauge import Gauge
from tailrace.metrics.row import Row

Sample = Gauge | Count | Distribution | Row
Source = Callable[[], Iterable[Sample | None]]


class Metrics:
    def __init__(self) -> None:
        self._sources: list[Source] = []

    def add(self, source: Source) -> None:
        self._sources.append(source)

    def remove(self, source: Source) -> None:
        """Again is fine."""
        if source in self._sources:
            self._sources.remove(source)

    def sources(self) -> tuple[Source, ...]:
        return tuple(self._sources)

    def read(self) -> Iterator[Gauge | Count | Distribution]:
        """All of it in one go, rows taken apart."""
        for source in self.sources():
            for sample in source():
                if isinstance(sample, Row):
                    yield from sample.samples()
                elif sample is not None:
                    yield sample
