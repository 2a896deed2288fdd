"""GetTelemetrySubscriptions, api key 71."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response
from tailrace.protocol.schema import BOOL, INT8, INT16, INT32, STRING, UUID, array_of, field


class GetTelemetrySubscriptionsRequest(Request, key=71, versions="0", flexible="0+"):
    client_instance_id: bytes = field(UUID)


class GetTelemetrySubscriptionsResponse(Response, key=71, versions="0", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    client_instance_id: bytes = field(UUID)
    subscription_id: int = field(INT32)
    accepted_compression_types: list[int] = field(array_of(INT8))
    push_interval_ms: int = field(INT32)
    telemetry_max_bytes: int = field(INT32)
    delta_temporality: bool = field(BOOL)
    requested_metrics: list[str] = field(array_of(STRING))
