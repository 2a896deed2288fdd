"""A client's request in an Envelope, on its way to the active controller. See handlers/envelope.py for the format.

Errors of the envelope, as in Kafka:

    NOT_CONTROLLER         the request is sent again
    UNSUPPORTED_VERSION    the controller cannot decode the request: the connection of the client is closed, so that it
                           asks for the versions again
    any other              the client gets UNKNOWN_SERVER_ERROR: the fault is in the cluster, not in its request

Until there is security, every principal is ANONYMOUS.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable
from typing import Final

from tailrace.broker.answer_errors import names_other_controller
from tailrace.broker.context import RequestContext
from tailrace.broker.controller_link import ControllerLink, Done
from tailrace.controller.error_responses import error_response
from tailrace.model.errors import (
    InvalidDataError,
    NotControllerError,
    RequestTimedOutError,
    TailraceError,
    UnknownServerError,
    UnsupportedVersionError,
)
from tailrace.protocol.frame import SIZE_BYTES, decode_response, encode_request
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tailrace.protocol.principal import ANONYMOUS, encode_principal

_log = logging.getLogger(__name__)

MAX_ELEMENTS: Final = 1_000_000
"""In all arrays of the response within the envelope."""
_UNKNOWN_HOST: Final = bytes(4)


class ForwardedRequest:
    """Implements `ControllerCall`."""

    def __init__(self, request: Request, context: RequestContext, local: ControllerLink | None, done: Done) -> None:
        """Raises UnencodableMessageError. `local` is the controller of this process."""
        self._request = request
        self._context = context
        self._local = local
        self._done = done
        parts = encode_request(request, context.version, context.correlation_id, context.client_id)
        data = b"".join(bytes(part) for part in parts)[SIZE_BYTES:]
        self.message = EnvelopeRequest(
            request_data=data,
            request_principal=encode_principal(ANONYMOUS),
            client_host_address=_address(context.peer_host),
        )
        self.size_bytes = len(data)

    def respond(self, response: Response) -> bool:
        assert isinstance(response, EnvelopeResponse), "a response has the type that belongs to its request"
        if response.error_code == NotControllerError.code:
            return False
        if response.error_code == UnsupportedVersionError.code:
            self._close_connection()
        elif response.error_code:
            self.fail(UnknownServerError(f"the envelope is refused with error {response.error_code}"))
        else:
            self._unwrap(response)
        return True

    def ask_local(self, ended: Callable[[bool], None]) -> None:
        assert self._local is not None, "the channel knows which node this is"

        def answered(response: Response) -> None:
            if names_other_controller(response):
                ended(False)
            else:
                self._done(response)
                ended(True)

        self._local.forward(self._request, self._context, answered)

    def fail(self, error: TailraceError) -> None:
        """A timeout is reported to the client, everything else is UNKNOWN_SERVER_ERROR, as in Kafka."""
        if not isinstance(error, RequestTimedOutError):
            _log.warning("%s cannot be forwarded: %s", type(self._request).__name__, error)
            error = UnknownServerError()
        self._done(error_response(self._request, self._context.version, error))

    def _close_connection(self) -> None:
        error = UnsupportedVersionError(f"the active controller cannot decode {type(self._request).__name__}")
        if self._context.connection is None:
            self.fail(error)
        else:
            self._context.connection.fail(error)

    def _unwrap(self, envelope: EnvelopeResponse) -> None:
        key, version = self._request.KEY, self._context.version
        try:
            correlation_id, response = decode_response(key, version, bytes(envelope.response_data or b""), MAX_ELEMENTS)
        except InvalidDataError as error:
            self.fail(error)
            return
        if correlation_id == self._context.correlation_id:
            self._done(response)
        else:
            self.fail(UnknownServerError("the response in the envelope is to another request"))


def _address(host: str) -> bytes:
    """The simulator knows machines by name, not by address."""
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        return _UNKNOWN_HOST
