"""The harnesses of stress tests: what they do about a difference, an error and a failing seed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

from support.stress.fault_schedule import FaultSchedule, assert_found
from support.stress.killed_processes import Figures, KillTest, parser, print_progress, run_program

KILLS = 5


class Kills(KillTest[Figures]):
    """Has an error or a difference in the round with that number."""

    def __init__(self, seed: int = 7, *, differs_in: int | None = None, fails_in: int | None = None) -> None:
        super().__init__(Figures(), seed, KILLS, print_progress)
        self.calls: list[str] = []
        self._differs_in, self._fails_in = differs_in, fails_in

    def prepare(self) -> None:
        self.calls.append("prepare")

    def round(self) -> None:
        self.calls.append("round")
        self.figures.kills += 1
        if self.figures.kills == self._fails_in:
            raise OSError("no process")
        if self.figures.kills == self._differs_in:
            self.note_difference("a record is lost")

    def complete(self) -> None:
        self.calls.append("complete")

    def close(self) -> None:
        self.calls.append("close")

    def check(self) -> None:
        self.calls.append("check")


def test_rounds_until_all_kills_have_happened() -> None:
    kills = Kills()
    figures = kills.run()
    assert kills.calls == ["prepare", *["round"] * KILLS, "complete", "close", "check"]
    figures.assert_passed(KILLS)


def test_no_round_follows_a_difference_and_the_failure_names_the_seed() -> None:
    kills = Kills(seed=11, differs_in=2)
    figures = kills.run()
    assert kills.calls == ["prepare", "round", "round", "complete", "close", "check"]
    with pytest.raises(AssertionError, match=r"seed 11, kill 2:\na record is lost"):
        figures.assert_passed(KILLS)


def test_too_few_kills_are_a_failure() -> None:
    with pytest.raises(AssertionError):
        Kills().run().assert_passed(KILLS + 1)


def test_processes_are_ended_after_an_error() -> None:
    kills = Kills(fails_in=3)
    with pytest.raises(OSError, match="no process"):
        kills.run()
    assert kills.calls == ["prepare", "round", "round", "round", "close"]


@pytest.mark.parametrize(("differs_in", "code"), [(None, 0), (1, 1)])
def test_a_program_prints_progress_and_figures(
    differs_in: int | None, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kills", "--seed", "3"])
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    given = run_program(parser(__doc__), lambda options: Kills(options.seed, differs_in=differs_in).run())
    first, *_, last = capsys.readouterr().out.splitlines()
    assert given == code
    assert json.loads(first) == {"inputs": 1}
    assert json.loads(last)["seed"] == 3


class Schedule(FaultSchedule):
    """Fails in the third step if the seed is odd, and at its end if the seed is 4."""

    def step(self) -> None:
        self.log.append(f"step {len(self.log)}")
        assert self.seed % 2 == 0 or len(self.log) < 3, "it is odd"

    def settle(self) -> None:
        self.log.append("settled")

    def check(self) -> None:
        if self.seed == 4:
            raise ValueError("four")


def test_a_schedule_runs_its_steps_settles_and_checks() -> None:
    assert Schedule(2).complete(3, __file__).log == ["step 0", "step 1", "step 2", "settled"]


def test_a_failing_schedule_shows_its_log_its_seed_and_its_step() -> None:
    with pytest.raises(AssertionError, match="it is odd") as failure:
        Schedule(5).complete(10, __file__)
    notes = "\n".join(failure.value.__notes__)
    assert "step 2 of 10, seed 5" in notes
    assert "step 0\nstep 1\nstep 2\n" in notes
    assert "SEEDS=5 " in notes


def run(choose: Callable[[int], int]) -> Callable[[int], Schedule]:
    return lambda seed: Schedule(choose(seed)).complete(5, __file__)


def test_an_injected_fault_must_be_found() -> None:
    assert_found(run(lambda seed: seed), 2)
    with pytest.raises(pytest.fail.Exception, match="2 schedules"):
        assert_found(run(lambda seed: 2 * seed), 2)


def test_a_failure_of_another_kind_does_not_count() -> None:
    with pytest.raises(ValueError, match="four"):
        assert_found(run(lambda seed: 4), 1)
    with pytest.raises(pytest.fail.Exception):
        assert_found(run(lambda seed: 4), 1, ignored=(ValueError,))
