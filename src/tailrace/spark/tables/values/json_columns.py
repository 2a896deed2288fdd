"""Parsed JSON values as columns, strictly: a value has the type of its column, or a fault.

    BOOLEAN                     true, false
    TINYINT … BIGINT            an integer within the range; 1.0 is none
    FLOAT, DOUBLE               any number: the nearest one, unless that is infinite
    DECIMAL                     a number that needs no rounding
    STRING                      a string; where nobody declared the columns, anything else as JSON text
    DATE, TIMESTAMP(_NTZ)       a string as in ISO 8601, to the microsecond, with a zone (without one)
    BINARY                      a string in Base64
    STRUCT, MAP                 an object
    ARRAY                       an array

A null fits everywhere, and so does a field that is not there, unless it is declared to be needed. Whole columns are
converted at once; which values do not fit is only looked for where a column as a whole does not.
"""

from __future__ import annotations

import binascii
import datetime as dt
import json
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import accumulate, chain
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kind

from tailrace.spark.tables.values.type_names import shown_type

_NONE: Final = type(None)
_NUMBERS: Final = frozenset({int, float, Decimal})
_WRONG: Final = (pa.ArrowException, ValueError, OverflowError, TypeError)
"""What conversions of single values say of those that do not fit."""

_FIRST_DAY: Final = pa.scalar(dt.date(1, 1, 1))
_FIRST_TIME: Final = dt.datetime(1, 1, 1)  # noqa: DTZ001 - the zone is that of the column
_LAST_TIME: Final = dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)  # noqa: DTZ001

_ROUNDED_FROM: Final = float(1 << 63)
_MAY_BE_ROUNDED: Final = (float, dict, list)
_MOST_PLACES: Final = 1_000
_MOST_SHOWN: Final = 60
_DEEPEST_TEXT: Final = 250
"""Of objects and arrays within each other that become text: a little less than the library takes."""

Items = Sequence[Any]


@dataclass(frozen=True)
class Strange:
    """Objects, with names in them for which their struct has no field."""

    steps: tuple[str | None, ...]
    """From the top down to the struct: a field's name, or None for the elements of an array or a map."""
    objects: Items
    names: frozenset[str]
    row_of: Callable[[int], int]


@dataclass
class Findings:
    """What came up while columns were made. With faults, they are made again without those rows."""

    faults: dict[int, str] = field(default_factory=dict)
    """Row → why."""
    strange: list[Strange] = field(default_factory=list)
    rounded: set[int] = field(default_factory=set)
    """Rows with a number in a text that may have been an integer of more digits than it has now."""


@dataclass(frozen=True)
class _Place:
    """Where some items stand."""

    findings: Findings
    takes_unknown: bool
    """Nobody declared the columns: unknown names are told, and a string may be anything."""
    steps: tuple[str | None, ...] = ()
    row_of: Callable[[int], int] = int
    """An item's index → the row it is in."""

    def below(self, step: str | None, row_of: Callable[[int], int] | None = None) -> _Place:
        return _Place(self.findings, self.takes_unknown, (*self.steps, step), row_of or self.row_of)

    def fault(self, at: int, reason: str) -> None:
        path = ".".join("element" if step is None else step for step in self.steps)
        self.findings.faults.setdefault(self.row_of(at), f"field {path}: {reason}")


def columns_of(rows: Items, fields: Sequence[pa.Field], *, takes_unknown: bool) -> tuple[list[pa.Array], Findings]:
    """The columns of objects, None among them. Where there are faults, the columns are of no use."""
    findings = Findings()
    return _children(rows, fields, _Place(findings, takes_unknown)), findings


def readable_types(one: pa.DataType) -> bool:
    """Whether JSON can be read into columns of this type at all."""
    if kind.is_struct(one):
        return all(readable_types(each.type) for each in one)
    if kind.is_list(one):
        return readable_types(one.value_type)
    if kind.is_map(one):
        return bool(kind.is_string(one.key_type)) and readable_types(one.item_type)
    return one in _SCALARS or kind.is_decimal128(one) or (kind.is_timestamp(one) and one.unit == "us")


def has_decimals(one: pa.DataType) -> bool:
    if kind.is_decimal(one):
        return True
    return any(has_decimals(one.field(at).type) for at in range(one.num_fields))


