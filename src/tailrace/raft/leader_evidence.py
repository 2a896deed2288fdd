"""Evidence that the process of the quorum's leader is gone, for a fast election.

    connection to the leader is closed or reset ─▶ probes, 50 ms apart ─▶ two refused in a row ─▶ report

A probe is refused only if every address of the host refuses: the machine lives, and nothing listens. While a process
ends, the system may close its connections before its listening sockets, so a probe that is accepted counts for nothing,
and is repeated a few times. Everything else (a timeout, an unreachable host, a name that cannot be resolved) is no
evidence, and ends the search until the next connection closes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from tailrace.config.voters import Address
from tailrace.env import Jobs
from tailrace.peers import PeerEvent, PeerEventKind, Peers, ProbeOutcome, ProbeResult

REFUSALS: Final = 2
MAX_PROBES: Final = 6
PROBE_GAP_MS: Final = 50
PROBE_TIMEOUT_MS: Final = 500

_ENDS: Final = (PeerEventKind.CLOSED, PeerEventKind.RESET)


class LeaderEvidence:
    def __init__(self, peers: Peers, jobs: Jobs, report: Callable[[int], None]) -> None:
        """`report` gets the leader's node id."""
        self._peers = peers
        self._jobs = jobs
        self._report = report
        self._leader: tuple[int, Address] | None = None
        self._search = 0
        """Counts searches: results of an earlier one do not matter."""
        self._is_searching = False
        peers.on_event.add(self._connection_event)

    def follow(self, node_id: int, address: Address | None) -> None:
        """The leader of this node; None while it has none, or one that it cannot reach."""
        leader = None if address is None or node_id < 0 else (node_id, address)
        if leader != self._leader:
            self._leader = leader
            self._stop()

    def _stop(self) -> None:
        self._search += 1
        self._is_searching = False

    def _connection_event(self, event: PeerEvent) -> None:
        is_of_leader = self._leader is not None and event.address == self._leader[1]
        if event.kind in _ENDS and is_of_leader and not self._is_searching:
            self._is_searching = True
            self._probe(self._search, 1, 0)

    def _probe(self, search: int, number: int, refusals: int) -> None:
        if search == self._search and self._leader is not None:
            done = partial(self._probed, search, number, refusals)
            self._peers.probe(self._leader[1], PROBE_TIMEOUT_MS, done)

    def _probed(self, search: int, number: int, refusals: int, result: ProbeResult) -> None:
        if search != self._search or self._leader is None:
            return
        refusals = refusals + 1 if result.outcome is ProbeOutcome.REFUSED else 0
        if refusals == REFUSALS:
            node_id = self._leader[0]
            self._stop()
            self._report(node_id)
        elif result.outcome is ProbeOutcome.UNREACHABLE or number == MAX_PROBES:
            self._stop()
        else:
            self._jobs.later("probe-leader", PROBE_GAP_MS, partial(self._probe, search, number + 1, refusals))
