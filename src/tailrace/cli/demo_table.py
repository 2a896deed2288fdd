"""The demo's orders as a table, in the process in which Spark counts them: filled as they arrive, summed up by SQL."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol

from tailrace.cli.demo_facts import Sales, Tabled, Tabling

if TYPE_CHECKING:
    from tailrace.spark.tables.job.report import TableReport

NEEDED: Final = ("deltalake", "orjson")
FORMAT: Final = "delta"
TRIGGER: Final = "1s"
SCHEMA: Final = "`order` BIGINT, customer STRING, item STRING, pieces INT, cents BIGINT"
SALES: Final = "SELECT item, count(*) AS orders, sum(cents) AS cents FROM {orders} GROUP BY item ORDER BY cents DESC"
MOST_ROWS: Final = 5_000_000
"""It may run for days: here the table ends, not the disk."""
REST: Final = 4
"""A summary is followed by a pause of this multiple of the time that it took, so that the table is filled, too."""
MAX_REST_S: Final = 10.0
"""The longest pause. The first summary may take very long, and the last one must not wait for it."""


class Filling(Protocol):
    """As much of `TableJob` as there is to do with it here."""

    @property
    def report(self) -> TableReport: ...

    @property
    def is_running(self) -> bool: ...

    def stop(self) -> TableReport: ...


def start(spark: Any, topic: str, bootstrap: str, offsets: str, folder: str) -> OrdersTable | None:
    """In a session of Spark's. None where what it takes is not installed."""
    if any(find_spec(name) is None for name in NEEDED):
        return None
    from tailrace.spark import read_table, table
    from tailrace.spark.tables.table import TableJob

    place = f"{folder}/{topic}"
    job = table(
        topic,
        brokers=bootstrap,
        to=place,
        format=FORMAT,
        value="json",
        key="string",
        schema=SCHEMA,
        trigger=TRIGGER,
        session=spark,
        options={"startingOffsets": offsets},
    )
    assert isinstance(job, TableJob)

    def sales() -> tuple[Sales, ...]:
        rows = spark.sql(SALES, orders=read_table(place, format=FORMAT, session=spark)).collect()
        return tuple(Sales(row.item, row.orders, row.cents) for row in rows)

    return OrdersTable(job, place, sales)


class OrdersTable:
    def __init__(
        self,
        job: Filling,
        place: str,
        sales: Callable[[], tuple[Sales, ...]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job = job
        self._sales = sales
        self._clock = clock
        self._due_s = 0.0
        self._is_over = False
        self._now = Tabled(Tabling.STARTING, place=place)

    def now(self) -> Tabled:
        """How far it is; sums it up where there is something new and it is time."""
        if self._is_over:
            return self._now
        if not self._job.is_running:
            self.stop()  # which raises what it failed with
        report = self._job.report
        if report.version is None:
            return self._now
        self._now = self._now._replace(state=Tabling.FILLING, rows=report.rows, version=report.version)
        if report.rows >= MOST_ROWS:
            self.stop()
            self._now = self._now._replace(state=Tabling.FULL)
        began_s = self._clock()
        if report.rows != self._now.summed and (began_s >= self._due_s or self._is_over):
            self._now = self._now._replace(sales=self._sales())
            now_s = self._clock()
            self._due_s = now_s + min(REST * (now_s - began_s), MAX_REST_S)
        return self._now

    def stop(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._job.stop()
