"""SaslAuthenticate, api key 36."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response
from tailrace.protocol.schema import BYTES, INT16, INT64, STRING, field


class SaslAuthenticateRequest(Request, key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = field(BYTES)


class SaslAuthenticateResponse(Response, key=36, versions="0-2", flexible="2+"):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    auth_bytes: bytes = field(BYTES)
    session_lifetime_ms: int = field(INT64, "1+", ignorable=True)
