"""A reading in slices: bounded ones, with everything in them, whatever changes meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from tailrace.metrics.gauge import Gauge
from tailrace.metrics.metrics import Metrics, Sample
from tailrace.metrics.reading import PAUSE_MS, SLICE_NS, Reading
from tailrace.metrics.row import Columns, Row
from tailrace.metrics.samples import Samples


class Run:
    """An owner's thread whose clock moves by `cost_ns` with each look at it."""

    def __init__(self, cost_ns: int) -> None:
        self.metrics = Metrics()
        self.now_ns = 0
        self._cost_ns = cost_ns
        self.waiting: list[tuple[int, Callable[[], None]]] = []
        self.result: list[Sample] | Exception | None = None

    def look(self) -> int:
        self.now_ns += self._cost_ns
        return self.now_ns

    def later(self, name: str, delay_ms: int, action: Callable[[], None]) -> None:
        self.waiting.append((delay_ms, action))

    def done(self, result: Samples | Exception) -> None:
        assert self.result is None
        self.result = result if isinstance(result, Exception) else list(result)

    def read(self, between: Callable[[], None] = lambda: None) -> int:
        """How many slices it took."""
        Reading(self.metrics, self.later, self.done, self.look).begin()
        slices = 0
        while self.waiting:
            ((delay_ms, action),) = self.waiting
            assert delay_ms == (PAUSE_MS if slices else 0)
            self.waiting.clear()
            before_ns = self.now_ns
            action()
            assert self.now_ns - before_ns <= SLICE_NS + 3 * self._cost_ns
            slices += 1
            between()
        return slices


def gauge(number: int) -> Gauge:
    return Gauge("log", "Log", f"g{number}", number)


def test_many_samples_take_many_slices_and_all_arrive() -> None:
    run = Run(cost_ns=SLICE_NS // 10)
    run.metrics.add(lambda: map(gauge, range(95)))
    run.metrics.add(lambda: [None, gauge(95), None])
    assert run.read() > 9
    assert run.result == [gauge(number) for number in range(96)]


def test_few_take_one() -> None:
    run = Run(cost_ns=1)
    run.metrics.add(lambda: [gauge(0)])
    assert run.read() == 1
    assert run.result == [gauge(0)]


def test_nothing_at_all() -> None:
    run = Run(cost_ns=1)
    run.read()
    assert run.result == []


def test_a_source_that_changes_between_slices_is_read_anew() -> None:
    run = Run(cost_ns=SLICE_NS // 10)
    held = {number: gauge(number) for number in range(40)}
    run.metrics.add(lambda: [gauge(1000)])
    run.metrics.add(lambda: (each for each in held.values()))

    def grow() -> None:
        if len(held) < 43:
            held[len(held)] = gauge(len(held))

    run.read(between=grow)
    assert run.result == [gauge(1000), *map(gauge, range(len(held)))]


def test_one_that_always_changes_is_read_in_one_go() -> None:
    run = Run(cost_ns=SLICE_NS // 10)
    held = {number: gauge(number) for number in range(40)}
    run.metrics.add(lambda: (each for each in held.values()))

    def grow() -> None:
        held[len(held)] = gauge(len(held))

    run.read(between=grow)
    assert isinstance(run.result, list)
    assert run.result == list(map(gauge, range(len(run.result))))
    assert len(run.result) >= 40


@pytest.mark.parametrize("kind", [RuntimeError, KeyError])
def test_an_exception_of_a_source_is_the_result(kind: type[Exception]) -> None:
    def broken() -> Iterator[Sample]:
        yield gauge(0)
        raise kind("no")

    run = Run(cost_ns=1)
    run.metrics.add(broken)
    run.read()
    assert isinstance(run.result, kind)


def test_rows_come_back_as_they_were_and_leave_nothing_for_the_collector() -> None:
    columns = Columns("log", "Log", ("Size", "LogEndOffset"), ("topic", "partition"))
    rows = [Row(columns, ("t", number), (10 * number, number)) for number in range(2000)]
    samples = Samples()
    gc.collect()
    before = gc.get_count()[0]
    for row in rows:
        samples.add(row)
    assert gc.get_count()[0] - before < 10
    assert list(samples) == rows
    mark = samples.mark
    samples.add(gauge(1))
    samples.add(rows[0])
    samples.cut(mark)
    assert list(samples) == rows
