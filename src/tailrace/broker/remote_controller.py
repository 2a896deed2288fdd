"""The link to the active controller of a quorum: other processes over `Peers`, the one of this process directly.

Each purpose has its own channel (`ControllerChannel`) and so its own connection. Timeouts are those of Kafka:

    channel                requests                                                    a request waits at most
    heartbeat              BrokerRegistration, BrokerHeartbeat                         broker.session.timeout.ms / 2
    forwarding             requests of clients; CreateTopics, AllocateProducerIds      60 s
    alter-partition        AlterPartition                                              until a controller responds
    directory-assignments  AssignReplicasToDirs                                        60 s
    registration           ControllerRegistration                                      5 s

One attempt waits for its response for `controller.socket.timeout.ms`, and no longer than the channel lets it. If the
time is over, the response has REQUEST_TIMED_OUT. If no version is common, a request of this node gets
UNSUPPORTED_VERSION, and a client gets UNKNOWN_SERVER_ERROR, because it asked for a version that its broker has. A
client's request whose envelope is above `socket.request.max.bytes` gets INVALID_REQUEST: the controller would close the
connection at each attempt.

Who may call. The node's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tailrace.broker.active_controller import ActiveControllerSource
from tailrace.broker.answer_errors import names_other_controller
from tailrace.broker.context import RequestContext
from tailrace.broker.controller_channel import ChannelSettings, ControllerChannel
from tailrace.broker.controller_link import ControllerLink, Done
from tailrace.broker.forwarded_request import ForwardedRequest
from tailrace.config.server import ServerConfig
from tailrace.controller.error_responses import error_response
from tailrace.env import Env
from tailrace.model.errors import RefusedRequestError, TailraceError, UnencodableMessageError, UnknownServerError
from tailrace.peers import Peers, PeerSettings, ProbeOutcome, ProbeResult
from tailrace.protocol.message import Request, Response

FORWARDING: Final = "forwarding"
_CHANNELS: Final = {
    56: "alter-partition",
    62: "heartbeat",
    63: "heartbeat",
    70: "registration",
    73: "directory-assignments",
}
"""By api key. All other requests are on the channel for forwarding."""
_FORWARDING_TIMEOUT_MS: Final = 60_000
_REGISTRATION_TIMEOUT_MS: Final = 5_000
_PROBE_TIMEOUT_MS: Final = 500
_ENVELOPE_BYTES: Final = 1024
"""At most, besides the client's request."""


class RemoteController:
    """Implements `ControllerLink`."""

    def __init__(
        self, env: Env, config: ServerConfig, source: ActiveControllerSource, local: ControllerLink | None = None
    ) -> None:
        """`local` is the controller of this process, if it has that role. It is asked while the quorum names it."""
        self._local = local
        self._source = source
        self._max_forwarded_bytes = config.socket_request_max_bytes - _ENVELOPE_BYTES
        self._probes = Peers(env, PeerSettings(str(config.node_id)))
        timeouts = {
            "alter-partition": None,
            "directory-assignments": _FORWARDING_TIMEOUT_MS,
            FORWARDING: _FORWARDING_TIMEOUT_MS,
            "heartbeat": config.broker_session_timeout_ms // 2,
            "registration": _REGISTRATION_TIMEOUT_MS,
        }
        local_id = config.node_id if local is not None else None
        self._channels = {
            name: ControllerChannel(env, _channel_settings(name, timeout_ms, config), source, local_id)
            for name, timeout_ms in timeouts.items()
        }

    def send(self, request: Request, version: int, done: Done) -> None:
        """See ControllerLink."""
        name = _CHANNELS.get(request.KEY, FORWARDING)
        self._channels[name].submit(_OwnRequest(request, version, self._local, done))

    def forward(self, request: Request, context: RequestContext, done: Done) -> None:
        """See ControllerLink."""
        try:
            call = ForwardedRequest(request, context, self._local, done)
        except UnencodableMessageError as error:
            done(error_response(request, context.version, UnknownServerError(str(error))))
            return
        if call.size_bytes > self._max_forwarded_bytes:
            refusal = RefusedRequestError("The request is too large to be forwarded to the active controller.")
            done(error_response(request, context.version, refusal))
        else:
            self._channels[FORWARDING].submit(call)

    def probe(self, done: Callable[[bool], None]) -> None:
        """See ControllerLink."""
        addresses, blocking_count = self._source.other_controllers
        outcomes: list[ProbeOutcome] = []

        def probed(result: ProbeResult) -> None:
            outcomes.append(result.outcome)
            if len(outcomes) == len(addresses):
                done(outcomes.count(ProbeOutcome.REFUSED) >= blocking_count)

        for address in addresses:
            self._probes.probe(address, _PROBE_TIMEOUT_MS, probed)
        if not addresses:
            done(False)

    def close(self) -> None:
        """End all connections. Requests without a response end with REQUEST_TIMED_OUT, later ones as well."""
        self._probes.close()
        for channel in self._channels.values():
            channel.close()


def _channel_settings(name: str, timeout_ms: int | None, config: ServerConfig) -> ChannelSettings:
    request_timeout_ms = max(config.controller_socket_timeout_ms, 1)
    return ChannelSettings(
        name=name,
        client_id=str(config.node_id),
        timeout_ms=timeout_ms,
        request_timeout_ms=request_timeout_ms if timeout_ms is None else min(request_timeout_ms, timeout_ms),
        connect_timeout_ms=config.socket_connection_setup_timeout_ms,
    )


class _OwnRequest:
    """A request of this node. Implements `ControllerCall`."""

    size_bytes = 0

    def __init__(self, request: Request, version: int, local: ControllerLink | None, done: Done) -> None:
        self.message = request
        self._version = version
        self._local = local
        self._done = done

    def respond(self, response: Response) -> bool:
        if names_other_controller(response):
            return False
        self._done(response)
        return True

    def ask_local(self, ended: Callable[[bool], None]) -> None:
        assert self._local is not None, "the channel knows which node this is"
        self._local.send(self.message, self._version, lambda response: ended(self.respond(response)))

    def fail(self, error: TailraceError) -> None:
        self._done(error_response(self.message, self._version, error))
