"""`tailrace pipeline stats`: its options, and how figures are shown. Spark is not started: a stand-in counts."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.audit.sample_reports import topic_stats
from tailrace.cli.main import main
from tailrace.cli.stats_text import LINE_WIDTH, spread
from tailrace.spark import spark_session
from tailrace.spark.errors import MissingTopicError
from tailrace.spark.statistics import stats as stats_module
from tailrace.spark.statistics.stats import StatsProgress
from tailrace.spark.statistics.topic_stats import (
    CodecTrials,
    Compacted,
    CompactionGain,
    HeaderStats,
    Histogram,
    KeyStats,
    Producers,
    Rates,
    Retention,
    TopicStats,
)

Captured = pytest.CaptureFixture[str]
Run = Callable[..., tuple[int, str, str]]
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

NO_SIZES = Histogram(0, 0, 0, 0, (), {})
NOTHING_GAINED = Compacted(0, 0, 0, 0, 0.0)
EMPTY = TopicStats(
    topic="empty",
    source="here:1",
    partitions=(),
    records=0,
    batches=0,
    control_batches=0,
    aborted_records=0,
    stored_bytes=0,
    plain_bytes=0,
    payload_bytes=0,
    tombstones=0,
    null_values=0,
    keys=KeyStats(0, 0, 0, 0, 0, (), 0.0, ()),
    key_sizes=NO_SIZES,
    value_sizes=NO_SIZES,
    batch_sizes=NO_SIZES,
    batch_records=NO_SIZES,
    rates=Rates(60_000, (), 0, 0.0, 0.0, 0.0),
    headers=HeaderStats(0, 0, 0, (), 0),
    producers=Producers(0, ()),
    codecs=(),
    codec_trials=CodecTrials(0, 0, ()),
    compaction=CompactionGain(NOTHING_GAINED, None, 0, 0, 0, 0, True),
    retention=Retention(None, (), ()),
)


@pytest.fixture
def run(capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.setattr(spark_session, "session", lambda *given, **more: ("session", given))
    monkeypatch.delenv("TAILRACE_BOOTSTRAP", raising=False)
    (tmp_path / "data" / "orders-0").mkdir(parents=True)
    (tmp_path / "data" / "meta.properties").touch()
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, finds: Any = None, terminal: int | None = None) -> tuple[int, str, str]:
        def stats(topic: str | None, **given: Any) -> TopicStats:
            run.given = {"topic": topic, **given}  # type: ignore[attr-defined]
            given["told"](StatsProgress("reading", 1, 2))
            if isinstance(finds, Exception):
                raise finds
            return finds or topic_stats()

        monkeypatch.setattr(stats_module, "stats", stats)
        if terminal is not None:
            monkeypatch.setenv("COLUMNS", str(terminal))
            monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        code = main(["pipeline", "stats", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, COLOURS.sub("", captured.out), captured.err

    return run


def given_to(run: Run) -> dict[str, Any]:
    given: dict[str, Any] = run.given  # type: ignore[attr-defined]
    return {name: value for name, value in given.items() if name not in ("told", "session")}


@pytest.mark.parametrize(
    ("arguments", "topic", "brokers", "path"),
    [
        (["orders"], "orders", "localhost:9092", None),
        (["orders", "--bootstrap", "here:1"], "orders", "here:1", None),
        (["orders", "--path", "data"], "orders", None, "data"),
        (["data/orders-0"], None, None, "data/orders-0"),
        (["./data"], None, None, "./data"),
    ],
)
def test_topics_and_paths(
    run: Run, arguments: list[str], topic: str | None, brokers: str | None, path: str | None
) -> None:
    assert run(*arguments)[0] == 0
    assert given_to(run) == {"topic": topic, "brokers": brokers, "path": path, "options": {}}


def test_every_option_arrives(run: Run) -> None:
    run("orders", "--top", "5", "--sample", "1m", "--option", "a=b", "--master", "local[3]", "--spark", "c=d")
    given = given_to(run)
    assert (given["top"], given["sample"], given["options"]) == (5, 1 << 20, {"a": "b"})
    session = run.given["session"]  # type: ignore[attr-defined]
    assert session == ("session", ("tailrace stats orders", "local[3]", {"c": "d"}))


def test_programs_get_all_of_it(run: Run) -> None:
    _, out, _ = run("orders", "--json")
    found = json.loads(out)
    assert (found["type"], found["topic"], found["keys"]["distinct"]) == ("stats", "orders", 5000)
    _, out, _ = run("orders")
    lines = out.splitlines()
    assert lines[0].startswith("topic topic=orders records=")
    kinds = [line.split(" ")[0] for line in lines]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "topic": 1,
        "partition": 4,
        "sizes": 4,
        "key": 10,
        "header": 1,
        "producer": 2,
        "codec": 2,
        "trial": 5,
        "retention": 11,
    }
    assert any(line.startswith("trial codec=zstd ") for line in lines)


def test_people_get_tables(run: Run) -> None:
    code, out, _ = run("orders", terminal=140)
    assert code == 0
    for text in (
        "orders  localhost:9092",
        "skew 0.",
        "3 keys: their order is that of no single partition",
        "compressed by 2.36",
        "would gain about",
        "(89%)",
        "1,200 records without a key would be lost",
        "customer-",
        "not idempotent",
        "trace-id",
        "+42%",
        "1 MB a partition",
        "7d",
    ):
        assert text in out, text
    assert max(map(len, out.splitlines())) <= 140


def test_narrow_terminals_and_empty_topics(run: Run) -> None:
    assert "customer" in run("orders", terminal=60)[1]
    for terminal in (None, 100):
        code, out, err = run("orders", finds=EMPTY, terminal=terminal)
        assert (code, err) == (0, "")
        assert "empty" in out


def test_what_was_passed_over_is_said(run: Run) -> None:
    found = replace(EMPTY, skipped=("orders-0: offsets 3 to 5 cannot be read",))
    assert "passed over: orders-0: offsets 3 to 5" in run("orders", finds=found, terminal=100)[1]


def test_a_page(run: Run, tmp_path: Path) -> None:
    _, out, _ = run("orders", "--report", "orders.html", terminal=200)
    assert str(tmp_path / "orders.html") in out
    assert (tmp_path / "orders.html").read_text().lower().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["data/orders-0", "--path", "data"], "data/orders-0 is a path already, and --path says another place"),
        (["data/orders-0", "--bootstrap", "here:1"], "and --bootstrap says another place"),
        (["orders", "--path", "nowhere"], "nowhere does not exist"),
        (["no/such/path"], "no/such/path does not exist"),
        (["orders", "--report", "no/such/page.html"], "cannot write a report to no/such/page.html"),
        (["orders", "--path", "data", "--report", "data/page.html"], "which is counted and only read"),
        (["orders", "--path", "nowhere, file://data", "--report", "data/orders-0/page.html"], "counted and only read"),
        (["data/orders-0", "--report", "data/page.html"], "which is counted and only read"),
        (["data/orders-0", "--report", "data/orders-0/page.html"], "which is counted and only read"),
    ],
)
def test_wrong_usage_is_told_before_spark_is_started(run: Run, arguments: list[str], said: str) -> None:
    code, out, err = run(*arguments, finds=AssertionError("it was started"))
    assert (code, out) == (1, "")
    assert said in err


def test_a_file_that_may_not_be_read(run: Run) -> None:
    code, _, err = run("data/orders-0", finds=PermissionError(13, "Permission denied", "data/orders-0/1.log"))
    assert (code, err.splitlines()[0]) == (1, "error: data/orders-0/1.log cannot be used: Permission denied")


def test_topics_that_are_not_there(run: Run) -> None:
    code, _, err = run("orders", finds=MissingTopicError("there is no orders"))
    assert (code, err.splitlines()[0]) == (1, "error: there is no orders")
    assert "tailrace topic create orders" in err
    assert "a path is a log directory" in run("data/orders-0", finds=MissingTopicError("nothing there"))[2]


def test_time_without_records_is_part_of_the_line() -> None:
    line = spread([(0, 5), (60_000, 1), (600_000, 7)])
    assert (len(line), line[0], line[6], line[-1], sum(line)) == (LINE_WIDTH, 5, 1, 7, 13)
    assert sum(spread([(5, 3)])) == 3
