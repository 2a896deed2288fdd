"""Ask a handler as a client would: through the bytes of a version and back."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tailrace.broker.context import RequestContext
from tailrace.broker.dispatch import BROKER_HANDLERS, CONTROLLER_HANDLERS
from tailrace.protocol.apis import api_of
from tailrace.protocol.codec import decode, encode
from tailrace.protocol.message import Request

BROKER_LISTENER = "PLAINTEXT"
CONTROLLER_LISTENER = "CONTROLLER"


class Answers(list[Any]):
    """Of one request, decoded from the version it was asked in."""

    def __init__(self, key: int, version: int) -> None:
        super().__init__()
        self._kind, self._version = api_of(key).response, version

    def take(self, response: Any) -> None:
        assert not self, "a request was answered twice"
        self.append(decode(self._kind, self._version, encode(response, self._version)))


def begin(node: Any, request: Request, version: int, *, listener: str = BROKER_LISTENER) -> Answers:
    """Hand the request to its handler; the answer may come later."""
    is_controller = listener == CONTROLLER_LISTENER
    module = (CONTROLLER_HANDLERS if is_controller else BROKER_HANDLERS)[request.KEY]
    sent = decode(type(request), version, encode(request, version))
    answers = Answers(request.KEY, version)
    now_ms = node.env.clock.now_ms()
    context = RequestContext(version, "tests", listener, "127.0.0.1", now_ms, is_controller_listener=is_controller)
    import_module(f"tailrace.broker.handlers.{module}").handle(node, context, sent, answers.take)
    return answers


def ask(node: Any, request: Request, version: int | None = None, *, listener: str = BROKER_LISTENER) -> Any:
    """The answer, once everything that can happen without time passing has happened."""
    if version is None:
        version = api_of(request.KEY).last_stable_version
    answers = begin(node, request, version, listener=listener)
    node.env.jobs.run_all()
    (answer,) = answers
    return answer


def versions_of(request: type[Request]) -> range:
    api = api_of(request.KEY)
    return range(api.first_version, api.last_stable_version + 1)
