"""The columns of our own in a table. Those of values stand between them and the partition columns."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

TOPIC: Final = "_topic"
PARTITION: Final = "_partition"
OFFSET: Final = "_offset"
TIMESTAMP: Final = "_timestamp"
KEY: Final = "_key"
HEADERS: Final = "_headers"
DAY: Final = "_day"
BUCKET: Final = "_bucket"
DELETED: Final = "_deleted"
VALUE: Final = "value"
"""Of values that are one column, and of all values in a table of dead letters."""
REASON: Final = "reason"

HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIMESTAMP_TYPE: Final = pa.timestamp("us", "UTC")

TYPES: Final = {
    TOPIC: pa.string(),
    PARTITION: pa.int32(),
    OFFSET: pa.int64(),
    TIMESTAMP: TIMESTAMP_TYPE,
    HEADERS: HEADERS_TYPE,
    DAY: pa.date32(),
    BUCKET: pa.int32(),
    DELETED: pa.bool_(),
}
"""But for the key, which is bytes or text as the user says."""


def append_schema(key: pa.DataType, values: list[pa.Field], partition_by: tuple[str, ...]) -> pa.Schema:
    """A row for each record. `_day` only where the table is partitioned by it."""
    own = [_field(name, key) for name in (TOPIC, PARTITION, OFFSET, TIMESTAMP, KEY, HEADERS)]
    return pa.schema([*own, *values, *([_field(DAY, key)] if DAY in partition_by else [])])


def upsert_schema(key: pa.DataType, values: list[pa.Field]) -> pa.Schema:
    """A row for each key."""
    return pa.schema(
        [*(_field(name, key) for name in (KEY, PARTITION, OFFSET, TIMESTAMP)), *values, _field(BUCKET, key)]
    )


def hidden_schema(key: pa.DataType, values: list[pa.Field]) -> pa.Schema:
    """As that of the upserts it decides about."""
    own = [_field(name, key) for name in (KEY, PARTITION, OFFSET, TIMESTAMP, DELETED)]
    return pa.schema([*own, *values, _field(BUCKET, key)])


def dead_letter_schema() -> pa.Schema:
    raw = pa.binary()
    own = [_field(name, raw) for name in (TOPIC, PARTITION, OFFSET, TIMESTAMP, KEY, HEADERS)]
    return pa.schema([*own, pa.field(VALUE, raw), pa.field(REASON, pa.string())])


def _field(name: str, key: pa.DataType) -> pa.Field:
    return pa.field(name, key if name == KEY else TYPES[name])
