"""Spark's DDL without Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.spark.errors import OptionError
from tailrace.spark.tables.values.ddl import fields_of_ddl
from tailrace.spark.tables.values.type_names import shown


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("id BIGINT", "id BIGINT"),
        ("id: long not null", "id BIGINT NOT NULL"),
        ("a tinyint, b short, c int, d integer, e byte", "a TINYINT, b SMALLINT, c INT, d INT, e TINYINT"),
        ("f float, g real, h double", "f FLOAT, g FLOAT, h DOUBLE"),
        ("a decimal, b dec(5), c numeric(12, 4)", "a DECIMAL(10, 0), b DECIMAL(5, 0), c DECIMAL(12, 4)"),
        ("a timestamp, b timestamp_ltz, c timestamp_ntz, d date", "a TIMESTAMP, b TIMESTAMP, c TIMESTAMP_NTZ, d DATE"),
        ("a string, b varchar(10), c char(3), d binary", "a STRING, b STRING, c STRING, d BINARY"),
        ("`a b` int COMMENT 'with, <signs>', `c``d` boolean", "a b INT, c`d BOOLEAN"),
        ("a array<map<string,array<int>>>", "a ARRAY<MAP<STRING, ARRAY<INT>>>"),
        ("s struct<x: int NOT NULL, y struct<z:string>>", "s STRUCT<x: INT NOT NULL, y: STRUCT<z: STRING>>"),
        ("struct<a:int, b:string>", "a INT, b STRING"),
        ("array int, struct struct<map: int>", "array INT, struct STRUCT<map: INT>"),
        ("größe INT,\n\t名 STRING", "größe INT, 名 STRING"),
    ],
)
def test_schemas_are_read(text: str, meaning: str) -> None:
    assert shown(fields_of_ddl(text)) == meaning


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a field's name should be here"),
        ("a", "a type should be here"),
        ("a int b", "should end here"),
        ("a int,", "a field's name should be here"),
        ("a variant", "a type should be here"),
        ("a array<int", "> should be here"),
        ("a array", "< should be here"),
        ("a struct<>", "a field's name should be here"),
        ("a map<int, string>", "a map's keys are strings"),
        ("a decimal(39, 0)", "1 to 38 digits"),
        ("a decimal(3, 4)", "its scale is within"),
        ("a decimal(x)", "a number should be here"),
        ("a decimal(99999999999)", "a number should be here"),
        ("a varchar", r"\( should be here"),
        ("a int not", "NULL should be behind NOT"),
        ("a int comment 5", "a quoted comment should be here"),
        ("a int, A string", "a and A differ only in case"),
        ("a int, a string", "two fields have the same name"),
        ("s struct<a: int, a: int>", "two fields have the same name"),
        ("a ; int", r"character 1\)"),
        ("a `", "cannot be read at"),
        ("a " + "array<" * 100 + "int" + ">" * 100, "nested deeper than 64"),
        ("a" * 1_000_001, "1000000 are the most"),
    ],
)
def test_what_is_no_schema_is_refused_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        fields_of_ddl(text)


@given(st.text(alphabet="ab<>(),:` 'int struct array NOT NULL 12", max_size=60))
def test_no_text_does_harm(text: str) -> None:
    try:
        fields = fields_of_ddl(text)
    except OptionError:
        return
    assert fields


TYPES = st.recursive(
    st.sampled_from(
        [pa.bool_(), pa.int8(), pa.int64(), pa.float32(), pa.string(), pa.binary(), pa.decimal128(7, 3), pa.date32()]
    ),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda one: pa.map_(pa.string(), one)),
        st.dictionaries(st.sampled_from("abcd"), st.tuples(inner, st.booleans()), min_size=1).map(
            lambda types: pa.struct([pa.field(name, *one) for name, one in types.items()])
        ),
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True), TYPES, min_size=1, max_size=5))
def test_what_is_shown_is_read_back(types: dict[str, pa.DataType]) -> None:
    fields = [pa.field(name, one) for name, one in types.items()]
    assert fields_of_ddl(shown(fields)) == fields
