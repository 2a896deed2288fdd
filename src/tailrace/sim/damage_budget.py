"""How much synced data a simulated cluster may lose at a time, so that nothing that is committed is lost.

A voter that has lost synced data counts as failed until it has caught up, and at most a minority of the voters may have
failed. There are two kinds:

- A voter with an empty disk has another directory id: it does not vote until it was added again. It has failed until
  then. Static voters are known by their node ids and would vote at once, so their disks are never replaced.
- A voter whose log was damaged keeps its vote, and may vote for a log that lacks what it has lost. It may only lose
  what a majority has besides it, and it has failed until it has everything again that was committed at that time.

The process on a damaged disk is killed first: what it had read before cannot hide the damage. Data of brokers may
always be lost.

A voter whose listener has moved counts for a majority only when its new endpoint is committed: without it a candidate
does not reach the voter, in Kafka as well.
"""

from __future__ import annotations

from typing import Final

from tailrace.raft.quorum_state import QUORUM_STATE_FILE
from tailrace.sim.appended_batches import METADATA_LOG
from tailrace.sim.committed_log import CommittedLog
from tailrace.sim.fault_schedule import Fault, FaultKind
from tailrace.sim.machine import Machine
from tailrace.sim.quorum_checker import LogMatching
from tailrace.sim.quorum_members import Member, QuorumMembers
from tailrace.sim.quorum_observer import QuorumObserver
from tailrace.sim.quorum_operator import Wishes
from tailrace.storage.names import LOG_SUFFIX

RESTART_MS: Final = 1_000


class _Loss:
    """What a member has lost."""

    def __init__(self, observer: QuorumObserver | None, end: int) -> None:
        self.observer = observer
        """Of the process that ran then."""
        self.end = end
        """The end of the committed log then."""


class DamageBudget:
    def __init__(
        self,
        members: QuorumMembers,
        machines: dict[str, Machine],
        committed: CommittedLog,
        logs: LogMatching,
        wishes: Wishes,
        *,
        is_limited: bool = True,
    ) -> None:
        """Without a limit, any data may be lost at any time: nodes must detect it, and may stop for ever."""
        self._is_limited = is_limited
        self._wishes = wishes
        self._members = members
        self._machines = machines
        self._committed = committed
        self._logs = logs
        self._losses: dict[str, _Loss] = {}
        self.granted = 0

    def allows(self, fault: Fault) -> bool:
        """Takes the loss from the budget. For a disk that is damaged and stays, the process is restarted."""
        member = self._members.by_name[fault.machine]
        is_new = fault.kind is FaultKind.DISK_NEW
        if self._is_limited and member.is_controller and not self._may_lose(member, is_new=is_new):
            return False
        self.granted += 1
        self._losses[member.name] = _Loss(member.observer, self._committed.end)
        if is_new:
            self.replaced(member)
        else:
            machine = self._machines[member.name]
            machine.kill()
            machine.universe.push(RESTART_MS * 1000, None, machine.start)
        return True

    def replaced(self, member: Member) -> None:
        """The disk of the member is replaced, or is about to be: its next process has another directory id."""
        member.generation += 1
        member.directory_id = None

    def may_damage(self, fault: Fault, path: str) -> bool:
        """A `quorum-state` with a changed number is valid, in Kafka as well: the format has no checksum.

        Only a truncation of its log is something that a static voter can recover from without an operator.
        """
        if not self._is_limited or self._members.is_dynamic or not self._members.by_name[fault.machine].is_controller:
            return fault.kind is FaultKind.TRUNCATION or not path.endswith(QUORUM_STATE_FILE)
        return METADATA_LOG in path and path.endswith(LOG_SUFFIX)

    def failed(self) -> list[Member]:
        """Those that have lost data and have not caught up."""
        for name, loss in list(self._losses.items()):
            if self._has_caught_up(self._members.by_name[name], loss):
                del self._losses[name]
        return [self._members.by_name[name] for name in self._losses]

    def _has_caught_up(self, member: Member, loss: _Loss) -> bool:
        observer = member.observer
        if observer is None or observer is loss.observer or not observer.process.is_alive:
            return False
        is_voter = not member.is_controller or not self._members.is_dynamic or self._is_voter(member)
        # A process that cannot read its disk has offset -1, also where nothing was committed before the loss.
        return is_voter and observer.image.offset >= max(loss.end - 1, 0)

    def _is_voter(self, member: Member) -> bool:
        return (member.node_id, member.directory_id) in [voter[:2] for voter in self._committed.voters]

    def _has_moved(self) -> bool:
        """Whether some voter does not listen where the committed voters say."""
        controllers = {each.node_id: each for each in self._members.controllers}
        return self._members.is_dynamic and any(
            controllers[voter.node_id].endpoint not in voter.endpoints for voter in self._committed.voters
        )

    def _may_lose(self, member: Member, *, is_new: bool) -> bool:
        voters, committed = self._committed.voters, self._committed
        failed = [each for each in self.failed() if each.is_controller]
        if member in failed or len(failed) >= (len(voters) - 1) // 2:
            return False
        is_changing = not self._wishes.are_fulfilled(committed) or self._logs.has_voters_after(committed.voters_since)
        if is_changing or self._has_moved():  # the majority may be another one than it seems
            return False
        if is_new:
            return self._members.is_dynamic
        needed = max(committed.end, self._logs.ends.get(member.name, 0))
        holders = [
            each
            for each in self._members.controllers
            if each is not member and each not in failed and self._holds(each, needed)
        ]
        if len(holders) <= len(voters) // 2:
            return False
        for each in holders:
            self._machines[each.name].disk.sync_all()  # an operating system may write back at any time
        return True

    def _holds(self, member: Member, end: int) -> bool:
        observer, machine = member.observer, self._machines[member.name]
        is_running = observer is not None and observer.process.is_alive and machine.is_on
        return (
            is_running
            and not machine.disk.faults.is_failing
            and self._logs.ends.get(member.name, 0) >= end
            and (not self._members.is_dynamic or self._is_voter(member))
        )
