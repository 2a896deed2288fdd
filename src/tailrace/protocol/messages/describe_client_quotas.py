"""DescribeClientQuotas, api key 48."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, FLOAT64, INT8, INT16, INT32, STRING, array_of, field


class ComponentData(Struct):
    entity_type: str = field(STRING)
    match_type: int = field(INT8)
    match: str | None = field(STRING, nullable="0+")


class DescribeClientQuotasRequest(Request, key=48, versions="0-1", flexible="1+"):
    components: list[ComponentData] = field(array_of(ComponentData))
    strict: bool = field(BOOL)


class EntityData(Struct):
    entity_type: str = field(STRING)
    entity_name: str | None = field(STRING, nullable="0+")


class ValueData(Struct):
    key: str = field(STRING)
    value: float = field(FLOAT64)


class EntryData(Struct):
    entity: list[EntityData] = field(array_of(EntityData))
    values: list[ValueData] = field(array_of(ValueData))


class DescribeClientQuotasResponse(Response, key=48, versions="0-1", flexible="1+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    entries: list[EntryData] | None = field(array_of(EntryData), nullable="0+")
