"""JSON values with declared columns, by example: what fits, what does not, and what is said of it."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tailrace.spark.errors import SchemaMismatchError
from tailrace.spark.tables.values.ddl import fields_of_ddl
from tailrace.spark.tables.values.json import JsonPlan, declared_json
from tailrace.spark.tables.values.plan import Decoded


def _decoded(plan: JsonPlan, *values: Any) -> Decoded:
    raw = [value if value is None or isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    return pickle.loads(pickle.dumps(plan)).decoder().decode(pa.array(raw, pa.binary()))


@pytest.mark.parametrize(
    ("declared", "value", "read"),
    [
        ("BOOLEAN", True, True),
        ("TINYINT", -128, -128),
        ("BIGINT", 2**63 - 1, 2**63 - 1),
        ("DOUBLE", 1, 1.0),
        ("DOUBLE", 2**64 - 1, float(2**64)),
        ("DOUBLE", b"123456789012345678901234567890", 123456789012345678901234567890.0),
        ("DOUBLE", b"1e-400", 0.0),
        ("FLOAT", 0.5, 0.5),
        ("DECIMAL(6, 2)", b"1234.50", Decimal("1234.50")),
        ("DECIMAL(6, 2)", b"1.1000", Decimal("1.10")),
        ("DECIMAL(6, 2)", 7, Decimal("7.00")),
        ("DECIMAL(6, 2)", b"12e2", Decimal("1200.00")),
        ("DECIMAL(38, 0)", 10**37, Decimal(10**37)),
        ("STRING", "é\u0000", "é\u0000"),
        ("STRING", "", ""),
        ("BINARY", "AAH/", b"\x00\x01\xff"),
        ("BINARY", "", b""),
        ("DATE", "2024-02-29", dt.date(2024, 2, 29)),
        ("TIMESTAMP", "2026-11-16T01:02:03Z", dt.datetime(2026, 11, 16, 1, 2, 3, tzinfo=dt.UTC)),
        ("TIMESTAMP", "2026-11-16 01:02:03.123456+01:00", dt.datetime(2026, 11, 16, 0, 2, 3, 123456, tzinfo=dt.UTC)),
        ("TIMESTAMP_NTZ", "2026-11-16T01:02:03.5", dt.datetime(2026, 11, 16, 1, 2, 3, 500_000)),  # noqa: DTZ001
        ("ARRAY<INT>", [1, None], [1, None]),
        ("ARRAY<INT>", [], []),
        ("MAP<STRING, INT>", {"a": 1, "b": None}, [("a", 1), ("b", None)]),
        ("MAP<STRING, INT>", {}, []),
        ("STRUCT<a: INT, b: STRING>", {"b": "x", "other": 1}, {"a": None, "b": "x"}),
        ("STRUCT<a: INT>", {}, {"a": None}),
        ("ARRAY<STRUCT<m: MAP<STRING, ARRAY<DOUBLE>>>>", [{"m": {"k": [1, 2.5]}}], [{"m": [("k", [1.0, 2.5])]}]),
    ],
)
def test_what_fits(declared: str, value: Any, read: Any) -> None:
    plan = declared_json(fields_of_ddl(f"f {declared}"), None)
    raw = b'{"f": %s}' % (value if isinstance(value, bytes) else json.dumps(value).encode())
    decoded = _decoded(plan, raw, b'{"f": null}', b"{}", None)
    assert not decoded.bad
    assert decoded.columns[0].to_pylist() == [read, None, None, None]
    assert decoded.columns[0].type == plan.fields[0].type


@pytest.mark.parametrize(
    ("declared", "value", "reason"),
    [
        ("BOOLEAN", 1, "field f: 1 does not fit BOOLEAN"),
        ("BOOLEAN", "true", 'field f: "true" does not fit BOOLEAN'),
        ("TINYINT", 128, "field f: 128 does not fit TINYINT"),
        ("INT", b"1.0", "field f: 1.0 does not fit INT"),
        ("INT", True, "field f: true does not fit INT"),
        ("INT", "1", 'field f: "1" does not fit INT'),
        ("BIGINT", 2**63, "field f: 9223372036854775808 does not fit BIGINT"),
        ("BIGINT", b"123456789012345678901", "does not fit BIGINT"),
        ("DOUBLE", "1.5", "does not fit DOUBLE"),
        ("DOUBLE", False, "does not fit DOUBLE"),
        ("FLOAT", 1e300, "does not fit FLOAT"),
        ("DECIMAL(6, 2)", b"1.105", "does not fit DECIMAL"),
        ("DECIMAL(6, 2)", 10000, "does not fit DECIMAL"),
        ("DECIMAL(6, 2)", "1.10", "does not fit DECIMAL"),
        ("DECIMAL(6, 2)", 10**30, "does not fit DECIMAL"),
        ("DECIMAL(6, 2)", [10**30], "does not fit DECIMAL"),
        ("DECIMAL(6, 2)", b"1e-99999", "does not fit DECIMAL"),
        ("STRING", 5, "field f: 5 does not fit STRING"),
        ("BINARY", "AA", "does not fit BINARY"),
        ("BINARY", "é", "does not fit BINARY"),
        ("DATE", "2026-02-29", "does not fit DATE"),
        ("DATE", "0000-01-01", "does not fit DATE"),
        ("DATE", 20000, "does not fit DATE"),
        ("TIMESTAMP", "2026-11-16T01:02:03", "does not fit TIMESTAMP"),
        ("TIMESTAMP", "2026-11-16T01:02:03.1234567Z", "does not fit TIMESTAMP"),
        ("TIMESTAMP", "9999-12-31T23:59:59-01:00", "does not fit TIMESTAMP"),
        ("TIMESTAMP", "0001-01-01T00:00:00+01:00", "does not fit TIMESTAMP"),
        ("TIMESTAMP_NTZ", "2026-11-16T01:02:03Z", "does not fit TIMESTAMP_NTZ"),
        ("ARRAY<INT>", [1, "x"], 'field f.element: "x" does not fit INT'),
        ("ARRAY<INT>", {"a": 1}, 'field f: {"a":1} does not fit ARRAY<INT>'),
        ("MAP<STRING, INT>", {"a": [1]}, "field f.element: [1] does not fit INT"),
        ("MAP<STRING, INT>", [], "does not fit MAP<STRING, INT>"),
        ("STRUCT<a: STRUCT<b: INT>>", {"a": {"b": "x"}}, 'field f.a.b: "x" does not fit INT'),
        ("STRUCT<a: INT>", 5, "field f: 5 does not fit STRUCT<a: INT>"),
        ("STRUCT<a: INT NOT NULL>", {}, "field f.a: is needed and not there"),
        ("ARRAY<STRUCT<a: INT NOT NULL>>", [None, {"a": None}], "field f.element.a: is needed and not there"),
        ("STRING", ["x" * 100], "…"),
    ],
)
def test_what_does_not_fit_is_bad_and_says_why(declared: str, value: Any, reason: str) -> None:
    plan = declared_json(fields_of_ddl(f"n INT, f {declared}"), None)
    text = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()
    decoded = _decoded(plan, {"n": 1}, b'{"n": 2, "f": %s}' % text, {"n": 3})
    assert decoded.bad.keys() == {1}
    assert reason in decoded.bad[1]
    assert decoded.columns[0].to_pylist() == [1, None, 3]
    assert decoded.columns[1].to_pylist() == [None, None, None]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not JSON"),
        (b"nope", "not JSON"),
        (b'{"n": 1', "not JSON"),
        (b'{"n": 1} {"n": 2}', "not JSON"),
        (b'{"n": NaN}', "not JSON"),
        (b'{"n": "\xff"}', "not JSON"),
        (b'{"n": "\\ud800"}', "not JSON"),
        (b'\xef\xbb\xbf{"n": 1}', "not JSON"),
        (b'{"n": 1e999}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"n":' * 100_000, "not JSON"),
        (b'[{"n": 1}]', 'JSON, but no object: [{"n":1}]'),
        (b"5", "JSON, but no object: 5"),
        (b"[123456789012345678901234567890]", "JSON, but no object: [1"),
        (b"null", "JSON, but no object: null"),
        (b'"text"', 'JSON, but no object: "text"'),
    ],
)
@pytest.mark.parametrize("declared", ["n INT", "n INT, d DECIMAL(5, 2)"])
def test_what_is_no_json_object_is_bad(raw: bytes, reason: str, declared: str) -> None:
    decoded = _decoded(declared_json(fields_of_ddl(declared), None), {"n": 7}, raw)
    assert decoded.bad.keys() == {1}
    assert decoded.bad[1].startswith(reason)
    assert decoded.columns[0].to_pylist() == [7, None]


def test_a_needed_field_of_a_null_value_is_not_missed() -> None:
    decoded = _decoded(
        declared_json(fields_of_ddl("id INT NOT NULL, s STRUCT<a: INT NOT NULL>"), None), None, {"id": 1}, {}
    )
    assert decoded.bad == {2: "field id: is needed and not there"}


def test_whitespace_and_a_name_that_is_there_twice() -> None:
    decoded = _decoded(declared_json(fields_of_ddl("n INT"), None), b' \n{"n": 1, "n": 2}\t')
    assert decoded.columns[0].to_pylist() == [2]


def test_bad_rows_are_found_in_every_block() -> None:
    rows: list[Any] = [{"n": number, "t": "x"} for number in range(10_000)]
    rows[0] = {"n": "a"}
    rows[4096] = b"{"
    rows[9_999] = {"n": 1.5, "t": 4}
    decoded = _decoded(declared_json(fields_of_ddl("n BIGINT, t STRING"), None), *rows)
    assert sorted(decoded.bad) == [0, 4096, 9_999]
    assert decoded.columns[0].null_count == 3
    assert decoded.columns[0][9_998].as_py() == 9_998


def test_no_values_are_no_rows() -> None:
    decoded = _decoded(declared_json(fields_of_ddl("n BIGINT, s STRUCT<a: INT>"), None))
    assert [len(column) for column in decoded.columns] == [0, 0]


def test_a_declared_schema_is_read_into_the_columns_there_are() -> None:
    known = [
        pa.field("id", pa.int64()),
        pa.field("gone", pa.string()),
        pa.field("tags", pa.large_list(pa.large_string())),
        pa.field("at", pa.struct([("x", pa.float64()), ("y", pa.float64())])),
    ]
    plan = declared_json(
        fields_of_ddl("at STRUCT<x: INT, z: INT>, id INT NOT NULL, tags ARRAY<STRING>, more DATE"), known
    )
    assert [field.name for field in plan.fields] == ["id", "gone", "tags", "at", "more"]
    decoded = _decoded(plan, {"id": 1, "at": {"x": 5, "z": 6}, "tags": ["a"], "more": "2026-01-02", "gone": "ignored"})
    assert [column.to_pylist()[0] for column in decoded.columns] == [
        1,
        None,
        ["a"],
        {"x": 5.0, "y": None, "z": 6},
        dt.date(2026, 1, 2),
    ]
    assert [column.type for column in decoded.columns] == [field.type for field in plan.fields]


def test_a_declared_schema_that_does_not_go_into_the_columns_is_refused() -> None:
    with pytest.raises(SchemaMismatchError, match="id is declared BIGINT, and its column is INT"):
        declared_json(fields_of_ddl("id BIGINT"), [pa.field("id", pa.int32())])
    with pytest.raises(SchemaMismatchError, match="JSON cannot be read as"):
        declared_json([pa.field("t", pa.time64("us"))], None)
