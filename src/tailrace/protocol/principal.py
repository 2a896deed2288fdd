"""The principal of a client, as a broker forwards it to the controller.

int16 version, 0
DefaultPrincipalData    type, name, whether it was authenticated with a delegation token; flexible
"""

from __future__ import annotations

from typing import Final

from tailrace.env.files import Buffer
from tailrace.model.errors import CorruptMessageError, PrincipalDeserializationError
from tailrace.protocol.codec import decode_from, encode
from tailrace.protocol.message import Message
from tailrace.protocol.schema import BOOL, STRING, field

_VERSION_BYTES: Final = 2


class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    type: str = field(STRING)
    name: str = field(STRING)
    token_authenticated: bool = field(BOOL)

    TEXT_ERRORS = "replace"  # as in a request


ANONYMOUS: Final = DefaultPrincipalData(type="User", name="ANONYMOUS")
"""Every client of a listener without authentication."""


def encode_principal(principal: DefaultPrincipalData) -> bytes:
    return bytes(_VERSION_BYTES) + encode(principal, 0)


def decode_principal(data: Buffer | None) -> DefaultPrincipalData:
    """Raises PrincipalDeserializationError, also if there is no principal. Ignores bytes after it, as Kafka does."""
    view = memoryview(data or b"")
    version = int.from_bytes(view[:_VERSION_BYTES], "big", signed=True)
    if len(view) < _VERSION_BYTES or version != 0:
        raise PrincipalDeserializationError("Failed to deserialize client principal from envelope: no version 0")
    try:
        return decode_from(DefaultPrincipalData, version, view, _VERSION_BYTES)[0]
    except CorruptMessageError as error:
        raise PrincipalDeserializationError(f"Failed to deserialize client principal from envelope: {error}") from None
