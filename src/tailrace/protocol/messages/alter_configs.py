"""AlterConfigs, api key 33."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, INT8, INT16, INT32, STRING, array_of, field


class AlterableConfig(Struct):
    name: str = field(STRING)
    value: str | None = field(STRING, nullable="0+")


class AlterConfigsResource(Struct):
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: list[AlterableConfig] = field(array_of(AlterableConfig))


class AlterConfigsRequest(Request, key=33, versions="0-2", flexible="2+"):
    resources: list[AlterConfigsResource] = field(array_of(AlterConfigsResource))
    validate_only: bool = field(BOOL)


class AlterConfigsResourceResponse(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)


class AlterConfigsResponse(Response, key=33, versions="0-2", flexible="2+"):
    throttle_time_ms: int = field(INT32)
    responses: list[AlterConfigsResourceResponse] = field(array_of(AlterConfigsResourceResponse))
