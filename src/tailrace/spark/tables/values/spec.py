"""How the values of a topic are to be read, as the user says it; and the plan that comes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from tailrace.spark.errors import OptionError, SchemaMismatchError
from tailrace.spark.tables.columns import VALUE
from tailrace.spark.tables.values.bytes import BytesPlan
from tailrace.spark.tables.values.evolution import readable_into
from tailrace.spark.tables.values.given_schema import is_json_text, text_of_file
from tailrace.spark.tables.values.layout import OWN_NAMES, FlatPlan, NestedPlan, fields_below, value_fields
from tailrace.spark.tables.values.packages import needed
from tailrace.spark.tables.values.plan import ValuePlan
from tailrace.spark.tables.values.string import StringPlan
from tailrace.spark.tables.values.type_names import shown

BYTES: Final = "bytes"
STRING: Final = "string"
JSON: Final = "json"
AVRO: Final = "avro"
PROTOBUF: Final = "protobuf"
FORMATS: Final = (BYTES, STRING, JSON, AVRO, PROTOBUF)

SCHEMA: Final = "schema"
"""The setting of a table of JSON values that was made with a schema. Inferred ones, and older ones, have none."""
DECLARED: Final = "declared"

INFERRED_RECORDS: Final = 10_000
MOST_INFERRED_RECORDS: Final = 10_000_000

Sample = Callable[[int], pa.Array]


@dataclass(frozen=True)
class ValueSpec:
    """OptionError, when it is made, for what cannot be. Picklable."""

    format: str = BYTES
    schema: str | None = None
    """The declared schema, or the path of a file that holds it. JSON: Spark's DDL or JSON Schema; Avro: its JSON;
    Protobuf: a .proto file, or a descriptor set."""
    registry: str | None = None
    """A Schema Registry's URL, or a folder with a file for each id."""
    column: str | None = None
    """One column to hold all fields, as a struct; of bytes and string, the column's name. None: a column for each
    field, or `value`."""
    framed: bool = False
    """Each value begins with a zero byte and the id of its schema in the registry."""
    infer_records: int = INFERRED_RECORDS
    """How many of the first records tell the columns, when the table is made: of JSON values without a schema, and of
    values with the ids of their schemas."""
    message: str | None = None
    """Protobuf: the message's full name, where the schema has several."""
    barred: str = ""
    """Characters that the table's format does not take in names: a JSON value with an unknown field that has one is
    a dead letter, where columns are inferred."""

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise OptionError(f"values in the format {self.format!r}: there are {', '.join(FORMATS)}")
        if self.format in (BYTES, STRING):
            self._refuse("format " + self.format, schema=self.schema, registry=self.registry, framed=self.framed)
        if self.format != PROTOBUF:
            self._refuse("format " + self.format, message=self.message)
        if self.format in (AVRO, PROTOBUF) and self.schema is None and self.registry is None:
            raise OptionError(f"{self.format} values need a schema, or a registry")
        if self.framed and self.registry is None and self.schema is None:
            raise OptionError("framed values need a registry, or a schema that all of them have")
        if self.registry is not None and not self.framed and self.schema is None:
            raise OptionError("a registry is only of use with framed values, or beside a schema")
        if self.column is not None and (not self.column or self.column.lower() in OWN_NAMES):
            raise OptionError(
                f"the value column is {self.column!r}: not empty, and none of {', '.join(sorted(OWN_NAMES))}"
            )
        if not 1 <= self.infer_records <= MOST_INFERRED_RECORDS:
            raise OptionError(
                f"columns are inferred from 1 to {MOST_INFERRED_RECORDS} records, not {self.infer_records}"
            )

    @staticmethod
    def _refuse(what: str, **options: object) -> None:
        given = [name for name, value in options.items() if value]
        if given:
            raise OptionError(f"{' and '.join(given)}: of no use with {what}")

    def plan(self, known: Sequence[pa.Field] | None, sample: Sample | None) -> ValuePlan:
        """`known`: all columns of the table's schema (our own are left out here), or None where it is to be made.
        `sample`: the first values of the topic, at most so many; used only for a table that is to be made, and where
        values tell its columns: JSON without a schema, and values with the ids of their schemas. SchemaMismatchError
        where the values cannot be read into the columns there are."""
        columns = None if known is None else value_fields(known)
        if self.format in (BYTES, STRING):
            return self._plan_of_one_column(columns)
        if self.column is None:
            return FlatPlan(self._plan_of_fields(columns, sample))
        inner = None if columns is None else fields_below(columns, self.column)
        return NestedPlan(self._plan_of_fields(inner, sample), self.column)

    def settings(self) -> dict[str, str]:
        """What may not change in the life of a table. A schema may: it evolves. But where values can be read without
        one, a table that was made with one says so: without, it would get other columns and other rows."""
        made = {
            "value": self.format,
            "valueColumn": self.column or "",
            "framed": "true" if self.framed else "false",
        }
        is_declared = self.format == JSON and not self.framed and self.schema is not None
        return {**made, SCHEMA: DECLARED} if is_declared else made

    def schema_text(self) -> str:
        """The declared schema, from its file where it is a path. OptionError without one."""
        return declared_text(self.schema or "")

    def _plan_of_one_column(self, columns: list[pa.Field] | None) -> ValuePlan:
        name = self.column or VALUE
        plan: ValuePlan = BytesPlan(name) if self.format == BYTES else StringPlan(name)
        field = plan.fields[0]
        fits = columns is None or (
            len(columns) == 1 and columns[0].name == name and readable_into(columns[0].type, field.type)
        )
        if not fits:
            raise SchemaMismatchError(
                f"values as {self.format} are one column: {shown(plan.fields)}. The table has: {shown(columns or ())}"
            )
        return plan

    def _plan_of_fields(self, known: list[pa.Field] | None, sample: Sample | None) -> ValuePlan:
        plan = self._plan_of_format(known, sample)
        if known is None and sample is not None and self.framed and self.registry is not None:
            # With the schemas of the first values a new table has columns from the start, to be partitioned by.
            discovered = plan.decoder().decode(sample(self.infer_records)).discovered
            if discovered:
                return plan.grown([discovered])
        return plan

    def _plan_of_format(self, known: list[pa.Field] | None, sample: Sample | None) -> ValuePlan:
        # Each format brings packages of its own, which need not be there for the others.
        if self.format == AVRO:
            from tailrace.spark.tables.values.avro import plan_avro

            return plan_avro(self, known)
        if self.format == PROTOBUF:
            from tailrace.spark.tables.values.protobuf import plan_protobuf

            return plan_protobuf(self, known)
        needed("orjson", "JSON values")
        if self.framed:
            from tailrace.spark.tables.values.registry_json import plan_registry_json

            return plan_registry_json(self, known)
        return self._plan_of_json(known, sample)

    def _plan_of_json(self, known: list[pa.Field] | None, sample: Sample | None) -> ValuePlan:
        from tailrace.spark.tables.values.ddl import fields_of_ddl
        from tailrace.spark.tables.values.json import declared_json, inferred_json
        from tailrace.spark.tables.values.json_schema import fields_of_json_schema

        if self.schema is not None:
            text = self.schema_text()
            declared = fields_of_json_schema(text) if is_json_text(text) else fields_of_ddl(text)
            return declared_json(declared, known)
        reserved = OWN_NAMES if self.column is None else frozenset[str]()
        first = None if sample is None else lambda: sample(self.infer_records)
        return inferred_json(known, first, reserved, self.barred)


def declared_text(schema: str) -> str:
    """A schema as text: that of the file, where it is the path of one."""
    if is_json_text(schema) or "\n" in schema:
        return schema
    # DDL has a space between a name and its type; a path may have one as well, but then there is such a file.
    words = schema.split()
    if len(words) > 1 and not _is_file(schema):
        return schema
    if not words:
        raise OptionError("the schema is empty")
    return text_of_file(schema)


def _is_file(place: str) -> bool:
    try:
        return Path(place).is_file()
    except (OSError, ValueError):
        return False
