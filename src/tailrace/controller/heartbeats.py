"""Which brokers live: when each was last heard, and what a heartbeat makes of it.

A broker is fenced until it asks to be unfenced and has read the metadata up to its own registration. Its session ends
when it is silent for `broker.session.timeout.ms`. On the way out it first gives up its leaderships (controlled
shutdown), and may go when the brokers that stay have read the metadata up to there.

A new controller takes over with full sessions for everybody: it cannot know who was heard by its predecessor.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass


class BrokerState(enum.Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "in controlled shutdown"
    SHUTDOWN_NOW = "leaving"

    @property
    def is_fenced(self) -> bool:
        return self in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW)


@dataclass(slots=True)
class _Session:
    is_fenced: bool
    last_heard_ms: int
    metadata_offset: int = -1
    shutdown_offset: int = -1
    """Of the records that took its leaderships away; −1 as long as it stays."""

    @property
    def state(self) -> BrokerState:
        if self.shutdown_offset >= 0:
            return BrokerState.CONTROLLED_SHUTDOWN
        return BrokerState.FENCED if self.is_fenced else BrokerState.UNFENCED


class Heartbeats:
    def __init__(self, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._sessions: dict[int, _Session] = {}

    def restart(self, brokers: Iterable[tuple[int, bool]], now_ms: int) -> None:
        """Begin with these, each with whether it is fenced."""
        self._sessions = {broker_id: _Session(is_fenced, now_ms) for broker_id, is_fenced in brokers}

    def register(self, broker_id: int, now_ms: int, *, is_fenced: bool, is_new_incarnation: bool) -> None:
        session = None if is_new_incarnation else self._sessions.get(broker_id)
        if session is None:
            session = self._sessions[broker_id] = _Session(is_fenced, now_ms)
        session.is_fenced, session.last_heard_ms = is_fenced, now_ms

    def touch(self, broker_id: int, now_ms: int, metadata_offset: int, *, is_fenced: bool) -> None:
        session = self._sessions.setdefault(broker_id, _Session(is_fenced, now_ms))
        session.last_heard_ms, session.metadata_offset, session.is_fenced = now_ms, metadata_offset, is_fenced
        if is_fenced:
            session.shutdown_offset = -1

    def shutting_down(self, broker_id: int, offset: int) -> None:
        session = self._sessions.get(broker_id)
        if session is not None and session.shutdown_offset < 0:
            session.shutdown_offset = offset

    def fence(self, broker_id: int) -> None:
        session = self._sessions.get(broker_id)
        if session is not None:
            session.is_fenced, session.shutdown_offset = True, -1

    def remove(self, broker_id: int) -> None:
        self._sessions.pop(broker_id, None)

    def is_alive(self, broker_id: int, now_ms: int) -> bool:
        """Its session is open: nobody else may take its id. A fenced broker has none."""
        session = self._sessions.get(broker_id)
        return session is not None and not session.is_fenced and self._is_open(session, now_ms)

    def is_shutting_down(self, broker_id: int) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and session.shutdown_offset >= 0

    def state(self, broker_id: int) -> BrokerState:
        session = self._sessions.get(broker_id)
        return session.state if session is not None else BrokerState.FENCED

    def silent(self, now_ms: int) -> int | None:
        """The unfenced broker that has been silent for longest, if that is too long."""
        stale = [
            (session.last_heard_ms, broker_id)
            for broker_id, session in self._sessions.items()
            if not session.is_fenced and not self._is_open(session, now_ms)
        ]
        return min(stale)[1] if stale else None

    def next_state(
        self,
        broker_id: int,
        *,
        wants_fence: bool,
        wants_shutdown: bool,
        has_caught_up: bool,
        leads: bool,
    ) -> BrokerState:
        """What the broker is after a heartbeat that asks for this."""
        state = self.state(broker_id)
        if state is BrokerState.FENCED:
            if wants_shutdown:
                return BrokerState.SHUTDOWN_NOW
            return BrokerState.UNFENCED if has_caught_up and not wants_fence else state
        if state is BrokerState.UNFENCED:
            if wants_fence:
                return BrokerState.SHUTDOWN_NOW if wants_shutdown else BrokerState.FENCED
            if wants_shutdown:
                return BrokerState.CONTROLLED_SHUTDOWN if leads else BrokerState.SHUTDOWN_NOW
            return state
        if leads or self._sessions[broker_id].shutdown_offset > self._lowest_active_offset():
            return state
        return BrokerState.SHUTDOWN_NOW

    def _lowest_active_offset(self) -> float:
        """How far every broker that stays has read the metadata."""
        offsets = (s.metadata_offset for s in self._sessions.values() if not s.is_fenced and s.shutdown_offset < 0)
        return min(offsets, default=float("inf"))

    def _is_open(self, session: _Session, now_ms: int) -> bool:
        return session.last_heard_ms + self.session_timeout_ms >= now_ms
