"""Columns as a table has them: by name, with nulls where an older file or a value has none, nested ones too.

Nothing is converted but where types differ, and then only what loses nothing.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tailrace.spark.errors import SchemaMismatchError


def conform(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """`rows` with just the columns of `schema`. SchemaMismatchError where one cannot be had of what is there."""
    if rows.schema.equals(schema, check_metadata=True):
        return rows
    return pa.RecordBatch.from_arrays([_column(rows, field) for field in schema], schema=schema)


def conform_table(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    if rows.schema.equals(schema, check_metadata=True):
        return rows
    return pa.Table.from_batches([conform(batch, schema) for batch in rows.to_batches()], schema)


def _column(rows: pa.RecordBatch, field: pa.Field) -> pa.Array:
    index = rows.schema.get_field_index(field.name)
    if index < 0:
        return pa.nulls(rows.num_rows, field.type)
    column = rows.column(index)
    try:
        return conform_array(column, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatchError(
            f"column {field.name} is {field.type}, and {column.type} cannot be read into it: {error}"
        ) from error


def conform_array(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """The same values, with fields of structs found by their names."""
    if array.type == type_:
        return array
    if pa.types.is_struct(type_) and pa.types.is_struct(array.type):
        return _struct(array, type_)
    if pa.types.is_list(type_) and pa.types.is_list(array.type):
        return _with_children(array, type_, [conform_array(array.values, type_.value_type)])
    if pa.types.is_map(type_) and pa.types.is_map(array.type):
        fields = [type_.key_field, type_.item_field]
        columns = [conform_array(array.keys, type_.key_type), conform_array(array.items, type_.item_type)]
        return _with_children(array, type_, [pa.StructArray.from_arrays(columns, fields=fields)])
    return array.cast(type_)


def _struct(array: Any, type_: pa.DataType) -> pa.Array:
    columns = []
    for field in type_:
        index = array.type.get_field_index(field.name)
        columns.append(pa.nulls(len(array), field.type) if index < 0 else conform_array(array.field(index), field.type))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(columns, fields=list(type_), mask=mask)


def _with_children(array: Any, type_: pa.DataType, children: list[pa.Array]) -> pa.Array:
    """Lists and maps: where each begins and which are null stays as it is."""
    return pa.Array.from_buffers(
        type_, len(array), array.buffers()[:2], array.null_count, array.offset, children=children
    )
