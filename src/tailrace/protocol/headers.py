"""What stands before every request and every response."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import RequestHead, ResponseHead
from tailrace.protocol.schema import INT16, INT32, STRING, field


class RequestHeader(RequestHead, versions="1-2", flexible="2+"):
    request_api_key: int = field(INT16)
    request_api_version: int = field(INT16)
    correlation_id: int = field(INT32)
    client_id: str | None = field(STRING, "1+", nullable="1+", always_legacy=True)


class ResponseHeader(ResponseHead, versions="0-1", flexible="1+"):
    correlation_id: int = field(INT32)
