"""A program for a cluster: audits log directories twice, the second time from memory, and prints both reports.

    python audit_cluster_program.py MASTER EXECUTORS STATE PATH…

Segments of more than a few kilobytes are cut, so that each goes to several executors.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from typing import Any

from tailrace.spark import audit, session
from tailrace.spark.auditing.job import waves

TIMEOUT_S = 120.0
PIECE_BYTES = 16_384
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.executor.memory": "768m",
    "spark.executor.cores": 1,
    "spark.cores.max": 2,
    "spark.sql.shuffle.partitions": 2,
    "spark.ui.enabled": False,
}


def main(master: str, executors: int, state: str, *paths: str) -> None:
    waves.split_positions = partial(waves.split_positions, piece_bytes=PIECE_BYTES)
    spark = session("audit", master, SETTINGS if executors else {"spark.driver.memory": "768m"}, progress=False)
    try:
        wait_for_executors(spark, executors)
        told: list[str] = []
        first = audit(*paths, session=spark, state=state, told=lambda progress: told.append(progress.step))
        second = audit(*paths, session=spark, state=state)
        rows = [row.asDict() for row in first.frame(spark).collect()]
        print(json.dumps({"first": first.to_dict(), "second": second.to_dict(), "rows": rows, "told": told}))
    finally:
        spark.stop()


def wait_for_executors(spark: Any, executors: int) -> None:
    """The driver counts as one."""
    deadline = time.monotonic() + TIMEOUT_S
    while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < executors + 1:
        assert time.monotonic() < deadline, f"no {executors} executors within {TIMEOUT_S:g} s"
        time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
