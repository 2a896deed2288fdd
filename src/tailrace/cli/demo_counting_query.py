"""The process in which Spark counts the demo's orders: BOOTSTRAP OFFSETS FOLDER, with offsets as Spark takes them.

Each line on standard output is a JSON object, the fields of `Counted`. It ends when its standard input does.
"""

from __future__ import annotations

import json
import select
import sys
from collections.abc import Sequence
from typing import Any, Final

from tailrace.cli.demo_facts import Counted, Counting
from tailrace.model.errors import TailraceError
from tailrace.spark import read_stream, session

LOOK_EVERY_S: Final = 0.1
TRIGGER: Final = "500 milliseconds"
ORDER: Final = "item STRING, cents BIGINT"
SALES: Final = f"""
    SELECT order.item AS item, count(*) AS orders, sum(order.cents) AS cents
    FROM (SELECT from_json(CAST(value AS STRING), '{ORDER}') AS order FROM {{orders}})
    GROUP BY order.item
"""


def say(counted: Counted) -> None:
    print(json.dumps(counted._asdict()), flush=True)


def report(sales: Any, batch: int) -> None:
    """The sums so far, after each batch of the stream."""
    rows = sales.collect()
    best = max(rows, key=lambda row: row.cents or 0, default=None)
    say(
        Counted(
            Counting.COUNTING,
            orders=sum(row.orders for row in rows),
            batches=batch + 1,
            best_item=(best.item if best else None) or "",
            best_cents=(best.cents if best else None) or 0,
        )
    )


def run(bootstrap: str, offsets: str, folder: str) -> None:
    own = {
        "spark.driver.memory": "512m",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.sql.shuffle.partitions": 2,
    }
    spark = session("tailrace demo", "local[2]", own, progress=False)
    orders = read_stream(tuple(json.loads(offsets)), brokers=bootstrap, session=spark, startingOffsets=offsets)
    sales = spark.sql(SALES, orders=orders)
    query = (
        sales.writeStream.outputMode("complete")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(processingTime=TRIGGER)
        .foreachBatch(report)
        .start()
    )
    is_ready = False
    while not select.select([sys.stdin], [], [], LOOK_EVERY_S)[0]:
        if (error := query.exception()) is not None:
            raise error
        if not is_ready and query.lastProgress is not None:
            is_ready = True
            if not query.lastProgress["numInputRows"]:
                say(Counted(Counting.COUNTING))
    query.stop()
    spark.stop()


def main(arguments: Sequence[str]) -> int:
    say(Counted(Counting.STARTING))
    try:
        run(*arguments)
    except Exception as error:
        say(Counted(Counting.FAILED, trouble=trouble_of(error)))
        return 1
    return 0


def trouble_of(error: Exception) -> str:
    """One line. What Spark raises has a Java and a Python trace behind it."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return f"{text}; {error.hint}" if isinstance(error, TailraceError) and error.hint else text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
