"""Runs in the environment of Spark's connector: the same reads and writes by `kafka` and by `tailrace`.

    python connector_rows.py WORK.json ANSWERS.json

WORK has the broker's address (`servers`), `jars`, and by name the cases: `batches` and `streams` are options of a
reader; `writes` are columns (SQL over `id` from 0 to `count`) and the options of a writer, whose `topic` is by format.
ANSWERS has for each case and format either `rows` (of a stream: of each batch) or, as `error`, what was refused.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

FORMATS = ("kafka", "tailrace")
TIMEOUT_S = 60
COLUMNS = (
    "hex(key) AS key",
    "hex(value) AS value",
    "topic",
    "partition",
    "offset",
    "unix_micros(timestamp) AS timestamp",
    "timestampType",
)


def main(question: str, answer: str) -> None:
    work = json.loads(Path(question).read_text())
    spark = session(work["jars"])
    answers: dict[str, Any] = {}
    kinds: dict[str, Callable[..., Any]] = {"batches": batch, "streams": stream, "writes": write}
    for kind, run in kinds.items():
        for name, case in work[kind].items():
            answers[name] = {each: told(run, spark, each, work["servers"], case) for each in FORMATS}
    Path(answer).write_text(json.dumps(answers))
    spark.stop()


def session(jars: list[str]) -> SparkSession:
    settings = {
        "spark.jars": ",".join(jars),
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def told(run: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    start = time.monotonic()
    try:
        return run(*arguments)
    except Exception as error:  # whatever Spark makes of it: both must refuse
        return {"error": f"{type(error).__name__}: {error}"[:2000]}
    finally:
        print(f"{time.monotonic() - start:5.1f} s", *arguments[1:], flush=True)


def batch(spark: SparkSession, kind: str, servers: str, options: dict[str, str]) -> dict[str, Any]:
    frame = spark.read.format(kind).option("kafka.bootstrap.servers", servers).options(**options).load()
    return {"rows": rows(frame), "pieces": frame.rdd.getNumPartitions(), "schema": frame.schema.simpleString()}


def stream(spark: SparkSession, kind: str, servers: str, options: dict[str, str]) -> dict[str, Any]:
    frame = spark.readStream.format(kind).option("kafka.bootstrap.servers", servers).options(**options).load()
    batches: list[list[Any]] = []
    folder = tempfile.mkdtemp()
    query = (
        frame.writeStream.foreachBatch(lambda each, _: batches.append(rows(each)))
        .option("checkpointLocation", folder)
        .trigger(availableNow=True)
        .start()
    )
    try:
        if not query.awaitTermination(TIMEOUT_S):
            raise TimeoutError(f"the query did not end within {TIMEOUT_S} s")
        return {"rows": batches}
    finally:
        query.stop()
        shutil.rmtree(folder, ignore_errors=True)


def rows(frame: DataFrame) -> list[Any]:
    headers = ["transform(headers, each -> array(each.key, hex(each.value))) AS headers"]
    found = frame.selectExpr(*COLUMNS, *(headers if "headers" in frame.columns else [])).collect()
    return sorted((list(row) for row in found), key=lambda row: (row[2], row[3], row[4]))


def write(spark: SparkSession, kind: str, servers: str, case: dict[str, Any]) -> dict[str, Any]:
    options = {**case["options"], **case["of"][kind]}
    columns = [column.replace("$TOPIC", case["of"][kind].get("topic", "")) for column in case["columns"]]
    frame = spark.range(0, case["count"], 1, 2).selectExpr(*columns)
    frame.write.format(kind).option("kafka.bootstrap.servers", servers).options(**options).mode("append").save()
    return {"rows": []}


if __name__ == "__main__":
    main(*sys.argv[1:])
