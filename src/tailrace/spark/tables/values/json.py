"""Values that are JSON objects: a column for each field of a declared schema, or of what was seen.

A declared field's values have its type (`json_columns` has the rules), and fields that are not declared are left out.
Where nobody declares, columns are inferred from the first records (`json_inference`), and each unknown field that turns
up later becomes a column. Of a name that is twice in an object, the last one counts. Everything that is no JSON object
is a dead letter, as is a value that does not fit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.types as kind

from tailrace.model.invariant import invariant
from tailrace.spark.errors import SchemaMismatchError
from tailrace.spark.tables.values.evolution import grow, is_bytes, is_list, is_text, nullable, read_into
from tailrace.spark.tables.values.json_columns import (
    Findings,
    Strange,
    columns_of,
    has_decimals,
    json_shown,
    readable_types,
)
from tailrace.spark.tables.values.json_inference import (
    inferred,
    joined,
    unusable,
    unusable_below,
    widened,
    with_text_for_nulls,
    without_nulls,
)
from tailrace.spark.tables.values.places import ELEMENT, MOST_FIELDS, TOP, VALUE, Path, Places, leaves
from tailrace.spark.tables.values.plan import NOTHING, Decoded, Discovered
from tailrace.spark.tables.values.type_names import shown, shown_type

_BLOCK_ROWS: Final = 4096
"""Converted at once: few enough for the processor's caches, and for Python's collector of garbage."""
_BLOCK_BYTES: Final = 8 << 20


@dataclass(frozen=True)
class JsonPlan:
    columns: tuple[pa.Field, ...]
    """Of the table."""
    reading: tuple[pa.Field, ...]
    """What values are read as: all of it is readable into the columns. Fields that are not nullable are needed."""
    is_inferred: bool = False
    reserved: frozenset[str] = frozenset()
    """Names in lower case that an inferred column cannot have."""
    barred: str = ""
    """Characters that an inferred column's name cannot have."""

    @property
    def fields(self) -> Sequence[pa.Field]:
        return self.columns

    def decoder(self) -> JsonDecoder:
        return JsonDecoder(self)

    def grown(self, discovered: Iterable[Discovered]) -> JsonPlan:
        fields = [pa.field(name, new) for name, new in _together(discovered).fields.items()]
        columns = joined(self.columns, fields, self.reserved)
        return replace(self, columns=tuple(columns), reading=_reading(columns))


def declared_json(declared: Sequence[pa.Field], known: Sequence[pa.Field] | None) -> JsonPlan:
    """SchemaMismatchError where the columns there are cannot take it, or JSON cannot be read as it."""
    _refuse_unreadable(declared)
    return JsonPlan(tuple(grow(known or (), declared)), tuple(declared))


def inferred_json(
    known: Sequence[pa.Field] | None,
    sample: Callable[[], pa.Array] | None,
    reserved: frozenset[str] = frozenset(),
    barred: str = "",
) -> JsonPlan:
    """With the columns there are; of a table that is to be made, with those that hold the sample. Values of a sample
    that are no objects tell nothing."""
    if known is not None:
        _refuse_unreadable(_reading(known))
        columns = [nullable(field) for field in known]
    else:
        columns = [] if sample is None else _columns_of_sample(sample(), reserved, barred)
    return JsonPlan(tuple(columns), _reading(columns), True, reserved, barred)


def _columns_of_sample(values: pa.Array, reserved: frozenset[str], barred: str) -> list[pa.Field]:
    rows, _ = _parsed(values, _loads)
    usable = [row for row in rows if row is not None and unusable_below(row, barred) is None]
    whole = inferred(usable)
    if leaves(whole) > MOST_FIELDS:
        # Values that are too large by themselves will be dead letters: they do not count.
        small = [row for row in usable if leaves(inferred([row])) <= MOST_FIELDS]
        whole = inferred(small or usable)
    made = with_text_for_nulls(whole) if kind.is_struct(whole) else None
    if made is None:
        return []
    own = [field.name for field in made if field.name.lower() in reserved]
    if own:
        raise SchemaMismatchError(
            f"the values have fields with the names of the table's own columns: {', '.join(own)}. With "
            f"--value-column NAME all fields lie below one column. Their schema: {shown(list(made))}"
        )
    if leaves(made) > MOST_FIELDS:
        raise SchemaMismatchError(
            f"the values have {leaves(made)} fields, and at most {MOST_FIELDS} become columns by themselves: declare a "
            "schema (a MAP for objects whose names are data), or take the values as string"
        )
    return joined([], list(made), reserved)


