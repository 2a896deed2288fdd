"""A link to controllers in other processes, which a test scripts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from support.peers.scripted_network import ScriptedNetwork, ScriptedStream
from tailrace.broker.active_controller import ActiveController, OtherControllers
from tailrace.broker.context import RequestContext
from tailrace.broker.remote_controller import RemoteController
from tailrace.config.server import ServerConfig
from tailrace.config.voters import Address
from tailrace.model.listeners import Listeners
from tailrace.protocol.apis import APIS, CONTROLLER
from tailrace.protocol.frame import SIZE_BYTES, encode_response
from tailrace.protocol.headers import RequestHeader
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from tailrace.protocol.messages.envelope import EnvelopeResponse
from tailrace.sim import World

FIRST, SECOND = Address("first.example", 9093), Address("second.example", 9093)
CORRELATION_ID = 77


def versions(without: Iterable[int] = (), **most: int) -> ApiVersionsResponse:
    """As a controller advertises them; `most` are highest versions by name of the API."""
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=api.first_version, max_version=most.get(api.name, api.last_version))
            for key, api in APIS.items()
            if api.listeners >= CONTROLLER and key not in without
        ]
    )


class ScriptedQuorum:
    """Knows the active controller that a test names."""

    def __init__(self) -> None:
        self.active_controller: ActiveController | None = None
        self.other_controllers = OtherControllers((), 1)
        self.on_active_controller_changed: Listeners[()] = Listeners()

    def elect(self, node_id: int, epoch: int, address: Address) -> None:
        self.active_controller = ActiveController(node_id, epoch, address)
        self.on_active_controller_changed()

    def lose(self) -> None:
        self.active_controller = None
        self.on_active_controller_changed()


class ScriptedConnection:
    """Of a client, as far as handlers know it."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []

    def when_closed(self, key: Any, action: Any) -> None:
        raise AssertionError("a forwarded request does not ask for that")

    def fail(self, error: Exception) -> None:
        self.errors.append(error)


def client_context(
    version: int, connection: ScriptedConnection | None = None, host: str = "10.0.0.7"
) -> RequestContext:
    return RequestContext(version, "client", "PLAINTEXT", host, 0, correlation_id=CORRELATION_ID, connection=connection)


class LinkWorld:
    """A link without a controller, until a test elects one. Responses are in `results`, by the name of the request."""

    def __init__(self, seed: int = 0, local: Any = None, **settings: str) -> None:
        self.world = World(seed)
        self.network = ScriptedNetwork()
        self.quorum = ScriptedQuorum()
        self.results: dict[object, Any] = {}
        self.sent = 0
        given = {name.replace("_", "."): text for name, text in settings.items()}
        config = ServerConfig.single_node({"log.dirs": "/data", "node.id": "1", **given})
        env = replace(self.world.env, network=self.network)
        self.link = RemoteController(env, config, self.quorum, local)

    def send(self, name: object, request: Request, version: int = 0) -> None:
        self.sent += 1
        self.link.send(request, version, lambda response: self._done(name, response))

    def forward(
        self, name: object, request: Request, version: int, connection: ScriptedConnection | None = None, **client: str
    ) -> None:
        self.sent += 1
        context = client_context(version, connection, **client)
        self.link.forward(request, context, lambda response: self._done(name, response))

    def _done(self, name: object, response: Response) -> None:
        assert name not in self.results, "a request ends once"
        self.results[name] = response

    def pass_time(self, ms: int) -> None:
        self.world.jobs.tick(self.world.clock.now_ms() + ms)

    def connected(self, address: Address = FIRST) -> ScriptedStream:
        """The newest open connection, to this address, after the agreement on versions."""
        stream = self.network.open[-1]
        assert stream.address == address
        return stream.agree(versions())


def enveloped(response: Response, version: int, correlation_id: int = CORRELATION_ID) -> EnvelopeResponse:
    header = RequestHeader(
        request_api_key=response.KEY, request_api_version=version, correlation_id=correlation_id, client_id=""
    )
    frame = b"".join(bytes(part) for part in encode_response(header, response))
    return EnvelopeResponse(response_data=frame[SIZE_BYTES:])
