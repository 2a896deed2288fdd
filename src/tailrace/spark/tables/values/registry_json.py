"""JSON values with the id of their JSON Schema before them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from tailrace.spark.errors import SchemaMismatchError
from tailrace.spark.tables.values.ddl import fields_of_ddl
from tailrace.spark.tables.values.evolution import grow
from tailrace.spark.tables.values.framing import HEADER_BYTES, MessagePath
from tailrace.spark.tables.values.given import GivenPlan
from tailrace.spark.tables.values.given_schema import is_json_text
from tailrace.spark.tables.values.json import declared_json
from tailrace.spark.tables.values.json_schema import fields_of_json_schema
from tailrace.spark.tables.values.plan import ValueDecoder, ValuePlan
from tailrace.spark.tables.values.readers import Read
from tailrace.spark.tables.values.registered import RegisteredPlan
from tailrace.spark.tables.values.registry import JSON_SCHEMA, RegisteredSchema, registry_at

if TYPE_CHECKING:
    from tailrace.spark.tables.values.spec import ValueSpec

_WHOLE: MessagePath = ()
"""A JSON Schema has one type of value."""

Declared = tuple[pa.Field, ...]


def plan_registry_json(spec: ValueSpec, known: Sequence[pa.Field] | None) -> ValuePlan:
    """`known`: the columns of values that the table has. With a schema of the user's, all values are read as that."""
    if spec.schema is None:
        return RegisteredPlan(JsonDialect(), registry_at(spec.registry or ""), list(known or ()))
    text = spec.schema_text()
    given = tuple(fields_of_json_schema(text) if is_json_text(text) else fields_of_ddl(text))
    fields = declared_json(given, known).fields
    if spec.registry is None:
        return GivenPlan(JsonDialect(given), given, _WHOLE, fields, is_framed=True)
    return RegisteredPlan(JsonDialect(given), registry_at(spec.registry), fields)


@dataclass(frozen=True)
class JsonDialect:
    given: Declared | None = None

    @property
    def kind(self) -> str:
        return JSON_SCHEMA

    def load(self, registered: RegisteredSchema) -> Declared:
        if self.given is not None:
            return self.given
        try:
            return tuple(fields_of_json_schema(registered.text, dict(registered.references)))
        except SchemaMismatchError as error:
            raise SchemaMismatchError(f"the registry's schema {registered.id}: {error}") from error

    def located(self, value: bytes) -> tuple[MessagePath, int]:
        return _WHOLE, HEADER_BYTES

    def has(self, loaded: Declared, path: MessagePath) -> bool:
        return True

    def fields(self, loaded: Declared, path: MessagePath) -> list[pa.Field]:
        return grow((), loaded)

    def reader(self, loaded: Declared, path: MessagePath, fields: Sequence[pa.Field]) -> JsonReader:
        return JsonReader(declared_json(loaded, fields).decoder())


class JsonReader:
    def __init__(self, decoder: ValueDecoder) -> None:
        self._decoder = decoder

    def read(self, payloads: Sequence[bytes | None]) -> Read:
        decoded = self._decoder.decode(pa.array(payloads, pa.binary()))
        return Read(decoded.columns, dict(decoded.bad))
