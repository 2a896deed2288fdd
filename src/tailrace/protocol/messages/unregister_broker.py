"""UnregisterBroker, api key 64."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response
from tailrace.protocol.schema import INT16, INT32, STRING, field


class UnregisterBrokerRequest(Request, key=64, versions="0", flexible="0+"):
    broker_id: int = field(INT32)


class UnregisterBrokerResponse(Response, key=64, versions="0", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
