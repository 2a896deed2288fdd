"""A Spark driver that brings a table up to the end of its topic, and ends. To be killed.

    python tests/support/stress/table_driver.py '{"brokers": …, "topic": …, "to": …, "format": …, "mode": …,
        "master": …, "rows_per_batch": …, "die": ["before", "append", "rows"]}'

Prints a line for each thing that the job begins to do, and one for each batch that is committed. With `die` it ends
itself and its JVM with SIGKILL right before, or right after, the first commit of that operation to the table with that
role has happened.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib import import_module
from typing import Any

SETTINGS = {"spark.driver.memory": "700m", "spark.default.parallelism": 2, "spark.task.maxFailures": 1}
INFER_RECORDS = 500
BUCKETS = 8


def main(text: str) -> None:
    given = json.loads(text)
    if given["die"] is not None:
        end_at(given["format"], *given["die"])
    from tailrace.spark import session
    from tailrace.spark.tables.table import table

    spark = session("table", given["master"], SETTINGS, progress=False)
    spark.sparkContext.setLogLevel("OFF" if given["master"].startswith("local[") else "ERROR")
    report = table(
        given["topic"],
        brokers=given["brokers"],
        to=given["to"],
        format=given["format"],
        mode=given["mode"],
        value="json",
        partition_by=("_day",) if given["mode"] == "append" else (),
        buckets=BUCKETS if given["mode"] == "upsert" else None,
        session=spark,
        options={"maxOffsetsPerTrigger": given["rows_per_batch"], "inferRecords": INFER_RECORDS},
        told=Teller(),
    )
    print("end", json.dumps(report.to_dict()), flush=True)


class Teller:
    def __init__(self) -> None:
        self._doing, self._batches = "", 0

    def __call__(self, progress: Any) -> None:
        while self._batches < progress.report.batches:
            self._batches += 1
            print(f"batch {self._batches}", flush=True)
        if progress.doing != self._doing:
            self._doing = progress.doing
            print(f"doing {self._doing}", flush=True)


def end_at(kind: str, side: str, operation: str, role: str) -> None:
    """Puts itself around the commits of all tables of that format."""
    store = import_module(f"tailrace.spark.tables.{kind}.store")
    snapshots = [each for name, each in vars(store).items() if isinstance(each, type) and name.endswith("Snapshot")]
    assert snapshots, f"{store.__name__} makes snapshots"
    for snapshot in snapshots:
        commit = snapshot.commit

        def watched(self: Any, change: Any, commit: Any = commit) -> Any:
            is_it = (change.operation, self.about.role) == (operation, role)
            if is_it and side == "before":
                die()
            done = commit(self, change)
            if is_it:
                die()
            return done

        snapshot.commit = watched  # type: ignore[attr-defined]


def die() -> None:
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1])
