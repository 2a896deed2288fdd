"""Envelope: a client's request that a broker forwards to the active controller, with its principal and address.

    request_data           request header and request, as the client sent them, without the size
    request_principal      see protocol/principal.py
    client_host_address    4 or 16 bytes

    response_data          response header and response, for the client's request header

Kafka's error codes:

    PRINCIPAL_DESERIALIZATION_FAILURE    an invalid principal
    INVALID_REQUEST                      an invalid address, or an API that is not forwardable
    UNSUPPORTED_VERSION                  a request that cannot be decoded, to distinguish it from an invalid envelope
    NOT_CONTROLLER                       the response has that error: the broker must find the active controller
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.broker.answer_errors import names_other_controller, refusal
from tailrace.broker.context import RequestContext
from tailrace.model.errors import (
    InvalidDataError,
    NotControllerError,
    RefusedRequestError,
    TailraceError,
    UnsupportedVersionError,
)
from tailrace.protocol.apis import APIS, FORWARDABLE
from tailrace.protocol.frame import SIZE_BYTES, decode_request, decode_request_header, encode_response
from tailrace.protocol.headers import RequestHeader
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tailrace.protocol.principal import decode_principal

if TYPE_CHECKING:
    from tailrace.broker.node import Node

_log = logging.getLogger(__name__)

_ADDRESS_BYTES: Final = (4, 16)


def handle(
    node: Node, context: RequestContext, envelope: EnvelopeRequest, reply: Callable[[EnvelopeResponse], None]
) -> None:
    decode_principal(envelope.request_principal)
    host = _host(envelope.client_host_address)
    header, request = _forwarded(envelope)
    key, version = header.request_api_key, header.request_api_version
    handler = node.dispatch(context.is_controller_listener).handler(key, version)
    assert handler is not None, "ApiVersions is not forwardable"
    forwarded = RequestContext(
        version,
        header.client_id or "",
        context.listener,
        host,
        context.now_ms,
        is_controller_listener=context.is_controller_listener,
        is_forwarded=True,
        slot=context.slot,
    )
    counters = node.counters.api(key)
    counters.requests[version] += 1

    def answered(response: Response) -> None:
        counters.answered(response)
        reply(_enveloped(header, response))

    try:
        handler(node, forwarded, request, answered)
    except TailraceError as error:
        _log.info("%s v%s forwarded for %s is refused: %s", APIS[key].name, version, host, error)
        response = refusal(APIS[key].response, error)
        if response is None:
            raise
        answered(response)


def _host(address: bytes) -> str:
    if len(address) not in _ADDRESS_BYTES:
        raise RefusedRequestError(f"Failed to parse client address from envelope: it has {len(address)} bytes")
    return str(ipaddress.ip_address(address))


def _forwarded(envelope: EnvelopeRequest) -> tuple[RequestHeader, Request]:
    data = bytes(envelope.request_data)
    try:
        header, position = decode_request_header(data)
    except InvalidDataError as error:
        raise UnsupportedVersionError(f"Failed to parse request header from envelope: {error}") from None
    if header.request_api_key not in FORWARDABLE:
        name = APIS[header.request_api_key].name
        raise RefusedRequestError(f"API {name} is not enabled or is not eligible for forwarding")
    try:
        return header, decode_request(header, data, position)
    except InvalidDataError as error:
        raise UnsupportedVersionError(f"Failed to parse forwarded request: {error}") from None


def _enveloped(header: RequestHeader, response: Response) -> EnvelopeResponse:
    if names_other_controller(response):
        return EnvelopeResponse(error_code=NotControllerError.code)
    try:
        frame = b"".join(bytes(part) for part in encode_response(header, response))
    except TailraceError as error:  # the response has a value that the client's version cannot express
        return EnvelopeResponse(error_code=error.code)
    return EnvelopeResponse(response_data=frame[SIZE_BYTES:])
