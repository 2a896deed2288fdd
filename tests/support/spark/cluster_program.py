"""A program for a cluster: reads a topic, copies it as a batch and as a stream, and says what it saw.

    python spark_cluster_program.py MASTER BOOTSTRAP TOPIC BATCH_COPY STREAM_COPY FOLDER

The stream is exactly once. Nothing but its checkpoint is in FOLDER, which is the driver's: executors see brokers only.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from tailrace.spark import read, read_stream, session, write, write_stream

EXECUTORS = 2
TIMEOUT_S = 120.0
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.executor.memory": "768m",
    "spark.executor.cores": 1,
    "spark.cores.max": EXECUTORS,
    "spark.sql.shuffle.partitions": 2,
    "spark.ui.enabled": False,
}


def main(master: str, brokers: str, topic: str, batch_copy: str, stream_copy: str, folder: str) -> None:
    spark = session("cluster", master, SETTINGS, progress=False)
    try:
        wait_for_executors(spark)
        rows = read(topic, brokers=brokers, session=spark, minPartitions=4)
        count = rows.selectExpr("count(*) AS count", "sum(CAST(CAST(value AS STRING) AS INT)) AS sum").collect()[0]
        write(rows.select("key", "value"), batch_copy, brokers=brokers)
        stream = read_stream(
            topic, brokers=brokers, session=spark, startingOffsets="earliest", maxOffsetsPerTrigger=600
        )
        query = (
            write_stream(
                stream.select("key", "value"),
                stream_copy,
                brokers=brokers,
                checkpoint=f"{folder}/checkpoint",
                sink_id="cluster",
            )
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(TIMEOUT_S)
        print(json.dumps({"count": count["count"], "sum": count["sum"], "batches": query.lastProgress["batchId"] + 1}))
    finally:
        spark.stop()


def wait_for_executors(spark: Any) -> None:
    """The driver counts as one."""
    deadline = time.monotonic() + TIMEOUT_S
    while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < EXECUTORS + 1:
        assert time.monotonic() < deadline, f"no {EXECUTORS} executors within {TIMEOUT_S:g} s"
        time.sleep(0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
