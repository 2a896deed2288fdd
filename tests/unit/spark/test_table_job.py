"""What a job does about tables, topics and machines that are not as it would like them."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.logs.builders import TOPIC_ID
from support.spark.local_rdds import LocalSpark
from support.tables.harness import TOPIC, TableRig
from support.tables.records import records
from tailrace.model.ids import TopicId
from tailrace.spark.errors import (
    DataLossError,
    ForeignTableError,
    OccupiedTargetError,
    OptionError,
    PipelineError,
    TableError,
)
from tailrace.spark.tables.delta.store import DeltaStore
from tailrace.spark.tables.job import planning, work
from tailrace.spark.tables.store import Change
from tailrace.spark.tables.table import TableReport, dry_run, metrics_text, run_table, status, table_settings
from tailrace.spark.tables.values.spec import ValueSpec


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "PAUSE_S", 0)


def filled(root: Path, kind: str = "parquet", mode: str = "append", count: int = 60) -> TableRig:
    rig = TableRig(root, kind, mode)
    rig.come(records(count, 5))
    return rig


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"value": "bytes"}, "has the setting"),
        ({"key": "string"}, "has the setting key 'bytes'; asked for is 'string'"),
        ({"partition_by": "_day"}, "has the partitioning"),
    ],
)
def test_another_table_than_the_one_that_is_there(more: dict[str, Any], text: str, tmp_path: Path) -> None:
    rig = filled(tmp_path)
    rig.run()
    with pytest.raises(ForeignTableError, match=text):
        rig.run(**more)
    rig.check()


def test_a_table_that_was_made_with_a_schema_needs_one_again(tmp_path: Path) -> None:
    rig = filled(tmp_path)
    rig.run(schema="number BIGINT")
    rig.come(records(10, 1))
    for act in (rig.run, lambda: status(rig.settings())):
        with pytest.raises(OptionError, match=r"was made with a schema.* need one again: give --schema"):
            act()
    assert rig.run(schema="number BIGINT, text STRING").records == 10, "another one will do"


@pytest.mark.parametrize("is_older", [False, True])
def test_a_table_that_does_not_say_it_was_made_with_a_schema_takes_both(
    is_older: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = filled(tmp_path)
    with monkeypatch.context() as before:
        if is_older:
            plain = ValueSpec("json").settings()
            before.setattr(ValueSpec, "settings", lambda spec: plain)
        rig.run(schema="number BIGINT" if is_older else None)
    for schema in (None, "number BIGINT"):
        rig.come(records(10, 1))
        assert rig.run(schema=schema).records == 10


def test_the_status_of_another_topic_that_is_not_there(tmp_path: Path) -> None:
    rig = filled(tmp_path)
    rig.run()
    with pytest.raises(ForeignTableError, match="has the topic 'orders'; asked for is 'other'"):
        status(table_settings("other", to=str(rig.place), path=str(rig.logs), format=rig.kind, value="json"))


def test_the_status_of_a_topic_that_was_deleted(tmp_path: Path) -> None:
    rig = filled(tmp_path)
    rig.run()
    shutil.rmtree(rig.logs)
    (rig.logs / "another-0").mkdir(parents=True)
    seen = status(rig.settings())
    assert seen.partitions
    assert (seen.behind, seen.to_dict()["behind"]) == (None, None)
    assert {each.behind for each in seen.partitions} == {None}
    metrics = metrics_text(seen)
    assert "tailrace_table_offset{" in metrics
    assert "tailrace_table_behind_records{" not in metrics


def test_the_table_of_another_mode(tmp_path: Path) -> None:
    rig = filled(tmp_path, "delta")
    rig.run()
    with pytest.raises(ForeignTableError, match="has the mode 'append'; asked for is 'upsert'"):
        rig.run(mode="upsert", buckets=4)


def test_a_topic_that_was_made_anew(tmp_path: Path) -> None:
    rig = filled(tmp_path)
    rig.run()
    shutil.rmtree(rig.logs)
    rig.topic_id = TopicId(b"made anew again!")
    rig.come(records(10, 1))
    with pytest.raises(ForeignTableError, match=str(TOPIC_ID)):
        rig.run()


def test_a_table_of_dead_letters_that_belongs_to_another_topic(tmp_path: Path) -> None:
    rig, other = filled(tmp_path / "mine"), TableRig(tmp_path / "other", "parquet", "append")
    other.topic_id = TopicId(b"of another topic")
    other.come(records(10, 1))
    for each in (rig, other):
        each.run()
    replace_table(tmp_path / "mine/lake/orders_dead_letters", by=tmp_path / "other/lake/orders_dead_letters")
    with pytest.raises(ForeignTableError, match="_dead_letters, beside the one asked for, has the topic id"):
        rig.run()


def test_rows_where_dead_letters_should_be(tmp_path: Path) -> None:
    rig = filled(tmp_path)
    rig.run()
    replace_table(tmp_path / "lake/orders_dead_letters", by=tmp_path / "lake/orders")
    with pytest.raises(ForeignTableError, match="has the role 'rows', not 'dead letters'"):
        rig.run()


def test_hidden_rows_with_another_number_of_buckets(tmp_path: Path) -> None:
    rig, other = (filled(tmp_path / name, "delta", "upsert") for name in ("mine", "other"))
    rig.run()
    other.run(buckets=8)
    replace_table(tmp_path / "mine/lake/orders_hidden", by=tmp_path / "other/lake/orders_hidden")
    with pytest.raises(ForeignTableError, match="_hidden, beside the one asked for, has the buckets 8, not '4'"):
        rig.run()


def replace_table(table: Path, by: Path) -> None:
    shutil.rmtree(table)
    shutil.copytree(by, table)


def test_a_place_that_holds_something_else(tmp_path: Path) -> None:
    rig = filled(tmp_path)
    rig.place.mkdir(parents=True)
    (rig.place / "notes.txt").write_text("mine")
    with pytest.raises(OccupiedTargetError):
        rig.run()
    assert [each.name for each in rig.place.iterdir()] == ["notes.txt"]


def test_what_is_left_of_a_table(tmp_path: Path) -> None:
    rig = filled(tmp_path)
    rig.run()
    shutil.rmtree(rig.place)
    with pytest.raises(OccupiedTargetError, match="_dead_letters"):
        rig.run()
    assert not rig.place.exists()


def test_hidden_rows_that_are_gone(tmp_path: Path) -> None:
    rig = filled(tmp_path, "delta", "upsert")
    rig.run()
    shutil.rmtree(rig.place.with_name(f"{TOPIC}_hidden"))
    with pytest.raises(TableError, match="deleted keys could come back"):
        dry_run(rig.settings())
    with pytest.raises(TableError, match="deleted keys could come back"):
        rig.run()


def test_a_table_that_was_taken_back(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    rig = filled(tmp_path, "delta", "upsert", 300)
    rig.run(options={"maxOffsetsPerTrigger": 60}, upkeep=False)
    DeltaTable(str(rig.place)).restore(2)
    with pytest.raises(TableError, match="took the first back"):
        dry_run(rig.settings())
    with pytest.raises(TableError, match="took the first back"):
        rig.run()


def test_a_table_that_was_taken_back_behind_what_is_retained(tmp_path: Path) -> None:
    """Nothing tells any more what the hidden rows were planned on: they are not trusted."""
    from deltalake import DeltaTable

    rig = filled(tmp_path, "delta", "upsert", 300)
    rig.run(options={"maxOffsetsPerTrigger": 60}, upkeep=False)
    hidden = DeltaStore(str(rig.place.with_name(f"{TOPIC}_hidden")))
    snapshot = hidden.open()
    assert snapshot is not None
    snapshot.commit(Change("compact", snapshot.offsets))
    hidden.retain(1 << 50, 0)
    DeltaTable(str(rig.place)).restore(2)
    with pytest.raises(TableError, match="took the first back"):
        rig.run()


def test_dead_letters_that_are_gone_begin_anew(tmp_path: Path) -> None:
    rig = filled(tmp_path)
    rig.run()
    shutil.rmtree(rig.place.with_name(f"{TOPIC}_dead_letters"))
    assert rig.run().records == 0
    assert status(rig.settings()).dead_letters == 0


def test_a_column_that_is_none(tmp_path: Path) -> None:
    rig = filled(tmp_path)
    with pytest.raises(OptionError, match="there are _day, "):
        rig.run(partition_by="country")
    with pytest.raises(OptionError, match="it must be a day"):
        rig.run(partition_by="place")
    assert not rig.place.exists()


def test_a_log_that_lost_records(tmp_path: Path) -> None:
    rig = filled(tmp_path)
    rig.run()
    shutil.rmtree(rig.logs / f"{TOPIC}-0")
    with pytest.raises(DataLossError, match="the partition is gone"):
        dry_run(rig.settings())
    with pytest.raises(DataLossError, match="the partition is gone"):
        rig.run()
    assert dry_run(rig.settings(options={"failOnDataLoss": "false"})).records == 0
    assert rig.run(options={"failOnDataLoss": "false"}).records == 0


def test_a_job_of_spark_that_fails_is_started_again(tmp_path: Path) -> None:
    rig = filled(tmp_path)
    rig.spark.fails_next = 2
    rig.run()
    rig.check()


def test_a_job_of_spark_that_fails_always(tmp_path: Path) -> None:
    rig = filled(tmp_path)
    rig.spark.fails_next = 3
    with pytest.raises(PipelineError, match="failed 3 times: an executor went"):
        rig.run()
    rig.run()
    rig.check()


class Interrupted(LocalSpark):
    """Something else happens while its first job runs."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self._meanwhile: Callable[[], object] | None = meanwhile

    def runJob(self, *given: Any) -> list[Any]:  # noqa: N802  # Spark's name
        happens, self._meanwhile = self._meanwhile, None
        if happens is not None:
            happens()
        return super().runJob(*given)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_another_driver_takes_away_what_a_batch_reads(kind: str, tmp_path: Path) -> None:
    rig = TableRig(tmp_path, kind, "upsert")
    come = records(600, 7)
    rig.come(itertools.islice(come, 300))
    rig.run()
    rig.come(come)
    few = {"maxOffsetsPerTrigger": 100}
    spark: Any = Interrupted(lambda: rig.run(retain="0s", options=few))
    report = run_table(rig.settings(), session=spark)
    assert isinstance(report, TableReport)
    assert report.replans == 1
    rig.check()


