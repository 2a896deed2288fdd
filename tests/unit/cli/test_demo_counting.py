"""What the demo does with a process that counts its orders, and how it shows that. Spark itself is in tests/spark."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tailrace.cli import demo_counting
from tailrace.cli.demo_counting import NoCounter, SparkCounter, counter
from tailrace.cli.demo_facts import NO_TABLE, NOT_COUNTED, Counted, Counting, Sales, Tabled, Tabling
from tailrace.cli.demo_view import spark
from tailrace.model.ids import TopicPartition

ENDS = {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 7}

HEAD = """
import json, os, signal, sys, time
say = lambda **fields: print(json.dumps(fields), flush=True)
"""


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], SparkCounter]:
    """A counter whose process runs the given program instead of Spark."""
    (tmp_path / "modules").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    monkeypatch.setattr(demo_counting.tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()

    def start(program: str) -> SparkCounter:
        (tmp_path / "modules" / "counting_stand_in.py").write_text(HEAD + program)
        return SparkCounter("127.0.0.1:1", ENDS, query="counting_stand_in")

    return start


def eventually(counter: SparkCounter, state: Counting) -> Counted:
    """The process is real: it takes its time."""
    gives_up_s = time.monotonic() + 30
    while (counted := counter.now()).state is not state and time.monotonic() < gives_up_s:
        os.sched_yield()
    return counted


def test_what_is_said_is_read_without_waiting(started: Callable[[str], SparkCounter], tmp_path: Path) -> None:
    program = "say(state='counting', orders=12, batches=2, best_item='lamp', best_cents=7); sys.stdin.read()"
    running = started(program)
    assert running.now().state in (Counting.STARTING, Counting.COUNTING)
    assert eventually(running, Counting.COUNTING) == (Counting.COUNTING, 12, 2, "lamp", 7, "")
    running.close()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_what_is_said_of_the_table_is_kept_apart(started: Callable[[str], SparkCounter]) -> None:
    running = started(
        "say(table=dict(state='filling', rows=7, version=3, place='p', sales=[['lamp', 7, 700]])); "
        "say(state='counting', orders=12); sys.exit('no more memory\\n')"
    )
    assert running.table().state in (Tabling.STARTING, Tabling.FILLING)
    eventually(running, Counting.FAILED)
    sales = (Sales("lamp", 7, 700),)
    assert running.table() == Tabled(Tabling.FAILED, 7, 3, "p", sales, "no more memory")
    running.close()


def test_it_is_told_where_to_begin(started: Callable[[str], SparkCounter]) -> None:
    running = started("say(state='failed', trouble=' '.join(sys.argv[1:3]))")
    assert eventually(running, Counting.FAILED).trouble == '127.0.0.1:1 {"orders": {"0": 5, "1": 7}}'
    running.close()


def test_one_that_ends_leaves_its_last_words(started: Callable[[str], SparkCounter]) -> None:
    running = started("say(state='counting', orders=3); sys.exit('no more memory\\n')")
    assert eventually(running, Counting.FAILED) == (Counting.FAILED, 3, 0, "", 0, "no more memory")
    assert running.now().state is Counting.FAILED
    running.close()


@pytest.mark.parametrize("state", ["starting", "counting"])
def test_one_that_does_not_end_is_ended(
    started: Callable[[str], SparkCounter], monkeypatch: pytest.MonkeyPatch, state: str, tmp_path: Path
) -> None:
    monkeypatch.setattr(demo_counting, "ENDS_WITHIN_S", 0.01)
    running = started(f"signal.signal(signal.SIGTERM, signal.SIG_IGN); say(state={state!r}, orders=1); time.sleep(600)")
    gives_up_s = time.monotonic() + 30
    while not running.now().orders and time.monotonic() < gives_up_s:
        os.sched_yield()
    running.close()
    assert running._process.returncode == -9
    assert list((tmp_path / "temporary").iterdir()) == []


def test_without_spark_or_without_wanting_it_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    unwanted = counter("127.0.0.1:1", ENDS, is_wanted=False)
    assert isinstance(unwanted, NoCounter)
    assert (unwanted.now(), unwanted.table()) == (NOT_COUNTED, NO_TABLE)
    really: Callable[..., Any] = importlib.util.find_spec
    monkeypatch.setattr(demo_counting, "find_spec", lambda name: None if name == "pyspark" else really(name))
    missing = counter("127.0.0.1:1", ENDS, is_wanted=True)
    assert missing.now().state is Counting.MISSING
    missing.close()


@pytest.mark.parametrize(
    ("counted", "is_sound"),
    [
        (NOT_COUNTED, True),
        (Counted(Counting.MISSING), True),
        (Counted(Counting.COUNTING, 10), True),
        (Counted(Counting.COUNTING, 9), False),
        (Counted(Counting.COUNTING, 11), False),
        (Counted(Counting.STARTING), False),
        (Counted(Counting.FAILED, 10), False),
    ],
)
def test_a_count_is_sound_when_it_is_right_or_nobody_counted(counted: Counted, is_sound: bool) -> None:
    assert counted.is_sound(10) is is_sound


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        (NOT_COUNTED, []),
        (Counted(Counting.MISSING), ["pip install 'tailrace[spark]'   and Spark counts them too"]),
        (Counted(Counting.STARTING), ["a streaming query is starting"]),
        (Counted(Counting.FAILED, trouble="no\x1b[2J"), ["failed: no\\x1b[2J"]),
        (
            Counted(Counting.COUNTING, 12_000, 7, "lamp", 123_456_700),
            ["12,000 counted   batch 7   best seller: lamp, 1,234,567.00"],
        ),
        (Counted(Counting.COUNTING, 11_000, 6), ["11,000 counted   1,000 to come   batch 6"]),
        (Counted(Counting.COUNTING, 13_000, 6), ["13,000 counted   MORE THAN SENT   batch 6"]),
    ],
)
def test_how_it_is_shown(counted: Counted, expected: list[str]) -> None:
    console = Console(width=200, color_system=None)
    with console.capture() as captured:
        for text in spark(counted, 12_000):
            console.print(text)
    assert captured.get().splitlines() == expected
