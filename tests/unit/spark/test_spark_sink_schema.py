"""Columns that the sink takes, in the words of Spark's own sink."""

from __future__ import annotations

import pytest

types = pytest.importorskip("pyspark.sql.types")

from tailrace.spark.errors import PipelineError  # noqa: E402
from tailrace.spark.sink.schema import check_schema  # noqa: E402

HEADERS = "array<struct<key:string,value:binary>>"
KINDS = {
    "string": types.StringType(),
    "binary": types.BinaryType(),
    "int": types.IntegerType(),
    "bigint": types.LongType(),
    "double": types.DoubleType(),
    "timestamp": types.TimestampType(),
    "timestamp_ntz": types.TimestampNTZType(),
    "string collate UTF8_LCASE": types.StringType("UTF8_LCASE"),
    "map": types.MapType(types.StringType(), types.BinaryType()),
    "strings": types.ArrayType(types.StringType()),
}


def pairs(*names: str, value: str = "binary", nullable: bool = True) -> types.ArrayType:
    fields = [types.StructField(name, KINDS["string" if name == "key" else value], nullable) for name in names]
    return types.ArrayType(types.StructType(fields), nullable)


KINDS |= {
    "headers": pairs("key", "value"),
    "strict": pairs("key", "value", nullable=False),
    "texts": pairs("key", "value", value="string"),
    "swapped": pairs("value", "key"),
    "keys": pairs("key"),
}


def schema(text: str) -> types.StructType:
    """Of `name kind, name kind`: only a JVM reads DDL."""
    return types.StructType(
        [types.StructField(name, KINDS[kind]) for name, kind in (each.split(" ", 1) for each in text.split(", "))]
    )


@pytest.mark.parametrize(
    ("columns", "topic"),
    [
        ("value string", "t"),
        ("value binary, key string", "t"),
        ("value string, topic string", None),
        ("value string, topic int", "t"),
        ("value string, key binary, headers headers, partition int, timestamp timestamp", "t"),
        ("value string, timestamp double", "t"),
        ("value string, anything map, Key int, offset bigint, timestampType int", "t"),
        ("value string, headers strict", "t"),
        ("value string collate UTF8_LCASE", "t"),
    ],
)
def test_columns_that_it_takes(columns: str, topic: str | None) -> None:
    check_schema(schema(columns), topic)


@pytest.mark.parametrize(
    ("columns", "topic", "text"),
    [
        (
            "value string",
            None,
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic.",
        ),
        ("value string, topic int", None, "topic attribute unsupported type int. topic must be a(n) string"),
        ("key string", "t", "Required attribute 'value' not found"),
        ("Value string", "t", "Required attribute 'value' not found"),
        ("value int", "t", "value attribute unsupported type int. value must be a(n) string or binary"),
        ("value string, key bigint", "t", "key attribute unsupported type bigint. key must be a(n) string or binary"),
        (
            "value string, partition string",
            "t",
            "partition attribute unsupported type string. partition must be a(n) int",
        ),
        ("value string, partition bigint", "t", "partition attribute unsupported type bigint."),
        (
            "value string, headers map",
            "t",
            f"headers attribute unsupported type map<string,binary>. headers must be a(n) {HEADERS}",
        ),
        ("value string, headers texts", "t", "headers attribute unsupported type"),
        ("value string, headers swapped", "t", "headers attribute unsupported type"),
        ("value string, headers keys", "t", "headers attribute unsupported type array<struct<key:string>>."),
        ("value string, headers strings", "t", "headers attribute unsupported type array<string>."),
        (
            "value string, timestamp bigint",
            "t",
            "timestamp attribute unsupported type bigint. timestamp must be a(n) timestamp or double",
        ),
        ("value string, timestamp timestamp_ntz", "t", "timestamp attribute unsupported type timestamp_ntz."),
        ("value string, value string", "t", "there are two columns 'value': which of them is meant?"),
    ],
)
def test_columns_that_it_refuses(columns: str, topic: str | None, text: str) -> None:
    with pytest.raises(PipelineError) as told:
        check_schema(schema(columns), topic)
    assert text in str(told.value)
