"""The process in which Spark counts the demo's orders: BOOTSTRAP OFFSETS FOLDER, with offsets as Spark takes them.

Each line on standard output is a JSON object, the fields of `Counted`, or of `Tabled` as its field `table`, or of
`Audited` as its field `audit`. A line on standard input is one, too: `halt` ends the query and the table, `audit` and
`page` ask for an audit of a log directory and say where the page about it is to be. It ends when its input does.
"""

from __future__ import annotations

import json
import select
import sys
import threading
from collections.abc import Sequence
from typing import Any, Final

from tailrace.cli import demo_audit, demo_table
from tailrace.cli.demo_facts import Audited, Auditing, Counted, Counting, Tabled, Tabling
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


_one_at_a_time = threading.Lock()


def say(what: Counted | Tabled | Audited) -> None:
    """From the main thread, and from that in which Spark tells of its batches."""
    fields: dict[str, Any] = what._asdict()
    if isinstance(what, Tabled):
        fields = {"table": fields}
    elif isinstance(what, Audited):
        fields = {"audit": fields}
    with _one_at_a_time:
        print(json.dumps(fields), flush=True)


class SaidTable:
    """The table, and what was said of it. Its trouble is not that of the query beside it."""

    def __init__(self, *arguments: Any) -> None:
        self._said = Tabled(Tabling.STARTING)
        self._table: demo_table.OrdersTable | None = None
        try:
            self._table = demo_table.start(*arguments)
        except Exception as error:
            say(Tabled(Tabling.FAILED, trouble=trouble_of(error)))
            return
        if self._table is None:
            say(Tabled(Tabling.MISSING))

    def look(self) -> None:
        if self._table is None:
            return
        try:
            now = self._table.now()
        except Exception as error:
            now = self._said._replace(state=Tabling.FAILED, trouble=trouble_of(error))
            self._table = None
        if now != self._said:
            self._said = now
            say(now)

    def stop(self) -> None:
        if self._table is not None:
            self._table.stop()
            self._table = None


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
    topic, *_ = json.loads(offsets)
    table = SaidTable(spark, topic, bootstrap, offsets, folder)
    is_ready = False
    while not select.select([sys.stdin], [], [], LOOK_EVERY_S)[0]:
        if (error := query.exception()) is not None:
            raise error
        if not is_ready and query.lastProgress is not None:
            is_ready = True
            if not query.lastProgress["numInputRows"]:
                say(Counted(Counting.COUNTING))
        table.look()
    asked = sys.stdin.readline()
    query.stop()
    table.stop()
    if asked:
        say(Audited(Auditing.READY))
    while asked := sys.stdin.readline():
        audit(spark, json.loads(asked))
    spark.stop()


def audit(spark: Any, asked: dict[str, str]) -> None:
    say(Audited(Auditing.RUNNING))
    try:
        say(demo_audit.audited(spark, asked["audit"], asked["page"]))
    except Exception as error:
        say(Audited(Auditing.FAILED, trouble=trouble_of(error)))


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
