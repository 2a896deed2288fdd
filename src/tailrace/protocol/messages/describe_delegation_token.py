"""DescribeDelegationToken, api key 41."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BYTES, INT16, INT32, INT64, STRING, array_of, field


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)


class DescribeDelegationTokenRequest(Request, key=41, versions="1-3", flexible="2+"):
    owners: list[DescribeDelegationTokenOwner] | None = field(array_of(DescribeDelegationTokenOwner), nullable="0+")


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)


class DescribedDelegationToken(Struct):
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)
    token_requester_principal_type: str = field(STRING, "3+")
    token_requester_principal_name: str = field(STRING, "3+")
    issue_timestamp: int = field(INT64)
    expiry_timestamp: int = field(INT64)
    max_timestamp: int = field(INT64)
    token_id: str = field(STRING)
    hmac: bytes = field(BYTES)
    renewers: list[DescribedDelegationTokenRenewer] = field(array_of(DescribedDelegationTokenRenewer))


class DescribeDelegationTokenResponse(Response, key=41, versions="1-3", flexible="2+"):
    error_code: int = field(INT16)
    tokens: list[DescribedDelegationToken] = field(array_of(DescribedDelegationToken))
    throttle_time_ms: int = field(INT32)
