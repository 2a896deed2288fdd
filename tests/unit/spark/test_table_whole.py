"""Whole tables, from log directories and with tasks in this process: what `test_table_end_to_end` does with Spark."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from support.tables.harness import COMBINATIONS, TableRig
from support.tables.records import records
from tailrace.spark.tables.table import dry_run, metrics_text, status

ALL = pytest.mark.parametrize(("kind", "mode"), COMBINATIONS)
RECORDS = 1_200


@ALL
def test_a_table_follows_its_topic(kind: str, mode: str, tmp_path: Path) -> None:
    rig = TableRig(tmp_path, kind, mode)
    come = records(RECORDS, 7)
    rig.come(itertools.islice(come, 500))
    first = rig.run(options={"inferRecords": 100})
    rig.check()
    assert first.created
    assert first.batches == 1
    assert first.records == 500
    again = rig.run()
    assert (again.batches, again.records, again.rows) == (0, 0, 0)
    rig.come(come)
    second = rig.run(options={"maxOffsetsPerTrigger": 90})
    rig.check()
    assert second.batches >= 8
    assert second.records == RECORDS - 500
    assert sum(second.offsets.values()) == RECORDS
    seen = status(rig.settings())
    assert (seen.behind, seen.rows, seen.dead_letters) == (0, len(rig.model.rows()), len(rig.model.dead))
    assert 'tailrace_table_behind_records{table="' in metrics_text(seen, second)
    planned = dry_run(rig.settings())
    assert (planned.creates, planned.batches, planned.records, planned.new_columns) == ((), 0, 0, ())
