"""Random faults, clients and administrators against a simulated quorum, then healing and the liveness check.

Fault budget. A crash loses only what was not durable. A disk is replaced by an empty one only with dynamic voters, one
at a time: the voter with the lost directory counts as failed until it has been removed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from support.consensus.injection import Defect
from support.consensus.sim_quorum import SimQuorum
from support.consensus.sim_replica import ViolationError, check
from tailrace.raft.consensus import ConsensusConfig
from tailrace.raft.consensus import messages as ms
from tailrace.raft.consensus.effects import RoleName

FAULTS_MS = 25_000
HEALING_MS = 40_000
SHIELD_MS = 9_000
QUICK_MS = 120
RESIGNATION_MS = 5_000
_ELECTORS = (RoleName.UNATTACHED, RoleName.LEADER)
MIN_PACE = 0.2
"""Faults are as long as the disks and the network need, however short the timeouts are."""


class Figures(NamedTuple):
    simulated_ms: float
    steps: int
    elections: int
    acknowledged: int
    faults: int


class FaultSchedule:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        voters = self.rng.choice((1, 3, 3, 3, 5))
        self.pace = self.rng.choice((1, 1, 0.3, 0.1, 0.05))
        is_dynamic = self.rng.random() < 0.6
        self.quorum = SimQuorum(
            seed,
            voters,
            observers=self.rng.choice((0, 1, 1, 2)),
            is_dynamic=is_dynamic,
            has_fast_election=self.rng.random() < 0.7,
            is_auto_join_enabled=is_dynamic and self.rng.random() < 0.4,
            pace=self.pace,
        )
        if self.rng.random() < 0.4:
            self.quorum.without_pre_votes = {each for each in self.quorum.replicas if self.rng.random() < 0.5}
        for replica in list(self.quorum.replicas.values())[voters:]:
            replica.max_kraft_version = int(self.rng.random() < 0.8)
        self.interval_ms = self.rng.choice((100, 400, 400))
        self.quorum.network.slow_reads = self.rng.choice((0.02, 0.02, 0.3))
        self.is_dynamic = is_dynamic
        self.faults = 0
        self._until = 0.0
        self._is_settled = False
        self._healing_ms = HEALING_MS * max(self.pace, MIN_PACE)
        self._stopping: set[int] = set()
        self._actions = self._weighted()

    def run(self, faults_ms: float = FAULTS_MS) -> Figures:
        """Raises ViolationError; the events of the quorum tell how it came to it."""
        quorum = self.quorum
        self._until = faults_ms = faults_ms * max(self.pace, MIN_PACE)
        quorum.at(self.rng.uniform(0, 500), self._fault)
        quorum.at(self.rng.uniform(0, 500), self._client)
        quorum.run(faults_ms)
        for node_id in sorted(self._stopping):
            quorum.crash(node_id)
        quorum.heal()
        self._check_liveness()
        self._check_quick_commit()
        self._check_shield()
        self._check_resignation()
        checker = quorum.checker
        return Figures(quorum.now_ms, quorum.steps, checker.elections, checker.acknowledged, self.faults)

    # Faults

    def _weighted(self) -> list[Callable[[], None]]:
        actions: list[tuple[Callable[[], None], int]] = [
            (self._crash_one, 5),
            (self._crash_leader, 4),
            (self._crash_all, 2),
            (self._crash_elector, 3),
            (self._partition, 5),
            (self._cut_link, 4),
            (self._bad_network, 4),
            (self._good_network, 4),
            (self._slow_disk, 2),
            (self._pause, 2),
            (self._stop, 2),
            (self._false_evidence, 1),
            (self._snapshot, 5),
            (self._change_voters, 6),
        ]
        if self.is_dynamic:
            actions.append((self._replace_disk, 2))
        return [action for action, weight in actions for _ in range(weight)]

    def _fault(self) -> None:
        quorum = self.quorum
        if quorum.now_ms >= self._until:
            return
        self.faults += 1
        self.rng.choice(self._actions)()
        quorum.at(quorum.now_ms + self.rng.expovariate(1 / self.interval_ms), self._fault)

    def _any(self) -> int:
        return self.rng.choice(list(self.quorum.replicas))

    def _later(self, longest_ms: float, action: Callable[[], None]) -> None:
        """Before the quorum is healed, or never."""

        def act() -> None:
            if self.quorum.now_ms < self._until:
                action()

        self.quorum.at(self.quorum.now_ms + self.rng.uniform(10, longest_ms), act)

    def _crash(self, node_id: int) -> None:
        self.quorum.crash(node_id)
        self._stopping.discard(node_id)
        self._later(self.rng.choice((30, 4_000)), lambda: self.quorum.restart(node_id))

    def _crash_one(self) -> None:
        self._crash(self._any())

    def _crash_leader(self) -> None:
        for node_id in self.quorum.leaders[:1]:
            self._crash(node_id)

    def _crash_elector(self) -> None:
        """A replica that has voted, and does not know a leader yet or is the new one, restarts at once."""
        electors = [
            replica.node_id
            for replica in self.quorum.replicas.values()
            if replica.core is not None
            and replica.core.role in _ELECTORS
            and not replica.core.may_append
            and replica.disk.election
        ]
        if electors:
            node_id = self.rng.choice(electors)
            self.quorum.crash(node_id)
            self._later(20, lambda: self.quorum.restart(node_id))

    def _crash_all(self) -> None:
        for node_id in self.quorum.replicas:
            self._crash(node_id)

    def _partition(self) -> None:
        ids = list(self.quorum.replicas)
        inside = self.rng.sample(ids, self.rng.randint(1, max(1, len(ids) - 1)))
        is_both = self.rng.random() < 0.6
        self.quorum.note(f"partition of {inside}{'' if is_both else ' (outgoing)'}")
        self.quorum.isolate(inside, is_both)

    def _cut_link(self) -> None:
        link = (self._any(), self._any())
        self.quorum.note(f"link {link} is cut")
        self.quorum.network.cut.add(link)

    def _bad_network(self) -> None:
        network = self.quorum.network
        network.loss, network.duplication, network.slow = (self.rng.choice((0, 0.05, 0.3)) for _ in range(3))

    def _good_network(self) -> None:
        self.quorum.network.cut.clear()
        network = self.quorum.network
        network.loss = network.duplication = network.slow = 0

    def _slow_disk(self) -> None:
        self.quorum.replicas[self._any()].fault_ms = self.rng.choice((0, 0, 30, 300))

    def _pause(self) -> None:
        """The process stands still: its clock jumps."""
        node_id = self._any()
        offset, rate = self.quorum.clocks[node_id]
        self.quorum.clocks[node_id] = (offset + self.rng.uniform(100, 5_000), rate)

    def _stop(self) -> None:
        node_id = self._any()
        self.quorum.note(f"{node_id} stops")
        self._stopping.add(node_id)
        self.quorum.step(node_id, lambda core, now: core.stop(now))
        self._later(1_500, lambda: self._crash(node_id))

    def _false_evidence(self) -> None:
        """Nothing but liveness may depend on evidence."""
        node_id, other = self._any(), self._any()
        self.quorum.step(node_id, lambda core, now: core.leader_unreachable(other, now))

    # Administrators

    def _snapshot(self) -> None:
        replica = self.quorum.replicas[self._any()]
        if replica.is_up:
            replica.take_snapshot(self.quorum.local_ms(replica.node_id))
            self.quorum.settle(replica)

    def _change_voters(self) -> None:
        """Adds and removes voters on whatever node believes to lead, twice at once from time to time."""
        for _ in range(self.rng.choice((1, 1, 2))):
            for leader_id in self.quorum.claiming:
                self._change_on(leader_id)

    def _change_on(self, leader_id: int) -> None:
        quorum = self.quorum
        leader = quorum.replicas[leader_id]
        assert leader.core is not None
        voters = leader.core.voters
        outside = [each for each in quorum.replicas.values() if voters.voter(each.node_id) is None]
        if voters.kraft_version == 0:
            if self.rng.random() < 0.3:
                quorum.note(f"{leader_id} is asked for kraft.version 1")
                quorum.upgrade(leader_id)
        elif outside and self.rng.random() < (0.8 if len(voters.voters) < 3 else 0.35):
            voter = self.rng.choice(outside).voter
            quorum.note(f"{leader_id} is asked to add {voter.node_id}")
            quorum.ask(leader_id, ms.AddRaftVoterRequest(voter, self.rng.random() < 0.7))
        elif not self._lost_voters(leader_id):
            leader_voter = voters.voter(leader_id)
            is_own = leader_voter is not None and self.rng.random() < 0.5
            gone = leader_voter if leader_voter is not None and is_own else self.rng.choice(voters.voters)
            quorum.note(f"{leader_id} is asked to remove {gone.node_id}")
            quorum.ask(leader_id, ms.RemoveRaftVoterRequest(ms.ReplicaKey(gone.node_id, gone.directory_id)))

    def _lost_voters(self, leader_id: int) -> list[ms.ReplicaKey]:
        core = self.quorum.replicas[leader_id].core
        assert core is not None
        keys = [ms.ReplicaKey(voter.node_id, voter.directory_id) for voter in core.voters.voters]
        return [key for key in keys if self.quorum.replicas[key.node_id].disk.directory_id != key.directory_id]

    def _replace_disk(self) -> None:
        """A voter loses its disk while everything else is in order; an administrator removes what was lost."""
        quorum = self.quorum
        for leader_id in quorum.leaders[:1]:
            core = quorum.replicas[leader_id].core
            assert core is not None
            is_settled = core.voters.kraft_version > 0 and core.voters.offset < core.high_watermark
            chosen = [key for key in core.voters.voters if key.node_id != leader_id]
            is_newest = core.epoch == max(quorum.checker.leaders)
            if not is_settled or not is_newest or len(chosen) < 2 or self._lost_voters(leader_id):
                return
            if any(replica.core and replica.core.voters != core.voters for replica in quorum.replicas.values()):
                return
            node_id = self.rng.choice(chosen).node_id
            quorum.note(f"{node_id} gets an empty disk")
            quorum.crash(node_id)
            quorum.replicas[node_id].replace_disk()
            quorum.restart(node_id)

    def _remove_lost(self) -> None:
        for leader_id in self.quorum.leaders[:1]:
            for key in self._lost_voters(leader_id)[:1]:
                if self.quorum.replicas[leader_id].core.voters.kraft_version > 0:  # type: ignore[union-attr]
                    self.quorum.ask(leader_id, ms.RemoveRaftVoterRequest(key))

    # Clients

    def _client(self) -> None:
        quorum = self.quorum
        for leader_id in quorum.leaders:
            quorum.append(leader_id, self.rng.randint(1, 3))
        if self.rng.random() < 0.2:
            self._remove_lost()
        if quorum.now_ms < self._until:
            quorum.at(quorum.now_ms + self.rng.expovariate(1 / 150), self._client)

    # Liveness

    def _check_liveness(self) -> None:
        """After healing a leader is elected, commits, and everybody has what it has."""
        quorum = self.quorum
        if not quorum.run(self._healing_ms, lambda: bool(quorum.leaders)):
            raise ViolationError("no leader is elected after healing")
        quorum.run(3_000 * self.pace)
        committed = len(quorum.checker.committed)

        def append() -> None:
            if self._is_settled:
                return
            for leader_id in quorum.leaders[:1]:
                quorum.append(leader_id)
            self._remove_lost()
            quorum.at(quorum.now_ms + 1_000 * max(self.pace, MIN_PACE), append)

        append()
        check(
            quorum.run(self._healing_ms, lambda: len(quorum.checker.committed) > committed + 2), "nothing is committed"
        )
        self._is_settled = True
        check(quorum.run(self._healing_ms, self._is_even), "a replica does not catch up after healing")

    def _is_even(self) -> bool:
        """Everything that any replica has is committed, and each knows."""
        cores = [replica.core for replica in self.quorum.replicas.values() if replica.core is not None]
        ends = {(core.high_watermark, core.epoch) for core in cores} | {(core.end_offset, core.epoch) for core in cores}
        return len(ends) == 1

    def _check_quick_commit(self) -> None:
        """In a healthy quorum every replica learns at once what is committed, not when its fetch times out.

        A request that a fault has lost is given up first, whatever the pace: it keeps its node busy until then.
        """
        quorum = self.quorum
        quorum.run(max(5_000 * self.pace, 1.2 * ConsensusConfig().request_timeout_ms))
        check(quorum.run(self._healing_ms, self._is_even), "the quorum does not come to rest")
        quorum.append(quorum.leaders[0])
        check(quorum.run(QUICK_MS, self._is_even), f"a replica does not learn within {QUICK_MS} ms what is committed")

    def _check_resignation(self) -> None:
        """A leader that reaches no other voter gives up its leadership."""
        quorum = self.quorum
        leader_id = quorum.leaders[0]
        core = quorum.replicas[leader_id].core
        assert core is not None
        if core.voters.node_ids == (leader_id,):
            return
        quorum.note(f"leader {leader_id} is isolated")
        quorum.isolate([leader_id])
        quorum.run(RESIGNATION_MS * self.pace)
        check(not core.may_append, f"node {leader_id} still leads, without a majority that fetches")
        quorum.heal()
        check(quorum.run(self._healing_ms, lambda: bool(quorum.leaders)), "no leader is elected after a resignation")

    def _check_shield(self) -> None:
        """A voter that alone does not reach the leader does not depose it: pre-votes protect the leader."""
        quorum = self.quorum
        leader_id = quorum.leaders[0]
        core = quorum.replicas[leader_id].core
        assert core is not None
        others = [voter.node_id for voter in core.voters.voters if voter.node_id != leader_id]
        if len(others) < 2 or quorum.without_pre_votes or self._lost_voters(leader_id):
            return
        epoch, lonely = core.epoch, self.rng.choice(others)
        quorum.note(f"the links between leader {leader_id} and {lonely} are cut")
        quorum.network.cut |= {(leader_id, lonely), (lonely, leader_id)}
        quorum.run(SHIELD_MS * self.pace)
        check(core.epoch == epoch and core.may_append, f"node {lonely} deposes a leader that a majority follows")
        quorum.network.cut.clear()
        quorum.run(SHIELD_MS * self.pace)
        check(core.epoch == epoch and core.may_append, f"node {lonely} deposes the leader when it comes back")


def run_seed(seed: int) -> Figures:
    return FaultSchedule(seed).run()


def run_slow_reads(seed: int) -> Figures:
    """Reads of a leader take up to 2 s: it may be deposed, and have batches of a later epoch, when it responds."""
    schedule = FaultSchedule(seed)
    network = schedule.quorum.network
    network.slow_reads, network.slowest_read_ms = 0.5, 2_000
    return schedule.run()


def run_of(defect: Defect, seed: int) -> Figures:
    return run_slow_reads(seed) if defect.has_slow_reads else run_seed(seed)
