"""`tailrace pipeline find`: its options, and how records are shown. Spark is not started: a stand-in searches."""

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

from tailrace.cli.main import main
from tailrace.client.errors import BrokerUnreachableError
from tailrace.model.errors import CorruptMessageError
from tailrace.spark import spark_session
from tailrace.spark.errors import MissingTopicError, OptionError, PipelineError
from tailrace.spark.searching import find as find_module
from tailrace.spark.searching.found import ABORTED, Found, Matches
from tailrace.spark.tables.tasks.reading import READ, Tally

Captured = pytest.CaptureFixture[str]
Run = Callable[..., tuple[int, str, str]]
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
T0 = 1_700_000_000_000

FOUND = (
    Found("orders", 0, 9, T0, 0, b"k9", b'{"n": 1}', (("source", b"web"), ("none", None))),
    Found("orders", 12, 1009, T0 + 1, 0, b"k9", None, state=ABORTED),
    Found("orders", 0, 11, T0 + 2, 1, None, b"\xff\x1b[2J"),
)
MATCHES = Matches(FOUND, 3, 500, 1.5)


@pytest.fixture
def run(capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.setattr(spark_session, "session", lambda *given, **more: ("session", given))
    monkeypatch.delenv("TAILRACE_BOOTSTRAP", raising=False)
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, finds: Any = MATCHES, terminal: int | None = None) -> Any:
        def find(topic: str, **given: Any) -> Matches:
            run.given = (topic, given)  # type: ignore[attr-defined]
            given["told"](Tally(READ, 1, 2, 100))
            if isinstance(finds, Exception):
                raise finds
            return finds  # type: ignore[no-any-return]

        monkeypatch.setattr(find_module, "find", find)
        if terminal is not None:
            monkeypatch.setenv("COLUMNS", str(terminal))
            monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        code = main(["pipeline", "find", "orders", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, COLOURS.sub("", captured.out), captured.err

    return run


def given_to(run: Run) -> dict[str, Any]:
    topic, given = run.given  # type: ignore[attr-defined]
    assert topic == "orders"
    return {name: value for name, value in given.items() if name not in ("told", "session")}


def test_every_option_arrives(run: Run) -> None:
    run("--key", "k9")
    usual = {"aborted": False, "newest": False, "limit": 100, "options": {}, "where": None, "at": None}
    assert given_to(run) == {**usual, "key": "k9", "brokers": "localhost:9092", "path": None}
    run("--key", "\udcff\udcfe")
    assert given_to(run)["key"] == b"\xff\xfe", "as a shell gives bytes that are no text"
    run(
        *("--key-base64", "azk=", "--at", "2023-11-14T22:13:20Z", "--around", "1m", "--disorder", "2h"),
        *("--where", "offset > 5", "--partition", "1", "--partition", "2", "--aborted", "--limit", "7"),
        *("--path", "data", "--option", "skipCorrupt=true"),
    )
    assert given_to(run) == {
        "key": b"k9",
        "at": T0,
        "around": 60_000,
        "disorder": 7_200_000,
        "where": "offset > 5",
        "partitions": [1, 2],
        "aborted": True,
        "newest": False,
        "limit": 7,
        "brokers": None,
        "path": "data",
        "options": {"skipCorrupt": "true"},
    }


def test_programs_get_a_line_for_each_record(run: Run) -> None:
    code, out, _ = run("--key", "k9", "--json")
    first, second, third, summary = map(json.loads, out.splitlines())
    assert code == 0
    assert (first["partition"], first["offset"], first["timestamp_ms"], first["key"]) == (0, 9, T0, "k9")
    assert first["headers"][0] == {"name": "source", "value": "web", "value_base64": None}
    assert (second["value"], second["deleted"], second["state"]) == (None, True, "aborted")
    assert (third["value"], third["value_base64"], third["key"]) == (None, "/xtbMko=", None)
    assert summary == {"type": "summary", "topic": "orders", "found": 3, "shown": 3, "offsets": 500, "seconds": 1.5}
    _, out, _ = run("--key", "k9")
    assert out.startswith("record partition=0 offset=9 timestamp_ms=1700000000000 state=committed deleted=no key=k9")
    assert [line.partition(" headers=")[2] for line in out.splitlines()] == ["source=web,none=null", "", "", ""]


def test_people_get_lines(run: Run) -> None:
    _, out, _ = run("--key", "k9", terminal=120)
    assert '    0:9  2023-11-14T22:13:20.000Z  k9 {"n": 1}  source=web  none=null' in out
    assert "12:1009  2023-11-14T22:13:20.001Z  k9 deleted  aborted" in out
    assert "\\xff\\x1b[2J" in out
    assert "3 records · 500 offsets looked through in 2 s" in out
    _, out, _ = run("--key", "k9", finds=Matches(FOUND, 50, 500, 1.5), terminal=120)
    assert "3 of 50 records; --limit shows more" in out
    _, out, _ = run("--key", "k9", finds=Matches((), 0, 500, 1.5), terminal=120)
    assert "\r0 records · 500 offsets" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give --key K, --at TIME or --where SQL"),
        (["--key", "k", "--around", "5s"], "--around and --disorder go with --at"),
        (["--at", "@5", "--newest"], "--newest does not go with --at"),
        (["--key", "k", "--path", "no/such/place"], "no/such/place does not exist"),
    ],
)
def test_what_does_not_go_together(run: Run, arguments: list[str], said: str) -> None:
    code, out, err = run(*arguments, finds=AssertionError("it was started"))
    assert (code, out) == (1, "")
    assert said in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--at", "latest"], "'latest' is no time"),
        (["--at", "15"], "'15' is no time"),
        (["--at", "yesterday"], "'yesterday' is no time; write 2026-01-31T12:00:00Z, or @ and milliseconds"),
        (["--key-base64", "?"], "'?' is not base64"),
        (["--key-base64", "ü"], "'ü' is not base64"),
        (["--key", "k", "--key-base64", "azk="], "not allowed with argument"),
        (["--key", "k", "--limit", "0"], "'0' is no whole number of 1 or more"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", "find", "orders", *arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def unreachable() -> PipelineError:
    error = PipelineError("asking at here:1")
    error.__cause__ = BrokerUnreachableError("no broker")
    return error


@pytest.mark.parametrize(
    ("error", "arguments", "hint"),
    [
        (MissingTopicError("there is no orders"), (), "or create it: tailrace topic create orders"),
        (MissingTopicError("there is no orders"), ("--path", "data"), "a path is a log directory"),
        (unreachable(), (), "start one with `tailrace serve`"),
        (OptionError("limit is too much"), (), ""),
        (CorruptMessageError("orders-0: a batch is damaged"), (), "--option skipCorrupt=true passes over it"),
    ],
)
def test_what_goes_wrong_is_told(run: Run, error: Exception, arguments: tuple[str, ...], hint: str) -> None:
    code, out, err = run("--key", "k", *arguments, finds=error)
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {error}\n")
    assert hint in err
