"""What a broker shows over HTTP: /metrics for Prometheus, /healthz and /readyz for probes.

    /metrics   all metrics; 503 when the node does not get to it within some seconds
    /healthz   200 as long as the node's thread takes up what it is asked to do
    /readyz    200 when clients can be sent here; 503 with the reason when not

The node is not held up. It reads its numbers in slices of half a millisecond with its other work between them
(`metrics.reading`), and keeps them in a way that does not wake the collector (`metrics.samples`). The text is made on
the connection's thread, which lets go of the interpreter after every fifth of a millisecond: without that the node
would wait out the interpreter's switch interval (five milliseconds) again and again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, SimpleQueue
from time import monotonic_ns, perf_counter_ns, sleep
from typing import Final, TypeVar, cast

from tailrace.broker.http import Answer, HttpServer, short
from tailrace.broker.process_metrics import ProcessMetrics
from tailrace.metrics.metrics import Metrics
from tailrace.metrics.prometheus import CONTENT_TYPE, Page
from tailrace.metrics.quantiles import RecentQuantiles
from tailrace.metrics.reading import Later, Reading
from tailrace.metrics.samples import Samples
from tailrace.model.noop import noop

LONGEST_READING_S: Final = 20.0
LONGEST_PROBE_S: Final = 3.0
_HOLD_NS: Final = 200_000
_PAUSE_S: Final = 0.001

T = TypeVar("T")
WhyNotReady = Callable[[], str | None]


class Exporter:
    """`later` is the node's `env.jobs.later`; `why_not_ready` runs on the node's thread and gives None when it is."""

    def __init__(
        self,
        host: str,
        port: int,
        metrics: Metrics,
        later: Later,
        why_not_ready: WhyNotReady,
        process: ProcessMetrics | None = None,
    ) -> None:
        """Raises OSError when the port cannot be had."""
        self._metrics = metrics
        self._later = later
        self._why_not_ready = why_not_ready
        self._process = process
        self._quantiles = RecentQuantiles()
        self._one_at_a_time = threading.Lock()
        pages = {"/metrics": self._show_metrics, "/healthz": self._show_health, "/readyz": self._show_readiness}
        self._server = HttpServer(host, port, pages)

    @property
    def port(self) -> int:
        return self._server.port

    def close(self) -> None:
        self._server.close()

    def _show_metrics(self) -> Answer:
        """Scrapes at the same time wait for each other: each has the whole node to itself, and the quantiles."""
        if not self._one_at_a_time.acquire(timeout=LONGEST_READING_S):
            return short(503, "other scrapes are under way")
        try:
            answers: SimpleQueue[Samples | Exception] = SimpleQueue()
            Reading(self._metrics, self._later, answers.put).begin()
            samples = answers.get(timeout=LONGEST_READING_S)
            if isinstance(samples, Exception):
                raise samples
            return Answer(200, list(self._text(samples)), CONTENT_TYPE)
        except Empty:
            return short(503, f"the broker did not read its metrics within {LONGEST_READING_S:g} s")
        finally:
            self._one_at_a_time.release()

    def _text(self, samples: Samples) -> Iterator[bytes]:
        page = Page(self._quantiles, monotonic_ns() // 1_000_000)
        for sample in politely(samples):
            page.add(sample)
        for sample in self._process.read() if self._process else ():
            page.add(sample)
        yield from politely(page.pieces())
        if self._process:
            yield from self._process.text()

    def _show_health(self) -> Answer:
        try:
            self._ask(noop)
        except Empty:
            return short(503, f"the broker's thread has not answered for {LONGEST_PROBE_S:g} s")
        return short(200, "alive")

    def _show_readiness(self) -> Answer:
        try:
            reason = self._ask(self._why_not_ready)
        except Empty:
            return short(503, f"the broker's thread has not answered for {LONGEST_PROBE_S:g} s")
        return short(200, "ready") if reason is None else short(503, reason)

    def _ask(self, question: Callable[[], T]) -> T:
        """Its answer, from the node's thread. Raises queue.Empty when it does not come in time."""
        answers: SimpleQueue[tuple[T | None, Exception | None]] = SimpleQueue()

        def answer() -> None:
            try:
                answers.put((question(), None))
            except Exception as error:
                answers.put((None, error))  # it must not end the node

        self._later("probe", 0, answer)
        value, error = answers.get(timeout=LONGEST_PROBE_S)
        if error is not None:
            raise error
        return cast(T, value)


def politely(items: Iterable[T]) -> Iterator[T]:
    """The same items, letting other threads run every now and then."""
    begun = perf_counter_ns()
    for item in items:
        if perf_counter_ns() - begun > _HOLD_NS:
            sleep(_PAUSE_S)
            begun = perf_counter_ns()
        yield item
