"""Requests under way: one of a kind for each node, each with a deadline, and a pause after a failure."""

from __future__ import annotations

from typing import Final, NamedTuple

from tailrace.model.invariant import invariant
from tailrace.raft.consensus.messages import (
    AddRaftVoterRequest,
    KRaftVersionsRequest,
    RemoveRaftVoterRequest,
    Request,
    UpdateRaftVoterRequest,
)

SILENCE_MS: Final = 100
"""After this time without a response a node may be paused, and another one is asked for the leader as well."""

_VOTER_CHANGES = (AddRaftVoterRequest, RemoveRaftVoterRequest, UpdateRaftVoterRequest)


class InFlight(NamedTuple):
    correlation_id: int
    node_id: int
    request: Request
    sent_ms: int
    deadline_ms: int


def _slot(node_id: int, request_type: type) -> tuple[int, int]:
    """A change of voters may take long, so fetches do not wait for it; a new voter may be an observer that fetches."""
    if request_type in _VOTER_CHANGES:
        return node_id, 1
    return node_id, 2 if request_type is KRaftVersionsRequest else 0


class Links:
    """Responses that no longer matter are forgotten with `forget`; they find no request when they arrive."""

    def __init__(self, request_timeout_ms: int, retry_backoff_ms: int) -> None:
        """A pause has at least 1 ms: a request that fails at once is not repeated in the same moment."""
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = max(1, retry_backoff_ms)
        self._by_correlation: dict[int, InFlight] = {}
        self._by_slot: dict[tuple[int, int], int] = {}
        self._pause_until: dict[int, int] = {}
        self._last_correlation = 0

    def is_ready(self, node_id: int, request_type: type, now_ms: int) -> bool:
        is_pausing = self._pause_until.get(node_id, 0) > now_ms
        return not is_pausing and _slot(node_id, request_type) not in self._by_slot

    def pause_end_ms(self, node_id: int, now_ms: int) -> int | None:
        """When the node may be asked again after a failure; None if it may be now."""
        until = self._pause_until.get(node_id, 0)
        return until if until > now_ms else None

    def silent_from_ms(self, now_ms: int) -> int:
        """When every node that is asked now counts as silent: at once if none is asked, or if all are silent."""
        sent = max((entry.sent_ms for entry in self._by_correlation.values()), default=now_ms - SILENCE_MS)
        return max(now_ms, sent + SILENCE_MS)

    def begin(self, node_id: int, request: Request, now_ms: int) -> int:
        invariant(_slot(node_id, type(request)) not in self._by_slot, "one request of a kind is under way to a node")
        self._last_correlation += 1
        entry = InFlight(self._last_correlation, node_id, request, now_ms, now_ms + self._request_timeout_ms)
        self._by_correlation[entry.correlation_id] = entry
        self._by_slot[_slot(node_id, type(request))] = entry.correlation_id
        return entry.correlation_id

    def end(self, correlation_id: int) -> InFlight | None:
        """The request that was answered; None if it no longer matters."""
        entry = self._by_correlation.pop(correlation_id, None)
        if entry is not None:
            del self._by_slot[_slot(entry.node_id, type(entry.request))]
        return entry

    def pause(self, node_id: int, now_ms: int) -> None:
        self._pause_until[node_id] = now_ms + self._retry_backoff_ms

    def forget(self) -> None:
        """After a change of role: nothing that was asked before matters, and each node may be asked at once."""
        self._by_correlation.clear()
        self._by_slot.clear()
        self._pause_until.clear()

    def expired(self, now_ms: int) -> list[InFlight]:
        return [entry for entry in self._by_correlation.values() if entry.deadline_ms <= now_ms]

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """When a request is given up, or the pause of a node ends."""
        deadlines = [entry.deadline_ms for entry in self._by_correlation.values()]
        return min([*deadlines, *(each for each in self._pause_until.values() if each > now_ms)], default=None)
