"""DescribeConfigs, api key 32."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, INT8, INT16, INT32, STRING, array_of, field


class DescribeConfigsResource(Struct):
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configuration_keys: list[str] | None = field(array_of(STRING), nullable="0+")


class DescribeConfigsRequest(Request, key=32, versions="1-4", flexible="4+"):
    resources: list[DescribeConfigsResource] = field(array_of(DescribeConfigsResource))
    include_synonyms: bool = field(BOOL, "1+")
    include_documentation: bool = field(BOOL, "3+")


class DescribeConfigsSynonym(Struct):
    name: str = field(STRING, "1+")
    value: str | None = field(STRING, "1+", nullable="0+")
    source: int = field(INT8, "1+")


class DescribeConfigsResourceResult(Struct):
    name: str = field(STRING)
    value: str | None = field(STRING, nullable="0+")
    read_only: bool = field(BOOL)
    config_source: int = field(INT8, "1+", default=-1, ignorable=True)
    is_sensitive: bool = field(BOOL)
    synonyms: list[DescribeConfigsSynonym] = field(array_of(DescribeConfigsSynonym), "1+", ignorable=True)
    config_type: int = field(INT8, "3+", ignorable=True)
    documentation: str | None = field(STRING, "3+", nullable="0+", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: list[DescribeConfigsResourceResult] = field(array_of(DescribeConfigsResourceResult))


class DescribeConfigsResponse(Response, key=32, versions="1-4", flexible="4+"):
    throttle_time_ms: int = field(INT32)
    results: list[DescribeConfigsResult] = field(array_of(DescribeConfigsResult))
