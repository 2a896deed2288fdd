"""The demo's table: when it is summed up, how it ends, what is said and shown of it. Spark itself is in tests/spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

pytest.importorskip("pyspark")

from rich.console import Console, RenderableType

from tailrace.cli import demo_counting_query, demo_table
from tailrace.cli.demo_counting_query import SaidTable
from tailrace.cli.demo_facts import NO_TABLE, Sales, Tabled, Tabling
from tailrace.cli.demo_table import MAX_REST_S, MOST_ROWS, REST, OrdersTable
from tailrace.cli.demo_view import sales_table, table
from tailrace.spark.errors import TableError
from tailrace.spark.tables.job.report import TableReport

PLACE = "folder/orders"
EMPTY = TableReport("orders", PLACE, "delta", "append")


@dataclass
class StubJob:
    report: TableReport = EMPTY
    is_running: bool = True
    error: Exception | None = None
    stops: int = 0

    def stop(self) -> TableReport:
        self.stops += 1
        if self.error is not None:
            raise self.error
        return self.report

    def has(self, rows: int, version: int) -> None:
        self.report = TableReport("orders", PLACE, "delta", "append", version=version, rows=rows)


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def job() -> StubJob:
    return StubJob()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def filled(job: StubJob, clock: Clock) -> OrdersTable:
    def sales() -> tuple[Sales, ...]:
        """Takes half a second."""
        clock.now_s += 0.5
        return (Sales("lamp", job.report.rows - 1, 700), Sales("clock", 1, 5)) if job.report.rows else ()

    return OrdersTable(job, PLACE, sales, clock)


def test_the_sum_rests_between(job: StubJob, clock: Clock, filled: OrdersTable) -> None:
    assert filled.now() == Tabled(Tabling.STARTING, place=PLACE)
    job.has(0, version=0)
    assert filled.now() == Tabled(Tabling.FILLING, 0, 0, PLACE)
    job.has(10, version=1)
    first = filled.now()
    assert (first.rows, first.version, first.summed) == (10, 1, 10)
    job.has(20, version=2)
    assert (filled.now().rows, filled.now().summed) == (20, 10)
    clock.now_s += REST * 0.5
    assert (filled.now().rows, filled.now().summed) == (20, 20)
    assert filled.now().is_sound(20)
    assert not filled.now().is_sound(21)


def test_a_slow_summary_does_not_put_off_the_next_one_for_long(job: StubJob, clock: Clock) -> None:
    def slow_sales() -> tuple[Sales, ...]:
        clock.now_s += 60
        return (Sales("lamp", job.report.rows, 700),)

    filled = OrdersTable(job, "folder", slow_sales, clock)
    job.has(10, version=1)
    assert filled.now().summed == 10
    job.has(20, version=2)
    clock.now_s += MAX_REST_S - 0.1
    assert filled.now().summed == 10
    clock.now_s += 0.1
    assert filled.now().summed == 20


def test_a_table_that_is_large_enough_ends(job: StubJob, filled: OrdersTable) -> None:
    job.has(MOST_ROWS, version=9)
    now = filled.now()
    assert (now.state, now.summed, job.stops) == (Tabling.FULL, MOST_ROWS, 1)
    filled.stop()
    assert (filled.now(), job.stops) == (now, 1)
    assert now.is_sound(MOST_ROWS * 2)


def test_trouble_is_said_once_and_the_count_goes_on(
    job: StubJob, filled: OrdersTable, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_table, "start", lambda *arguments: filled)
    said = SaidTable("spark", "orders", "127.0.0.1:1", "{}", "folder")
    job.has(10, version=1)
    said.look()
    said.look()
    job.is_running, job.error = False, TableError("the disk is full")
    said.look()
    said.look()
    said.stop()
    lines = [json.loads(line)["table"] for line in capsys.readouterr().out.splitlines()]
    assert [(line["state"], line["rows"], line["trouble"]) for line in lines] == [
        ("filling", 10, ""),
        ("failed", 10, "the disk is full"),
    ]
    assert lines[0]["sales"] == [["lamp", 9, 700], ["clock", 1, 5]]


def start_failing(*arguments: object) -> OrdersTable | None:
    raise TableError("no place")


@pytest.mark.parametrize(("start", "state"), [(start_failing, "failed"), (lambda *arguments: None, "missing")])
def test_a_table_that_cannot_begin(
    start: Callable[..., OrdersTable | None],
    state: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(demo_table, "start", start)
    said = SaidTable()
    said.look()
    said.stop()
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["table"]["state"] == state


def test_without_its_packages_it_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_table, "find_spec", lambda name: None)
    assert demo_table.start(None, "orders", "127.0.0.1:1", "{}", "folder") is None
    assert demo_counting_query.TRIGGER


def printed(*what: RenderableType) -> list[str]:
    console = Console(width=200, color_system=None)
    with console.capture() as captured:
        for each in what:
            console.print(each)
    return captured.get().splitlines()


@pytest.mark.parametrize(
    ("tabled", "expected"),
    [
        (NO_TABLE, []),
        (Tabled(Tabling.MISSING), ["pip install 'tailrace[tables]'   and they go into a table"]),
        (Tabled(Tabling.STARTING), ["a table is being made"]),
        (Tabled(Tabling.FAILED, trouble="no\x1b[2J"), ["failed: no\\x1b[2J"]),
        (Tabled(Tabling.FILLING, 12_000, 7), ["12,000 rows   version 7"]),
        (Tabled(Tabling.FILLING, 11_000, 7), ["11,000 rows   1,000 to come   version 7"]),
        (Tabled(Tabling.FILLING, 13_000, 7), ["13,000 rows   MORE THAN SENT   version 7"]),
        (Tabled(Tabling.FULL, 5_000_000, 7), ["5,000,000 rows   that is enough: it ends here   version 7"]),
    ],
)
def test_how_a_table_is_shown(tabled: Tabled, expected: list[str]) -> None:
    assert printed(*table(tabled, 12_000)) == expected


def test_the_summary_is_a_table() -> None:
    shown = printed(sales_table([Sales("chair", 1_200, 123_456_700), Sales("lamp", 9, 5)]))
    assert [line.split() for line in shown] == [
        ["item", "orders", "sales"],
        ["chair", "1,200", "1,234,567.00"],
        ["lamp", "9", "0.05"],
    ]


@pytest.mark.parametrize(
    ("tabled", "is_awaited"),
    [
        (Tabled(Tabling.STARTING), True),
        (Tabled(Tabling.FILLING, 9, 1, sales=(Sales("lamp", 9, 1),)), True),
        (Tabled(Tabling.FILLING, 10, 1, sales=(Sales("lamp", 9, 1),)), True),
        (Tabled(Tabling.FILLING, 9, 1, sales=(Sales("lamp", 10, 1),)), True),  # a commit that is not reported yet
        (Tabled(Tabling.FILLING, 10, 1, sales=(Sales("lamp", 9, 1), Sales("vase", 1, 1))), False),
        (Tabled(Tabling.FULL, 9, 1), False),
        (Tabled(Tabling.FAILED), False),
        (NO_TABLE, False),
    ],
)
def test_a_table_is_awaited_until_it_reports_and_sums_all(tabled: Tabled, is_awaited: bool) -> None:
    assert tabled.is_awaited(10) is is_awaited


@pytest.mark.parametrize(
    ("tabled", "is_sound"),
    [
        (NO_TABLE, True),
        (Tabled(Tabling.MISSING), True),
        (Tabled(Tabling.STARTING), False),
        (Tabled(Tabling.FILLING, 10, 1, PLACE, (Sales("lamp", 10, 1),)), True),
        (Tabled(Tabling.FILLING, 10, 1, PLACE, (Sales("lamp", 9, 1),)), False),
        (Tabled(Tabling.FILLING, 9, 1, PLACE, (Sales("lamp", 9, 1),)), False),
        (Tabled(Tabling.FAILED, 10, 1, PLACE, (Sales("lamp", 10, 1),)), False),
    ],
)
def test_a_table_is_sound_when_it_has_all_or_there_is_none(tabled: Tabled, is_sound: bool) -> None:
    assert tabled.is_sound(10) is is_sound
