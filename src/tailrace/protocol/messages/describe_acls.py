"""DescribeAcls, api key 29."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT8, INT16, INT32, STRING, array_of, field


class DescribeAclsRequest(Request, key=29, versions="1-3", flexible="2+"):
    resource_type_filter: int = field(INT8)
    resource_name_filter: str | None = field(STRING, nullable="0+")
    pattern_type_filter: int = field(INT8, "1+", default=3)
    principal_filter: str | None = field(STRING, nullable="0+")
    host_filter: str | None = field(STRING, nullable="0+")
    operation: int = field(INT8)
    permission_type: int = field(INT8)


class AclDescription(Struct):
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


class DescribeAclsResource(Struct):
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    pattern_type: int = field(INT8, "1+", default=3)
    acls: list[AclDescription] = field(array_of(AclDescription))


class DescribeAclsResponse(Response, key=29, versions="1-3", flexible="2+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    resources: list[DescribeAclsResource] = field(array_of(DescribeAclsResource))
