"""Which brokers live: when each last sent a heartbeat, and what a heartbeat makes of it.

A broker is fenced until it asks to be unfenced and has read the metadata up to its own registration. Its session ends
when it is silent for `broker.session.timeout.ms`. On the way out it first gives up its leaderships (controlled
shutdown), and may go when the brokers that stay have read the metadata up to there.

No other process can take the id of a broker whose session is open. A broker has a session while it is unfenced, and
from its first heartbeat on while it is fenced; it ends with silence, or when the broker may leave. (In Kafka a broker
that has left keeps its id for the session timeout.)

A new controller takes over with full sessions for all unfenced brokers: it cannot know whom its predecessor heard.
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
    last_heartbeat_ms: int
    is_held: bool
    """The broker is unfenced, or fenced and sends heartbeats: it keeps its id until it is silent.

    Not held: it is fenced and sends none, or its process is known to have ended.
    """
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

    def restart(self, brokers: Iterable[tuple[int, bool, bool]], now_ms: int) -> None:
        """Begin with these, each with whether it is fenced, and whether its process is known to have ended.

        A broker whose process has ended does not keep its id, but is fenced no earlier than any other.
        """
        self._sessions = {
            broker_id: _Session(is_fenced, now_ms, is_held=not is_fenced and not has_ended)
            for broker_id, is_fenced, has_ended in brokers
        }

    def register(self, broker_id: int, now_ms: int, *, is_fenced: bool, is_new_incarnation: bool) -> None:
        session = None if is_new_incarnation else self._sessions.get(broker_id)
        if session is None:
            session = self._sessions[broker_id] = _Session(is_fenced, now_ms, not is_fenced)
        session.is_fenced, session.last_heartbeat_ms = is_fenced, now_ms

    def touch(self, broker_id: int, now_ms: int, metadata_offset: int, state: BrokerState) -> None:
        """The broker has sent a heartbeat, after which it is in this state."""
        session = self._sessions.setdefault(broker_id, _Session(state.is_fenced, now_ms, is_held=True))
        session.last_heartbeat_ms, session.metadata_offset, session.is_fenced = now_ms, metadata_offset, state.is_fenced
        session.is_held = state is not BrokerState.SHUTDOWN_NOW
        if state.is_fenced:
            session.shutdown_offset = -1

    def extend(self, ms: int, now_ms: int) -> None:
        """Let every session end later: the controller could not receive a heartbeat for `ms`, until `now_ms`.

        A heartbeat that waited may have been read already. No session counts from a time in the future.
        """
        for session in self._sessions.values():
            session.last_heartbeat_ms = min(session.last_heartbeat_ms + ms, now_ms)

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
        """Its session is open: no other process may take its id."""
        session = self._sessions.get(broker_id)
        return session is not None and session.is_held and self._is_open(session, now_ms)

    def is_shutting_down(self, broker_id: int) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and session.shutdown_offset >= 0

    def state(self, broker_id: int) -> BrokerState:
        session = self._sessions.get(broker_id)
        return session.state if session is not None else BrokerState.FENCED

    def silent(self, now_ms: int) -> int | None:
        """The unfenced broker that has been silent for longest, if that is too long."""
        stale = [
            (session.last_heartbeat_ms, broker_id)
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
        return session.last_heartbeat_ms + self.session_timeout_ms >= now_ms
