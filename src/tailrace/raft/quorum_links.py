"""Sends the core's requests to other nodes, and hands on what comes back.

Changes of the voters and questions for versions have connections for themselves: they may take long, and the fetches
that they wait for must not queue after them. All other requests to one node share a connection, one at a time.

Memory. A response has at most MAX_RESPONSE_BYTES, and a node has at most one response under way on each connection.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Final, Protocol

from tailrace.config.quorum import QuorumConfig
from tailrace.config.voters import Address
from tailrace.env import Env
from tailrace.peers import FailureKind, PeerFailure, Peers, PeerSettings
from tailrace.protocol.message import Response
from tailrace.protocol.messages.fetch import FetchResponse as FetchMessage
from tailrace.protocol.messages.fetch_snapshot import FetchSnapshotResponse as FetchSnapshotMessage
from tailrace.raft import wire
from tailrace.raft.consensus import ErrorCode
from tailrace.raft.consensus import messages as ms
from tailrace.raft.consensus.effects import Send
from tailrace.raft.fetched_batches import NO_BATCHES, REFUSED, FetchedBatches, validated
from tailrace.raft.leader_evidence import LeaderEvidence
from tailrace.raft.refusals import RefusalLog
from tailrace.raft.voters import QuorumEndpoint
from tailrace.raft.wire.addressing import endpoint_for
from tailrace.raft.wire.fetches import fetched_chunk, fetched_records

MAX_RESPONSE_BYTES: Final = 32 << 20
"""A batch of metadata has at most 8 MiB."""
RECONNECT_BACKOFF_MAX_MS: Final = 500
CLIENT_ID: Final = "raft-client-{node_id}"

_SLOW: Final = (
    ms.AddRaftVoterRequest,
    ms.RemoveRaftVoterRequest,
    ms.UpdateRaftVoterRequest,
    ms.KRaftVersionsRequest,
)
_NO_PRE_VOTES: Final = (FailureKind.UNSUPPORTED_VERSION, FailureKind.NOT_ENCODABLE)

_log = logging.getLogger(__name__)


class LinkEvents(Protocol):
    def answered(self, correlation_id: int, response: ms.Response, batches: FetchedBatches, chunk: bytes) -> None:
        """The response to a `Send`, with the records or the bytes of a snapshot that it has."""

    def unanswered(self, correlation_id: int) -> None: ...

    def leader_unreachable(self, node_id: int) -> None: ...


class QuorumLinks:
    def __init__(
        self, env: Env, node_id: int, address: wire.QuorumAddress, config: QuorumConfig, events: LinkEvents
    ) -> None:
        self._address = address
        self._config = config
        self._events = events
        self._refusals = RefusalLog(env.clock)
        settings = PeerSettings(
            CLIENT_ID.format(node_id=node_id),
            connect_timeout_ms=max(config.controller_quorum_request_timeout_ms, 1),
            reconnect_backoff_max_ms=RECONNECT_BACKOFF_MAX_MS,
            max_response_bytes=MAX_RESPONSE_BYTES,
        )
        self._fast = Peers(env, settings)
        self._slow = Peers(env, settings)
        self._evidence: LeaderEvidence | None = None
        if config.controller_quorum_fast_election_enable:
            self._evidence = LeaderEvidence(self._fast, env.jobs, events.leader_unreachable)

    def send(self, effect: Send) -> None:
        request, config = effect.request, self._config
        if not effect.endpoints:
            self._events.unanswered(effect.correlation_id)
            return
        timeout_ms = config.controller_quorum_request_timeout_ms
        message = wire.ask(request, self._address, config.controller_quorum_fetch_max_bytes, timeout_ms)
        peers = self._slow if isinstance(request, _SLOW) else self._fast
        peers.send(self._address_of(effect.endpoints), message, partial(self._ended, effect), timeout_ms)

    def _address_of(self, endpoints: tuple[QuorumEndpoint, ...]) -> Address:
        endpoint = endpoint_for(endpoints, self._address.listener_name)
        return Address(endpoint.host, endpoint.port)

    def _ended(self, effect: Send, outcome: Response | PeerFailure) -> None:
        if isinstance(outcome, PeerFailure):
            self._failed(effect, outcome)
            return
        address = self._address_of(effect.endpoints)
        try:
            response = wire.read(effect.request, outcome, self._address)
            batches, chunk = NO_BATCHES, b""
            if isinstance(outcome, FetchMessage) and isinstance(response, ms.FetchResponse):
                if response.error == ErrorCode.NONE and response.diverging is None and response.snapshot_id is None:
                    batches = validated(fetched_records(outcome))
                    response = response._replace(runs=batches.runs)
            elif isinstance(outcome, FetchSnapshotMessage):
                chunk = fetched_chunk(outcome)
        except REFUSED as error:
            self._refusals.invalid_response(address, error)
            self._events.unanswered(effect.correlation_id)
        else:
            self._refusals.refused_there(address, response)
            self._events.answered(effect.correlation_id, response, batches, chunk)

    def _failed(self, effect: Send, failure: PeerFailure) -> None:
        request = effect.request
        is_pre_vote = isinstance(request, ms.VoteRequest) and request.is_pre_vote
        if is_pre_vote and failure.kind in _NO_PRE_VOTES:
            unsupported = ms.VoteResponse(ErrorCode.UNSUPPORTED_VERSION)
            self._events.answered(effect.correlation_id, unsupported, NO_BATCHES, b"")
        else:
            _log.debug("a request of the quorum to node %d failed: %s", effect.node_id, failure)
            self._events.unanswered(effect.correlation_id)

    def follow(self, leader_id: int, endpoints: tuple[QuorumEndpoint, ...]) -> None:
        """The leader that this node follows; -1: none."""
        if self._evidence is not None:
            self._evidence.follow(leader_id, self._address_of(endpoints) if endpoints else None)

    def close(self) -> None:
        self._fast.close()
        self._slow.close()
