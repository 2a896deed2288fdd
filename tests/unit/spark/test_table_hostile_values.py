"""Values that somebody wrote to do harm, or by mistake: they are dead letters or rows, and the job goes on."""

from __future__ import annotations

import io
import json
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from support.tables.evolved_values import FORMATS
from support.tables.harness import COMBINATIONS, TableRig
from support.tables.model import EPOCH, Record
from support.tables.readers import dead_letters_at, rows_at
from tailrace.spark.errors import TableError
from tailrace.spark.tables.values.framing import framed
from tailrace.spark.tables.values.places import MOST_FIELDS
from tailrace.spark.tables.values.plan import Decoded, ValuePlan
from tailrace.spark.tables.values.spec import ValueSpec


def _decoded(plan: ValuePlan, *values: bytes) -> Decoded:
    return plan.decoder().decode(pa.array(values, pa.binary()))


def _inferred(*values: bytes) -> ValuePlan:
    return ValueSpec("json").plan(None, lambda count: pa.array(values, pa.binary()))


def _deep(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize("depth", [249, 260, 950, 1000, 1020, 1030, 100_000])
@pytest.mark.parametrize("value", [b"%s", b'{"s": %s}', b'{"n": %s}', b'{"new": %s}', b'{"s": {"a": %s}}'])
@pytest.mark.parametrize("schema", [None, "s STRING, n BIGINT", "s STRING, n DECIMAL(5, 2)"])
def test_however_deep_json_is_nested_only_its_own_row_is_bad(schema: str | None, value: bytes, depth: int) -> None:
    first = b'{"s": "x", "n": 1}'
    plan = _inferred(first) if schema is None else ValueSpec("json", schema=schema).plan(None, None)
    decoded = _decoded(plan, first, value % _deep(depth), first)
    assert not decoded.discovered
    assert decoded.bad.keys() <= {1}
    assert decoded.columns[0].to_pylist()[::2] == ["x", "x"]
    if 1 not in decoded.bad:
        # Text that holds all of it, or a field that a declared schema does not have.
        text = decoded.columns[0][1].as_py()
        assert (text is None and schema is not None) or json.loads(text) is not None


@pytest.mark.parametrize("number", ["1e-999999999", "0e-999999999", "-1e-10000000", "1.5e-1001", "1e308", "9" * 300])
def test_a_decimal_of_any_length_is_bad_and_no_more(number: str) -> None:
    plan = ValueSpec("json", schema="n DECIMAL(10, 2)").plan(None, None)
    decoded = _decoded(plan, b'{"n": 1.5}', b'{"n": %s}' % number.encode())
    assert decoded.bad.keys() == {1}
    assert str(decoded.columns[0][0]) == "1.50"


def test_a_value_with_too_many_fields_takes_no_room_from_others() -> None:
    plan = _inferred(b'{"a": 1}')
    many = json.dumps({f"f{number}": 1 for number in range(MOST_FIELDS)}).encode()
    nested = b'{"o": ' + many + b"}"
    decoded = _decoded(plan, many, b'{"zz": 1}', nested)
    assert decoded.discovered.fields == {"zz": pa.int64()}
    decoded = _decoded(plan.grown([decoded.discovered]), many, b'{"zz": 1}', nested)
    assert not decoded.discovered
    reason = f"it has 1000 unknown fields, and of 1000 that a table may have {MOST_FIELDS - 2} are left"
    assert decoded.bad == {0: reason, 2: reason}


def test_a_value_with_too_many_fields_does_not_keep_a_table_from_being_made() -> None:
    many = json.dumps({f"f{number}": 1 for number in range(MOST_FIELDS + 1)}).encode()
    assert [field.name for field in _inferred(b'{"a": 1}', many, b'{"b": 1}').fields] == ["a", "b"]


TEXTS = ["Bern", "", None, "__HIVE_DEFAULT_PARTITION__", "a b+c&d;%20", "Zürich/ö", "..", "new\nline", "x=y", "1"]
UNPLACEABLE = ["NUL\0", "long" * 100]
ALL_TEXTS = [*TEXTS, *UNPLACEABLE]


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_rows_keep_their_partition_values_whatever_they_are(kind: str, tmp_path: Path) -> None:
    rig = TableRig(tmp_path, kind, "append")
    values = [json.dumps({"n": n, "city": city}).encode() for n, city in enumerate(ALL_TEXTS * 2)]
    rig._write(0, [Record(0, at, 1000, None, value) for at, value in enumerate(values)])
    report = rig.run(partition_by="city", schema="n BIGINT, city STRING")
    # In Delta's partition columns empty text would be null.
    bad = [*UNPLACEABLE, *([""] if kind == "delta" else [])]
    assert (report.rows, report.dead_letters) == (2 * (len(ALL_TEXTS) - len(bad)), 2 * len(bad))
    found = {row["n"]: row["city"] for row in rows_at(kind, rig.place)}
    assert found == {n: city for n, city in enumerate(ALL_TEXTS * 2) if city not in bad}
    reasons = {row["_offset"]: row["reason"] for row in dead_letters_at(kind, rig.place)}
    for city, reason in zip(bad, ("has a NUL", "too long", "is empty"), strict=False):
        at = ALL_TEXTS.index(city)
        assert reason in reasons[at]
        assert reason in reasons[at + len(ALL_TEXTS)]


WRITTEN = {"type": "record", "name": "R", "fields": [{"name": "i", "type": "int"}]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
INNER = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "bytes"}]}
DEFAULTS = {"type": "record", "name": "J", "fields": [{"name": "p", "type": "int", "default": 4}]}


