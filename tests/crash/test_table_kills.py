"""Real Spark drivers are killed while topics become tables, as `support.stress.table_kills` describes."""

from __future__ import annotations

import os
from argparse import Namespace

import pytest

from suite.seeds import fresh_seed

KILLS = int(os.environ.get("SPARK_KILLS", "3"))
RECORDS = int(os.environ.get("SPARK_RECORDS", "20000"))
COMBINATIONS = (
    ("parquet", "append"),
    ("delta", "append"),
    ("delta", "upsert"),
    ("iceberg", "append"),
    ("iceberg", "upsert"),
)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("kind", "mode"), COMBINATIONS)
def test_a_table_equals_a_plain_model_of_its_topic(kind: str, mode: str) -> None:
    for package in ("pyspark", "deltalake", "pyiceberg"):
        pytest.importorskip(package)
    from support.stress.table_kills import run

    figures = run(
        Namespace(
            format=kind,
            mode=mode,
            kills=KILLS,
            stops=1,
            records=RECORDS,
            seed=fresh_seed() + COMBINATIONS.index((kind, mode)),
            executors="local",
        )
    )
    figures.assert_passed(KILLS)
    assert figures.stops == 1
    assert figures.rows > 0
    assert figures.dead_letters > 0
