"""`session()` where a session is running. One that is started by it is in `test_spark_without_java.py`."""

from __future__ import annotations

import threading

import pytest
from pyspark.sql import SparkSession

from tailrace.spark import session
from tailrace.spark.errors import OptionError


def test_the_running_session_is_taken(spark: SparkSession) -> None:
    assert session() is spark
    assert session("another name", "local[2]", {"spark.driver.memory": "1g"}) is spark


def test_also_by_another_thread(spark: SparkSession) -> None:
    found: list[SparkSession] = []
    thread = threading.Thread(target=lambda: found.append(session()))
    thread.start()
    thread.join()
    assert found == [spark]


def test_it_takes_what_can_change(spark: SparkSession) -> None:
    key = "spark.sql.session.timeZone"
    before = spark.conf.get(key)
    try:
        session(config={key: "Asia/Tokyo"})
        assert spark.conf.get(key) == "Asia/Tokyo"
    finally:
        spark.conf.set(key, before)


@pytest.mark.usefixtures("spark")
def test_it_refuses_what_cannot() -> None:
    with pytest.raises(OptionError, match=r"spark\.driver\.memory, spark\.master: .* stop\(\) it first"):
        session(master="local[7]", config={"spark.driver.memory": "7g"})
