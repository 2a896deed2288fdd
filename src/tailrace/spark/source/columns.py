"""The columns that a source gives: names and types of Spark's own Kafka source, all of them or some.

    key            binary
    value          binary
    topic          string
    partition      int
    offset         long
    timestamp      timestamp, in UTC
    timestampType  int, 0 for CreateTime, 1 for LogAppendTime, −1 for messages older than both
    headers        array<struct<key: string, value: binary>>, null for a record without any; only where asked for

Spark does not tell a Python source which columns a query uses: whoever needs few of them names them, and the others are
never built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from tailrace.spark.errors import OptionError

KEY: Final = "key"
VALUE: Final = "value"
TOPIC: Final = "topic"
PARTITION: Final = "partition"
OFFSET: Final = "offset"
TIMESTAMP: Final = "timestamp"
TIMESTAMP_TYPE: Final = "timestampType"
HEADERS: Final = "headers"

ALL: Final = (KEY, VALUE, TOPIC, PARTITION, OFFSET, TIMESTAMP, TIMESTAMP_TYPE)
"""What Spark's Kafka source gives; `headers` comes behind them with includeHeaders."""

HEADER_TYPE: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

_ARROW_TYPES: Final = {
    KEY: pa.binary(),
    VALUE: pa.binary(),
    TOPIC: pa.string(),
    PARTITION: pa.int32(),
    OFFSET: pa.int64(),
    TIMESTAMP: pa.timestamp("us", tz="UTC"),
    TIMESTAMP_TYPE: pa.int32(),
    HEADERS: pa.list_(pa.field("element", HEADER_TYPE)),
}
SPARK_TYPES: Final = {
    KEY: "binary",
    VALUE: "binary",
    TOPIC: "string",
    PARTITION: "int",
    OFFSET: "bigint",
    TIMESTAMP: "timestamp",
    TIMESTAMP_TYPE: "int",
    HEADERS: "array<struct<key:string,value:binary>>",
}


@dataclass(frozen=True)
class Columns:
    """Which columns, in their order. Raises OptionError for a name that is none, or comes twice."""

    names: tuple[str, ...] = ALL

    def __post_init__(self) -> None:
        unknown = [name for name in self.names if name not in _ARROW_TYPES]
        if unknown:
            raise OptionError(f"there is no column {unknown[0]!r}; there are {', '.join((*ALL, HEADERS))}")
        if len(set(self.names)) != len(self.names):
            raise OptionError(f"a column is named twice in {', '.join(self.names)}")
        if not self.names:
            raise OptionError(f"no column is named; there are {', '.join((*ALL, HEADERS))}")

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def spark_ddl(self) -> str:
        return ", ".join(f"`{name}` {SPARK_TYPES[name]}" for name in self.names)

    def arrow_schema(self) -> pa.Schema:
        return pa.schema([pa.field(name, _ARROW_TYPES[name]) for name in self.names])
