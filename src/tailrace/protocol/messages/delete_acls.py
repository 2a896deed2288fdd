"""DeleteAcls, api key 31."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT8, INT16, INT32, STRING, array_of, field


class DeleteAclsFilter(Struct):
    resource_type_filter: int = field(INT8)
    resource_name_filter: str | None = field(STRING, nullable="0+")
    pattern_type_filter: int = field(INT8, "1+", default=3)
    principal_filter: str | None = field(STRING, nullable="0+")
    host_filter: str | None = field(STRING, nullable="0+")
    operation: int = field(INT8)
    permission_type: int = field(INT8)


class DeleteAclsRequest(Request, key=31, versions="1-3", flexible="2+"):
    filters: list[DeleteAclsFilter] = field(array_of(DeleteAclsFilter))


class DeleteAclsMatchingAcl(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    pattern_type: int = field(INT8, "1+", default=3)
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


class DeleteAclsFilterResult(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = field(array_of(DeleteAclsMatchingAcl))


class DeleteAclsResponse(Response, key=31, versions="1-3", flexible="2+"):
    throttle_time_ms: int = field(INT32)
    filter_results: list[DeleteAclsFilterResult] = field(array_of(DeleteAclsFilterResult))
