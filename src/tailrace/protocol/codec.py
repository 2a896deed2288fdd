"""Bytes to messages and back, for any message and version; compiled when first used.

    decode(FetchRequest, 12, buffer)        a FetchRequest; its payloads are views of `buffer`
    encode(response, 12)                    bytes
    encode_parts(response, 12)              bytes and payloads in turn, nothing large copied

What is wrong with bytes is the message's `MALFORMED` error: InvalidRequestError for requests, CorruptMessageError for
everything else. A version that does not exist, or a value for a field that the version lacks, is
UnsupportedVersionError. A value that its field cannot hold is UnencodableMessageError.
"""

from __future__ import annotations

import struct
from typing import Any, TypeVar

from tailrace.env.files import Buffer
from tailrace.model.errors import InvalidDataError, UnencodableMessageError, UnsupportedVersionError
from tailrace.protocol.decoder import DecoderSource
from tailrace.protocol.encoder import EncoderSource
from tailrace.protocol.message import Message
from tailrace.protocol.schema import Payload
from tailrace.protocol.wire import AbsentField, MalformedField, UnfitField

M = TypeVar("M", bound=Message)


def decode(message: type[M], version: int, buffer: Buffer) -> M:
    """The message that `buffer` holds, and nothing behind it."""
    view = memoryview(buffer)
    value, position = decode_from(message, version, view, 0)
    if position != len(view):
        raise _malformed(message, version, f"{len(view) - position} bytes follow it")
    return value


def decode_from(
    message: type[M], version: int, view: memoryview, position: int, max_elements: int | None = None
) -> tuple[M, int]:
    """The message that begins at `position`, and the position after it.

    `max_elements` bounds all arrays of the message together; without it, `MAX_ELEMENTS` of the message does.
    """
    decoder = message.DECODERS.get(version) or _compiled_decoder(message, version)
    try:
        return decoder(view, position, message.MAX_ELEMENTS if max_elements is None else max_elements)
    except MalformedField as fault:
        raise _malformed(message, version, str(fault)) from None
    except (IndexError, struct.error):
        raise _malformed(message, version, f"it does not end within its {len(view)} bytes") from None
    except UnicodeDecodeError as fault:
        raise _malformed(message, version, f"a string is not UTF-8: {fault.reason}") from None


def encode(message: Message, version: int) -> bytes:
    """All of it as one run of bytes; the payloads must be buffers."""
    pieces, _ = encode_pieces(message, version)
    try:
        return b"".join(pieces)
    except TypeError as fault:  # only a payload may be anything but bytes
        raise _unencodable(message, version, f"a payload is no buffer: {fault}") from None


def encode_parts(message: Message, version: int, prefix: bytes = b"") -> list[Payload]:
    """`prefix` and the message: bytes and the payloads as they are, in the order of the wire."""
    pieces, seams = encode_pieces(message, version)
    if not seams:
        return [prefix + b"".join(pieces)]
    parts: list[Payload] = []
    begin = 0
    pieces.insert(0, prefix)
    for seam in seams:
        payload = pieces[seam + 1]
        if not len(payload):
            pieces[seam + 1] = b""
            continue
        parts.append(b"".join(pieces[begin : seam + 1]))
        parts.append(payload.cast("B") if type(payload) is memoryview and payload.itemsize != 1 else payload)
        begin = seam + 2
    if begin < len(pieces):
        parts.append(b"".join(pieces[begin:]))
    return parts


def encode_pieces(message: Message, version: int) -> tuple[list[Payload], list[int]]:
    """The pieces in the order of the wire, and the indices of those that are payloads."""
    kind = type(message)
    encoder = kind.ENCODERS.get(version) or _compiled_encoder(kind, version)
    pieces: list[Payload] = []
    seams: list[int] = []
    try:
        encoder(message, pieces, seams)
    except AbsentField as fault:
        raise UnsupportedVersionError(f"{kind.__name__} v{version} {fault}") from None
    except (UnfitField, struct.error, TypeError, AttributeError, OverflowError, UnicodeEncodeError) as fault:
        raise _unencodable(message, version, str(fault)) from fault
    return pieces, seams


def decoder_source(message: type[Message], version: int) -> str:
    """The Python source of a decoder, for reading."""
    return DecoderSource(message, version).out.text


def encoder_source(message: type[Message], version: int) -> str:
    """The Python source of an encoder, for reading."""
    return EncoderSource(message, version).out.text


def check_version(message: type[Message], version: int) -> None:
    first, last = message.VERSIONS
    if not first <= version <= last:
        raise UnsupportedVersionError(f"{message.__name__} has versions {first} to {last}, not {version}")


def _compiled_decoder(message: type[Message], version: int) -> Any:
    check_version(message, version)
    title = f"decoder of {message.__name__} v{version}"
    decoder = DecoderSource(message, version).out.compiled("decode", title)
    return message.DECODERS.setdefault(version, decoder)


def _compiled_encoder(message: type[Message], version: int) -> Any:
    check_version(message, version)
    title = f"encoder of {message.__name__} v{version}"
    encoder = EncoderSource(message, version).out.compiled("encode", title)
    return message.ENCODERS.setdefault(version, encoder)


def _malformed(message: type[Message], version: int, fault: str) -> InvalidDataError:
    return message.MALFORMED(f"{message.__name__} v{version}: {fault}")


def _unencodable(message: Message, version: int, fault: str) -> UnencodableMessageError:
    return UnencodableMessageError(f"{type(message).__name__} v{version}: {fault}")
