"""Sends requests to other nodes, and reports what happens to the connections.

    peers.send(address, request, done, timeout_ms)     `done` is called once: with the response or with a PeerFailure
    peers.probe(address, timeout_ms, done)             whether the port accepts connections now
    peers.on_event.add(listener)                       connections to any node: opened, refused, ended

There is one connection to an address, opened with the first request and closed when it is idle. Requests to one address
are sent in order, `max_in_flight` at a time. As a broker handles the requests of a connection one after the other, a
purpose whose requests must not wait for those of another one (a vote for a long poll) has a `Peers` for itself, as each
purpose has its own connections in Kafka.

A failed request is not repeated: only its sender knows whether it may be, and how soon (`retry.backoff.ms`). Attempts
to connect back off (`peers/backoff.py`); a request waits for the next attempt, and fails with it.

Callbacks run on the owner's thread, never from within a call of the owner. Only `close` runs them before it returns.

Who may call. The owner's thread. Addresses and responses may come from any process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tailrace.config.voters import Address
from tailrace.env import Env
from tailrace.model.invariant import invariant
from tailrace.model.listeners import Listeners
from tailrace.peers.callback_queue import CallbackQueue
from tailrace.peers.outcome import FailureKind, PeerEvent, PeerFailure, ProbeOutcome, ProbeResult
from tailrace.peers.peer_link import Call, Done, PeerLink
from tailrace.peers.probe import Probe
from tailrace.peers.settings import PeerSettings
from tailrace.protocol.message import Request


class Peers:
    def __init__(self, env: Env, settings: PeerSettings) -> None:
        self.on_event: Listeners[PeerEvent] = Listeners()
        self._env = env
        self._settings = settings
        self._callbacks = CallbackQueue(env.jobs)
        self._links: dict[Address, PeerLink] = {}
        self._probes: dict[Probe, Callable[[ProbeResult], None]] = {}
        self._is_closed = False
        self._timer_ms: int | None = None
        """When the timer that counts fires. Earlier ones were replaced, and do nothing."""

    def send(
        self, address: Address, request: Request, done: Done, timeout_ms: int, *, version: int | None = None
    ) -> None:
        """Within `timeout_ms`, `done` gets the response or a PeerFailure.

        Without `version` the highest common one is used. Without discovery, `version` is required.
        """
        invariant(self._settings.discovers or version is not None, "without discovery, a request gives its version")
        if self._is_closed:
            failure = PeerFailure(address, FailureKind.CLOSED, False, "sent after the end")
            self._callbacks.add(partial(done, failure))
        else:
            deadline_ms = self._env.clock.monotonic_ms() + timeout_ms
            self._link(address).submit(Call(request, version, deadline_ms, done))
        self._callbacks.run_later()

    def _link(self, address: Address) -> PeerLink:
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = PeerLink(
                address, self._settings, self._env, self._callbacks, self.on_event, self._set_timer
            )
        return link

    def is_connected(self, address: Address) -> bool:
        """Whether a connection is open. The other node may be gone without an event so far."""
        link = self._links.get(address)
        return link is not None and link.is_connected

    def probe(self, address: Address, timeout_ms: int, done: Callable[[ProbeResult], None]) -> None:
        """Connect and close, apart from the connection for requests and from its backoff."""
        if self._is_closed:
            result = ProbeResult(address, ProbeOutcome.UNREACHABLE, "asked after the end")
            self._callbacks.add(partial(done, result))
            self._callbacks.run_later()
        else:
            self._probes[Probe(self._env.network, address, timeout_ms, self._probed)] = done

    def _probed(self, probe: Probe, result: ProbeResult) -> None:
        self._probes.pop(probe)(result)

    def close(self) -> None:
        """Close all connections. Requests that have no response fail, and probes end, before this returns.

        Later requests and probes fail.
        """
        self._is_closed = True
        for link in self._links.values():
            link.close()
        self._links.clear()
        for probe in list(self._probes):
            probe.close()
        self._callbacks.run()

    # Time

    def _set_timer(self, due_ms: int) -> None:
        if self._timer_ms is None or due_ms < self._timer_ms:
            self._timer_ms = due_ms
            delay_ms = max(due_ms - self._env.clock.monotonic_ms(), 0)
            self._env.jobs.later("peers", delay_ms, partial(self._timer_fired, due_ms))

    def _timer_fired(self, due_ms: int) -> None:
        if due_ms != self._timer_ms:
            return
        self._timer_ms = None
        now_ms = self._env.clock.monotonic_ms()
        for link in list(self._links.values()):
            if link.due_ms() <= now_ms and not link.run_due(now_ms):
                del self._links[link.address]
        if self._links:
            self._set_timer(min(link.due_ms() for link in self._links.values()))
        self._callbacks.run()