def _children(objects: Items, fields: Sequence[pa.Field], place: _Place) -> list[pa.Array]:
    if place.takes_unknown:
        names = set().union(*filter(None, objects)).difference(each.name for each in fields)
        if names:
            place.findings.strange.append(Strange(place.steps, objects, frozenset(names), place.row_of))
    made = []
    empty: dict[str, Any] = {}
    there = [empty if one is None else one for one in objects] if None in objects else objects
    for each in fields:
        name = each.name
        items = [one.get(name) for one in there]
        below = place.below(name)
        if not each.nullable:
            _need(items, objects, below)
        made.append(_column(items, each.type, below))
    return made


def _need(items: Items, objects: Items, place: _Place) -> None:
    if None in items:
        for at, item in enumerate(items):
            if item is None and objects[at] is not None:
                place.fault(at, "is needed and not there")


def _column(items: Items, to: pa.DataType, place: _Place) -> pa.Array:
    if kind.is_struct(to):
        return _struct(_only(items, dict, to, place), to, place)
    if kind.is_list(to):
        return _list(_only(items, list, to, place), to, place)
    if kind.is_map(to):
        return _map(_only(items, dict, to, place), to, place)
    return _scalars(items, to, place)


def _only(items: Items, wanted: type, to: pa.DataType, place: _Place) -> Items:
    """None in place of all of other types, which are faults."""
    if not set(map(type, items)) <= {wanted, _NONE}:
        for at, item in enumerate(items):
            if type(item) is not wanted and item is not None:
                place.fault(at, _not(item, to))
        return [item if type(item) is wanted else None for item in items]
    return items


def _struct(objects: Items, to: pa.StructType, place: _Place) -> pa.Array:
    return pa.StructArray.from_arrays(_children(objects, list(to), place), fields=list(to), mask=_mask(objects))


def _list(lists: Items, to: pa.ListType, place: _Place) -> pa.Array:
    ends, row_of = _ends(lists, place)
    items = list(chain.from_iterable(filter(None, lists)))
    made = _column(items, to.value_type, place.below(None, row_of))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), made, type=to, mask=_mask(lists))


def _map(objects: Items, to: pa.MapType, place: _Place) -> pa.Array:
    ends, row_of = _ends(objects, place)
    below = place.below(None, row_of)
    keys = pa.array(list(chain.from_iterable(filter(None, objects))), pa.string())
    items = list(chain.from_iterable(one.values() for one in objects if one))
    made = _column(items, to.item_type, below)
    return pa.MapArray.from_arrays(pa.array(ends, pa.int32()), keys, made, type=to, mask=_mask(objects))


def _ends(parts: Items, place: _Place) -> tuple[list[int], Callable[[int], int]]:
    """Where the entries of each begin, and what finds the row of an entry."""
    ends = [0, *accumulate(0 if part is None else len(part) for part in parts)]
    return ends, lambda at: place.row_of(bisect_right(ends, at) - 1)


def _mask(items: Items) -> pa.Array | None:
    return pa.array([item is None for item in items], pa.bool_()) if None in items else None


def _scalars(items: Items, to: pa.DataType, place: _Place) -> pa.Array:
    if place.takes_unknown and kind.is_string(to):
        return pa.array(_texts(items, place), to)
    kinds, make = _SCALARS.get(to) or _of_parameters(to)
    try:
        if set(map(type, items)) - kinds <= {_NONE}:
            return make(items, to)
    except _WRONG:
        pass
    return make([item if _fits(item, at, kinds, make, to, place) else None for at, item in enumerate(items)], to)


def _fits(item: Any, at: int, kinds: frozenset[type], make: _Make, to: pa.DataType, place: _Place) -> bool:
    if item is None:
        return True
    try:
        if type(item) in kinds:
            make([item], to)
            return True
    except _WRONG:
        pass
    place.fault(at, _not(item, to))
    return False


def _not(item: Any, to: pa.DataType) -> str:
    return f"{json_shown(item)} does not fit {shown_type(to)}"


def json_shown(item: Any) -> str:
    """Its beginning, for people."""
    try:
        text = _json_text(item)
    except _TooDeepError as error:
        return f"a value that is {error}"
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"


class _TooDeepError(ValueError):
    """No text is made of it: that takes a stack as deep as the value."""

    def __init__(self) -> None:
        super().__init__(f"nested deeper than {_DEEPEST_TEXT}")


