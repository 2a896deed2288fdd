"""The columns of a table and of those beside it, from what its values are. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from tailrace.spark.errors import OptionError
from tailrace.spark.tables.columns import DAY, append_schema, hidden_schema, upsert_schema
from tailrace.spark.tables.store import UPSERT

KEY_TYPES: Final = {"bytes": pa.binary(), "string": pa.string()}


def table_columns(mode: str, key: str, values: Sequence[pa.Field], partition_by: tuple[str, ...]) -> pa.Schema:
    """OptionError where it cannot be partitioned so."""
    if mode == UPSERT:
        return upsert_schema(KEY_TYPES[key], list(values))
    schema = append_schema(KEY_TYPES[key], list(values), partition_by)
    for name in partition_by:
        _check_partition_column(schema, name)
    return schema


def hidden_columns(key: str, values: Sequence[pa.Field]) -> pa.Schema:
    return hidden_schema(KEY_TYPES[key], list(values))


def grown(schema: pa.Schema, values: Iterable[pa.Field]) -> pa.Schema | None:
    """With what `values` have more, behind the columns there are; None where that is nothing."""
    columns = {each.name: each for each in schema}
    for each in values:
        columns[each.name] = each if each.name not in columns else columns[each.name].with_type(each.type)
    found = pa.schema(list(columns.values()))
    return None if found.equals(schema) else found


def new_columns(before: pa.Schema, after: pa.Schema | None) -> tuple[str, ...]:
    """Also those that only got more fields within."""
    if after is None:
        return ()
    return tuple(
        each.name
        for each in after
        if before.get_field_index(each.name) < 0 or not before.field(each.name).type.equals(each.type)
    )


def _check_partition_column(schema: pa.Schema, name: str) -> None:
    index = schema.get_field_index(name)
    if index < 0:
        there = ", ".join([DAY, *(each.name for each in schema if _may_partition(each.type) and each.name != DAY)])
        raise OptionError(f"partition_by is {name!r}, which is no column; there are {there}")
    if not _may_partition(schema.field(index).type):
        raise OptionError(
            f"partition_by is {name!r}, which is {schema.field(index).type}: it must be a day, text, a whole number or "
            "a boolean"
        )


def _may_partition(kind: pa.DataType) -> bool:
    whole = pa.types.is_signed_integer(kind) or pa.types.is_boolean(kind)
    return bool(whole or pa.types.is_string(kind) or pa.types.is_date32(kind))
