"""JSON with declared columns against a plain decoder, for any schema and any values."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as kind
from hypothesis import event, given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from tailrace.spark.tables.values.json import declared_json


class _MisfitError(Exception):
    pass


def _plain(raw: bytes) -> dict[str, Any]:
    """An object, with its numbers as they are written."""

    def refused(text: str) -> Any:
        raise _MisfitError

    def number(text: str) -> Decimal:
        if math.isinf(float(text)):
            raise _MisfitError
        return Decimal(text)

    try:
        found = json.loads(raw.decode("utf-8"), parse_constant=refused, parse_float=number)
        json.dumps(found, ensure_ascii=False, default=str).encode("utf-8")  # a lone surrogate is no text
    except ValueError:
        raise _MisfitError from None
    if not isinstance(found, dict):
        raise _MisfitError
    return found


def _read(value: Any, to: pa.DataType) -> Any:
    if value is None:
        return None
    if kind.is_struct(to):
        return _fields(_of(value, dict), list(to))
    if kind.is_list(to):
        return [_read(item, to.value_type) for item in _of(value, list)]
    if kind.is_map(to):
        return [(key, _read(item, to.item_type)) for key, item in _of(value, dict).items()]
    if kind.is_boolean(to):
        return _of(value, bool)
    if kind.is_integer(to):
        bound = 1 << (to.bit_width - 1)
        if not -bound <= _of(value, int) < bound:
            raise _MisfitError
        return value
    if kind.is_floating(to):
        made = float(_of(value, int, Decimal))
        if to.bit_width == 32:
            try:
                # With "<": what is too large is refused, and does not become infinite.
                made = struct.unpack("<f", struct.pack("<f", made))[0]
            except OverflowError:
                raise _MisfitError from None
        return made
    if kind.is_decimal(to):
        return _decimal(Decimal(_of(value, int, Decimal)), to)
    return _of_text(_of(value, str), to)


def _decimal(value: Decimal, to: pa.DataType) -> Decimal:
    units = value * 10**to.scale
    if units != units.to_integral_value() or abs(units) >= 10**to.precision:
        raise _MisfitError
    return value


def _of_text(text: str, to: pa.DataType) -> Any:
    if kind.is_string(to):
        return text
    try:
        if kind.is_binary(to):
            made = base64.b64decode(text, validate=True)
            if base64.b64encode(made).decode() != text:
                raise _MisfitError
            return made
        if kind.is_date(to):
            if not re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
                raise _MisfitError
            return dt.date.fromisoformat(text)
        pattern = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?"
        if not re.fullmatch(pattern, text, re.ASCII):
            raise _MisfitError
        whole = dt.datetime.fromisoformat(text)
        if (whole.tzinfo is None) != (to.tz is None):
            raise _MisfitError
        return whole if whole.tzinfo is None else whole.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        raise _MisfitError from None


def _of(value: Any, *types: type) -> Any:
    if type(value) not in types:
        raise _MisfitError
    return value


def _fields(value: dict[str, Any], fields: list[pa.Field]) -> dict[str, Any]:
    made = {field.name: _read(value.get(field.name), field.type) for field in fields}
    if any(made[field.name] is None and not field.nullable for field in fields):
        raise _MisfitError
    return made


NAMES = st.sampled_from(["a", "b", "c", "größe", "x y", "a.b"])
SCALARS = [
    *(pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary()),
    *(pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.decimal128(6, 2), pa.decimal128(38, 10)),
]


def _struct(types: dict[str, tuple[pa.DataType, bool]]) -> pa.StructType:
    return pa.struct([pa.field(name, *one) for name, one in types.items()])


TYPES = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda one: pa.map_(pa.string(), one)),
        st.dictionaries(NAMES, st.tuples(inner, st.booleans()), min_size=1, max_size=3).map(_struct),
    ),
    max_leaves=6,
)
SCHEMAS = st.dictionaries(NAMES, st.tuples(TYPES, st.sampled_from([True, True, False])), min_size=1, max_size=4).map(
    _struct
)
ZONES = st.integers(-840, 840).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))
ANYTHING = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=4),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(NAMES, inner, max_size=2)),
    max_leaves=4,
)


def _fitting(to: pa.DataType) -> st.SearchStrategy[Any]:
    if kind.is_struct(to):
        return _objects(to)
    if kind.is_list(to):
        return st.lists(_values(to.value_type), max_size=3)
    if kind.is_map(to):
        return st.dictionaries(st.text(max_size=3), _values(to.item_type), max_size=3)
    if kind.is_boolean(to):
        return st.booleans()
    if kind.is_integer(to):
        bound = 1 << (to.bit_width - 1)
        edges = st.sampled_from([-bound, bound - 1, bound, -bound - 1, 1.0, -0.0])
        return st.one_of(st.integers(-bound, bound - 1), edges)
    if kind.is_floating(to):
        large = st.sampled_from([3.5e38, -1e300, 2**64])
        return st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**64), 2**64), large)
    if kind.is_decimal(to):
        return st.one_of(
            st.integers(-20_000, 20_000), st.integers(-2_000_000, 2_000_000).map(lambda units: units / 1000)
        )
    if kind.is_binary(to):
        return st.binary(max_size=6).map(lambda raw: base64.b64encode(raw).decode())
    if kind.is_date(to):
        return st.dates().map(dt.date.isoformat)
    if kind.is_timestamp(to):
        zone = st.none() if to.tz is None else ZONES
        return st.datetimes(timezones=zone).map(dt.datetime.isoformat)
    return st.text(max_size=6)


def _mostly(usual: st.SearchStrategy[Any], *others: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A row has many places, and one wrong one makes all of it bad: each must be rare."""
    return st.integers(0, 11).flatmap(lambda at: others[at] if at < len(others) else usual)


