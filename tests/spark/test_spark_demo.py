"""`tailrace demo --once` with a streaming query of Spark's that counts the same orders: what `make run ONCE=1` runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")


def test_the_orders_are_counted_by_spark_too(tmp_path: Path) -> None:
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
    assert list(tmp_path.iterdir()) == []
