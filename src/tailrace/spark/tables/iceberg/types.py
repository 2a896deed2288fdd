"""Columns of Arrow as columns of Iceberg, and back.

Iceberg has fewer types. What it can hold only in a wider one is in the table in that: small and unsigned integers,
coarser times, other time zones. What it cannot hold at all is refused, with the name of the column. All columns are
optional. Each has a number, nested ones too, by which Iceberg finds it in files: there as Parquet's field id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final

import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from tailrace.spark.errors import TableError

FIELD_ID: Final = b"PARQUET:field_id"
UTC: Final = "UTC"

_SAME: Final[dict[pa.DataType, Callable[[], Any]]] = {
    pa.bool_(): iceberg.BooleanType,
    pa.int8(): iceberg.IntegerType,
    pa.int16(): iceberg.IntegerType,
    pa.int32(): iceberg.IntegerType,
    pa.uint8(): iceberg.IntegerType,
    pa.uint16(): iceberg.IntegerType,
    pa.uint32(): iceberg.LongType,
    pa.int64(): iceberg.LongType,
    pa.float16(): iceberg.FloatType,
    pa.float32(): iceberg.FloatType,
    pa.float64(): iceberg.DoubleType,
    pa.date32(): iceberg.DateType,
    pa.string(): iceberg.StringType,
    pa.large_string(): iceberg.StringType,
    pa.binary(): iceberg.BinaryType,
    pa.large_binary(): iceberg.BinaryType,
    pa.time32("s"): iceberg.TimeType,
    pa.time32("ms"): iceberg.TimeType,
    pa.time64("us"): iceberg.TimeType,
}

_BACK: Final[dict[type[Any], pa.DataType]] = {
    iceberg.BooleanType: pa.bool_(),
    iceberg.IntegerType: pa.int32(),
    iceberg.LongType: pa.int64(),
    iceberg.FloatType: pa.float32(),
    iceberg.DoubleType: pa.float64(),
    iceberg.DateType: pa.date32(),
    iceberg.TimeType: pa.time64("us"),
    iceberg.TimestampType: pa.timestamp("us"),
    iceberg.TimestamptzType: pa.timestamp("us", UTC),
    iceberg.StringType: pa.string(),
    iceberg.BinaryType: pa.binary(),
    iceberg.UUIDType: pa.binary(16),
}


def to_iceberg(schema: pa.Schema) -> Schema:
    """With numbers from 1 on, top-level columns first. TableError for what a table cannot hold."""
    ids = count(1)
    first = [next(ids) for _ in schema]
    columns = [
        iceberg.NestedField(number, each.name, _to_iceberg(each.type, each.name, ids), required=False)
        for number, each in zip(first, schema, strict=True)
    ]
    try:
        return Schema(*columns)
    except ValueError as error:  # names that are the same where nested ones are written with dots
        raise TableError(f"an Iceberg table cannot hold these columns: {error}\n{schema}") from error


def to_arrow(schema: Schema, *, with_ids: bool = False) -> pa.Schema:
    """`with_ids` for files."""
    return pa.schema([_arrow_field(each.name, each.field_id, each.field_type, with_ids) for each in schema.fields])


def _to_iceberg(kind: pa.DataType, column: str, ids: Iterator[int]) -> Any:
    if (made := _SAME.get(kind)) is not None:
        return made()
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        return iceberg.TimestamptzType() if kind.tz else iceberg.TimestampType()
    if (pa.types.is_decimal128(kind) or pa.types.is_decimal256(kind)) and kind.precision <= 38 and kind.scale >= 0:
        return iceberg.DecimalType(kind.precision, kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return iceberg.FixedType(kind.byte_width)
    if pa.types.is_struct(kind) and kind.num_fields:
        return iceberg.StructType(
            *(
                iceberg.NestedField(
                    next(ids), each.name, _to_iceberg(each.type, f"{column}.{each.name}", ids), required=False
                )
                for each in kind
            )
        )
    if pa.types.is_map(kind):
        return iceberg.MapType(
            key_id=next(ids),
            key_type=_to_iceberg(kind.key_type, f"{column}.key", ids),
            value_id=next(ids),
            value_type=_to_iceberg(kind.item_type, f"{column}.value", ids),
            value_required=False,
        )
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return iceberg.ListType(
            element_id=next(ids),
            element_type=_to_iceberg(kind.value_type, f"{column}.element", ids),
            element_required=False,
        )
    raise TableError(f"column {column} is {kind}, which an Iceberg table cannot hold")


def _arrow_field(name: str, number: int, kind: Any, with_ids: bool, nullable: bool = True) -> pa.Field:
    metadata = {FIELD_ID: str(number).encode()} if with_ids else None
    return pa.field(name, to_arrow_type(kind, with_ids=with_ids), nullable=nullable, metadata=metadata)


def to_arrow_type(kind: Any, *, with_ids: bool = False) -> pa.DataType:
    if (same := _BACK.get(type(kind))) is not None:
        return same
    if isinstance(kind, iceberg.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, iceberg.FixedType):
        return pa.binary(len(kind))
    if isinstance(kind, iceberg.StructType):
        return pa.struct([_arrow_field(each.name, each.field_id, each.field_type, with_ids) for each in kind.fields])
    if isinstance(kind, iceberg.ListType):
        return pa.list_(_arrow_field("item", kind.element_id, kind.element_type, with_ids))
    if isinstance(kind, iceberg.MapType):
        return pa.map_(
            _arrow_field("key", kind.key_id, kind.key_type, with_ids, nullable=False),
            _arrow_field("value", kind.value_id, kind.value_type, with_ids),
        )
    raise TableError(f"the table has a column of type {kind}, which is not known here")
