"""A frame that is used more than once gives each use its own rows, whatever the uses before it filtered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.spark.topics import Topics
from tailrace.spark import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_filter_of_one_use_is_not_that_of_the_next(spark: SparkSession, topics: Topics) -> None:
    frame = read(topics.filled(200), brokers=topics.bootstrap_servers, session=spark)
    assert frame.where("offset < 10").count() == 10
    assert frame.count() == 200
    assert frame.where("offset < 10").union(frame).count() == 210
    assert frame.where("offset < 10").join(frame.where("offset >= 5").alias("other"), "offset").count() == 5
