"""The requests of one purpose to the active controller, wherever it is: they wait, are sent, and are sent again.

    submit ─▶ queue ─▶ one request in flight ─▶ response ─▶ call.respond
                ▲                │ connection fails, timeout, NOT_CONTROLLER
                └────────────────┘ 50 ms later, or as soon as another controller is active

Kafka has such a channel for each purpose, so that a heartbeat does not wait for CreateTopics. As in Kafka the order of
requests is kept, one is in flight at a time, and one that failed goes back to the head of the queue. A request may
therefore be decided twice if a connection ends before the response; all requests on these channels allow that.

A request in flight to a controller that is no longer active gets SUPERSEDED_MS to be answered. Then the connection is
closed, so that a paused or unreachable node does not hold up the channel until the request timeout. (Kafka waits.)

If the active controller is in this process, calls go to it directly, without waiting for each other.

Bounds. At most MAX_QUEUED calls and MAX_QUEUED_BYTES of envelopes wait (one call always may); a further call fails at
once. A call waits no longer than the timeout of the channel; a channel without a timeout waits for a controller. Calls
that are too late or too many fail with REQUEST_TIMED_OUT.

Who may call. The node's thread. Responses may come from any process.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol

from tailrace.broker.active_controller import ActiveController, ActiveControllerSource
from tailrace.env import Env
from tailrace.model.errors import RequestTimedOutError, TailraceError, UnknownServerError, UnsupportedVersionError
from tailrace.model.line_limit import LineLimit
from tailrace.peers import FailureKind, PeerFailure, Peers, PeerSettings
from tailrace.protocol.message import Request, Response

_log = logging.getLogger(__name__)

MAX_QUEUED: Final = 1000
MAX_QUEUED_BYTES: Final = 128 << 20
RETRY_BACKOFF_MS: Final = 50
SUPERSEDED_MS: Final = 500


class ControllerCall(Protocol):
    """A request with the function that ends it: one of `respond`, a true `ask_local`, and `fail` ends the call."""

    @property
    def message(self) -> Request:
        """What another process gets."""

    @property
    def size_bytes(self) -> int:
        """What the call holds, if that depends on a client."""

    def respond(self, response: Response) -> bool:
        """End the call with the response to `message`. False if the sender is not the active controller."""

    def ask_local(self, ended: Callable[[bool], None]) -> None:
        """Have the controller of this process decide. `ended` is called once: False if it is not active."""

    def fail(self, error: TailraceError) -> None: ...


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    name: str
    client_id: str
    timeout_ms: int | None
    """For a call, with all attempts. None: no limit."""
    request_timeout_ms: int
    """For one attempt."""
    connect_timeout_ms: int


@dataclass(slots=True, eq=False)
class _Waiting:
    call: ControllerCall
    deadline_ms: int | None


class _Attempt(NamedTuple):
    waiting: _Waiting
    target: ActiveController


class ControllerChannel:
    def __init__(
        self, env: Env, settings: ChannelSettings, source: ActiveControllerSource, local_id: int | None
    ) -> None:
        """`local_id` is the node id of the controller in this process, if there is one."""
        self._env = env
        self._settings = settings
        self._source = source
        self._local_id = local_id
        self._peers = self._new_peers()
        self._queue: deque[_Waiting] = deque()
        self._queued_bytes = 0
        self._attempt: _Attempt | None = None
        self._failed_target: ActiveController | None = None
        """Not asked again before `_retry_ms`."""
        self._retry_ms = 0
        self._timer_ms: int | None = None
        self._is_closed = False
        self._lines = LineLimit()
        source.on_active_controller_changed.add(self._controller_changed)

    def _new_peers(self) -> Peers:
        settings = self._settings
        return Peers(
            self._env,
            PeerSettings(
                settings.client_id,
                connect_timeout_ms=settings.connect_timeout_ms,
                reconnect_backoff_ms=RETRY_BACKOFF_MS,
                reconnect_backoff_max_ms=RETRY_BACKOFF_MS,
            ),
        )

    def __len__(self) -> int:
        """Calls that wait to be sent."""
        return len(self._queue)

    def submit(self, call: ControllerCall) -> None:
        """The call ends exactly once, possibly during this call."""
        if self._is_closed:
            call.fail(self._closing())
            return
        is_full = len(self._queue) >= MAX_QUEUED or self._queued_bytes + call.size_bytes > MAX_QUEUED_BYTES
        if self._queue and is_full:
            call.fail(RequestTimedOutError(f"{len(self._queue)} requests wait for the active controller"))
            return
        timeout_ms = self._settings.timeout_ms
        deadline_ms = None if timeout_ms is None else self._now_ms() + timeout_ms
        self._put(_Waiting(call, deadline_ms), self._queue.append)
        self._advance()

    def close(self) -> None:
        """Fail every call. Later ones fail as well."""
        self._is_closed = True
        self._source.on_active_controller_changed.remove(self._controller_changed)
        self._peers.close()
        while self._queue:
            self._take().call.fail(self._closing())

    def _closing(self) -> TailraceError:
        return RequestTimedOutError("this node is shutting down")

    # The queue

    def _put(self, waiting: _Waiting, put: Callable[[_Waiting], None]) -> None:
        put(waiting)
        self._queued_bytes += waiting.call.size_bytes
        if waiting.deadline_ms is not None:
            self._set_timer(waiting.deadline_ms)

    def _take(self) -> _Waiting:
        waiting = self._queue.popleft()
        self._queued_bytes -= waiting.call.size_bytes
        return waiting

    def _set_timer(self, due_ms: int) -> None:
        if self._timer_ms is None or due_ms < self._timer_ms:
            self._timer_ms = due_ms
            self._later(due_ms - self._now_ms(), partial(self._timer_fired, due_ms))

    def _timer_fired(self, due_ms: int) -> None:
        if due_ms != self._timer_ms:
            return
        self._timer_ms = None
        now_ms = self._now_ms()
        waiting, self._queue = self._queue, deque()
        self._queued_bytes = 0
        overdue = []
        for each in waiting:
            if each.deadline_ms is not None and each.deadline_ms <= now_ms:
                overdue.append(each)
            else:
                self._put(each, self._queue.append)
        for each in overdue:
            each.call.fail(self._timed_out())

    def _timed_out(self) -> TailraceError:
        known = self._source.active_controller
        found = "no active controller is known" if known is None else f"the active controller is node {known.node_id}"
        if self._lines.is_due(found, self._now_ms()):
            _log.info("a request to the controller timed out channel=%s: %s", self._settings.name, found)
        return RequestTimedOutError(f"no response of the active controller in {self._settings.timeout_ms} ms: {found}")

    # Attempts

    def _advance(self) -> None:
        while self._queue and self._attempt is None and not self._is_closed:
            target = self._source.active_controller
            if target is None or (target == self._failed_target and self._now_ms() < self._retry_ms):
                return
            waiting = self._take()
            if target.node_id == self._local_id:
                waiting.call.ask_local(partial(self._local_ended, waiting, target))
            else:
                self._send(waiting, target)

    def _send(self, waiting: _Waiting, target: ActiveController) -> None:
        timeout_ms = self._settings.request_timeout_ms
        if waiting.deadline_ms is not None:
            timeout_ms = min(timeout_ms, max(waiting.deadline_ms - self._now_ms(), 0))
        attempt = self._attempt = _Attempt(waiting, target)
        self._peers.send(target.address, waiting.call.message, partial(self._ended, attempt), timeout_ms)

    def _local_ended(self, waiting: _Waiting, target: ActiveController, is_decided: bool) -> None:
        if not is_decided:
            self._retry(waiting, target)

    def _ended(self, attempt: _Attempt, outcome: Response | PeerFailure) -> None:
        self._attempt = None
        waiting, target = attempt
        if not isinstance(outcome, PeerFailure):
            if not waiting.call.respond(outcome):
                _log.debug("node %d is not the active controller channel=%s", target.node_id, self._settings.name)
                self._retry(waiting, target)
        elif outcome.kind is FailureKind.UNSUPPORTED_VERSION:
            _log.warning("the active controller does not support a request: %s", outcome)
            waiting.call.fail(UnsupportedVersionError(str(outcome)))
        elif outcome.kind is FailureKind.NOT_ENCODABLE:
            _log.warning("a request to the active controller cannot be sent: %s", outcome)
            waiting.call.fail(UnknownServerError(str(outcome)))
        else:
            self._retry(waiting, target)
        self._advance()

    def _retry(self, waiting: _Waiting, target: ActiveController) -> None:
        now_ms = self._now_ms()
        if self._is_closed:
            waiting.call.fail(self._closing())
        elif waiting.deadline_ms is not None and now_ms >= waiting.deadline_ms:
            waiting.call.fail(self._timed_out())
        else:
            self._failed_target, self._retry_ms = target, now_ms + RETRY_BACKOFF_MS
            self._put(waiting, self._queue.appendleft)
            self._later(RETRY_BACKOFF_MS, self._advance)

    # The active controller changes

    def _controller_changed(self) -> None:
        self._failed_target = None
        attempt, target = self._attempt, self._source.active_controller
        if attempt is not None and target is not None and target != attempt.target:
            self._later(SUPERSEDED_MS, partial(self._give_up, attempt))
        self._advance()

    def _give_up(self, attempt: _Attempt) -> None:
        if self._attempt is attempt:
            _log.info(
                "node %d is not the active controller and does not respond channel=%s",
                attempt.target.node_id,
                self._settings.name,
            )
            peers, self._peers = self._peers, self._new_peers()
            peers.close()

    def _now_ms(self) -> int:
        return self._env.clock.monotonic_ms()

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._env.jobs.later(f"controller-{self._settings.name}", max(delay_ms, 0), action)
