"""DescribeUserScramCredentials, api key 50."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT8, INT16, INT32, STRING, array_of, field


class UserName(Struct):
    name: str = field(STRING)


class DescribeUserScramCredentialsRequest(Request, key=50, versions="0", flexible="0+"):
    users: list[UserName] | None = field(array_of(UserName), nullable="0+")


class CredentialInfo(Struct):
    mechanism: int = field(INT8)
    iterations: int = field(INT32)


class DescribeUserScramCredentialsResult(Struct):
    user: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    credential_infos: list[CredentialInfo] = field(array_of(CredentialInfo))


class DescribeUserScramCredentialsResponse(Response, key=50, versions="0", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = field(array_of(DescribeUserScramCredentialsResult))
