"""Values that are Avro, without a container: those of one schema, or with the id of their writer's schema before them.

`avro_schema` says what becomes of each type. With ids and no schema of the user's, a table has the columns of all
schemas that were met, and a value has those of its own. With ids and a schema, each value is read as that schema, by
Avro's rules: with its defaults and aliases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from tailrace.spark.errors import OptionError, SchemaMismatchError
from tailrace.spark.tables.values.avro_reader import AvroReader
from tailrace.spark.tables.values.avro_resolution import why_unreadable
from tailrace.spark.tables.values.avro_schema import PURPOSE, AvroSchema, avro_schema
from tailrace.spark.tables.values.evolution import grow
from tailrace.spark.tables.values.framing import HEADER_BYTES, MessagePath
from tailrace.spark.tables.values.given import GivenPlan
from tailrace.spark.tables.values.given_schema import is_json_text, text_of_file
from tailrace.spark.tables.values.packages import needed
from tailrace.spark.tables.values.plan import ValuePlan
from tailrace.spark.tables.values.registered import RegisteredPlan
from tailrace.spark.tables.values.registry import AVRO_SCHEMA, RegisteredSchema, registry_at
from tailrace.spark.tables.values.type_names import shown

if TYPE_CHECKING:
    from tailrace.spark.tables.values.spec import ValueSpec

_WHOLE: MessagePath = ()
"""A schema of Avro has one type of value."""


def plan_avro(spec: ValueSpec, known: Sequence[pa.Field] | None) -> ValuePlan:
    """`known`: the columns of values that the table has."""
    needed("fastavro", PURPOSE)
    given = None if spec.schema is None else _given(spec.schema)
    fields = grow(known or (), given.fields if given else ())
    if spec.framed and spec.registry is not None:
        return RegisteredPlan(AvroDialect(given), registry_at(spec.registry), fields)
    if given is None:
        raise OptionError("Avro values need a schema, or a registry for framed ones")
    return GivenPlan(AvroDialect(), given, _WHOLE, fields, spec.framed)


def _given(schema: str) -> AvroSchema:
    is_text = is_json_text(schema) or schema.strip() in ("null", "string", "bytes", "int", "long", "float", "double")
    text = schema if is_text else text_of_file(schema)
    return avro_schema(text, whose="the Avro schema" if is_text else schema)


@dataclass(frozen=True)
class AvroDialect:
    given: AvroSchema | None = None
    """What all values are read as."""

    @property
    def kind(self) -> str:
        return AVRO_SCHEMA

    def load(self, registered: RegisteredSchema) -> AvroSchema:
        return avro_schema(registered.text, registered.references, whose=f"the registry's schema {registered.id}")

    def located(self, value: bytes) -> tuple[MessagePath, int]:
        return _WHOLE, HEADER_BYTES

    def has(self, loaded: AvroSchema, path: MessagePath) -> bool:
        return True

    def fields(self, loaded: AvroSchema, path: MessagePath) -> list[pa.Field]:
        if self.given is None:
            return loaded.fields
        reason = why_unreadable(loaded.top, self.given.top)
        if reason is not None:
            raise SchemaMismatchError(
                f"its values cannot be read as the schema that is declared: {reason}. Written: {shown(loaded.fields)}. "
                f"Declared: {shown(self.given.fields)}"
            )
        return self.given.fields

    def reader(self, loaded: AvroSchema, path: MessagePath, fields: Sequence[pa.Field]) -> AvroReader:
        return AvroReader(loaded, self.given, fields)
