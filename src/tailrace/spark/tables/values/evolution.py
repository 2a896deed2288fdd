"""What of a declared schema can be read into a table's columns, and how columns grow with it. Pure.

A column never changes its type: files that are written hold the old one. It is given what it holds without loss
(smaller integers, an integer for a double, a decimal with fewer digits), and a struct gets more fields. Names are
matched as they are written; two that differ only in case cannot stand beside each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kind

from tailrace.spark.errors import SchemaMismatchError
from tailrace.spark.tables.values.type_names import shown, shown_type

_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 20}
"""Bits of an integer → decimal digits that hold each."""


def readable_into(declared: pa.DataType, column: pa.DataType) -> bool:
    """Whether each value of a declared type has its place in a column. A struct's fields must all be there."""
    if declared == column or kind.is_null(declared):
        return True
    if kind.is_struct(declared) and kind.is_struct(column):
        return all(
            (at := column.get_field_index(field.name)) >= 0 and readable_into(field.type, column.field(at).type)
            for field in declared
        )
    if is_list(declared) and is_list(column):
        return readable_into(declared.value_type, column.value_type)
    if kind.is_map(declared) and kind.is_map(column):
        return readable_into(declared.key_type, column.key_type) and readable_into(declared.item_type, column.item_type)
    return _scalar_readable_into(declared, column)


def _scalar_readable_into(declared: pa.DataType, column: pa.DataType) -> bool:
    if is_text(declared):
        return is_text(column) or is_bytes(column)
    if is_bytes(declared) or kind.is_fixed_size_binary(declared):
        return is_bytes(column)
    if kind.is_integer(declared):
        return _integer_readable_into(declared, column)
    if kind.is_floating(declared):
        return bool(kind.is_floating(column) and declared.bit_width <= column.bit_width)
    if kind.is_decimal(declared) and kind.is_decimal(column):
        more = column.scale - declared.scale
        return bool(more >= 0 and column.precision - declared.precision >= more)
    if kind.is_timestamp(declared) and kind.is_timestamp(column):
        is_same_kind = (declared.tz is None) == (column.tz is None)
        return is_same_kind and _finer_or_same(declared, column)
    if kind.is_time(declared) and kind.is_time(column):
        return _finer_or_same(declared, column)
    return False


def _integer_readable_into(declared: pa.DataType, column: pa.DataType) -> bool:
    bits = declared.bit_width
    is_signed = kind.is_signed_integer(declared)
    if kind.is_signed_integer(column):
        return bool(column.bit_width >= bits if is_signed else column.bit_width > bits)
    if kind.is_integer(column):
        return bool(not is_signed and column.bit_width >= bits)
    if kind.is_decimal(column):
        return bool(column.precision - column.scale >= _DIGITS[bits])
    return bool(kind.is_float64(column) or (kind.is_float32(column) and bits <= 16))


def _finer_or_same(declared: pa.DataType, column: pa.DataType) -> bool:
    units = ("s", "ms", "us", "ns")
    return units.index(declared.unit) <= units.index(column.unit)


def is_text(one: pa.DataType) -> bool:
    return bool(kind.is_string(one) or kind.is_large_string(one) or kind.is_string_view(one))


def is_bytes(one: pa.DataType) -> bool:
    return bool(kind.is_binary(one) or kind.is_large_binary(one) or kind.is_binary_view(one))


def is_list(one: pa.DataType) -> bool:
    return bool(kind.is_list(one) or kind.is_large_list(one) or kind.is_fixed_size_list(one))


def grow(known: Sequence[pa.Field], declared: Sequence[pa.Field]) -> list[pa.Field]:
    """The columns that hold both, nullable: those there are, in their order, and behind them what is new. A field that
    is not declared any more stays. SchemaMismatchError, with both schemas, where one cannot be read into its column."""

    def refused(reason: str) -> SchemaMismatchError:
        return SchemaMismatchError(
            f"the declared schema cannot be read into the table: {reason}. Declared: {shown(declared)}. "
            f"Table: {shown(known)}"
        )

    return _grown(known, declared, "", refused)


def _grown(
    known: Sequence[pa.Field], declared: Sequence[pa.Field], path: str, refused: Callable[[str], SchemaMismatchError]
) -> list[pa.Field]:
    grown = {field.name: nullable(field) for field in known}
    spelled = {name.lower(): name for name in grown}
    for field in declared:
        name = path + field.name
        there = grown.get(field.name)
        if there is None:
            other = spelled.setdefault(field.name.lower(), field.name)
            if other != field.name:
                raise refused(f"fields {path}{other} and {name} differ only in case")
            _refuse_twins(field.type, name, refused)
            there = nullable(field)
        grown[field.name] = there.with_type(_grown_type(there.type, field.type, name, refused))
    return list(grown.values())


def _refuse_twins(declared: pa.DataType, path: str, refused: Callable[[str], SchemaMismatchError]) -> None:
    """Of fields that differ only in case, anywhere below a new column."""
    spelled: dict[str, str] = {}
    for field in children(declared):
        other = spelled.setdefault(field.name.lower(), field.name)
        if kind.is_struct(declared) and (other != field.name or declared.get_field_index(field.name) < 0):
            raise refused(f"fields {path}.{other} and {path}.{field.name} differ only in case, or not at all")
        _refuse_twins(field.type, f"{path}.{field.name}", refused)


