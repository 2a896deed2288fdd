"""Metadata quorums of several machines in a universe: drivers over real files, faults, and what must hold.

Each machine runs a `Quorum` and a controller listener, no broker. The state is a list of names; the leader appends
some now and then. `Ledger` sees every report of every node:

- a committed batch is the same wherever it is reported, and is reported in order,
- a snapshot has the names of all batches below it,
- an epoch has one leader,
- a vote is in the file `quorum-state` before it is granted,
- votes and announcements of leaders name their receiver,
- at the end, every acknowledged name is in the state of every node, and all states are equal.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from support.metadata.quorum import names_of, topics
from support.metadata.quorum_server import LISTENER, PORT, QuorumServer
from tailrace.config.quorum import QuorumConfig
from tailrace.config.voters import Address
from tailrace.config.voters import Voter as ConfiguredVoter
from tailrace.env import Mode
from tailrace.model.errors import NotControllerError, TailraceError
from tailrace.model.ids import DirectoryId
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from tailrace.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from tailrace.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from tailrace.protocol.messages.vote import VoteRequest, VoteResponse
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.raft.format import format_directories
from tailrace.raft.quorum import Quorum, QuorumEndpoint, QuorumNode
from tailrace.raft.quorum_state import QuorumState
from tailrace.raft.snapshot import SnapshotHead, SnapshotId
from tailrace.raft.snapshot_writer import write_snapshot
from tailrace.raft.voters import Voter
from tailrace.sim.machine import Machine
from tailrace.sim.process import Process
from tailrace.sim.universe import Universe
from tailrace.storage.manager.log_directory import LogDirectory
from tailrace.storage.manager.meta_properties import MetaProperties
from tailrace.storage.verify import verify_directory

DIRECTORY = "/data"
LOG_DIRECTORY = f"{DIRECTORY}/__cluster_metadata-0"
CLUSTER_ID = "cluster-of-the-tests_1"
TICK_MS = 100
RECOVERY_MS = 60_000
SMALL: dict[str, Any] = {
    "internal_metadata_log_segment_bytes": 2_000,
    "metadata_log_max_record_bytes_between_snapshots": 3_000,
    "metadata_max_retention_bytes": 6_000,
    "internal_metadata_delete_delay_millis": 100,
}


def directory_id(node_id: int, generation: int = 0) -> DirectoryId:
    return DirectoryId(bytes([1, generation, *([0] * 13), node_id]))


def endpoint(node_id: int) -> QuorumEndpoint:
    return QuorumEndpoint(LISTENER, f"node-{node_id}", PORT)


class Ledger:
    """What all nodes together have reported."""

    def __init__(self) -> None:
        self.batches: dict[int, tuple[int, tuple[str, ...]]] = {}
        self.names: list[str] = []
        self.counts: dict[int, int] = {-1: 0}
        """How many names there are up to and including an offset."""
        self.end = -1
        self.leaders: dict[int, int] = {}
        self.acked: set[str] = set()
        self.installed = 0
        self.appended = 0

    def committed(self, names: list[str], offset: int, epoch: int) -> None:
        assert offset > self.end or offset in self.batches, f"offset {offset} is reported after offset {self.end}"
        known = self.batches.setdefault(offset, (epoch, tuple(names)))
        assert known == (epoch, tuple(names)), f"offset {offset} is {known} and {(epoch, names)}"
        if offset > self.end:
            self.end = offset
            self.names += names
            self.counts[offset] = len(self.names)

    def leads(self, node_id: int, epoch: int) -> None:
        assert self.leaders.setdefault(epoch, node_id) == node_id, f"epoch {epoch} has two leaders"


class QuorumProgram:
    """One process: the quorum with its listener on the network and in memory."""

    def __init__(self, process: Process, cluster: QuorumCluster, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.process = process
        self.names: list[str] = []
        self.offset = -1
        self.is_ready = False
        self.is_leading = False
        self.has_leader = False
        self.is_stopping = False
        self.is_appending = False
        env = process.env
        cluster.format(process, node_id)
        found = format_directories(env, [DIRECTORY], DIRECTORY, node_id)
        node = QuorumNode(node_id, found.cluster_id, found.directory_id, (endpoint(node_id),))
        self.quorum = Quorum(env, DIRECTORY, node, cluster.config, self)
        QuorumServer(process, self.quorum, self._saw)
        self.quorum.start(self._ready)
        self._tick()

    def due_ms(self) -> int | None:
        return None

    def run_due(self, now_ms: int) -> None:
        raise AssertionError("it has no deadlines")

    def ends_with(self, error: Exception) -> bool:
        return False

    def _ready(self) -> None:
        self.is_ready = True

    def _tick(self) -> None:
        quorum = self.quorum
        if self.is_leading and self.cluster.dice.random() < self.cluster.load:
            self.append()
        if self.offset >= 0 and quorum.snapshot_is_due(self.process.env.clock.now_ms()):
            quorum.snapshot(iter(topics(list(self.names))), lambda: None, self.offset)
        self.process.env.jobs.later("tick", TICK_MS, self._tick)

    def stop(self) -> None:
        self.is_stopping = True
        self.quorum.shutdown(lambda: self.process.exit("stopped"))

    def append(self) -> None:
        ledger, dice = self.cluster.ledger, self.cluster.dice
        ledger.appended += 1
        names = [f"{ledger.appended}-{n}-{'x' * dice.randrange(60)}" for n in range(dice.randint(1, 3))]
        self.is_appending = True
        try:
            self.quorum.append(topics(names), lambda _: ledger.acked.update(names))
        except NotControllerError:
            assert self.is_stopping, "a leader may append until it resigns"
        finally:
            self.is_appending = False

    def _saw(self, request: Request, response: Response) -> None:
        if isinstance(request, VoteRequest | BeginQuorumEpochRequest):
            assert request.voter_id == self.node_id, (
                "a request names its receiver, else Kafka answers INVALID_VOTER_KEY"
            )
        if not isinstance(request, VoteRequest) or not isinstance(response, VoteResponse) or response.error_code:
            return
        asked, answered = request.topics[0].partitions[0], response.topics[0].partitions[0]
        if answered.vote_granted and not asked.pre_vote:
            state = QuorumState.read(self.process.env.files, f"{LOG_DIRECTORY}/quorum-state")
            assert state is not None
            is_durable = (state.leader_epoch, state.voted_id) == (asked.replica_epoch, asked.replica_id)
            assert is_durable or state.leader_epoch > asked.replica_epoch, "a vote is durable before it is granted"

    # Events of the quorum

    def prepare(self, records: Iterator[VersionedRecord]) -> list[VersionedRecord]:
        return list(records)

    def loaded(self, prepared: list[VersionedRecord], offset: int, epoch: int, timestamp_ms: int) -> None:
        assert not self.is_leading
        assert offset > self.offset
        self.cluster.ledger.installed += self.has_leader
        self.names = names_of(prepared)
        ledger = self.cluster.ledger
        assert self.names == ledger.names[: ledger.counts[offset]], f"the snapshot at {offset} has other names"
        self.offset = offset

    def committed(self, records: list[VersionedRecord], last_offset: int, epoch: int, timestamp_ms: int) -> None:
        assert last_offset > self.offset, "commits are in order"
        assert not self.is_appending, "nothing is reported during an append"
        names = names_of(records)
        self.cluster.ledger.committed(names, last_offset, epoch)
        self.offset = last_offset
        self.names += names
        assert len(self.names) == self.cluster.ledger.counts[last_offset], "no commit is left out"

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        assert leader_id == self.node_id or not self.is_leading, "a leader resigns before another one is reported"
        self.has_leader |= leader_id is not None
        self.cluster.universe.log.add(f"node-{self.node_id}", "leader", f"{leader_id} in epoch {epoch}")

    def became_leader(self, epoch: int) -> None:
        self.cluster.ledger.leads(self.node_id, epoch)
        self.is_leading = True
        self.append()

    def resigned(self) -> None:
        assert self.is_leading
        assert not self.is_appending, "nothing is reported during an append"
        self.is_leading = False

    def failed(self, error: TailraceError) -> None:
        self.is_leading = False
        self.process.exit(f"the quorum has failed: {error}")
        self.cluster.failures.append(error)


class QuorumCluster:
    def __init__(
        self, seed: int, voters: int = 3, observers: int = 0, *, is_dynamic: bool = False, **changes: Any
    ) -> None:
        self.universe = Universe(seed)
        self.dice = random.Random(f"{seed}/cluster")
        self.ledger = Ledger()
        self.load = 0.7
        self.failures: list[TailraceError] = []
        self.is_dynamic = is_dynamic
        self.voter_ids = list(range(1, voters + 1))
        self.ids = list(range(1, voters + observers + 1))
        addresses = {node_id: Address(f"node-{node_id}", PORT) for node_id in self.voter_ids}
        changes = {**SMALL, **changes}
        if is_dynamic:
            changes["controller_quorum_bootstrap_servers"] = tuple(addresses.values())
        else:
            found = tuple(ConfiguredVoter(node_id, addresses[node_id]) for node_id in self.voter_ids)
            changes["controller_quorum_voters"] = found
        self.config = replace(QuorumConfig(), **changes)
        self.generations = dict.fromkeys(self.ids, 0)
        for node_id in self.ids:
            boot = partial(QuorumProgram, cluster=self, node_id=node_id)
            machine = self.universe.add_machine(
                f"node-{node_id}", boot, directories=(DIRECTORY,), skew_ms=self.dice.randint(-5000, 5000)
            )
            machine.restart_delay_ms = 300

    def format(self, process: Process, node_id: int) -> None:
        """As `kafka-storage format` would have, with `--initial-controllers` if the voters are dynamic."""
        env = process.env
        directory = LogDirectory(env.files, DIRECTORY)
        if directory.read_meta() is not None:
            return
        generation = self.generations[node_id]
        if self.is_dynamic and node_id in self.voter_ids and generation == 0:
            env.files.make_dir(LOG_DIRECTORY) if not env.files.exists(LOG_DIRECTORY) else None
            env.files.sync_dir(DIRECTORY)
            voters = tuple(Voter(each, directory_id(each), (endpoint(each),)) for each in self.voter_ids)
            head = SnapshotHead(0, 1, voters)
            path = f"{LOG_DIRECTORY}/{SnapshotId(0, 0).name}"
            write_snapshot(env.files, env.clock, path, iter(()), head)
        meta = MetaProperties(CLUSTER_ID, node_id, directory_id(node_id, generation))
        directory.write_meta(meta, env.clock.now_ms())

    # Machines

    def machine(self, node_id: int) -> Machine:
        return self.universe.machines[f"node-{node_id}"]

    def program(self, node_id: int) -> QuorumProgram | None:
        process = self.machine(node_id).process
        program = process.program if process is not None else None
        assert program is None or isinstance(program, QuorumProgram)
        return program

    @property
    def programs(self) -> list[QuorumProgram]:
        return [program for node_id in self.ids if (program := self.program(node_id)) is not None]

    @property
    def leader(self) -> QuorumProgram | None:
        leading = [program for program in self.programs if program.is_leading]
        return max(leading, key=lambda program: program.quorum.epoch, default=None)

    def start(self) -> None:
        for node_id in self.ids:
            self.machine(node_id).start()

    def run_for(self, ms: int) -> None:
        self.universe.run_for(ms)

    def until(self, goal: Callable[[], bool], name: str, within_ms: int = RECOVERY_MS) -> None:
        self.universe.run_until_reached(goal, within_ms, name)

    def elected(self, within_ms: int = RECOVERY_MS) -> QuorumProgram:
        self.until(lambda: self.leader is not None, "a leader", within_ms)
        assert self.leader is not None
        return self.leader

    def read(self, node_id: int, path: str) -> bytes:
        file = self.machine(node_id).disk.open(path, Mode.READ)
        return file.read_at(file.size(), 0)

    def wipe(self, node_id: int) -> None:
        """The disk is swapped for an empty one, with another directory id."""
        machine = self.machine(node_id)
        machine.kill()
        self.generations[node_id] += 1
        machine.replace_disk()

    # Administrators

    def ask(self, request: Request, reply: Callable[[Any], None], version: int = 0) -> None:
        leader = self.leader
        if leader is not None:
            leader.quorum.handle(request, version, LISTENER, reply)

    def add_voter(self, node_id: int, reply: Callable[[Any], None]) -> None:
        where = endpoint(node_id)
        listener = Listener(name=where.name, host=where.host, port=where.port)
        request = AddRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            timeout_ms=5000,
            voter_id=node_id,
            voter_directory_id=directory_id(node_id, self.generations[node_id]),
            listeners=[listener],
        )
        self.ask(request, reply, 1)

    def remove_voter(self, node_id: int, generation: int, reply: Callable[[Any], None]) -> None:
        self.ask(
            RemoveRaftVoterRequest(
                cluster_id=CLUSTER_ID, voter_id=node_id, voter_directory_id=directory_id(node_id, generation)
            ),
            reply,
        )

    def persist_until_done(self, request: Callable[[Callable[[Any], None]], None], name: str) -> None:
        """Send a request of an administrator again and again until it has no error."""
        codes: list[int] = []

        def ask() -> None:
            if 0 not in codes:
                request(lambda response: codes.append(response.error_code))
                self.universe.push(300_000, None, ask)

        ask()
        self.until(lambda: 0 in codes, name)

    # Faults

    def heal(self) -> None:
        self.universe.network.heal()
        for node_id in self.ids:
            machine = self.machine(node_id)
            machine.disk.faults.heal()
            machine.disk.crash_at(None)
            machine.resume()
            machine.power_up()

    def finish(self, node_ids: Sequence[int] | None = None) -> None:
        """After healing: progress, equal states, nothing acknowledged lost, files that can be verified."""
        self.heal()
        self.elected()
        before = len(self.ledger.acked)
        self.until(lambda: len(self.ledger.acked) > before, "an acknowledged append after healing")
        self.load = 0.0
        waited = set(node_ids if node_ids is not None else self.ids)

        def is_equal() -> bool:
            programs = [program for program in self.programs if program.node_id in waited]
            leader = self.leader
            if leader is None or len(programs) < len(waited) or not all(each.is_ready for each in programs):
                return False
            return all(each.offset == leader.quorum.log_end_offset - 1 for each in programs)

        self.until(is_equal, "all nodes have the leader's log")
        assert self.failures == []
        for program in self.programs:
            if program.node_id in waited:
                assert program.names == self.ledger.names
        lost = self.ledger.acked - set(self.ledger.names)
        assert not lost, f"acknowledged and lost: {sorted(lost)}"
        self._stop_all()

    def _stop_all(self) -> None:
        """Cleanly. Indexes of an open segment may have old entries after their end: files are verified when closed."""
        programs = self.programs
        for program in programs:
            program.process.machine.restart_delay_ms = None
            program.process.perform(program.stop)
        self.until(lambda: not self.programs, "all nodes have stopped")
        assert self.failures == []
        for program in programs:
            findings = list(verify_directory(program.process.machine.disk, LOG_DIRECTORY))
            assert findings == [], findings