def _reading(columns: Sequence[pa.Field]) -> tuple[pa.Field, ...]:
    """Columns as they are read where nothing else is declared: formats have several types for the same."""
    return tuple(pa.field(field.name, _plain(field.type)) for field in columns)


def _plain(one: pa.DataType) -> pa.DataType:
    if kind.is_struct(one):
        return pa.struct([(field.name, _plain(field.type)) for field in one])
    if is_list(one):
        return pa.list_(_plain(one.value_type))
    if kind.is_map(one):
        return pa.map_(_plain(one.key_type), _plain(one.item_type))
    if is_text(one):
        return pa.string()
    return pa.binary() if is_bytes(one) else one


def _refuse_unreadable(fields: Sequence[pa.Field]) -> None:
    for field in fields:
        if not readable_types(field.type):
            raise SchemaMismatchError(f"JSON cannot be read as {field.name} {shown_type(field.type)}")


class JsonDecoder:
    def __init__(self, plan: JsonPlan) -> None:
        self._plan = plan
        is_exact = any(has_decimals(field.type) for field in plan.reading)
        self._load = _loads_exactly if is_exact else _loads
        self._places: Places | None = None
        """Of the plan's columns, once an unknown field is met."""

    def decode(self, values: pa.Array) -> Decoded:
        average = max(1, values.nbytes // max(1, len(values)))
        step = max(1, min(_BLOCK_ROWS, _BLOCK_BYTES // average))
        bad: dict[int, str] = {}
        found: list[Discovered] = []
        blocks = []
        for start in range(0, len(values), step):
            columns, wrong, unknown = self._block(values.slice(start, step))
            blocks.append(columns)
            bad.update((start + row, reason) for row, reason in wrong.items())
            if unknown:
                found.append(unknown)
        return Decoded(self._joined(blocks, len(values)), bad, _together(found))

    def _block(self, values: pa.Array) -> tuple[list[pa.Array], dict[int, str], Discovered]:
        plan = self._plan
        rows, bad = _parsed(values, self._load)
        exact: set[int] = set()
        while True:
            columns, findings = columns_of(rows, plan.reading, takes_unknown=plan.is_inferred)
            rounded = findings.rounded - exact
            if rounded:
                exact |= rounded
                for row in rounded:
                    rows[row] = _with_whole_integers(values[row].as_py())
                continue
            unknown = NOTHING if findings.faults else self._sifted(findings)
            if not findings.faults:
                return columns, bad, unknown
            invariant(all(rows[row] is not None for row in findings.faults), "a fault is of a row that has a value")
            bad.update(findings.faults)
            for row in findings.faults:
                rows[row] = None

    def _sifted(self, findings: Findings) -> Discovered:
        """What becomes of unknown names: columns, or a fault where that cannot be."""
        if not findings.strange:
            return NOTHING
        if self._places is None:
            self._places = Places.beside(self._plan.columns, self._plan.reserved)
        places = self._places.copy()
        crowded = self._crowded(findings, places.room) if places.room > 0 else {}
        if crowded:
            findings.faults.update(crowded)
            return NOTHING
        found: dict[str, pa.DataType] = {}
        for strange in findings.strange:
            for name, values in _by_name(strange).items():
                new = self._new_field(name, values, strange, places, findings)
                if new is not None:
                    found[new.name] = widened(found.get(new.name, pa.null()), new.type)
        return Discovered(fields=found) if found else NOTHING

    def _crowded(self, findings: Findings, room: int) -> dict[int, str]:
        """Rows that by themselves have more unknown fields than there is room for. They take it from no other row."""
        counts: dict[int, int] = {}
        for strange in findings.strange:
            depth = len(strange.steps) + 1
            for values in _by_name(strange).values():
                by_row: dict[int, list[Any]] = {}
                for at, value in values.items():
                    if unusable_below(value, self._plan.barred, depth) is None:
                        by_row.setdefault(strange.row_of(at), []).append(value)
                for row, found in by_row.items():
                    counts[row] = counts.get(row, 0) + leaves(inferred(found))
        reason = f"unknown fields, and of {MOST_FIELDS} that a table may have {room} are left"
        return {row: f"it has {count} {reason}" for row, count in counts.items() if count > room}

    def _new_field(
        self, name: str, values: dict[int, Any], strange: Strange, places: Places, findings: Findings
    ) -> pa.Field | None:
        """The unknown field, within the top-level one that it is in. None where it tells nothing, or has no place."""
        plan = self._plan
        depth = len(strange.steps) + 1
        wrong = unusable(name, plan.barred)
        reasons = {at: wrong or unusable_below(value, plan.barred, depth) for at, value in values.items()}
        usable = [value for at, value in values.items() if reasons[at] is None]
        new = without_nulls(inferred(usable))
        if new is not None and places.take(_path(name, strange.steps, plan.reading), new) is None:
            new = None
            reasons = {at: reason or self._no_place(name, strange, places) for at, reason in reasons.items()}
        for at, reason in reasons.items():
            if reason is not None:
                findings.faults.setdefault(strange.row_of(at), reason)
        return None if new is None else _wrapped(name, new, strange.steps, plan.reading)

    def _no_place(self, name: str, strange: Strange, places: Places) -> str:
        path = ".".join([*("element" if step is None else step for step in strange.steps), name])
        if path.lower() in self._plan.reserved:
            return (
                f"field {path} has the name of a column of the table's own; "
                "--value-column NAME puts all fields below one column"
            )
        if places.room <= 0:
            return f"field {path} is unknown, and the table has {MOST_FIELDS} fields already"
        return f"field {path} has no place beside a field of nearly the same name"

    def _joined(self, blocks: list[list[pa.Array]], length: int) -> list[pa.Array]:
        places = {field.name: at for at, field in enumerate(self._plan.reading)}
        made = []
        for column in self._plan.columns:
            at = places.get(column.name)
            if at is None or not blocks:
                made.append(pa.nulls(length, column.type))
            else:
                made.append(read_into(pa.concat_arrays([block[at] for block in blocks]), column.type))
        return made


def _parsed(values: pa.Array, load: Callable[[bytes], Any]) -> tuple[list[dict[str, Any] | None], dict[int, str]]:
    """Objects; None for a null, and for what is none, which is bad."""
    rows: list[dict[str, Any] | None] = []
    bad = {}
    add = rows.append
    for value in values.to_pylist():
        if value is None:
            add(None)
            continue
        try:
            row = load(value)
        except (ValueError, RecursionError) as error:
            bad[len(rows)] = f"not JSON: {error}"[:300]
            add(None)
            continue
        if type(row) is dict:
            add(row)
        else:
            bad[len(rows)] = f"JSON, but no object: {json_shown(row)}"
            add(None)
    return rows, bad


_loads = orjson.loads


def _loads_exactly(value: bytes) -> Any:
    """With numbers as they are written. The first parser decides what JSON is, the second reads it."""
    orjson.loads(value)
    return json.loads(value, parse_float=Decimal)


def _with_whole_integers(value: bytes) -> Any:
    """What `_loads` has taken, with integers beyond 64 bits as they are written."""
    try:
        return json.loads(value)
    except RecursionError:
        return _loads(value)


def _by_name(strange: Strange) -> dict[str, dict[int, Any]]:
    """Unknown name → the objects that have it, and their values. Without nulls, and in an order of their own."""
    found: dict[str, dict[int, Any]] = {}
    for at, one in enumerate(strange.objects):
        if one:
            for name in one.keys() & strange.names:
                if one[name] is not None:
                    found.setdefault(name, {})[at] = one[name]
    return dict(sorted(found.items()))


def _on_the_way(steps: tuple[str | None, ...], reading: Sequence[pa.Field]) -> list[pa.DataType]:
    """The type that each step goes into: a struct, a list or a map."""
    types: list[pa.DataType] = []
    at: pa.DataType = pa.struct(list(reading))
    for step in steps:
        types.append(at)
        if step is not None:
            at = at.field(step).type
        else:
            at = at.item_type if kind.is_map(at) else at.value_type
    return types


def _path(name: str, steps: tuple[str | None, ...], reading: Sequence[pa.Field]) -> Path:
    path = TOP
    for step, within in zip(steps, _on_the_way(steps, reading), strict=True):
        if step is not None:
            path = path.field(step)
        elif kind.is_map(within):
            path = path.inside(VALUE, within.item_type)
        else:
            path = path.inside(ELEMENT, within.value_type)
    return path.field(name)


def _wrapped(name: str, new: pa.DataType, steps: tuple[str | None, ...], reading: Sequence[pa.Field]) -> pa.Field:
    """A field within the top-level one that it is in."""
    types = _on_the_way(steps, reading)
    made = pa.struct([(name, new)])
    for step, within in zip(reversed(steps), reversed(types), strict=True):
        if step is not None:
            made = pa.struct([(step, made)])
        else:
            made = pa.map_(pa.string(), made) if kind.is_map(within) else pa.list_(made)
    return made.field(0)


def _together(discovered: Iterable[Discovered]) -> Discovered:
    types: dict[str, pa.DataType] = {}
    for one in discovered:
        for name, new in one.fields.items():
            types[name] = widened(types.get(name, pa.null()), new)
    return Discovered(fields=types) if types else NOTHING
