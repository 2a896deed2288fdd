"""Who sends a request, in the words of the group coordinator."""

from __future__ import annotations

from tailrace.broker.context import RequestContext
from tailrace.coordinator.classic.caller import Caller


def caller_of(context: RequestContext) -> Caller:
    return Caller(context.client_id, f"/{context.peer_host}", context.version)
