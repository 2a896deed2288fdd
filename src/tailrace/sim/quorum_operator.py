"""A simulated operator, who sees to it that the voters are those that are wanted, and unregisters brokers.

It repeats requests that fail, like a person with a terminal: one at a time, half a second apart, through any node.
"""

from __future__ import annotations

from typing import Any, Final

from tailrace.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from tailrace.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tailrace.raft.voters import Voter
from tailrace.sim.admin_client import AdminLinks, Directory
from tailrace.sim.committed_log import CommittedLog
from tailrace.sim.process import Process
from tailrace.sim.quorum_members import CLUSTER_ID, QuorumMembers

PAUSE_MS: Final = 500
REQUEST_TIMEOUT_MS: Final = 6_000
_NONE, _VOTER_NOT_FOUND, _DUPLICATE_VOTER = 0, 127, 126


class Wishes:
    """What the operator wants. Changed by faults, while the process of the operator stays the same."""

    def __init__(self, members: QuorumMembers) -> None:
        self._members = members
        self.removed: dict[int, None] = {}
        """Controllers that are not to be voters now."""
        self.unregistered: dict[int, None] = {}
        """Brokers that are to be unregistered."""

    @property
    def voters(self) -> list[Voter]:
        """None if they are configured. A controller whose new disk is not formatted yet cannot be added."""
        if not self._members.is_dynamic:
            return []
        return [
            voter
            for each in self._members.controllers
            if each.node_id not in self.removed and (voter := each.voter) is not None
        ]

    def are_fulfilled(self, committed: CommittedLog) -> bool:
        """Every controller is a voter again."""
        wanted = self.voters
        return not self._members.is_dynamic or (
            len(wanted) == len(self._members.controllers)
            and {each[:2] for each in committed.voters} == {each[:2] for each in wanted}
        )


class QuorumOperator:
    def __init__(self, process: Process, nodes: Directory, committed: CommittedLog, wishes: Wishes) -> None:
        self.changes = 0
        self._process = process
        self._nodes = nodes
        self._committed = committed
        self._wishes = wishes
        self._links = AdminLinks(process, REQUEST_TIMEOUT_MS)
        self._later()

    def due_ms(self) -> int | None:
        return None

    def run_due(self, now_ms: int) -> None:
        """It has no deadlines but those of its jobs."""

    def ends_with(self, error: Exception) -> bool:
        return False

    def _later(self) -> None:
        self._process.env.jobs.later("operator", PAUSE_MS, self._act)

    def _act(self) -> None:
        link = self._links.to(self._process.env.random.choice(self._nodes()))
        found = self._next_change()
        if found is None or link.is_busy:
            self._later()
            return
        what, request, version = found
        self._process.machine.note("operation", what)

        def done(response: Any) -> None:
            code = response.error_code if response is not None else -1
            if code == _NONE:
                self.changes += 1
            if isinstance(request, UnregisterBrokerRequest) and response is not None:
                self._wishes.unregistered.pop(request.broker_id, None)
            self._process.machine.note("operation-done", f"{what}: error code {code}")
            self._later()

        link.ask(request, version, done)

    def _next_change(self) -> tuple[str, Any, int] | None:
        """Of the voters, the ones that should not be first: a node in a new directory is added when the old is gone."""
        for broker_id in self._wishes.unregistered:
            return f"unregister broker {broker_id}", UnregisterBrokerRequest(broker_id=broker_id), 0
        wanted = self._wishes.voters
        if not wanted:
            return None
        present = {each[:2]: each for each in self._committed.voters}
        targets = {each[:2]: each for each in wanted}
        for key, voter in present.items():
            if key not in targets:
                remove = RemoveRaftVoterRequest(
                    cluster_id=CLUSTER_ID, voter_id=voter.node_id, voter_directory_id=voter.directory_id
                )
                return f"remove voter {voter}", remove, 0
        for key, voter in targets.items():
            if key not in present:
                listeners = [Listener(name=each.name, host=each.host, port=each.port) for each in voter.endpoints]
                add = AddRaftVoterRequest(
                    cluster_id=CLUSTER_ID,
                    timeout_ms=REQUEST_TIMEOUT_MS - 1_000,
                    voter_id=voter.node_id,
                    voter_directory_id=voter.directory_id,
                    listeners=listeners,
                )
                return f"add voter {voter}", add, 1
        return None
