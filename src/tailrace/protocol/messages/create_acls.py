"""CreateAcls, api key 30."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT8, INT16, INT32, STRING, array_of, field


class AclCreation(Struct):
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    resource_pattern_type: int = field(INT8, "1+", default=3)
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


class CreateAclsRequest(Request, key=30, versions="1-3", flexible="2+"):
    creations: list[AclCreation] = field(array_of(AclCreation))


class AclCreationResult(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")


class CreateAclsResponse(Response, key=30, versions="1-3", flexible="2+"):
    throttle_time_ms: int = field(INT32)
    results: list[AclCreationResult] = field(array_of(AclCreationResult))
