"""What columns hold JSON values that nobody declared.

As Spark infers them: integers are BIGINT, with others DOUBLE; objects are structs of all fields seen, arrays are arrays
of what holds all their elements; what has nothing in common is STRING. Such a string column takes anything, as JSON
text: nothing that comes later is wrong for it. Text that looks like a time stays text.

What may be added to columns has a place or none: see `places`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as kind

from tailrace.spark.tables.values.places import ELEMENT, TOP, VALUE, Path, Places

DEEPEST: Final = 32
"""Objects and arrays within each other, in a field that nobody declared."""
LONGEST_NAME: Final = 255

_INT64: Final = range(-(1 << 63), 1 << 63)
_NONE: Final = type(None)


def inferred(items: Sequence[Any]) -> pa.DataType:
    """What holds all of them. Null where there is nothing but nulls."""
    kinds = set(map(type, items))
    kinds.discard(_NONE)
    if not kinds:
        return pa.null()
    if kinds == {dict}:
        values: dict[str, list[Any]] = {}
        for item in items:
            for name, value in (item or {}).items():
                values.setdefault(name, []).append(value)
        return pa.struct([(name, inferred(found)) for name, found in values.items()])
    if kinds == {list}:
        return pa.list_(inferred(list(chain.from_iterable(item for item in items if item is not None))))
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int}:
        return pa.int64() if all(item is None or item in _INT64 for item in items) else pa.float64()
    if kinds <= {int, float, Decimal}:
        return pa.float64()
    return pa.string()


def widened(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """What holds all that each of two inferred types holds."""
    if one == other or kind.is_null(other):
        return one
    if kind.is_null(one):
        return other
    if kind.is_struct(one) and kind.is_struct(other):
        types = {field.name: field.type for field in one}
        for field in other:
            types[field.name] = widened(types.get(field.name, pa.null()), field.type)
        return pa.struct(list(types.items()))
    if kind.is_list(one) and kind.is_list(other):
        return pa.list_(widened(one.value_type, other.value_type))
    numbers = (pa.int64(), pa.float64())
    return pa.float64() if one in numbers and other in numbers else pa.string()


def with_text_for_nulls(one: pa.DataType) -> pa.DataType | None:
    """An inferred type as a column: what was never anything but null is text. None for objects that never had a field:
    they get a column with their first one."""
    if kind.is_null(one):
        return pa.string()
    if kind.is_struct(one):
        found = [(field.name, made) for field in one if (made := with_text_for_nulls(field.type)) is not None]
        return pa.struct(found) if found else None
    if kind.is_list(one):
        return pa.list_(with_text_for_nulls(one.value_type) or pa.string())
    return one


def without_nulls(one: pa.DataType) -> pa.DataType | None:
    """Only what had a value. A null, an empty object and an empty array tell nothing about a field's type."""
    if kind.is_null(one):
        return None
    if kind.is_struct(one):
        found = [(field.name, made) for field in one if (made := without_nulls(field.type)) is not None]
        return pa.struct(found) if found else None
    if kind.is_list(one):
        inner = without_nulls(one.value_type)
        return None if inner is None else pa.list_(inner)
    return one


def unusable(name: str, barred: str) -> str | None:
    """Why a name cannot be a column's."""
    if not name:
        return "a field has an empty name"
    if len(name.encode()) > LONGEST_NAME:
        return f"a field's name has more than {LONGEST_NAME} bytes: {name[:40]}…"
    wrong = next((sign for sign in name if sign in barred or ord(sign) < 32 or ord(sign) == 127), None)
    return None if wrong is None else f"the name {name!r} has {wrong!r} in it, which the table does not take in names"


def unusable_below(value: Any, barred: str, depth: int = 0) -> str | None:
    """Why there can be no columns for all that is in a value."""
    if type(value) not in (dict, list):
        return None
    if depth >= DEEPEST:
        return f"it is nested deeper than {DEEPEST}, which only declared fields may be"
    if type(value) is list:
        found = (unusable_below(item, barred, depth + 1) for item in value)
    else:
        if len({name.lower() for name in value}) != len(value):
            return f"names differ only in case: {', '.join(sorted(value))[:200]}"
        found = (unusable(name, barred) or unusable_below(item, barred, depth + 1) for name, item in value.items())
    return next((reason for reason in found if reason), None)


def joined(known: Sequence[pa.Field], new: Sequence[pa.Field], reserved: Collection[str] = ()) -> list[pa.Field]:
    """Columns with those of the new fields that have a place beside them. What is there is left as it is.

    `reserved`: names, in lower case, that are the table's own.
    """
    return _fields(known, new, TOP, Places.beside(known, reserved))


def _fields(known: Sequence[pa.Field], new: Sequence[pa.Field], above: Path, places: Places) -> list[pa.Field]:
    together = {field.name: field for field in known}
    for field in new:
        path = above.field(field.name)
        there = together.get(field.name)
        if there is not None:
            together[field.name] = there.with_type(_within(there.type, field.type, path, places))
        elif (made := places.take(path, field.type)) is not None:
            together[field.name] = pa.field(field.name, made)
    return list(together.values())


def _within(column: pa.DataType, new: pa.DataType, path: Path, places: Places) -> pa.DataType:
    if kind.is_struct(column) and kind.is_struct(new):
        return pa.struct(_fields(list(column), list(new), path, places))
    if kind.is_list(column) and kind.is_list(new):
        inner = _within(column.value_type, new.value_type, path.inside(ELEMENT, column.value_type), places)
        return pa.list_(column.value_field.with_type(inner))
    if kind.is_map(column) and kind.is_map(new):
        item = _within(column.item_type, new.item_type, path.inside(VALUE, column.item_type), places)
        return pa.map_(column.key_field, column.item_field.with_type(item))
    return column