def test_a_new_table_begins_where_it_is_told(tmp_path: Path) -> None:
    rig = filled(tmp_path)
    report = rig.run(options={"startingOffsets": "latest"})
    assert (report.created, report.records) == (True, 0)
    rig.come(())
    assert rig.run(options={"startingOffsets": "earliest"}).records == 0, "only a new one"


def test_what_would_be_done(tmp_path: Path) -> None:
    rig = filled(tmp_path, "delta", "upsert")
    planned = dry_run(rig.settings(options={"maxOffsetsPerTrigger": 20}))
    assert len(planned.creates) == 3
    assert (planned.records, planned.batches) == (60, 4), "shares are rounded down"
    assert {"_key", "number", "text", "place", "_bucket"} <= set(planned.columns.names)
    assert planned.partition_by == ("_bucket",)
    assert not rig.place.parent.exists()
    seen = status(rig.settings())
    assert (seen.version, seen.behind) == (None, 60)


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_an_upsert_takes_no_more_at_once_than_its_tasks_can_hold(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = filled(tmp_path, "delta", mode)
    monkeypatch.setattr(planning, "LARGE_RECORD_BYTES", 100)
    monkeypatch.setattr(planning, "MOST_BUCKET_BYTES", 400)  # 1,600 in all buckets, which are some 20 records
    assert (rig.run().batches == 1) == (mode == "append")
    rig.check()


def test_small_files_are_compacted_between_batches(tmp_path: Path) -> None:
    rig = TableRig(tmp_path, "delta", "append")
    come = records(300, 9)
    while piece := list(itertools.islice(come, 30)):
        rig.come(piece)
        rig.run()
    rig.check()
    assert status(rig.settings()).files < 30
