"""Columns of Arrow as columns of Delta, and back.

Delta has fewer types. What it can hold only in a wider one is in the table in that: unsigned integers, coarser times,
other time zones. What it cannot hold at all is refused, with the name of the column; so are names that other readers of
Delta do not take. All columns are nullable. Spark and Delta do not tell upper from lower case in names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from tailrace.spark.errors import SchemaMismatchError, TableError
from tailrace.spark.tables.delta.lake import Schema, reason

BARRED: Final = " ,;{}()\n\t="
"""Characters that a name cannot have."""
UTC: Final = "UTC"

_SAME: Final = frozenset(
    (
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.date32(),
        pa.string(),
        pa.binary(),
    )
)
_WIDER: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
}


def delta_columns(schema: pa.Schema, name: str) -> pa.Schema:
    """As the table at `name` would have them. TableError for what it cannot hold."""
    _check_names(schema, name)
    return pa.schema([pa.field(each.name, _held(each.type, each.name, name)) for each in schema])


def to_delta(columns: pa.Schema) -> Schema:
    try:
        return Schema.from_arrow(columns)
    except Exception as error:  # deltalake has no class of its own for it
        raise TableError(f"a Delta table cannot hold these columns: {reason(error)}\n{columns}") from error


def to_arrow(schema: Schema) -> pa.Schema:
    """Without what differs between makers of the same column, as the name of a list's elements."""
    return pa.schema([pa.field(each.name, _plain(each.type)) for each in pa.schema(schema.to_arrow())])


def new_fields(there: pa.Schema, wanted: pa.Schema, name: str) -> pa.Schema:
    """Columns that `there` does not have, and those whose structs have more fields in `wanted`."""
    missing = [each.name for each in there if each.name not in wanted.names]
    changed = [
        each.name
        for each in there
        if each.name in wanted.names and not _has_room_for(wanted.field(each.name).type, each.type)
    ]
    if missing or changed:
        raise SchemaMismatchError(
            f"the Delta table at {name} cannot change or lose columns: {', '.join(missing + changed)}\n"
            f"the table:\n{there}\nwanted:\n{wanted}"
        )
    fields = {each.name: each.type for each in there}
    # The order of fields in a struct is the table's own: new ones stand at its end.
    return pa.schema(
        [each for each in wanted if each.name not in fields or not _has_room_for(fields[each.name], each.type)]
    )


def _has_room_for(new: pa.DataType, old: pa.DataType) -> bool:
    """The same, or the same with more fields inside."""
    if new.equals(old):
        return True
    if pa.types.is_struct(new) and pa.types.is_struct(old):
        inner = {each.name: each.type for each in new}
        return all(each.name in inner and _has_room_for(inner[each.name], each.type) for each in old)
    if pa.types.is_map(new) and pa.types.is_map(old):
        return new.key_type.equals(old.key_type) and _has_room_for(new.item_type, old.item_type)
    if pa.types.is_list(new) and pa.types.is_list(old):
        return _has_room_for(new.value_type, old.value_type)
    return False


def _held(kind: pa.DataType, column: str, table: str) -> pa.DataType:
    if kind in _SAME:
        return kind
    if (wider := _WIDER.get(kind)) is not None:
        return wider
    types = pa.types
    if types.is_timestamp(kind) and kind.unit != "ns":
        return pa.timestamp("us", UTC if kind.tz else None)
    if (types.is_decimal128(kind) or types.is_decimal256(kind)) and kind.precision <= 38 and kind.scale >= 0:
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_struct(kind) and kind.num_fields:
        return pa.struct([pa.field(each.name, _held(each.type, f"{column}.{each.name}", table)) for each in kind])
    if types.is_map(kind):
        key = _held(kind.key_type, f"{column}.key", table)
        return pa.map_(key, _held(kind.item_type, f"{column}.value", table))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(_held(kind.value_type, f"{column}.element", table))
    raise TableError(f"column {column} is {kind}, which a Delta table cannot hold (that at {table})")


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _plain(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    return _WIDER.get(kind, kind)


def _check_names(schema: pa.Schema, table: str) -> None:
    bad = [shown for shown, name in _names(schema) if not name or any(each in BARRED for each in name)]
    if bad:
        raise TableError(
            f"the Delta table at {table} cannot have columns named {', '.join(map(repr, bad))}: a name is not empty, "
            f"and has none of {BARRED!r} in it"
        )
    for fields, where in _levels(schema, ""):
        counted = Counter(each.name.lower() for each in fields)
        if twice := [each.name for each in fields if counted[each.name.lower()] > 1]:
            raise TableError(
                f"the Delta table at {table} cannot have columns{where} whose names differ only by upper and lower "
                f"case: {', '.join(twice)}"
            )


def _names(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    for fields, where in _levels(schema, ""):
        for each in fields:
            yield f"{where.removeprefix(' in ')}.{each.name}" if where else each.name, each.name


def _levels(fields: Iterable[pa.Field], where: str) -> Iterator[tuple[list[pa.Field], str]]:
    """All fields that stand beside each other, at the top and in structs, with the place of these."""
    found = list(fields)
    yield found, where
    for each in found:
        path = f"{where}.{each.name}" if where else f" in {each.name}"
        for inner in _structs(each.type):
            yield from _levels(inner, path)


def _structs(kind: pa.DataType) -> Iterator[pa.DataType]:
    """The nearest ones inside."""
    if pa.types.is_struct(kind):
        yield kind
    elif pa.types.is_map(kind):
        yield from _structs(kind.key_type)
        yield from _structs(kind.item_type)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _structs(kind.value_type)
