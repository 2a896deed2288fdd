"""Ctrl-C while Spark works ends the work, also where PySpark raises something else instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyspark")

from local_spark import LocalSpark
from pyspark import util
from table_records import records
from table_rig import TableRig

from tailrace.cli.spark_work import told_errors
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
