"""RenewDelegationToken, api key 39."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response
from tailrace.protocol.schema import BYTES, INT16, INT32, INT64, field


class RenewDelegationTokenRequest(Request, key=39, versions="1-2", flexible="2+"):
    hmac: bytes = field(BYTES)
    renew_period_ms: int = field(INT64)


class RenewDelegationTokenResponse(Response, key=39, versions="1-2", flexible="2+"):
    error_code: int = field(INT16)
    expiry_timestamp_ms: int = field(INT64)
    throttle_time_ms: int = field(INT32)
