"""AlterClientQuotas, api key 49."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, FLOAT64, INT16, INT32, STRING, array_of, field


class RequestEntityData(Struct):
    entity_type: str = field(STRING)
    entity_name: str | None = field(STRING, nullable="0+")


class OpData(Struct):
    key: str = field(STRING)
    value: float = field(FLOAT64)
    remove: bool = field(BOOL)


class RequestEntryData(Struct):
    entity: list[RequestEntityData] = field(array_of(RequestEntityData))
    ops: list[OpData] = field(array_of(OpData))


class AlterClientQuotasRequest(Request, key=49, versions="0-1", flexible="1+"):
    entries: list[RequestEntryData] = field(array_of(RequestEntryData))
    validate_only: bool = field(BOOL)


class ResponseEntityData(Struct):
    entity_type: str = field(STRING)
    entity_name: str | None = field(STRING, nullable="0+")


class ResponseEntryData(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    entity: list[ResponseEntityData] = field(array_of(ResponseEntityData))


class AlterClientQuotasResponse(Response, key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: int = field(INT32)
    entries: list[ResponseEntryData] = field(array_of(ResponseEntryData))
