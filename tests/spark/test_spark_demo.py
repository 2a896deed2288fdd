"""`tailrace demo --once` with Spark, which counts the orders, puts them into a table and audits what was written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")


def test_the_orders_are_counted_by_spark_and_in_a_table(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tailrace", "demo", "--once", "--json", "--orders", "5000"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["sent"] == last["returned"] == last["spark"]["orders"] == 5000
    assert last["spark"]["state"] == "counting"
    assert last["spark"]["best_cents"] > 0
    table = last["table"]
    assert (table["state"], table["rows"], table["trouble"]) == ("filling", 5000, "")
    assert sum(row["orders"] for row in table["sales"]) == 5000
    assert table["sales"][0]["cents"] == last["spark"]["best_cents"], "SQL on the table and the stream agree"
    audit = last["audit"]
    assert (audit["state"], audit["findings"], audit["trouble"]) == ("done", 0, "")
    assert audit["partitions"] >= 4
    (page,) = tmp_path.iterdir()
    assert audit["report"] == str(page), "nothing else is left"
    assert "orders" in page.read_text()
