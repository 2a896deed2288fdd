"""Real Spark drivers are killed while they copy exactly once, as `support.stress.sink_kills` describes."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

import pytest

KILLS = int(os.environ.get("SPARK_KILLS", "3"))
RECORDS = int(os.environ.get("SPARK_RECORDS", "20000"))
SEED = 4


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_copy_made_exactly_once_equals_the_original(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from support.stress.sink_kills import SETTINGS, storm

    figures = storm(
        Namespace(
            kills=KILLS,
            stops=1,
            records=RECORDS,
            seed=SEED,
            master="local[2]",
            speculation=False,
            kafka=bool(pytestconfig.getoption("--against-kafka")),
        ),
        SETTINGS,
    )
    print(figures)
    assert not figures.differences, "\n".join(figures.differences)
    assert figures.kills == KILLS
    assert figures.stops == 1
