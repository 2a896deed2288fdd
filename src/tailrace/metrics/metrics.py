"""Where the parts of a broker offer their metrics and exporters find them.

A part registers a source: a function that reads its gauges as they are now. Nothing is kept or computed between two
readings, so what nobody looks at costs nothing, and gauges come and go with what they measure.

Who may call: the thread that owns what the sources read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tailrace.metrics.gauge import Gauge

Source = Callable[[], Iterable[Gauge]]


class Metrics:
    def __init__(self) -> None:
        self._sources: list[Source] = []

    def add(self, source: Source) -> None:
        self._sources.append(source)

    def remove(self, source: Source) -> None:
        """Again is fine."""
        if source in self._sources:
            self._sources.remove(source)

    def read(self) -> Iterator[Gauge]:
        for source in list(self._sources):
            yield from source()