def _json_text(item: Any) -> str:
    try:
        return str(orjson.dumps(item, default=float), "utf-8")
    except TypeError:
        # Nested too deeply; or an integer of more than 64 bits, as there are where numbers are read exactly.
        if _is_deeper(item, _DEEPEST_TEXT):
            raise _TooDeepError from None
        return json.dumps(item, default=float, ensure_ascii=False, separators=(",", ":"))


def _is_deeper(item: Any, most: int) -> bool:
    level = [item]
    for _ in range(most):
        nested = (each.values() if type(each) is dict else each for each in level if type(each) in (dict, list))
        level = list(chain.from_iterable(nested))
        if not level:
            return False
    return True


def _texts(items: Items, place: _Place) -> Items:
    """Anything but text as JSON."""
    if set(map(type, items)) <= {str, _NONE}:
        return items
    texts: list[str | None] = []
    for at, item in enumerate(items):
        if type(item) in _MAY_BE_ROUNDED and _may_be_rounded(item):
            place.findings.rounded.add(place.row_of(at))
        try:
            texts.append(item if item is None or type(item) is str else _json_text(item))
        except _TooDeepError as error:
            place.fault(at, f"it is {error}")
            texts.append(None)
    return texts


def _may_be_rounded(item: Any) -> bool:
    """Whether a number in it is a float beyond 64 bits, as the parser makes them of integers too."""
    level = [item]
    while level:
        if any(type(each) is float and not -_ROUNDED_FROM < each < _ROUNDED_FROM for each in level):
            return True
        nested = (each.values() if type(each) is dict else each for each in level if type(each) in (dict, list))
        level = list(chain.from_iterable(nested))
    return False


_Make = Callable[[Items, pa.DataType], pa.Array]
"""Raises one of `_WRONG`, or gives an array that holds each item as it is."""


def _as_they_are(items: Items, to: pa.DataType) -> pa.Array:
    return pa.array(items, to)


def _floats(items: Items, to: pa.DataType) -> pa.Array:
    made = pa.array([None if item is None else float(item) for item in items], to)
    if pc.any(pc.is_inf(made)).as_py():
        raise ValueError("too large")
    return made


def _decimals(items: Items, to: pa.DataType) -> pa.Array:
    return pa.array([None if item is None else _decimal(item) for item in items], to)


def _decimal(item: int | Decimal) -> Decimal:
    number = Decimal(item)
    exponent = number.as_tuple().exponent
    # Arrow takes memory for each digit behind the point, and faults where it gets none.
    if not isinstance(exponent, int) or exponent < -_MOST_PLACES:
        raise ValueError("too many digits behind the point")
    return number


def _days(items: Items, to: pa.DataType) -> pa.Array:
    made = pc.cast(pa.array(items, pa.string()), to)
    if pc.any(pc.less(made, _FIRST_DAY)).as_py():
        raise ValueError("before the year 1")
    return made


def _times(items: Items, to: pa.DataType) -> pa.Array:
    made = pc.cast(pa.array(items, pa.string()), to)
    bounds = pc.min_max(made)
    first, last = (pa.scalar(one, pa.timestamp("us")).cast(to) for one in (_FIRST_TIME, _LAST_TIME))
    if pc.or_(pc.less(bounds["min"], first), pc.greater(bounds["max"], last)).as_py():
        raise ValueError("not within the years 1 to 9999")
    return made


def _binaries(items: Items, to: pa.DataType) -> pa.Array:
    return pa.array([None if item is None else binascii.a2b_base64(item, strict_mode=True) for item in items], to)


_INTEGERS: Final = (frozenset({int}), _as_they_are)
_TEXTS: Final = frozenset({str})

_SCALARS: Final[dict[pa.DataType, tuple[frozenset[type], _Make]]] = {
    pa.bool_(): (frozenset({bool}), _as_they_are),
    pa.int8(): _INTEGERS,
    pa.int16(): _INTEGERS,
    pa.int32(): _INTEGERS,
    pa.int64(): _INTEGERS,
    pa.float32(): (_NUMBERS, _floats),
    pa.float64(): (_NUMBERS, _floats),
    pa.string(): (_TEXTS, _as_they_are),
    pa.binary(): (_TEXTS, _binaries),
    pa.date32(): (_TEXTS, _days),
}


def _of_parameters(to: pa.DataType) -> tuple[frozenset[type], _Make]:
    return (_NUMBERS, _decimals) if kind.is_decimal(to) else (_TEXTS, _times)
