"""A Spark session, a broker and its topics, for the tests that start Spark.

Each process of a run that executes such tests has one of each; tests/suite/scheduler.py keeps their number small. The
Python data source is found by its name alone: no test registers anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.spark.topics import Topics
from tailrace.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.default.parallelism": 2,
    "spark.sql.shuffle.partitions": 2,
    "spark.sql.streaming.stopTimeout": "60s",
}
BROKER_SETTINGS = {"log.retention.ms": -1}  # records of tests are as old as they like


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working directory of the JVM and its Python workers: their relative paths begin here."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def spark(spark_folder: Path) -> Iterator[SparkSession]:
    """As `tailrace.spark` makes one for a laptop, small."""
    pytest.importorskip("pyspark")
    from tailrace.spark import session

    config = {**SETTINGS, "spark.sql.warehouse.dir": spark_folder / "warehouse"}
    with chdir(spark_folder):
        started = session("tests", "local[2]", config, progress=False)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker(BROKER_SETTINGS) as running:
        yield running


@pytest.fixture(scope="session")
def topics(broker: Broker) -> Topics:
    return Topics(broker)


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """A folder for the checkpoint of one query."""
    return str(tmp_path / "checkpoint")


@pytest.fixture(autouse=True)
def ended_queries(request: pytest.FixtureRequest) -> Iterator[None]:
    """A query that a failed test left running must not run beside the next one."""
    yield
    if "spark" in request.fixturenames:
        session: SparkSession = request.getfixturevalue("spark")
        query: StreamingQuery
        for query in session.streams.active:
            query.stop()
