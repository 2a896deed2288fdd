"""`tailrace sim run` and `replay`: results, exit codes, and that a printed command repeats a run."""

from __future__ import annotations

import json
import re
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tailrace.cli.main import main
from tailrace.cli.sim_args import PARAMETERS
from tailrace.cli.sim_bar import progress_text
from tailrace.cli.sim_run import Totals
from tailrace.sim.event_log import Checker, Event, Violation
from tailrace.sim.node_run import NodeRun
from tailrace.sim.scenarios import SCENARIOS, Scenario, ScenarioParameters

SHORT = ("--seconds", "2", "--brokers", "2", "--faults-per-minute", "90")
KILL, PAUSE = "+0.500 s   kill broker-1, for 0.200 s\n", "+0.800 s   pause broker-2, for 0.300 s\n"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit code, output and errors of a command."""

    def run(*words: object) -> tuple[int, str, str]:
        try:
            code = main(["sim", *map(str, words)])
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return code, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", captured.out), captured.err

    return run


class OnFault(Checker):
    """Acts on faults of one kind."""

    kinds = frozenset({"fault"})

    def __init__(self, kind: str, act: Callable[[str], object]) -> None:
        self._kind = kind
        self._act = act

    def on_event(self, event: Event) -> None:
        if event.text.startswith(self._kind):
            self._act(event.text)


@pytest.fixture
def add_scenario(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, Callable[[str], object]], None]:
    """Register independent nodes whose checker acts on faults of one kind."""

    def add(name: str, kind: str, act: Callable[[str], object]) -> None:
        def build(seed: int, parameters: ScenarioParameters) -> NodeRun:
            run = SCENARIOS["nodes"].build(seed, parameters)
            assert isinstance(run, NodeRun)
            run.universe.add_checker(OnFault(kind, act))
            return run

        monkeypatch.setitem(SCENARIOS, name, Scenario("for tests", build))

    return add


@pytest.fixture
def failing(add_scenario: Any) -> str:
    def fail(text: str) -> None:
        raise Violation(f"a promise is broken: {text}")

    add_scenario("failing", "pause", fail)
    return "failing"


def items(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def without_time(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != "real_s"}


def test_results_do_not_depend_on_the_number_of_workers(run: Run) -> None:
    words = ("run", "--seed", 5, "--hours", 0.002, *SHORT, "--json")
    code, out, err = run(*words)
    (alone,) = items(out)
    assert (code, err, alone["failed"], alone["interrupted"]) == (0, "", 0, False)
    assert alone["seeds"] > 1
    assert 7.2 <= alone["simulated_s"] < 12
    code, out, err = run(*words, "--workers", 2)
    (shared,) = items(out)
    assert (code, err) == (0, "")
    assert without_time(shared) == without_time(alone)


def test_replay_repeats_a_seed_of_a_run(run: Run, tmp_path: Path) -> None:
    _, out, _ = run("run", "--seed", 7, "--seeds", 1, *SHORT, "--json")
    (summary,) = items(out)
    log, diagram = tmp_path / "run.log", tmp_path / "run.html"
    code, out, err = run("replay", 7, *SHORT, "--log", log, "--diagram", diagram, "--json")
    (replayed,) = items(out)
    assert (code, err) == (0, "")
    for name in ("events", "steps", "faults", "counts", "simulated_s"):
        assert replayed[name] == summary[name]
    lines = log.read_text().splitlines()
    assert len(lines) == replayed["events"]
    assert lines[0].split() == ["0:00:00.000000", "#1", "broker-1", "start", "process", "1"]
    assert diagram.read_text().startswith("<!DOCTYPE html>")
    assert "broker-2" in diagram.read_text()

    code, out, err = run("replay", 7, *SHORT, "--log", "-", "--until", 100)
    cut = out.splitlines()
    assert code == 0
    assert 100 <= len(cut) < 120
    assert cut == lines[: len(cut)]
    assert err.startswith("replay scenario=nodes seed=7 ")


def test_a_listed_schedule_repeats_the_run_and_can_be_edited(run: Run, tmp_path: Path) -> None:
    _, schedule, _ = run("replay", 9, *SHORT, "--list-faults")
    faults = tmp_path / "faults.txt"
    faults.write_text(schedule)
    _, drawn, _ = run("replay", 9, *SHORT, "--json")
    _, given, _ = run("replay", 9, *SHORT, "--faults", faults, "--json")
    assert given == drawn
    faults.write_text(KILL)
    _, out, _ = run("replay", 9, *SHORT, "--faults", faults, "--log", "-")
    assert [line.split(maxsplit=4)[4] for line in out.splitlines() if " fault  " in line] == [
        "kill broker-1, for 0.200 s"
    ]


def test_a_failing_seed_is_reported_with_the_command_that_replays_it(run: Run, failing: str) -> None:
    words = ("--scenario", failing, "--brokers", 2, "--seconds", 5, "--faults-per-minute", 240.5)
    code, out, _ = run("run", "--seed", 1, "--seeds", 3, *words, "--json")
    *failures, summary = items(out)
    assert (code, summary["failed"]) == (1, len(failures))
    assert failures
    first = failures[0]
    assert first["error"] == "Violation"
    assert first["message"].startswith("a promise is broken: pause broker-")
    expected = (
        f"tailrace sim replay {first['seed']} --scenario failing --brokers 2 --faults-per-minute 240.5 --seconds 5"
    )
    assert first["replay"] == expected
    code, out, _ = run(*shlex.split(expected)[2:], "--json")
    (replayed,) = items(out)
    assert code == 1
    assert [replayed[name] for name in ("message", "events", "hash")] == [
        first[name] for name in ("message", "event", "hash")
    ]


def test_a_run_stops_after_the_maximum_of_failed_seeds(run: Run, failing: str) -> None:
    words = ("--scenario", failing, "--seconds", 5, "--faults-per-minute", 240)
    code, out, _ = run("run", *words, "--max-failures", 2, "--json")
    *failures, summary = items(out)
    assert (code, len(failures), summary["failed"]) == (1, 2, 2)


def test_a_failing_run_on_a_terminal(run: Run, failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    faults = tmp_path / "faults.txt"
    faults.write_text(PAUSE)
    code, out, _ = run("replay", 3, "--scenario", failing, *SHORT, "--faults", faults)
    assert code == 1
    assert "✗ seed 3: a promise is broken: pause broker-2, for 0.300 s" in out
    assert "fault        pause broker-2" in out
    assert "hash " in out


def test_an_error_of_the_code_under_test_shows_its_traceback(run: Run, add_scenario: Any, tmp_path: Path) -> None:
    def fail(text: str) -> None:
        raise KeyError(text)

    add_scenario("broken", "kill", fail)
    (tmp_path / "faults.txt").write_text(KILL)
    code, out, err = run("replay", 3, "--scenario", "broken", *SHORT, "--faults", tmp_path / "faults.txt")
    assert code == 1
    assert "error=KeyError" in out
    assert err.startswith("Traceback")


def test_minimize_prints_the_faults_that_a_failure_needs(run: Run, failing: str, tmp_path: Path) -> None:
    faults = tmp_path / "faults.txt"
    faults.write_text(KILL + PAUSE + KILL.replace("broker-1", "broker-2"))
    words = ("replay", 3, "--scenario", failing, *SHORT)
    code, out, err = run(*words, "--faults", faults, "--minimize")
    assert (code, out) == (0, PAUSE)
    assert err.startswith("1 fault of 3 needed, found with ")
    assert "replay: tailrace sim replay 3 --scenario failing " in err
    faults.write_text(KILL)
    code, out, err = run(*words, "--faults", faults, "--minimize")
    assert (code, out) == (1, "")
    assert err.startswith("error: seed 3 does not fail\nhint: ")


@pytest.mark.parametrize("command", [("run", "--seeds", 5), ("replay", 1)], ids=["run", "replay"])
def test_an_interrupt_ends_with_a_summary(run: Run, add_scenario: Any, command: tuple[object, ...]) -> None:
    add_scenario("interrupted", "", lambda text: signal.raise_signal(signal.SIGINT))
    before = signal.getsignal(signal.SIGINT)
    words = ("--scenario", "interrupted", "--seconds", 30, "--faults-per-minute", 20)
    code, out, _ = run(*command, *words, "--json")
    (summary,) = items(out)
    assert (code, summary["interrupted"]) == (130, True)
    assert summary["simulated_s"] < 30
    assert signal.getsignal(signal.SIGINT) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run --hours 0", "'0' is not a number from 0.0001 to 1e+06"),
        ("run --hours nan", "'nan' is not a number"),
        ("run --hours 1 --seeds 2", "not allowed with argument"),
        ("run --workers 257", "257 is more than 256 processes"),
        ("run --brokers 0", "'0' is not a whole number from 1 to 100"),
        ("run --rate inf", "'inf' is not a number from 0.001 to 1000"),
        ("replay", "required: SEED"),
        ("replay -1", "SEED"),
        ("replay 1 --until 0", "--until"),
        ("replay 1 --minimize --list-faults", "not allowed with argument"),
    ],
)
def test_wrong_usage(run: Run, words: str, message: str) -> None:
    code, out, err = run(*words.split())
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("kill broker-1\n", "not a fault: 'kill broker-1'"),
        (KILL.replace("broker-1", "broker-9"), "there is no machine broker-9"),
        ("+1.000 s   cut broker-1, for 1.000 s\n", "cut takes two machines"),
        ("+1.000 s   kill broker-1 and broker-2, for 1.000 s\n", "kill takes one machine"),
        ("+1.000 s   power-of-all broker-1, for 1.000 s\n", "power-of-all takes no machine"),
        ("+1.000 s   cut broker-1 and broker-1, for 1.000 s\n", "must be different"),
        ("+1.000 s   lossy broker-1 and client-1.1, for 1.000 s, value 101\n", "lossy takes a value from 0 to 100"),
        ("+1.000 s   disk-full broker-1, for 1.000 s, value -1\n", "disk-full takes a value from 0"),
        ("+" + "9" * 400 + ".000 s   kill broker-1\n", "not a fault"),
    ],
)
def test_a_wrong_schedule_is_refused(run: Run, tmp_path: Path, schedule: str, message: str) -> None:
    (tmp_path / "faults.txt").write_text(schedule)
    code, out, err = run("replay", 1, *SHORT, "--faults", tmp_path / "faults.txt")
    assert (code, out) == (1, "")
    assert err.startswith("error: cannot ")
    assert message in err
    assert "\nhint: " in err


def test_missing_files_unknown_names_and_useless_options_are_errors(run: Run, tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "file"
    for option in ("--log", "--diagram"):
        assert run("replay", 1, option, missing)[0::2] == (
            1,
            f"error: cannot write {missing}: No such file or directory\nhint: pass a file in a directory that exists\n",
        )
    code, _, err = run("replay", 1, "--faults", missing)
    assert code == 1
    assert err.startswith(f"error: cannot read {missing}: No such file or directory\nhint: ")
    assert run("replay", 1, "--minimize", "--log", "-") == (
        1,
        "",
        "error: --log has no effect with --minimize\nhint: leave out --log or --minimize\n",
    )
    code, _, err = run("run", "--scenario", "quorums")
    assert (code, err) == (1, "error: there is no scenario 'quorums'\nhint: the scenarios are: nodes, quorum\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_an_error_of_the_command_and_not_of_the_run(run: Run) -> None:
    code, out, err = run("replay", 1, *SHORT, "--log", "/dev/full")
    assert (code, out) == (1, "")
    assert err.startswith("error: cannot write /dev/full: No space left on device\nhint: ")


def test_progress_names_seeds_speed_and_operations() -> None:
    totals = Totals()
    totals.simulated_s, totals.events, totals.faults = 7200, 12_345, 1
    totals.counts.update({"records acknowledged": 4_000, "records read": 5_000})
    assert progress_text(totals, [9, 7], 0, 20) == (
        "seed 7, 9 · 2 h simulated · 360 x real time\n12,345 events · 1 fault · 4,000 records acknowledged"
    )
    assert progress_text(totals, range(6), 2, 20).startswith("seed 0, 1, 2, 3, … · ")
    assert progress_text(totals, [1], 2, 20).endswith(" · 2 failed")


def test_the_summary_on_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, out, _ = run("run", "--seeds", 1, *SHORT)
    assert code == 0
    assert "✓ 1 seed in " in out
    assert "no violation" in out


def test_defaults_of_the_command_are_those_of_a_scenario() -> None:
    defaults = ScenarioParameters()
    for parameter in PARAMETERS:
        assert getattr(defaults, parameter.name) == parameter.default


def test_the_help_names_every_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["sim", "run", "--help"])
    _, _, described = capsys.readouterr().out.partition("--scenario NAME  ")
    named = described.partition("--brokers N")[0]
    assert [name for name in SCENARIOS if f"{name} (" not in " ".join(named.split())] == []
