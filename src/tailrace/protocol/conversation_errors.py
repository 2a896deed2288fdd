"""Why a conversation with a broker ended, or a request of it failed.

    ConversationError
    ├── ResponseSizeError        a response announces a size that no response may have
    ├── CorrelationError         a response to another request, or to none
    ├── ResponseFormatError      bytes that are not a response of the API
    ├── NegotiationError         the broker refuses to state its versions
    └── ResponseTimeoutError     a response did not arrive before its deadline

Each ends the conversation, and so the connection: what follows on it cannot be matched with requests. An API or version
that the other side does not have is not in the list. It is an `UnsupportedVersionError`, and costs only the request.
"""

from __future__ import annotations

from tailrace.model.errors import TailraceError


class ConversationError(TailraceError):
    hint = "check that the address is a listener of a Kafka broker or controller"


class ResponseSizeError(ConversationError):
    pass


class CorrelationError(ConversationError):
    pass


class ResponseFormatError(ConversationError):
    pass


class NegotiationError(ConversationError):
    def __init__(self, code: int) -> None:
        super().__init__(f"the broker refuses to state its API versions: error code {code}")
        self.error_code = code


class ResponseTimeoutError(ConversationError):
    retriable = True
    hint = "the node may be overloaded, paused or unreachable"
