"""Ctrl-C while Spark works ends the work, also where PySpark raises something else instead."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, NoReturn

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyspark")

from pyspark import SparkContext, util

from support.spark.local_rdds import LocalSpark
from support.tables.harness import TableRig
from support.tables.records import records
from tailrace.cli.spark_work import told_errors
from tailrace.spark import interrupted
from tailrace.spark.errors import PipelineError
from tailrace.spark.interrupted import interrupt_behind, interrupts_raised
from tailrace.spark.tables.job.work import SparkWork


def interrupted_collect() -> NoReturn:
    """As PySpark does it: its `finally` closes a socket that is not there yet."""

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(util, "_create_local_socket", interrupt)
        with util._load_from_socket(None, None):
            pass
    raise AssertionError


def test_pyspark_hides_the_interrupt() -> None:
    """Once this fails, PySpark does it better."""
    with pytest.raises(UnboundLocalError):
        interrupted_collect()


class InterruptedSpark(LocalSpark):
    def runJob(self, *given: Any) -> list[Any]:  # noqa: N802  # Spark's name
        self.jobs += 1
        interrupted_collect()


def test_an_interrupted_batch_is_not_tried_again(tmp_path: Path) -> None:
    rig = TableRig(tmp_path, "parquet", "append")
    rig.come(records(20, 2))
    rig.spark = InterruptedSpark()
    with pytest.raises(KeyboardInterrupt):
        rig.run()
    assert rig.spark.jobs == 1


def test_a_command_is_interrupted_and_has_not_failed() -> None:
    def search() -> NoReturn:
        try:
            interrupted_collect()
        except UnboundLocalError as error:
            raise PipelineError("the search failed") from error

    with pytest.raises(KeyboardInterrupt), told_errors("orders", is_path=True):
        search()


def test_what_was_interrupted_before_is_not_interrupted_now() -> None:
    """Who runs a table after Ctrl-C, in its handler, has the interrupt behind all that fails then."""
    spark: Any = LocalSpark()
    work = SparkWork(spark, pause=lambda _: None)

    def fail() -> NoReturn:
        raise RuntimeError("an executor went")

    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with pytest.raises(PipelineError, match="failed 3 times: an executor went"):
            work._tried("an append", fail)


def test_errors_that_are_each_behind_the_other_come_to_an_end() -> None:
    one, other = ValueError(), KeyError()
    one.__context__, other.__cause__ = other, one
    assert interrupt_behind(one) is None
    with pytest.raises(ValueError), interrupts_raised():
        raise one


# What the JVM says


class Listener:
    """A context that is told how much to log."""

    def __init__(self, error: Exception | None = None, *, waits_for: threading.Event | None = None) -> None:
        self.told: list[tuple[str, bool]] = []
        self._error = error
        self._waits_for = waits_for

    def setLogLevel(self, level: str) -> None:  # noqa: N802  # Spark's name
        if self._waits_for is not None:
            self._waits_for.wait()
        self.told.append((level, threading.current_thread() is threading.main_thread()))
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("answer", [None, ConnectionError("it is gone")])
def test_spark_says_nothing_about_tasks_that_an_interrupt_ends(
    monkeypatch: pytest.MonkeyPatch, interrupt: type[BaseException], answer: Exception | None
) -> None:
    context = Listener(answer)
    monkeypatch.setattr(SparkContext, "_active_spark_context", context)
    with pytest.raises(interrupt), told_errors("orders", is_path=True):
        raise interrupt
    # The thread that was interrupted may have an answer to come from the JVM, and would take it for this one's.
    assert context.told == [("OFF", False)]


def test_spark_goes_on_telling_of_errors() -> None:
    context = Listener()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SparkContext, "_active_spark_context", context)
        with pytest.raises(PipelineError), told_errors("orders", is_path=True):
            raise PipelineError("an executor went")
    assert context.told == []


def test_nobody_waits_for_a_jvm_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()
    monkeypatch.setattr(SparkContext, "_active_spark_context", Listener(waits_for=never))
    monkeypatch.setattr(interrupted, "HUSH_S", 0.0)
    interrupted.hush_spark()
    never.set()
