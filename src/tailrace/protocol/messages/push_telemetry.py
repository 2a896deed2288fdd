"""PushTelemetry, api key 72."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response
from tailrace.protocol.schema import BOOL, INT8, INT16, INT32, UUID, VIEW, Payload, field


class PushTelemetryRequest(Request, key=72, versions="0", flexible="0+"):
    client_instance_id: bytes = field(UUID)
    subscription_id: int = field(INT32)
    terminating: bool = field(BOOL)
    compression_type: int = field(INT8)
    metrics: Payload = field(VIEW)


class PushTelemetryResponse(Response, key=72, versions="0", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
