"""Requests and responses as they go over a connection.

    int32 size of what follows
    request header v1    int16 api key, int16 version, int32 correlation id, nullable string client id
                   v2    the same, then tagged fields; the client id's length stays an int16
    request

    int32 size of what follows
    response header v0   int32 correlation id
                    v1   the same, then tagged fields
    response

The newer headers go with flexible versions, but for ApiVersions' response (`Api.response_header_version`). Functions
take and give frames without their size where they decode, and with it where they encode.
"""

from __future__ import annotations

import struct
from typing import Final

from tailrace.env.files import Buffer
from tailrace.model.errors import InvalidDataError, InvalidRequestError, UnencodableMessageError
from tailrace.protocol.apis import api_of
from tailrace.protocol.codec import decode_from, encode_parts
from tailrace.protocol.headers import RequestHeader, ResponseHeader
from tailrace.protocol.message import Message, Request, Response
from tailrace.protocol.schema import Payload

SIZE_BYTES: Final = 4
MIN_REQUEST_BYTES: Final = 10  # the least a request header takes

_SIZE: Final = struct.Struct(">i")
_KEY_AND_VERSION: Final = struct.Struct(">hh")
_REQUEST_HEAD: Final = struct.Struct(">hhih")  # key, version, correlation id, length of the client id
_NO_TAGS: Final = b"\0"
_RESPONSE_HEADS: Final = (struct.Struct(">ii"), struct.Struct(">iix"))  # size and header; x is no tagged fields


def frame_bytes(buffer: Buffer, position: int, max_bytes: int) -> int:
    """The size that stands at `position`; InvalidRequestError when no request has it, or none may."""
    (size,) = _SIZE.unpack_from(buffer, position)
    if not MIN_REQUEST_BYTES <= size <= max_bytes:
        raise wrong_size(size, max_bytes)
    return int(size)


def wrong_size(size: int, max_bytes: int) -> InvalidRequestError:
    """Most often the bytes are of another protocol."""
    limits = f"it has {MIN_REQUEST_BYTES} to {max_bytes}"
    next_step = "check that the client speaks the protocol of Kafka, and connects without TLS"
    return InvalidRequestError(f"a request of {size} bytes: {limits}; next step: {next_step}")


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header and the position of the request behind it, for any version of an API that exists.

    A client that sends no id at all is one with an empty id, as in Kafka.
    """
    if len(frame) < MIN_REQUEST_BYTES:
        raise InvalidRequestError(f"a request of {len(frame)} bytes has no whole header")
    key, version = _KEY_AND_VERSION.unpack_from(frame)
    header_version = api_of(key).request_header_version(version)
    header, position = decode_from(RequestHeader, header_version, memoryview(frame), 0)
    if header.client_id is None:
        header.client_id = ""
    return header, position


def decode_request(header: RequestHeader, frame: Buffer, position: int) -> Request:
    """The request behind its header. Raises UnsupportedVersionError, or InvalidRequestError for everything else.

    Bytes behind it are nobody's: librdkafka sends some behind Metadata v13, and Kafka does not mind.
    """
    kind, version = api_of(header.request_api_key).request, header.request_api_version
    return decode_from(kind, version, memoryview(frame), position)[0]


def encode_request(request: Request, version: int, correlation_id: int, client_id: str | None = None) -> list[Payload]:
    try:
        encoded_id = b"" if client_id is None else client_id.encode()
        id_bytes = -1 if client_id is None else len(encoded_id)
        header = _REQUEST_HEAD.pack(request.KEY, version, correlation_id, id_bytes) + encoded_id
    except (struct.error, UnicodeEncodeError) as fault:
        raise UnencodableMessageError(f"header of {type(request).__name__} v{version}: {fault}") from None
    if version >= api_of(request.KEY).flexible_from:
        header += _NO_TAGS
    parts = encode_parts(request, version, header)
    size = sum(map(len, parts))
    parts[0] = _packed(_SIZE, request, size) + parts[0]
    return parts


def encode_response(header: RequestHeader, response: Response, *, version: int | None = None) -> list[Payload]:
    """The answer to the request with `header`; `version` where it is not the request's, as for unknown ApiVersions."""
    if version is None:
        version = header.request_api_version
    parts = encode_parts(response, version)
    head = _RESPONSE_HEADS[api_of(response.KEY).response_header_version(version)]
    size = head.size - SIZE_BYTES + sum(map(len, parts))
    parts[0] = _packed(head, response, size, header.correlation_id) + parts[0]
    return parts


def decode_response(api_key: int, version: int, frame: Buffer, max_elements: int | None = None) -> tuple[int, Response]:
    """The correlation id and the response. `max_elements` bounds all its arrays together."""
    api, view = api_of(api_key), memoryview(frame)
    header, position = decode_from(ResponseHeader, api.response_header_version(version), view, 0)
    response, end = decode_from(api.response, version, view, position, max_elements)
    if end != len(view):
        raise _trailing(api.response, version, len(view) - end)
    return header.correlation_id, response


def _packed(head: struct.Struct, message: Message, size: int, *rest: int) -> bytes:
    try:
        return head.pack(size, *rest)
    except struct.error:
        raise UnencodableMessageError(f"{type(message).__name__} of {size} bytes: no frame is so large") from None


def _trailing(kind: type[Message], version: int, count: int) -> InvalidDataError:
    return kind.MALFORMED(f"{kind.__name__} v{version}: {count} bytes follow it")
