"""A Spark driver that copies one topic to another, exactly once, until the end of what there is. To be killed.

    python tests/support/stress/sink_driver.py BROKERS CHECKPOINT PARTITIONS ROWS_PER_BATCH MASTER [KEY=VALUE …]

Prints a line for each batch that Spark has done. `KEY=VALUE` are Spark's settings, `sink.KEY=VALUE` the sink's options.
"""

from __future__ import annotations

import os
import sys

INPUT, OUTPUT = "input", "output"
SINK_ID = "copy"


def main(brokers: str, checkpoint: str, partitions: int, rows_per_batch: int, master: str, more: list[str]) -> None:
    os.environ["TAILRACE_KILL_GROUP"] = str(os.getpgid(0))
    from tailrace.spark import session

    given = dict(each.split("=", 1) for each in more)
    sink = {key.removeprefix("sink."): value for key, value in given.items() if key.startswith("sink.")}
    settings = {key: value for key, value in given.items() if not key.startswith("sink.")}
    settings = {"spark.driver.memory": "700m", "spark.sql.shuffle.partitions": "2", **settings}
    spark = session("copy", master, settings, progress=False)
    spark.sparkContext.setLogLevel("ERROR")
    rows = (
        spark.readStream.format("tailrace")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", INPUT)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", rows_per_batch)
        .load()
        .select("key", "value")
        .repartition(partitions)
    )
    query = (
        rows.writeStream.format("tailrace")
        .option("kafka.bootstrap.servers", brokers)
        .option("topic", OUTPUT)
        .option("delivery", "exactly-once")
        .option("sinkId", SINK_ID)
        .options(**sink)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    done = -1
    while not query.awaitTermination(0.05):
        progress = query.lastProgress
        if progress is not None and progress["batchId"] != done:
            done = progress["batchId"]
            print(f"batch {done}", flush=True)
    print("end", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5], sys.argv[6:])
