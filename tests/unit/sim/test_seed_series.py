"""Series of seeds: which seeds run, and what happens when a worker process ends."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tailrace.sim.run import RunReport
from tailrace.sim.scenarios import NODES, ScenarioParameters, build_run
from tailrace.sim.seed_result import completed
from tailrace.sim.seed_series import SeriesWatcher, WorkerEndedError, seed_results


class Seeds(SeriesWatcher):
    def __init__(self, count: int) -> None:
        self.left = count
        self.seen: set[int] = set()

    def wants(self, pending: int) -> bool:
        return pending < self.left

    def on_progress(self, pending: Mapping[int, RunReport]) -> None:
        self.seen |= pending.keys()


def test_seeds_run_in_order_as_long_as_another_one_is_wanted() -> None:
    watcher = Seeds(3)
    seeds = []
    for result in seed_results(NODES, 40, ScenarioParameters(brokers=1, seconds=1), watcher):
        seeds.append(result.report.seed)
        watcher.left -= 1
    assert seeds == [40, 41, 42]
    assert watcher.seen == {40, 41, 42}


def test_an_error_of_the_watcher_is_not_a_failure_of_the_run() -> None:
    def fail() -> None:
        raise BrokenPipeError("the reader has closed")

    with pytest.raises(BrokenPipeError, match="the reader has closed"):
        completed(build_run(NODES, 1, ScenarioParameters(brokers=1, seconds=2)), fail)


def test_a_worker_process_that_ends_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    results = seed_results("unknown", 40, ScenarioParameters(), Seeds(1), workers=2)
    with pytest.raises(WorkerEndedError, match="seed 40 has ended with exit code 1"):
        next(results)
    assert "KeyError: 'unknown'" in capfd.readouterr().err
