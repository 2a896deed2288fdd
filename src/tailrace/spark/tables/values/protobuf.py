"""Values that are Protobuf's messages: of one message type, or with the id of their schema before them.

`protobuf_reader` says what becomes of each type. With ids and no schema of the user's, a table has the columns of all
messages that were met. With a schema of the user's, all values are read as that: fields are known by their numbers, so
a value of another version has what that schema has of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from tailrace.spark.errors import OptionError
from tailrace.spark.tables.values.evolution import grow
from tailrace.spark.tables.values.framing import MessagePath, message_path
from tailrace.spark.tables.values.given import GivenPlan
from tailrace.spark.tables.values.packages import needed
from tailrace.spark.tables.values.plan import ValuePlan
from tailrace.spark.tables.values.protobuf_reader import ProtobufReader, fields_of
from tailrace.spark.tables.values.protobuf_schema import PURPOSE, ProtobufSchema, schema_of_file, schema_of_text
from tailrace.spark.tables.values.readers import Read, ValueReader
from tailrace.spark.tables.values.registered import RegisteredPlan, no_columns
from tailrace.spark.tables.values.registry import PROTOBUF_SCHEMA, RegisteredSchema, registry_at

if TYPE_CHECKING:
    from tailrace.spark.tables.values.spec import ValueSpec


_GIVEN: MessagePath = ()
"""In the place of a path, which has an index at least: the message that the user named."""


def plan_protobuf(spec: ValueSpec, known: Sequence[pa.Field] | None) -> ValuePlan:
    """`known`: the columns of values that the table has."""
    needed("google.protobuf", PURPOSE)
    if spec.schema is None:
        if not spec.framed or spec.registry is None:
            raise OptionError("Protobuf values need a schema, or a registry for framed ones")
        return RegisteredPlan(ProtobufDialect(message=spec.message), registry_at(spec.registry), list(known or ()))
    given = _given(spec.schema)
    message = spec.message or given.message_names()[0]
    if not given.has_message(message):
        raise OptionError(f"the schema has no message {message!r}; it has {', '.join(given.message_names())}")
    dialect = ProtobufDialect(given, message)
    fields = grow(known or (), fields_of(given, message))
    if spec.framed and spec.registry is not None:
        return RegisteredPlan(dialect, registry_at(spec.registry), fields)
    return GivenPlan(dialect, given, _GIVEN, fields, spec.framed)


def _given(schema: str) -> ProtobufSchema:
    is_text = "{" in schema or "\n" in schema
    return schema_of_text(schema, whose="the Protobuf schema") if is_text else schema_of_file(schema)


@dataclass(frozen=True)
class ProtobufDialect:
    given: ProtobufSchema | None = None
    """What all values are read as."""
    message: str | None = None
    """The full name of the only message that is read; None: all."""

    @property
    def kind(self) -> str:
        return PROTOBUF_SCHEMA

    def load(self, registered: RegisteredSchema) -> ProtobufSchema:
        whose = f"the registry's schema {registered.id}"
        return schema_of_text(registered.text, registered.references, whose=whose)

    def located(self, value: bytes) -> tuple[MessagePath, int]:
        return message_path(value)

    def has(self, loaded: ProtobufSchema, path: MessagePath) -> bool:
        return loaded.message_name(path) is not None

    def fields(self, loaded: ProtobufSchema, path: MessagePath) -> list[pa.Field]:
        name = loaded.message_name(path)
        if name is None or (self.message is not None and name != self.message):
            return []
        return fields_of(self.given or loaded, name)

    def reader(self, loaded: ProtobufSchema, path: MessagePath, fields: Sequence[pa.Field]) -> ValueReader:
        if path == _GIVEN:
            return ProtobufReader(loaded, self.message or "", fields)
        name = loaded.message_name(path)
        if self.message is not None and name != self.message:
            return _OtherMessage(f"a {name}, not a {self.message}", fields)
        return ProtobufReader(self.given or loaded, name or "", fields)


@dataclass(frozen=True)
class _OtherMessage:
    """Of values that are not of this table."""

    reason: str
    fields: Sequence[pa.Field]

    def read(self, payloads: Sequence[bytes | None]) -> Read:
        return no_columns(payloads, self.fields, self.reason)
