"""SaslHandshake, api key 17."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response
from tailrace.protocol.schema import INT16, STRING, array_of, field


class SaslHandshakeRequest(Request, key=17, versions="0-1"):
    mechanism: str = field(STRING)


class SaslHandshakeResponse(Response, key=17, versions="0-1"):
    error_code: int = field(INT16)
    mechanisms: list[str] = field(array_of(STRING))
