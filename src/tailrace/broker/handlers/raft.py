"""Requests of the metadata quorum, on a controller listener.

Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot, AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter. All
of them are about this node's own part in the quorum: nothing is forwarded.

A node that has not loaded its metadata log yet has no part in the quorum. Replicas get BROKER_NOT_AVAILABLE then, which
is for Kafka's replicas what a failed connection is; they log every other error of this kind. Administrators get
NOT_CONTROLLER, which is retriable for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.model.errors import BrokerNotAvailableError, NotControllerError
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.add_raft_voter import AddRaftVoterRequest
from tailrace.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(node: Node, context: RequestContext, request: Request, reply: Callable[[Response], None]) -> None:
    """A fetch may wait for records: it is forgotten if its sender goes away."""
    try:
        forget = node.quorum.handle(request, context.version, context.listener, reply)
    except NotControllerError as error:
        if isinstance(request, AddRaftVoterRequest | RemoveRaftVoterRequest):
            raise
        raise BrokerNotAvailableError(str(error)) from None
    context.when_dropped(forget)
