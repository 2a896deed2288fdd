"""Which columns of a query the sink takes, and of which types: those of Spark's own sink for Kafka, in its words.

    value      string or binary     null is a tombstone; the one column that must be there
    key        string or binary     null or no column: no key
    topic      string               not needed, and not looked at, with the option `topic`; never null
    partition  int                  null or no column: by the key
    headers    array<struct<key:string,value:binary>>    null or no column: none
    timestamp  timestamp or double (seconds since 1970)  null or no column: the time of writing

Other columns are ignored. Names are compared as they are written.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tailrace.spark.errors import PipelineError

_HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_ALLOWED: Final[dict[str, tuple[DataType, ...]]] = {
    "topic": (StringType(),),
    "key": (StringType(), BinaryType()),
    "value": (StringType(), BinaryType()),
    "headers": (_HEADERS,),
    "partition": (IntegerType(),),
    "timestamp": (TimestampType(), DoubleType()),
}


def check_schema(schema: StructType, topic: str | None) -> None:
    """On the driver, before any task starts. `topic` is the option."""
    found: dict[str, DataType] = {}
    for field in schema.fields:
        if field.name in _ALLOWED and field.name in found:
            raise PipelineError(f"there are two columns {field.name!r}: which of them is meant?")
        found[field.name] = field.dataType
    if topic is not None:
        found.pop("topic", None)
    elif "topic" not in found:
        raise PipelineError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    if "value" not in found:
        raise PipelineError("Required attribute 'value' not found")
    for name, allowed in _ALLOWED.items():
        kind = found.get(name)
        if kind is not None and not any(_is_same(kind, each) for each in allowed):
            raise PipelineError(
                f"{name} attribute unsupported type {kind.simpleString()}. "
                f"{name} must be a(n) {' or '.join(each.simpleString() for each in allowed)}"
            )


def _is_same(found: DataType, allowed: DataType) -> bool:
    """Whether nulls are allowed makes no difference, nor does the collation of a string."""
    if isinstance(allowed, ArrayType):
        return isinstance(found, ArrayType) and _is_same(found.elementType, allowed.elementType)
    if isinstance(allowed, StructType):
        return (
            isinstance(found, StructType)
            and found.fieldNames() == allowed.fieldNames()
            and all(_is_same(*pair) for pair in zip(_kinds(found), _kinds(allowed), strict=True))
        )
    return isinstance(found, type(allowed))


def _kinds(struct: StructType) -> list[DataType]:
    return [field.dataType for field in struct.fields]
