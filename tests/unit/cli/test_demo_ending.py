"""The demo's audit: what comes after what, and how it is shown. Spark itself is in tests/spark."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from rich.console import Console

from tailrace.cli import demo_counting_query, demo_ending
from tailrace.cli.demo_counting import SparkCounter
from tailrace.cli.demo_ending import DemoAudit
from tailrace.cli.demo_facts import (
    NOT_AUDITED,
    Audited,
    Auditing,
    Counted,
    Counting,
    Facts,
    Rate,
    Tabled,
    Tabling,
    facts_item,
)
from tailrace.cli.demo_usage import Usage
from tailrace.cli.demo_view import audit, line
from tailrace.model.ids import TopicPartition

NO_RATE = Rate(0.0, 0.0)
FACTS = Facts(1.0, 5, 5, NO_RATE, NO_RATE, None, None, Usage(), None, (), "", 0, 0, 0)
DONE = Audited(Auditing.DONE, partitions=5, segments=7, size_bytes=4096, seconds=1.25, report="audit.html")


class Steps:
    """Broker, counter and show in one: what was asked of them, in order."""

    every_s = 0.0

    def __init__(self, outcome: Audited = DONE, state: Counting = Counting.COUNTING) -> None:
        self.asked: list[str] = []
        self.data_dir = Path("data")
        self._outcome = outcome
        self._state = state
        self._audited = NOT_AUDITED
        self.is_interrupted = False
        self.is_slow = False

    def now(self) -> Counted:
        return Counted(self._state)

    def table(self) -> Tabled:
        return Tabled(Tabling.OFF)

    def audited(self) -> Audited:
        return self._audited

    def halt(self) -> None:
        self.asked.append("halt")
        if self.is_interrupted:
            raise KeyboardInterrupt
        if not self.is_slow:
            self._audited = Audited(Auditing.READY)

    def stop(self) -> None:
        self.asked.append("stop")

    def audit(self, directory: str, page: str) -> None:
        self.asked.append(f"audit {directory} {os.path.basename(page)}")
        if self._outcome.state is Auditing.DONE:
            Path(page).write_text("the page")
        self._audited = self._outcome

    def moment(self, facts: Facts) -> None:
        if "shown" not in self.asked:
            self.asked.append("shown")
        assert facts.audited.state is Auditing.RUNNING

    def end(self, facts: Facts) -> None:
        raise AssertionError

    def close(self) -> None:
        raise AssertionError


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "temporary"


def end(steps: Steps, report: str | None = "audit.html") -> Audited:
    return DemoAudit(steps, steps, steps, report).run(FACTS)


@pytest.mark.parametrize("state", [Counting.STARTING, Counting.COUNTING])
def test_the_broker_ends_between_the_query_and_the_audit(state: Counting) -> None:
    steps = Steps(state=state)
    assert end(steps) == DONE
    assert steps.asked == ["shown", "halt", "stop", "audit data audit.html"]


def test_without_a_file_the_page_is_a_temporary_one_that_stays(temporary: Path) -> None:
    assert end(Steps(), report=None).state is Auditing.DONE
    (page,) = temporary.iterdir()
    assert (page.suffix, page.read_text()) == (".html", "the page")


@pytest.mark.parametrize("state", [Counting.FAILED, Counting.MISSING, Counting.OFF])
def test_without_spark_there_is_none(state: Counting, temporary: Path) -> None:
    steps = Steps(state=state)
    assert end(steps, report=None) == NOT_AUDITED
    assert steps.asked == []
    assert list(temporary.iterdir()) == []


def test_what_fails_leaves_no_page(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Audited(Auditing.FAILED, trouble="no more memory")
    assert end(Steps(failed), report=None) == failed
    slow = Steps()
    slow.is_slow = True
    monkeypatch.setattr(demo_ending, "LONGEST_HALT_S", 0.0)
    assert end(slow, report=None).trouble == "Spark did not end its query in time"
    assert "stop" not in slow.asked
    assert list(temporary.iterdir()) == []


def test_a_second_ctrl_c_skips_it(temporary: Path) -> None:
    steps = Steps()
    steps.is_interrupted = True
    assert end(steps, report=None).state is Auditing.SKIPPED
    assert list(temporary.iterdir()) == []


# The process


HEAD = "import json, sys\nsay = lambda **fields: print(json.dumps(fields), flush=True)\n"


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], SparkCounter]:
    (tmp_path / "modules").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))

    def start(program: str) -> SparkCounter:
        (tmp_path / "modules" / "audit_stand_in.py").write_text(HEAD + program)
        return SparkCounter("127.0.0.1:1", {TopicPartition("orders", 0): 5}, query="audit_stand_in")

    return start


def eventually(counter: SparkCounter, state: Auditing) -> Audited:
    """The process is real: it takes its time."""
    gives_up_s = time.monotonic() + 30
    while counter.now() and counter.audited().state is not state and time.monotonic() < gives_up_s:
        os.sched_yield()
    return counter.audited()


def test_the_process_is_asked_in_lines(started: Callable[[str], SparkCounter]) -> None:
    running = started(
        "assert json.loads(input()) == {'halt': True}; say(audit={'state': 'ready'}); "
        "asked = json.loads(input()); say(audit={'state': 'done', 'report': asked['page'], 'first': asked['audit']}); "
        "sys.stdin.read()"
    )
    assert running.audited() == NOT_AUDITED
    running.halt()
    assert eventually(running, Auditing.READY).state is Auditing.READY
    running.audit("data", "audit.html")
    assert eventually(running, Auditing.DONE) == Audited(Auditing.DONE, report="audit.html", first="data")
    running.close()


def test_a_process_that_ends_meanwhile_has_failed(started: Callable[[str], SparkCounter]) -> None:
    running = started("input(); say(audit={'state': 'running'}); sys.exit('no more memory\\n')")
    running.halt()
    assert eventually(running, Auditing.FAILED).trouble == "no more memory"
    running.audit("data", "audit.html")  # nobody is there to hear it
    running.close()


def test_what_goes_wrong_in_the_process_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def audited(spark: object, directory: str, page: str) -> Audited:
        raise ValueError("no more memory\n  and a trace")

    monkeypatch.setattr(demo_counting_query.demo_audit, "audited", audited)
    demo_counting_query.audit(None, {"audit": "data", "page": "audit.html"})
    first, second = (json.loads(line)["audit"] for line in capsys.readouterr().out.splitlines())
    assert first["state"] == "running"
    assert (second["state"], second["trouble"]) == ("failed", "no more memory")


# What is shown


def shown(audited: Audited) -> str:
    console = Console(width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    for text in audit(audited):
        console.print(text, soft_wrap=True)
    console.file.close()
    return console.export_text()


def test_what_is_shown_of_it() -> None:
    assert shown(NOT_AUDITED) == shown(Audited(Auditing.SKIPPED)) == ""
    assert "being checked" in shown(Audited(Auditing.RUNNING))
    assert shown(DONE).startswith("nothing is wrong in 5 partitions, 7 segments, 4.00 KiB")
    found = shown(DONE._replace(findings=2, first="crc: a file: its CRC is wrong"))
    assert found.startswith("2 FINDINGS in 5 partitions")
    assert "crc: a file" in found
    assert "failed: no more memory" in shown(Audited(Auditing.FAILED, trouble="no more memory"))
    assert line(FACTS._replace(audited=Audited(Auditing.RUNNING))) == "auditing what was written"


def test_findings_are_a_failure() -> None:
    assert DONE.is_sound
    assert NOT_AUDITED.is_sound
    assert not DONE._replace(findings=1).is_sound
    assert not Audited(Auditing.FAILED).is_sound
    assert facts_item("summary", FACTS._replace(audited=DONE))["audit"]["report"] == "audit.html"
