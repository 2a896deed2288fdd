"""Three nodes that know nothing of each other, their clients, and faults, on one time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import simulation_hashes
from suite.seeds import parametrized_seeds
from support.stress.fault_schedule import assert_found
from tailrace.sim.event_log import Violation
from tailrace.sim.fault_schedule import FaultSchedule
from tailrace.sim.node_run import NodeRun, NodeRunParameters

SHORT = NodeRunParameters(faulty_ms=8_000)


@parametrized_seeds(core=3, fresh=3)
def test_acknowledged_records_survive_faults(seed: int) -> None:
    run = NodeRun(seed, NodeRunParameters(faulty_ms=20_000))
    report = run.run()
    print(report)
    acked, read = (report.counts[f"records {what}"] for what in ("acknowledged", "read"))
    assert 100 < acked <= read
    kinds = Counter(event.kind for event in run.universe.log.events)
    assert kinds["fault"] == report.faults > 0


def test_the_same_seed_gives_the_same_events() -> None:
    first, second = NodeRun(7, SHORT), NodeRun(7, SHORT)
    assert first.run().hash == second.run().hash
    for one, other in zip(first.universe.log.events, second.universe.log.events, strict=True):
        assert str(one) == str(other)
    assert NodeRun(8, SHORT).run().hash != first.universe.log.hash


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({"PYTHONHASHSEED": "1"}, id="hash-seed"),
        pytest.param(
            {"PYTHONHASHSEED": "2", "TAILRACE_KERNELS": "interpreted"},
            id="interpreted-kernels",
            marks=pytest.mark.long,
        ),
    ],
)
def test_another_process_gives_the_committed_hashes(environment: dict[str, str], tmp_path: Path) -> None:
    """In another directory, with other hashes of strings, with either form of the kernels."""
    tool = Path(simulation_hashes.__file__)
    paths = os.pathsep.join([str(tool.parent.parent / "src"), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, str(tool)],
        cwd=tmp_path,
        env={**os.environ, **environment, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    update = "after a change that is meant, run: python tools/simulation_hashes.py --update"
    assert run.returncode == 0, f"{run.stdout}{run.stderr}\n{update}"


def test_a_run_is_cut_after_an_event() -> None:
    whole = NodeRun(5, SHORT)
    whole.run()
    cut = NodeRun(5, NodeRunParameters(faulty_ms=SHORT.faulty_ms, until_event=1_000))
    cut.run()
    assert 1_000 <= cut.universe.log.count < 1_020
    beginning = [str(event) for event in whole.universe.log.events][: cut.universe.log.count]
    assert [str(event) for event in cut.universe.log.events] == beginning


def test_a_printed_schedule_repeats_the_run() -> None:
    drawn = NodeRun(6, SHORT)
    printed = str(drawn.injector.schedule)
    again = NodeRun(6, NodeRunParameters(faulty_ms=SHORT.faulty_ms, schedule=FaultSchedule.parse(printed)))
    assert again.run().hash == drawn.run().hash
    without = NodeRun(6, NodeRunParameters(faulty_ms=SHORT.faulty_ms, schedule=drawn.injector.schedule.only([0])))
    assert without.run().faults == 1


def test_acknowledgements_before_the_flush_are_found() -> None:
    """The checker sees: without flushes, a loss of power takes what was acknowledged."""
    settings = {"log.flush.interval.messages": str(2**63 - 1)}

    def run(seed: int) -> None:
        NodeRun(seed, NodeRunParameters(faulty_ms=20_000, settings=settings)).run()

    assert_found(run, 20, (Violation,))
