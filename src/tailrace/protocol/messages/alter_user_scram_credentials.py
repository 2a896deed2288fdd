"""AlterUserScramCredentials, api key 51."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BYTES, INT8, INT16, INT32, STRING, array_of, field


class ScramCredentialDeletion(Struct):
    name: str = field(STRING)
    mechanism: int = field(INT8)


class ScramCredentialUpsertion(Struct):
    name: str = field(STRING)
    mechanism: int = field(INT8)
    iterations: int = field(INT32)
    salt: bytes = field(BYTES)
    salted_password: bytes = field(BYTES)


class AlterUserScramCredentialsRequest(Request, key=51, versions="0", flexible="0+"):
    deletions: list[ScramCredentialDeletion] = field(array_of(ScramCredentialDeletion))
    upsertions: list[ScramCredentialUpsertion] = field(array_of(ScramCredentialUpsertion))


class AlterUserScramCredentialsResult(Struct):
    user: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")


class AlterUserScramCredentialsResponse(Response, key=51, versions="0", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    results: list[AlterUserScramCredentialsResult] = field(array_of(AlterUserScramCredentialsResult))
