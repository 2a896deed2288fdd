"""One reading of all metrics in slices, so that the thread which owns them is never held up for long.

Each slice takes samples for at most SLICE_NS; before the next the thread does its other work for PAUSE_MS. A source
that trips over a change between two slices (`dictionary changed size during iteration`) is begun anew, and after some
tries read in one go.

Who may call: `begin` any thread; the slices and `done` run on the owner's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import Final, Protocol

from tailrace.metrics.metrics import Metrics, Sample, Source
from tailrace.metrics.samples import Samples

SLICE_NS: Final = 500_000
PAUSE_MS: Final = 2
_TRIES: Final = 3


class Later(Protocol):
    """The `later` of `env.Jobs`: may be called on any thread."""

    def __call__(self, name: str, delay_ms: int, action: Callable[[], None]) -> None: ...


class Reading:
    """`done` gets the samples, or the exception of a source."""

    def __init__(
        self,
        metrics: Metrics,
        later: Later,
        done: Callable[[Samples | Exception], None],
        now_ns: Callable[[], int] = perf_counter_ns,
    ) -> None:
        self._metrics = metrics
        self._later = later
        self._done = done
        self._now_ns = now_ns
        self._samples = Samples()
        self._sources: list[Source] = []
        self._source: Source = tuple
        self._current: Iterator[Sample | None] = iter(())
        self._kept = 0  # a mark: samples of sources that were read to their end
        self._tries = _TRIES

    def begin(self) -> None:
        self._later("read metrics", 0, self._begin)

    def _begin(self) -> None:
        self._sources = list(reversed(self._metrics.sources()))
        self._slice()

    def _slice(self) -> None:
        try:
            is_over = self._read_until(self._now_ns() + SLICE_NS)
        except Exception as error:
            self._done(error)
            return
        if is_over:
            self._done(self._samples)
        else:
            self._later("read metrics", PAUSE_MS, self._slice)

    def _read_until(self, deadline_ns: int) -> bool:
        while self._now_ns() < deadline_ns:
            try:
                sample = next(self._current)
            except StopIteration:
                if not self._sources:
                    return True
                self._kept = self._samples.mark
                self._tries = _TRIES
                self._source = self._sources.pop()
                self._current = iter(self._source())
            except RuntimeError as changed:
                self._begin_anew(changed)
            else:
                if sample is not None:
                    self._samples.add(sample)
        return False

    def _begin_anew(self, changed: RuntimeError) -> None:
        """What the source goes through changed between two slices."""
        if not self._tries:
            raise changed
        self._samples.cut(self._kept)
        self._tries -= 1
        self._current = iter(self._source() if self._tries else list(self._source()))