@pytest.mark.parametrize(
    ("of", "default", "value"),
    [
        ("bytes", "\u00ff\u0001", b"\xff\x01"),
        ({"type": "fixed", "name": "F", "size": 2}, "\u00ff\u0001", b"\xff\x01"),
        (DECIMAL, "\u0001\u00ff", pa.scalar("5.11").cast(pa.decimal128(5, 2)).as_py()),
        (["bytes", "null"], "\u00fe", b"\xfe"),
        (INNER, {"x": "\u00fd"}, {"x": b"\xfd"}),
        (DEFAULTS, {}, {"p": 4}),
        ({"type": "array", "items": "bytes"}, ["\u00fc"], [b"\xfc"]),
        ({"type": "map", "values": INNER}, {"k": {"x": "\u00fb"}}, [("k", {"x": b"\xfb"})]),
        (["null", "bytes"], None, None),
    ],
)
def test_defaults_of_an_avro_schema_are_values_of_their_type(of: Any, default: Any, value: Any, tmp_path: Path) -> None:
    (tmp_path / "1.avsc").write_text(json.dumps(WRITTEN))
    reader = {**WRITTEN, "fields": [{"name": "i", "type": "int"}, {"name": "d", "type": of, "default": default}]}
    plan = ValueSpec("avro", schema=json.dumps(reader), registry=str(tmp_path), framed=True).plan(None, None)
    payload = io.BytesIO()
    fastavro.schemaless_writer(payload, WRITTEN, {"i": 7})
    one = framed(1, payload.getvalue())
    decoded = _decoded(plan.grown([_decoded(plan, one).discovered]), one)
    assert decoded.bad == {}
    assert [column[0].as_py() for column in decoded.columns] == [7, value]


def test_an_avro_default_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "1.avsc").write_text(json.dumps(WRITTEN))
    wrong = {**WRITTEN, "fields": [{"name": "d", "type": "bytes", "default": "\u0100"}]}
    plan = ValueSpec("avro", schema=json.dumps(wrong), registry=str(tmp_path), framed=True).plan(None, None)
    grown = plan.grown([_decoded(plan, framed(1, b"\x02")).discovered])
    with pytest.raises(TableError, match="field d has a default that is not of its type"):
        _decoded(grown, framed(1, b"\x02"))


def test_a_new_table_of_framed_values_can_be_partitioned_by_one_of_their_columns(tmp_path: Path) -> None:
    registry = tmp_path / "schemas"
    registry.mkdir()
    (registry / "1.avsc").write_text(json.dumps(WRITTEN))
    rig = TableRig(tmp_path, "delta", "append")
    values = [framed(1, b"\x02"), framed(1, b"\x04"), framed(99, b"\x04"), b"\1"]
    rig._write(0, [Record(0, at, 1000, None, value) for at, value in enumerate(values)])
    given = {"value": "avro", "registry": str(registry), "partition_by": "i"}
    assert (rig.run(**given).rows, len(list(dead_letters_at("delta", rig.place)))) == (2, 2)
    assert {row["_offset"]: row["i"] for row in rows_at("delta", rig.place)} == {0: 1, 1: 2}