def _values(to: pa.DataType) -> st.SearchStrategy[Any]:
    return _mostly(_fitting(to), ANYTHING, st.none())


def _objects(to: pa.StructType) -> st.SearchStrategy[Any]:
    needed = {field.name: _values(field.type) for field in to if not field.nullable}
    optional = {field.name: _values(field.type) for field in to if field.nullable}
    whole = st.fixed_dictionaries(needed, optional={**optional, "unknown": ANYTHING})
    return _mostly(whole, st.fixed_dictionaries({}, optional={**needed, **optional}))


@st.composite
def _topics(draw: st.DrawFn) -> tuple[pa.StructType, list[bytes | None]]:
    schema = draw(SCHEMAS)
    ascii_only = draw(st.booleans())
    texts = _mostly(_objects(schema), ANYTHING).map(
        lambda value: json.dumps(value, ensure_ascii=ascii_only).encode("utf-8")
    )
    rows = _mostly(texts, st.none(), st.binary(max_size=8), texts.map(lambda text: text[:-1]))
    return schema, draw(st.lists(rows, max_size=12))


@settings(max_examples=examples(250))
@given(_topics())
def test_columns_are_those_of_a_plain_decoder(topic: tuple[pa.StructType, list[bytes | None]]) -> None:
    schema, raw = topic
    fields = list(schema)
    plan = declared_json(fields, None)
    decoded = plan.decoder().decode(pa.array(raw, pa.binary()))
    rows: list[dict[str, Any]] = []
    bad = set()
    for row, value in enumerate(raw):
        try:
            rows.append({} if value is None else _fields(_plain(value), fields))
        except _MisfitError:
            bad.add(row)
            rows.append({})
    event(f"{'some' if len(bad) < len(raw) else 'no'} good, {'some' if bad else 'no'} bad")
    assert decoded.bad.keys() == bad
    for field, column in zip(plan.fields, decoded.columns, strict=True):
        column.validate(full=True)
        assert column.type == field.type
        assert column.to_pylist() == [row.get(field.name) for row in rows]
