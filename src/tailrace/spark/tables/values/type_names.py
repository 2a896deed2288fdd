"""Arrow's types in the way Spark writes them, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.types as kind

_NAMES: Final = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
    pa.string(): "STRING",
    pa.large_string(): "STRING",
    pa.binary(): "BINARY",
    pa.large_binary(): "BINARY",
}


def shown(fields: Sequence[pa.Field]) -> str:
    """A schema in a line."""
    return ", ".join(f"{field.name} {shown_type(field.type)}{_required(field)}" for field in fields) or "no fields"


def shown_type(one: pa.DataType) -> str:
    if kind.is_struct(one):
        inner = ", ".join(f"{field.name}: {shown_type(field.type)}{_required(field)}" for field in one)
        return f"STRUCT<{inner}>"
    if kind.is_list(one) or kind.is_large_list(one):
        return f"ARRAY<{shown_type(one.value_type)}>"
    if kind.is_map(one):
        return f"MAP<{shown_type(one.key_type)}, {shown_type(one.item_type)}>"
    if kind.is_decimal(one):
        return f"DECIMAL({one.precision}, {one.scale})"
    if kind.is_timestamp(one) and one.unit == "us":
        return "TIMESTAMP_NTZ" if one.tz is None else "TIMESTAMP"
    return _NAMES.get(one, str(one))


def _required(field: pa.Field) -> str:
    return "" if field.nullable else " NOT NULL"
