"""Real Spark drivers are killed while they copy exactly once, as `support.stress.sink_kills` describes."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

import pytest

from suite.seeds import fresh_seed

KILLS = int(os.environ.get("SPARK_KILLS", "3"))
RECORDS = int(os.environ.get("SPARK_RECORDS", "20000"))


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_copy_made_exactly_once_equals_the_original(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from support.stress.sink_kills import run

    figures = run(
        Namespace(
            kills=KILLS,
            stops=1,
            records=RECORDS,
            seed=fresh_seed(),
            master="local[2]",
            speculation=False,
            kafka=bool(pytestconfig.getoption("--against-kafka")),
        )
    )
    figures.assert_passed(KILLS)
    assert figures.stops == 1
