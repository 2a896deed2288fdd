"""The columns that a source gives: their names, order and types, for Spark and for Arrow."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tailrace.spark.errors import OptionError
from tailrace.spark.source.columns import ALL, HEADERS, Columns


def test_all_columns_are_those_of_sparks_kafka_source() -> None:
    assert Columns().spark_ddl() == (
        "`key` binary, `value` binary, `topic` string, `partition` int, `offset` bigint, `timestamp` timestamp, "
        "`timestampType` int"
    )
    assert Columns().arrow_schema() == pa.schema(
        {
            "key": pa.binary(),
            "value": pa.binary(),
            "topic": pa.string(),
            "partition": pa.int32(),
            "offset": pa.int64(),
            "timestamp": pa.timestamp("us", "UTC"),
            "timestampType": pa.int32(),
        }
    )


def test_headers_come_behind() -> None:
    columns = Columns((*ALL, HEADERS))
    assert columns.spark_ddl().endswith("`timestampType` int, `headers` array<struct<key:string,value:binary>>")
    element = pa.struct({"key": pa.string(), "value": pa.binary()})
    assert columns.arrow_schema().field(HEADERS).type == pa.list_(pa.field("element", element))


def test_some_columns_in_any_order() -> None:
    columns = Columns(("offset", "key"))
    assert columns.arrow_schema().names == ["offset", "key"]
    assert "key" in columns
    assert "value" not in columns


@pytest.mark.parametrize(
    ("names", "text"),
    [(("key", "nope"), "'nope'"), (("key", "key"), "twice"), ((), "no column")],
)
def test_what_is_no_list_of_columns_is_refused(names: tuple[str, ...], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        Columns(names)
