"""UpdateFeatures, api key 57."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, INT8, INT16, INT32, STRING, array_of, field


class FeatureUpdateKey(Struct):
    feature: str = field(STRING)
    max_version_level: int = field(INT16)
    allow_downgrade: bool = field(BOOL, "0")
    upgrade_type: int = field(INT8, "1+", default=1)


class UpdateFeaturesRequest(Request, key=57, versions="0-2", flexible="0+"):
    timeout_ms: int = field(INT32, default=60000)
    feature_updates: list[FeatureUpdateKey] = field(array_of(FeatureUpdateKey))
    validate_only: bool = field(BOOL, "1+")


class UpdatableFeatureResult(Struct):
    feature: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")


class UpdateFeaturesResponse(Response, key=57, versions="0-2", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    results: list[UpdatableFeatureResult] = field(array_of(UpdatableFeatureResult), "0-1", ignorable=True)
