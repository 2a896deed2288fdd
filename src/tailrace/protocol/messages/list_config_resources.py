"""ListConfigResources, api key 74."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT8, INT16, INT32, STRING, array_of, field


class ListConfigResourcesRequest(Request, key=74, versions="0-1", flexible="0+"):
    resource_types: list[int] = field(array_of(INT8), "1+")


class ConfigResource(Struct):
    resource_name: str = field(STRING)
    resource_type: int = field(INT8, "1+", default=16, ignorable=True)


class ListConfigResourcesResponse(Response, key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    config_resources: list[ConfigResource] = field(array_of(ConfigResource))
