"""The directory of a real Kafka, audited while it is at work, and after it was stopped and killed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.audit.live_brokers import AuditedBrokerCases
from support.spark.live_directories import SETTINGS

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of kafka-python's use of importlib
    from golden.broker import Broker
    from support.kafka.client import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.usefixtures("kafka_jars")]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "kafka", free_port(), SETTINGS) as running:
        yield running


@pytest.fixture
def address(broker: Broker) -> str:
    return broker.address


@pytest.fixture
def directory(broker: Broker) -> Path:
    return broker.log_dir


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[SparkSession]:
    """The session that other tests of this worker share, if there is one: a process can have no second."""
    pyspark_sql = pytest.importorskip("pyspark.sql")
    from tailrace.spark import session

    running = pyspark_sql.SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    settings = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": 2}
    started = session("tests", "local[2]", {**settings, "spark.sql.warehouse.dir": tmp_path}, progress=False)
    yield started
    started.stop()


class TestAuditOfABusyKafka(AuditedBrokerCases):
    pass
