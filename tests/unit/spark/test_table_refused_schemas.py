"""A schema that cannot be read into a table, or cannot be had, stops the job: before anything of the batch is seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.tables.harness import COMBINATIONS, TableRig
from support.tables.model import Record
from support.tables.readers import dead_letters_at, rows_at
from tailrace.spark.errors import SchemaMismatchError
from tailrace.spark.tables.store_at import store_at
from tailrace.spark.tables.values.framing import framed
from tailrace.spark.tables.values.registry import RegistryError

ALL = pytest.mark.parametrize(("kind", "mode"), COMBINATIONS)


def _write(rig: TableRig, start: int, values: list[bytes]) -> None:
    rig._write(0, [Record(0, start + at, 1000, b"k%d" % (start + at), value) for at, value in enumerate(values)])


def _state(rig: TableRig) -> list[Any]:
    """Version and offsets of the table and of all beside it."""
    names = ("", "_dead_letters", *(("_hidden",) if rig.mode == "upsert" else ()))
    found = [store_at(f"{rig.place}{name}", rig.kind, None).open() for name in names]
    return [None if each is None else (each.version, dict(each.offsets)) for each in found]


def _column(rig: TableRig, name: str) -> dict[int, Any]:
    return {row["_offset"]: row[name] for row in rows_at(rig.kind, rig.place)}


@ALL
def test_a_declared_schema_that_the_table_cannot_take(kind: str, mode: str, tmp_path: Path) -> None:
    rig = TableRig(tmp_path, kind, mode)
    _write(rig, 0, [b'{"a": 1, "s": {"x": 1}}'])
    rig.run(schema="a BIGINT, s STRUCT<x: INT>")
    before = _state(rig)
    _write(rig, 1, [b'{"a": 2, "s": {"x": 2}}', b"{"])
    for wrong, reason in (
        ("a STRING, s STRUCT<x: INT>", "a is declared STRING, and its column is BIGINT"),
        ("a BIGINT, s STRUCT<x: BIGINT>", "s.x is declared BIGINT, and its column is INT"),
        ("A INT", "fields a and A differ only in case"),
    ):
        with pytest.raises(SchemaMismatchError) as raised:
            rig.run(schema=wrong)
        assert reason in str(raised.value)
    assert "Declared: A INT. Table: a BIGINT, s STRUCT<x: INT>" in str(raised.value)
    assert _state(rig) == before
    report = rig.run(schema="a INT, n STRING")
    assert (report.rows, report.dead_letters) == (1, 1)
    assert _column(rig, "a") == {0: 1, 1: 2}
    assert _column(rig, "s") == {0: {"x": 1}, 1: None}


def _avro_schema(of: str) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "i", "type": of}]})


@ALL
def test_a_registered_schema_that_the_table_cannot_take(kind: str, mode: str, tmp_path: Path) -> None:
    rig = TableRig(tmp_path, kind, mode)
    registry = tmp_path / "schemas"
    registry.mkdir()
    (registry / "1.avsc").write_text(_avro_schema("int"))
    (registry / "2.avsc").write_text(_avro_schema("string"))
    given = {"value": "avro", "registry": str(registry)}
    _write(rig, 0, [framed(1, b"\x02")])
    rig.run(**given)
    before = _state(rig)
    _write(rig, 1, [framed(1, b"\x04"), framed(2, b"\x02a"), framed(99, b""), b"\1"])
    with pytest.raises(SchemaMismatchError, match=r"schema 2 of .*Declared: i STRING\. Table: i INT"):
        rig.run(**given)
    assert _state(rig) == before
    (registry / "2.avsc").unlink()
    report = rig.run(**given)
    assert (report.rows, report.dead_letters) == (1, 3)
    assert _column(rig, "i") == {0: 1, 1: 2}
    reasons = {row["_offset"]: row["reason"] for row in dead_letters_at(kind, rig.place)}
    assert "has no schema 2" in reasons[2]
    assert "has no schema 99" in reasons[3]
    assert "too few for a schema's id" in reasons[4]


@ALL
def test_a_registry_that_is_not_there_makes_no_dead_letters(kind: str, mode: str, tmp_path: Path) -> None:
    rig = TableRig(tmp_path, kind, mode)
    registry = tmp_path / "schemas"
    given = {"value": "avro", "registry": str(registry)}
    _write(rig, 0, [framed(1, b"\x02"), b"\1"])
    with pytest.raises(RegistryError, match="no folder"):
        rig.run(**given)
    assert not rig.place.exists()
    registry.mkdir()
    (registry / "1.avsc").write_text(_avro_schema("int"))
    rig.run(**given)
    before = _state(rig)
    _write(rig, 2, [framed(1, b"\x04")])
    registry.rename(tmp_path / "away")
    with pytest.raises(RegistryError, match="no folder"):
        rig.run(**given)
    assert _state(rig) == before
    (tmp_path / "away").rename(registry)
    assert rig.run(**given).rows == 1
    assert _column(rig, "i") == {0: 1, 2: 2}
