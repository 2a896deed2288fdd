"""Where the fields of values stand in a table: as columns beside our own, or below one column (`valueColumn`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.types as kind

from tailrace.spark.errors import SchemaMismatchError
from tailrace.spark.tables.columns import KEY, TYPES
from tailrace.spark.tables.values.plan import Decoded, Discovered, ValueDecoder, ValuePlan
from tailrace.spark.tables.values.type_names import shown

OWN_NAMES: Final = frozenset({KEY, *TYPES})
"""Also those that only some tables have: an append table's values have no `_bucket` either."""


def value_fields(schema: Iterable[pa.Field]) -> list[pa.Field]:
    """Those columns of a table that are of its values."""
    return [field for field in schema if field.name not in OWN_NAMES]


def fields_below(known: Sequence[pa.Field], column: str) -> list[pa.Field]:
    """Of a table whose values are below one column. SchemaMismatchError where that is something else."""
    if not known:
        return []
    if len(known) != 1 or known[0].name != column or not kind.is_struct(known[0].type):
        raise SchemaMismatchError(f"the table does not have its values below a column {column}: {shown(known)}")
    return list(known[0].type)


def refuse_collisions(fields: Sequence[pa.Field]) -> None:
    """SchemaMismatchError for fields that cannot stand beside our own columns, or beside each other."""
    spelled = {name.lower(): name for name in OWN_NAMES}
    for field in fields:
        other = spelled.get(field.name.lower())
        if other is not None:
            whose = "the table's own column" if other in OWN_NAMES else "field"
            raise SchemaMismatchError(
                f"the values' field {field.name} has no place beside {whose} {other}: names may not be the same, nor "
                f"differ only in case. With --value-column NAME all fields lie below one column, apart from the "
                f"table's own. Schema: {shown(fields)}"
            )
        spelled[field.name.lower()] = field.name


@dataclass(frozen=True)
class FlatPlan:
    """A column for each field."""

    inner: ValuePlan

    def __post_init__(self) -> None:
        refuse_collisions(self.inner.fields)

    @property
    def fields(self) -> Sequence[pa.Field]:
        return self.inner.fields

    def decoder(self) -> ValueDecoder:
        return self.inner.decoder()

    def grown(self, discovered: Iterable[Discovered]) -> FlatPlan:
        return FlatPlan(self.inner.grown(discovered))


@dataclass(frozen=True)
class NestedPlan:
    """All fields in one struct, which is null only where there is no value. While no field is known there is no column
    either: no format has a struct without fields."""

    inner: ValuePlan
    column: str

    @property
    def fields(self) -> Sequence[pa.Field]:
        inner = list(self.inner.fields)
        return [pa.field(self.column, pa.struct(inner))] if inner else []

    def decoder(self) -> NestedDecoder:
        return NestedDecoder(self.inner.decoder(), list(self.inner.fields))

    def grown(self, discovered: Iterable[Discovered]) -> NestedPlan:
        return NestedPlan(self.inner.grown(discovered), self.column)


class NestedDecoder:
    def __init__(self, inner: ValueDecoder, fields: list[pa.Field]) -> None:
        self._inner = inner
        self._fields = fields

    def decode(self, values: pa.Array) -> Decoded:
        decoded = self._inner.decode(values)
        if not self._fields or decoded.discovered:
            return Decoded([], decoded.bad, decoded.discovered)
        mask = values.is_null()
        if decoded.bad:
            gone = mask.to_pylist()
            for row in decoded.bad:
                gone[row] = True
            mask = pa.array(gone, pa.bool_())
        return Decoded([pa.StructArray.from_arrays(list(decoded.columns), fields=self._fields, mask=mask)], decoded.bad)
