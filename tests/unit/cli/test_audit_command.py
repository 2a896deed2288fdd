"""`tailrace pipeline audit`: its options, what it prints of findings and to whom, and its exit codes.

Spark is not started: what audits is a stand-in.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from tailrace.cli import spark_work
from tailrace.cli.audit_run import Told
from tailrace.cli.main import main
from tailrace.cli.step_bar import StepBar
from tailrace.spark import spark_session
from tailrace.spark.auditing import audit as audit_module
from tailrace.spark.auditing.audit_report import AuditReport
from tailrace.spark.auditing.figures import TopicFigures
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.progress import AuditProgress
from tailrace.spark.auditing.rules import CRC, HANGING_TRANSACTION, LEFTOVER, RULES
from tailrace.spark.errors import MissingTopicError, OptionError

Captured = pytest.CaptureFixture[str]
Run = Callable[..., tuple[int, str, str]]
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

DAMAGED = Finding("data/orders-0/00000000000000000000.log", "orders-0", 17, CRC, "its CRC is 1 and should be 2", 4711)
HANGING = Finding("data/orders-1", "orders-1", 5, HANGING_TRANSACTION, "producer 7 has one open since Monday")
LEFT = Finding("data/orders-1/x.deleted", "orders-1", None, LEFTOVER, "it goes when the log is opened")
FIGURES = {"orders": TopicFigures(files=3, bytes=12_000, batches=40, records=900)}


def report_with(*findings: Finding) -> AuditReport:
    return AuditReport(
        paths=("data",),
        findings=findings,
        figures=FIGURES,
        directories=1,
        partitions=2,
        segments=3,
        skipped_segments=1,
        bytes=12_000,
        read_bytes=8_000,
        seconds=2.0,
    )


@pytest.fixture
def run(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Exit code, output and errors of the command, where the audit finds `finds`; `terminal` is how wide it is."""
    (tmp_path / "data" / "orders-0").mkdir(parents=True)
    (tmp_path / "data" / "meta.properties").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(spark_session, "session", lambda *given, **more: ("session", given))

    def run(*arguments: object, finds: Any = (), terminal: int | None = None) -> tuple[int, str, str]:
        def audit(*paths: str, **given: Any) -> AuditReport:
            run.given = (paths, given)  # type: ignore[attr-defined]
            given["told"](AuditProgress("read", 5, 10, 1))
            if isinstance(finds, Exception):
                raise finds
            return report_with(*finds)

        monkeypatch.setattr(audit_module, "audit", audit)
        if terminal is not None:
            monkeypatch.setenv("COLUMNS", str(terminal))
            monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        code = main(["pipeline", "audit", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, COLOURS.sub("", captured.out), captured.err

    return run


def given_to(run: Run) -> tuple[tuple[str, ...], dict[str, Any]]:
    return run.given  # type: ignore[attr-defined,no-any-return]


def test_exit_codes(run: Run) -> None:
    assert run("data")[0] == 0
    assert run("data", finds=[LEFT])[0] == 0, "notes are no faults"
    assert run("data", finds=[HANGING])[0] == 1
    assert run("data", finds=[DAMAGED, LEFT])[0] == 1
    assert run("data", finds=OptionError("that cannot be"))[::2] == (2, "error: that cannot be\n")


def test_a_topic_that_is_nowhere(run: Run) -> None:
    code, _, err = run("data", "--topic", "nope", finds=MissingTopicError("no folder here is of topic nope", ["nope"]))
    assert code == 2
    assert err.startswith("error: no folder here is of topic nope\nhint: --topic takes names")


def test_every_option_arrives(run: Run) -> None:
    run("data", "data")
    paths, given = given_to(run)
    del given["told"], given["session"]
    assert paths == ("data", "data")
    assert given == {
        "state": None,
        "topics": None,
        "rules": None,
        "superseded": True,
        "replicas": True,
        "notes": False,
    }
    run(
        *("data", "--topic", "a", "--topic", "b", "--rules", "crc, offset-gap", "--no-superseded", "--no-replicas"),
        *("--max-transaction", "1h", "--state", "memory", "--notes", "--master", "local[3]", "--spark", "a=b"),
    )
    _, given = given_to(run)
    del given["told"]
    assert given.pop("session") == ("session", ("tailrace audit", "local[3]", {"a": "b"}))
    assert given == {
        "state": "memory",
        "topics": ["a", "b"],
        "rules": ("crc", "offset-gap"),
        "superseded": False,
        "replicas": False,
        "notes": True,
        "max_transaction_ms": 3_600_000,
    }


def test_programs_get_a_line_for_each_finding_and_a_summary(run: Run) -> None:
    _, out, _ = run("data", "--json", finds=[DAMAGED, HANGING])
    first, second, summary = map(json.loads, out.splitlines())
    assert first == {
        "type": "finding",
        "file": "data/orders-0/00000000000000000000.log",
        "partition": "orders-0",
        "offset": 17,
        "rule": "crc",
        "words": "its CRC is 1 and should be 2",
        "position": 4711,
        "severity": "error",
    }
    assert second["severity"] == "warning"
    assert (summary["type"], summary["is_clean"], summary["report"]) == ("summary", False, None)
    assert summary["by_rule"] == {"crc": 1, "hanging-transaction": 1}
    assert summary["topics"]["orders"]["records"] == 900
    _, out, _ = run("data", finds=[DAMAGED])
    assert out.startswith("finding file=data/orders-0/00000000000000000000.log partition=orders-0 offset=17 rule=crc")
    assert out.splitlines()[-1].startswith("summary ")


def test_people_get_a_picture(run: Run) -> None:
    _, out, _ = run("data", finds=[DAMAGED, HANGING, LEFT], terminal=120)
    assert "error crc: data/orders-0/00000000000000000000.log at position 4711, offset 17: its CRC" in out
    assert "warning hanging-transaction: data/orders-1, offset 5: producer 7" in out
    assert "a batch does not have the CRC that it states" in out
    assert "2 partitions in 1 directory" in out
    assert "3 segments, 1 of them known from an earlier audit, 11.7 KiB" in out
    assert out.rstrip().endswith("✗ 1 error, 1 warning, 1 note")
    _, out, _ = run("data", terminal=120)
    assert out.rstrip().endswith("✓ nothing is wrong")


def test_more_findings_than_fit_are_counted(run: Run) -> None:
    many = [Finding("f", "orders-0", offset, CRC, "w") for offset in range(250)]
    _, out, _ = run("data", finds=many, terminal=100)
    assert "and 150 more: --json has them all" in out
    assert len(run("data", "--json", finds=many)[1].splitlines()) == 251


def test_what_files_say_cannot_move_a_cursor(run: Run) -> None:
    hostile = Finding("da\x1b[2Jta", "orders-0", 1, CRC, "wor\x1b[31mds")
    _, out, _ = run("data", finds=[hostile], terminal=100)
    assert "\x1b[2J" not in out
    assert "da\\x1b[2Jta" in out


def test_a_page(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("data", "--report", "audit.html", finds=[DAMAGED], terminal=150)
    assert code == 1
    assert str(tmp_path / "audit.html") in out
    page = (tmp_path / "audit.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    assert "its CRC is 1 and should be 2" in page
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".tmp")] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no directory is given"),
        (["nowhere"], "nowhere does not exist"),
        (["data", "--rules", "crc,crcs"], "there is no rule 'crcs'"),
        (["data", "--report", "no/such/folder.html"], "cannot write a report to no/such/folder.html"),
        (["data", "--report", "data"], "it is a folder"),
        (["data", "--report", "data/audit.html"], "which is audited and only read"),
        (["data/orders-0", "--report", "data/audit.html"], "which is audited and only read"),
    ],
)
def test_wrong_usage_is_told_before_spark_is_started(run: Run, arguments: list[str], said: str) -> None:
    code, out, err = run(*arguments, finds=AssertionError("it was started"))
    assert (code, out) == (2, "")
    assert said in err
    assert "\nhint: " in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--rules", "crc,,x"], "is no list of rules"), (["--max-transaction", "long"], "is no span of time")],
)
def test_wrong_arguments(arguments: list[str], said: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", "audit", "data", *arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_without_spark(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_work, "find_spec", lambda name: None)
    assert run("data")[::2] == (
        2,
        "error: an audit needs pyspark and pyarrow, not installed here\nhint: pip install 'tailrace[spark]'\n",
    )


def test_the_rules_can_be_read(run: Run) -> None:
    code, out, _ = run("--list-rules", "--json")
    assert code == 0
    assert [json.loads(line)["name"] for line in out.splitlines()] == list(RULES)
    _, out, _ = run("--list-rules", terminal=120)
    assert "replicas of a partition differ at the same offset" in out


def test_a_bar_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    bar = StepBar(is_shown=True)
    assert bar.bars is not None
    bar.bars.start = lambda: None  # type: ignore[method-assign]  # nobody looks
    with bar:
        told = Told(bar)
        told(AuditProgress("list"))
        (task,) = bar.bars.tasks
        assert (task.description, task.total) == ("looking for logs", None)
        told(AuditProgress("read", 1 << 20, 4 << 20, findings=2))
        assert (task.description, task.completed, task.total) == ("reading", 1 << 20, 4 << 20)
        assert task.fields["more"].startswith("1.00 MiB of 4.00 MiB · ")
        assert task.fields["more"].endswith("/s · 2 findings")
        told(AuditProgress("replicas", 1, 3))
        assert (task.description, task.completed, task.total) == ("comparing replicas", 1, 3)
    StepBar(is_shown=False).tell("nobody sees it", 1, 2)


def test_a_page_that_cannot_be_written_costs_no_finding(run: Run, tmp_path: Path) -> None:
    class Finds(list[Finding]):
        """The folder goes while the audit runs."""

        def __iter__(self) -> Any:
            (tmp_path / "pages").rmdir()
            return iter([DAMAGED])

    (tmp_path / "pages").mkdir()
    code, out, err = run("data", "--report", "pages/audit.html", finds=Finds())
    assert code == 2
    assert out.startswith("finding file=")
    assert "cannot be written" in err
