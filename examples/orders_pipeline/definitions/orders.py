"""The orders that `tailrace demo` writes: a table that each run adds the new ones to."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json

spark = SparkSession.active()

ORDER = "order BIGINT, customer STRING, item STRING, pieces INT, cents BIGINT"


@dp.table
def orders() -> DataFrame:
    records = (
        spark.readStream.format("tailrace")
        .option("kafka.bootstrap.servers", spark.conf.get("orders.brokers"))
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    return records.select("timestamp", from_json(col("value").cast("string"), ORDER).alias("order")).select(
        "timestamp", "order.*"
    )
