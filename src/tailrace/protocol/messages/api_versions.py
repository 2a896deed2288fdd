"""ApiVersions, api key 18."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, INT16, INT32, INT64, STRING, array_of, field


class ApiVersionsRequest(Request, key=18, versions="0-4", flexible="3+"):
    client_software_name: str = field(STRING, "3+", ignorable=True)
    client_software_version: str = field(STRING, "3+", ignorable=True)


class ApiVersion(Struct):
    api_key: int = field(INT16)
    min_version: int = field(INT16)
    max_version: int = field(INT16)


class SupportedFeatureKey(Struct):
    name: str = field(STRING, "3+")
    min_version: int = field(INT16, "3+")
    max_version: int = field(INT16, "3+")


class FinalizedFeatureKey(Struct):
    name: str = field(STRING, "3+")
    max_version_level: int = field(INT16, "3+")
    min_version_level: int = field(INT16, "3+")


class ApiVersionsResponse(Response, key=18, versions="0-4", flexible="3+"):
    error_code: int = field(INT16)
    api_keys: list[ApiVersion] = field(array_of(ApiVersion))
    throttle_time_ms: int = field(INT32, "1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = field(array_of(SupportedFeatureKey), "3+", tag=0, ignorable=True)
    finalized_features_epoch: int = field(INT64, "3+", default=-1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field(array_of(FinalizedFeatureKey), "3+", tag=2, ignorable=True)
    zk_migration_ready: bool = field(BOOL, "3+", tag=3, ignorable=True)
