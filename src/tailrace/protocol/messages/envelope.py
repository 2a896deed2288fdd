"""Envelope, api key 58."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response
from tailrace.protocol.schema import BYTES, INT16, VIEW, Payload, field


class EnvelopeRequest(Request, key=58, versions="0", flexible="0+"):
    request_data: Payload = field(VIEW)
    request_principal: bytes | None = field(BYTES, nullable="0+")
    client_host_address: bytes = field(BYTES)


class EnvelopeResponse(Response, key=58, versions="0", flexible="0+"):
    response_data: Payload = field(VIEW, nullable="0+", default=None)
    error_code: int = field(INT16)