@pytest.mark.parametrize("by_day", [False, True])
@pytest.mark.parametrize(("kind", "mode"), COMBINATIONS)
def test_a_record_from_beyond_the_year_9999_is_a_dead_letter(
    kind: str, mode: str, by_day: bool, tmp_path: Path
) -> None:
    rig = TableRig(tmp_path, kind, mode)
    last_ms, of_micros = 253_402_300_799_999, 1_790_000_000_000_000
    times = [-1, 0, of_micros, last_ms, last_ms + 1, 1 << 62, 5]
    rig._write(0, [Record(0, at, time, b"k%d" % at, b'{"n": %d}' % at) for at, time in enumerate(times)])
    report = rig.run(**({"partition_by": "_day"} if by_day and mode == "append" else {}))
    assert (report.rows, report.dead_letters) == (4, 3)
    found = {row["n"]: (row["_timestamp"] - EPOCH) // timedelta(milliseconds=1) for row in rows_at(kind, rig.place)}
    assert found == {at: times[at] for at in (0, 1, 3, 6)}
    dead = {row["_offset"]: row for row in dead_letters_at(kind, rig.place)}
    assert dead.keys() == {2, 4, 5}
    assert dead[2]["_timestamp"] is None
    assert dead[2]["reason"] == f"the record's timestamp is not before the year 10000: {of_micros} ms"


def test_a_protobuf_field_may_have_the_name_of_a_method() -> None:
    names = "int32 Clear = 1; optional int32 HasField = 2; M IsInitialized = 3;"
    schema = f'syntax = "proto3"; message O {{ {names} }} message M {{ optional int32 HasField = 1; }}'
    plan = ValueSpec("protobuf", schema=schema, message="O").plan(None, None)
    decoded = _decoded(plan, b"\x08\x05\x10\x09\x1a\x02\x08\x07", b"")
    assert decoded.bad == {}
    assert [column.to_pylist() for column in decoded.columns] == [[5, 0], [9, None], [{"HasField": 7}, None]]


@pytest.mark.parametrize("name", FORMATS)
def test_no_bytes_raise_an_error(name: str, tmp_path: Path) -> None:
    drawn = random.Random(name)
    made = FORMATS[name](tmp_path)
    given = made.given[-1]
    registry = given.get("registry")
    spec = ValueSpec(name, schema=given.get("schema"), registry=registry, framed=registry is not None)
    written = [payload for some in made.payloads for payload in some]
    plan = spec.plan(None, lambda count: pa.array(written, pa.binary()))
    for _ in range(12):
        values = [_damaged(drawn.choice(written), drawn, 6 if registry else 0) for _ in range(250)]
        decoded = _decoded(plan, *values)
        while decoded.discovered:
            plan = plan.grown([decoded.discovered])
            decoded = _decoded(plan, *values)
        for field, column in zip(plan.fields, decoded.columns, strict=True):
            column.validate(full=True)
            assert (column.type, len(column)) == (field.type, len(values))
            assert not any(column[row].is_valid for row in decoded.bad)


def _damaged(value: bytes, drawn: random.Random, behind: int) -> bytes:
    """Mostly behind the frame."""
    data = bytearray(value)
    for _ in range(drawn.randrange(1, 4)):
        at = drawn.randrange(min(behind, len(data)) if drawn.random() < 0.9 else 0, len(data) + 1)
        match drawn.randrange(4):
            case 0:
                data[at : at + 1] = drawn.randbytes(1)
            case 1:
                del data[at : at + drawn.randrange(1, 5)]
            case 2:
                data[at:at] = bytes(drawn.choices(b'\0\1\x7f\x80\xff"{[-9', k=5))
            case _:
                data[at:at] = data[behind : behind + drawn.randrange(1, 30)]
    return bytes(data)