def children(one: pa.DataType) -> list[pa.Field]:
    """The fields right below a type."""
    if kind.is_struct(one):
        return list(one)
    if is_list(one):
        return [one.value_field]
    return [one.key_field, one.item_field] if kind.is_map(one) else []


def _grown_type(
    column: pa.DataType, declared: pa.DataType, path: str, refused: Callable[[str], SchemaMismatchError]
) -> pa.DataType:
    """A column's type with what a declared one has more, below structs, lists and maps."""
    if kind.is_struct(column) and kind.is_struct(declared):
        return pa.struct(_grown(list(column), list(declared), f"{path}.", refused))
    if is_list(column) and is_list(declared):
        inner = _grown_type(column.value_type, declared.value_type, f"{path}.element", refused)
        return column if inner == column.value_type else pa.list_(column.value_field.with_type(inner))
    if kind.is_map(column) and kind.is_map(declared):
        key = _grown_type(column.key_type, declared.key_type, f"{path}.key", refused)
        item = _grown_type(column.item_type, declared.item_type, f"{path}.value", refused)
        return pa.map_(column.key_field.with_type(key), column.item_field.with_type(item))
    if not readable_into(declared, column):
        raise refused(f"{path} is declared {shown_type(declared)}, and its column is {shown_type(column)}")
    return column


def nullable(field: pa.Field) -> pa.Field:
    """The same field as a column: it may be null, and so may all below it but the keys of maps."""
    return pa.field(field.name, _nullable_type(field.type), nullable=True, metadata=field.metadata)


def _nullable_type(one: pa.DataType) -> pa.DataType:
    if kind.is_struct(one):
        return pa.struct([nullable(field) for field in one])
    if kind.is_map(one):
        return pa.map_(_nullable_type(one.key_type), nullable(one.item_field))
    if kind.is_list(one):
        return pa.list_(nullable(one.value_field))
    if kind.is_large_list(one):
        return pa.large_list(nullable(one.value_field))
    return one


def read_into(array: pa.Array, column: pa.DataType) -> pa.Array:
    """An array of a type that is `readable_into` the column's, as one of that type; fields it lacks are null."""
    if array.type == column:
        return array
    if kind.is_null(array.type):
        return pa.nulls(len(array), column)
    if kind.is_struct(column):
        return _struct_into(array, column)
    if is_list(column) and (kind.is_list(array.type) or kind.is_large_list(array.type)):
        return _list_into(array, column)
    if kind.is_map(column):
        return _map_into(array, column)
    if is_integer_to_float(array.type, column):
        return pc.cast(array, column, safe=False)
    if kind.is_integer(array.type) and kind.is_decimal(column):
        wide = pc.cast(array, pa.decimal128(_DIGITS[array.type.bit_width], 0))
        return pc.cast(wide, column)
    return pc.cast(array, column)


def is_integer_to_float(declared: pa.DataType, column: pa.DataType) -> bool:
    """The one reading that may round: a 64-bit integer beyond 2**53 becomes the double next to it."""
    return bool(kind.is_integer(declared) and kind.is_floating(column))


def _struct_into(array: pa.StructArray, column: pa.StructType) -> pa.StructArray:
    children = []
    for field in column:
        at = array.type.get_field_index(field.name)
        # `field`, not `flatten`: what lies below a null struct stays below it.
        there = array.field(at) if at >= 0 else pa.nulls(len(array), field.type)
        children.append(read_into(there, field.type))
    mask = array.is_null() if array.null_count else None
    if not children:
        return pa.array([None if gone else {} for gone in array.is_null().to_pylist()], column)
    return pa.StructArray.from_arrays(children, fields=list(column), mask=mask)


def _list_into(array: pa.Array, column: pa.DataType) -> pa.Array:
    whole = pc.cast(array, pa.list_(array.type.value_field)) if kind.is_large_list(array.type) else array
    start, end = _bounds(whole)
    items = read_into(whole.values.slice(start, end - start), column.value_type)
    made = pa.ListArray.from_arrays(_offsets(whole, start), items, type=pa.list_(column.value_field), mask=_mask(whole))
    return made if made.type == column else pc.cast(made, column)


def _map_into(array: pa.MapArray, column: pa.MapType) -> pa.MapArray:
    start, end = _bounds(array)
    keys = read_into(array.keys.slice(start, end - start), column.key_type)
    items = read_into(array.items.slice(start, end - start), column.item_type)
    return pa.MapArray.from_arrays(_offsets(array, start), keys, items, type=column, mask=_mask(array))


def _bounds(array: pa.Array) -> tuple[int, int]:
    """Where the entries of a list array begin and end among all that its buffers hold."""
    offsets = array.offsets
    return offsets[0].as_py(), offsets[-1].as_py()


def _offsets(array: pa.Array, start: int) -> pa.Array:
    # A fresh array: with a mask, offsets that are a slice are refused.
    return pa.array(pc.subtract(array.offsets, start).to_numpy(), pa.int32())


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None
