"""`tailrace pipeline table` refuses a run whose topic is gone, or whose place cannot be written, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyspark")

import pyarrow as pa

from support.logs.builders import TOPIC_ID
from support.tables.harness import TOPIC, TableRig
from support.tables.records import records
from tailrace.cli.main import main
from tailrace.spark import spark_session
from tailrace.spark.errors import TableError
from tailrace.spark.tables.durable import check_can_be_made
from tailrace.spark.tables.store import About
from tailrace.spark.tables.store_at import store_at

KINDS = ("delta", "iceberg", "parquet")


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_session, "session", lambda *_, **__: pytest.fail("Spark was started"))


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    rig = TableRig(tmp_path, "delta", "append")
    rig.come(records(5, 2))
    return rig.logs


def test_a_topic_that_is_gone_though_its_table_is_there(
    tmp_path: Path, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(tmp_path / "payments")
    about = About("payments", str(TOPIC_ID), None, settings={"value": "bytes", "key": "bytes"})
    store_at(place, "delta", None).create(about, pa.schema([("_key", pa.binary()), ("value", pa.binary())]), {0: 0})
    assert main(["pipeline", "table", "payments", "--to", place, "--path", str(logs)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "payments" in said
    assert "hint: a path is a log directory" in said


@pytest.mark.parametrize("asked", [[], ["--dry-run"]])
@pytest.mark.parametrize("kind", KINDS)
def test_a_place_that_cannot_be_written(
    kind: str, asked: list[str], logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "table", TOPIC, "--to", "/proc/x/y", "--format", kind, "--path", str(logs), *asked]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: cannot make ")
    assert "[Errno 2] No such file or directory: '/proc/x'" in said


@pytest.mark.parametrize("asked", [[], ["--status"], ["--history"]])
def test_a_place_that_cannot_be_looked_at(asked: list[str], logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = "/tmp/" + "long" * 100
    assert main(["pipeline", "table", TOPIC, "--to", place, "--path", str(logs), *asked]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: cannot look into ")
    assert "File name too long" in said


@pytest.mark.parametrize("kind", KINDS)
def test_the_text_is_that_of_making_the_table(kind: str) -> None:
    store = store_at("/proc/x/y", kind, None)
    with pytest.raises(TableError) as early:
        store.check_place()
    with pytest.raises(TableError) as late:
        store.create(About("orders", None, None), pa.schema([("_key", pa.binary())]), {0: 0})
    assert str(early.value) == str(late.value)


def test_nothing_is_left_of_a_place_that_can_be_written(tmp_path: Path) -> None:
    check_can_be_made(tmp_path)
    check_can_be_made(tmp_path / "lake" / "orders")
    assert list(tmp_path.iterdir()) == []
