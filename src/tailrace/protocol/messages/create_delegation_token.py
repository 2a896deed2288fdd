"""CreateDelegationToken, api key 38."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BYTES, INT16, INT32, INT64, STRING, array_of, field


class CreatableRenewers(Struct):
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)


class CreateDelegationTokenRequest(Request, key=38, versions="1-3", flexible="2+"):
    owner_principal_type: str | None = field(STRING, "3+", nullable="3+")
    owner_principal_name: str | None = field(STRING, "3+", nullable="3+")
    renewers: list[CreatableRenewers] = field(array_of(CreatableRenewers))
    max_lifetime_ms: int = field(INT64)


class CreateDelegationTokenResponse(Response, key=38, versions="1-3", flexible="2+"):
    error_code: int = field(INT16)
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)
    token_requester_principal_type: str = field(STRING, "3+")
    token_requester_principal_name: str = field(STRING, "3+")
    issue_timestamp_ms: int = field(INT64)
    expiry_timestamp_ms: int = field(INT64)
    max_timestamp_ms: int = field(INT64)
    token_id: str = field(STRING)
    hmac: bytes = field(BYTES)
    throttle_time_ms: int = field(INT32)
