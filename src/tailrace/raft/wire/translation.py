"""The functions of `elections`, `fetches` and `voter_changes`, by the type of what is translated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tailrace.model.invariant import invariant
from tailrace.protocol import message as wire
from tailrace.protocol.conversation import api_versions_request
from tailrace.protocol.messages.add_raft_voter import AddRaftVoterRequest as AddRaftVoterMessage
from tailrace.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest as BeginQuorumEpochMessage
from tailrace.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest as EndQuorumEpochMessage
from tailrace.protocol.messages.fetch import FetchRequest as FetchMessage
from tailrace.protocol.messages.fetch_snapshot import FetchSnapshotRequest as FetchSnapshotMessage
from tailrace.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest as RemoveRaftVoterMessage
from tailrace.protocol.messages.update_raft_voter import UpdateRaftVoterRequest as UpdateRaftVoterMessage
from tailrace.protocol.messages.vote import VoteRequest as VoteMessage
from tailrace.protocol.schema import Payload
from tailrace.raft.consensus import messages as ms
from tailrace.raft.wire import elections, fetches, voter_changes
from tailrace.raft.wire.addressing import QuorumAddress

_ACCEPT: Final[dict[type, Callable[[Any, int, QuorumAddress], ms.InboundRequest]]] = {
    VoteMessage: elections.accept_vote,
    BeginQuorumEpochMessage: elections.accept_begin,
    EndQuorumEpochMessage: elections.accept_end,
    FetchMessage: fetches.accept_fetch,
    FetchSnapshotMessage: fetches.accept_fetch_snapshot,
    AddRaftVoterMessage: voter_changes.accept_add,
    RemoveRaftVoterMessage: voter_changes.accept_remove,
    UpdateRaftVoterMessage: voter_changes.accept_update,
}
_READ: Final[dict[type, Callable[[Any, QuorumAddress], ms.Response]]] = {
    ms.VoteRequest: elections.read_vote,
    ms.BeginQuorumEpochRequest: elections.read_begin,
    ms.EndQuorumEpochRequest: elections.read_end,
    ms.FetchRequest: fetches.read_fetch,
    ms.FetchSnapshotRequest: fetches.read_fetch_snapshot,
    ms.AddRaftVoterRequest: voter_changes.read_change,
    ms.RemoveRaftVoterRequest: voter_changes.read_change,
    ms.UpdateRaftVoterRequest: voter_changes.read_update,
    ms.KRaftVersionsRequest: voter_changes.read_versions,
}


def accept(message: wire.Request, version: int, address: QuorumAddress) -> ms.InboundRequest:
    """Raises RefusedRequestError for what the core is not to see."""
    return _ACCEPT[type(message)](message, version, address)


def respond(
    request: wire.Request, response: ms.Response, version: int, listener_name: str, payload: Payload = b""
) -> wire.Response:
    """`listener_name` is that of the listener on which the request came, `payload` records or bytes of a snapshot."""
    if isinstance(response, ms.FetchResponse):
        return fetches.respond_fetch(response, version, listener_name, payload)
    if isinstance(response, ms.FetchSnapshotResponse):
        return fetches.respond_fetch_snapshot(response, version, listener_name, payload)
    if isinstance(response, ms.VoterChangeResponse):
        return voter_changes.respond_change(response, is_removal=isinstance(request, RemoveRaftVoterMessage))
    if isinstance(response, ms.UpdateRaftVoterResponse):
        return voter_changes.respond_update(response, listener_name)
    invariant(not isinstance(response, ms.KRaftVersionsResponse), "ApiVersions is not answered by the quorum")
    assert not isinstance(response, ms.KRaftVersionsResponse)
    return elections.respond(response, version, listener_name)


def ask(request: ms.Request, address: QuorumAddress, max_bytes: int, timeout_ms: int) -> wire.Request:
    """`max_bytes` of a fetch of records; `timeout_ms` of a change of the voters."""
    if isinstance(request, ms.FetchRequest):
        return fetches.ask_fetch(request, address, max_bytes)
    if isinstance(request, ms.VoteRequest):
        return elections.ask_vote(request, address)
    if isinstance(request, ms.BeginQuorumEpochRequest):
        return elections.ask_begin(request, address)
    if isinstance(request, ms.EndQuorumEpochRequest):
        return elections.ask_end(request, address)
    if isinstance(request, ms.FetchSnapshotRequest):
        return fetches.ask_fetch_snapshot(request, address)
    if isinstance(request, ms.AddRaftVoterRequest):
        return voter_changes.ask_add(request, address, timeout_ms)
    if isinstance(request, ms.RemoveRaftVoterRequest):
        return voter_changes.ask_remove(request, address)
    if isinstance(request, ms.UpdateRaftVoterRequest):
        return voter_changes.ask_update(request, address)
    return api_versions_request()


def read(request: ms.Request, message: wire.Response, address: QuorumAddress) -> ms.Response:
    """The response to a request. InvalidDataError if it is about something else."""
    return _READ[type(request)](message, address)
