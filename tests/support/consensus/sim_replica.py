"""One simulated replica: a core, its disk, and a driver that executes the effects and checks the order of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from support.consensus.sim_disk import Log, Operation, SimDisk, Snapshot
from tailrace.model.ids import DirectoryId
from tailrace.protocol.records.control import KRaftVersionRecord, VotersRecord
from tailrace.raft.consensus import ConsensusConfig, ErrorCode, LogRun, RaftCore, ReplicaKey, VoterChange
from tailrace.raft.consensus import effects as fx
from tailrace.raft.consensus import messages as ms
from tailrace.raft.snapshot import SnapshotId
from tailrace.raft.voters import QuorumEndpoint, Voter, voters_of

CHUNK_BYTES = 100
SNAPSHOT_BYTES = 250
MAX_FETCHED = 20


class ViolationError(AssertionError):
    """The core broke a promise."""


def check(holds: bool, promise: str) -> None:
    if not holds:
        raise ViolationError(promise)


def directory(node_id: int, generation: int = 0) -> DirectoryId:
    return DirectoryId(bytes([1, generation, *([0] * 13), node_id]))


class SimReplica:
    """`outbox` takes (kind, effect) of messages; the network empties it. Times are of this node's own clock."""

    def __init__(self, node_id: int, config: ConsensusConfig, rng: random.Random) -> None:
        self.node_id = node_id
        self.config = config
        self.rng = rng
        self.generation = 0
        self.disk = SimDisk(directory(node_id))
        self.lost_disks: list[SimDisk] = []
        self.log = Log()
        self.port = 9000 + node_id
        self.max_kraft_version = 1
        self.core: RaftCore | None = None
        self.incarnation = 0
        self.now_ms = 0.0
        self.high_watermark = 0
        self.leading_epoch = -1
        self.partial: SnapshotId | None = None
        self.outbox: list[fx.Send | fx.Respond | fx.RespondWithSnapshot] = []
        self.inbox: dict[int, ms.InboundRequest] = {}
        self.fetched: dict[int, tuple[list[Any], Snapshot | None]] = {}
        self.notified: list[fx.Notification] = []
        self.fault_ms = 0

    @property
    def voter(self) -> Voter:
        endpoints = (QuorumEndpoint("CONTROLLER", f"host{self.node_id}", self.port),)
        return Voter(self.node_id, self.disk.directory_id, endpoints)

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.disk.directory_id)

    @property
    def is_up(self) -> bool:
        return self.core is not None

    # Life

    def start(self, now_ms: float) -> None:
        self.incarnation += 1
        self.log = self.disk.log.copy()
        self.now_ms, self.high_watermark, self.leading_epoch, self.partial = now_ms, 0, -1, None
        self.outbox, self.notified = [], []
        self.inbox, self.fetched = {}, {}
        rng = random.Random(self.rng.random())
        self.core = RaftCore(self.config, self.voter, self.disk.stored(), self.disk.election, rng, int(now_ms))
        self.high_watermark = self.core.high_watermark
        self.execute(self.core.start(int(now_ms)))

    def crash(self) -> None:
        self.core = None
        self.disk.crash(self.rng)

    def replace_disk(self) -> None:
        self.generation += 1
        self.lost_disks.append(self.disk)
        self.disk = SimDisk(directory(self.node_id, self.generation))

    # Steps

    def step(self, now_ms: float, call: Callable[[RaftCore, int], list[fx.Effect]]) -> None:
        assert self.core is not None
        self.now_ms = now_ms
        self.execute(call(self.core, int(now_ms)))

    def due_ms(self) -> float:
        assert self.core is not None
        times = [queue[0].due_ms for queue in (self.disk.elections, self.disk.log_operations) if queue]
        return min([*times, float(self.core.next_deadline_ms())])

    def advance(self, now_ms: float) -> None:
        """Does one thing that is due: an operation of the disk, else a tick."""
        for queue in (self.disk.elections, self.disk.log_operations):
            if queue and queue[0].due_ms <= now_ms:
                self.finish(queue.pop(0), now_ms)
                return
        self.step(now_ms, lambda core, now: core.tick(now))

    def finish(self, operation: Operation, now_ms: float) -> None:
        self.disk.finish(operation)
        if operation.snapshot is None:
            self.step(now_ms, lambda core, now: core.persisted(operation.number, now))
            return
        snapshot = operation.snapshot
        self.log = self.disk.log.copy()
        self.step(
            now_ms,
            lambda core, now: core.snapshot_installed(snapshot.id, snapshot.kraft_version, snapshot.voters, now),
        )

    def _delay(self) -> float:
        return self.rng.uniform(0.2, 4) + self.fault_ms

    def _queue(self, queue: list[Operation], operation: Operation) -> None:
        earliest = queue[-1].due_ms if queue else 0.0
        queue.append(operation._replace(due_ms=max(earliest, self.now_ms + self._delay())))

    # Effects

    def execute(self, effects: list[fx.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, fx.Send | fx.Respond | fx.RespondWithSnapshot):
                self._check_message(effect)
                self.outbox.append(effect)
            elif isinstance(effect, fx.PersistElection):
                operation = Operation(effect.number, 0, election=effect.state)
                self._queue(self.disk.elections, operation)
            elif isinstance(effect, fx.AppendControl):
                self._append_control(effect)
            elif isinstance(effect, fx.AppendFetched):
                self._append_fetched(effect)
            elif isinstance(effect, fx.TruncateLog):
                check(effect.end_offset >= self.high_watermark, "nothing below the high watermark is truncated")
                self.log.truncate(effect.end_offset)
                self._queue(self.disk.log_operations, Operation(effect.number, 0, end=effect.end_offset))
            elif isinstance(effect, fx.FlushLog):
                check(effect.end_offset <= self.log.end, "a flush ends in the log")
                self._queue(self.disk.log_operations, Operation(effect.number, 0, log=self.log.copy()))
            elif isinstance(effect, fx.StartSnapshot):
                self.partial = effect.snapshot_id
            elif isinstance(effect, fx.AbandonSnapshot):
                self.partial = None
            elif isinstance(effect, fx.WriteSnapshot):
                check(self.partial == effect.snapshot_id, "chunks are written to the snapshot that was begun")
            elif isinstance(effect, fx.InstallSnapshot):
                snapshot = next(each for _, each in self.fetched.values() if each and each.id == effect.snapshot_id)
                self._queue(self.disk.log_operations, Operation(0, 0, snapshot=snapshot))
            else:
                self._notify(effect)

    def _append_control(self, effect: fx.AppendControl) -> None:
        check(effect.base_offset == self.log.end, "a control batch is appended at the end of the log")
        stored = self.disk.election
        is_leader = stored is not None and (
            stored.leader_epoch > effect.epoch or stored[:2] == (effect.epoch, self.node_id)
        )
        check(is_leader, "a leader persists its election before it appends")
        if isinstance(effect.records[0], KRaftVersionRecord | VotersRecord):
            open_changes = sum(
                e.change is not None for e in self.log.entries[max(self.high_watermark - self.log.start, 0) :]
            )
            check(open_changes == 0, "voters change one at a time")
            check(self.leading_epoch == effect.epoch, "voters change only when the leader has committed its epoch")
        batch_end = self.log.end + len(effect.records)
        for record in effect.records:
            change = None
            if isinstance(record, KRaftVersionRecord):
                change = VoterChange(self.log.end, kraft_version=record.kraft_version)
            elif isinstance(record, VotersRecord):
                change = VoterChange(self.log.end, voters=voters_of(record))
                has_directories = all(any(voter.voter_directory_id) for voter in record.voters)
                check(has_directories, "a record of the voters has their directories")
            self.log.append(effect.epoch, type(record).__name__, change, batch_end)

    def _append_fetched(self, effect: fx.AppendFetched) -> None:
        for entry in self.fetched[effect.correlation_id][0]:
            if self.log.end < effect.end_offset:
                self.log.append(entry.epoch, entry.payload, entry.change, entry.batch_end)
        check(self.log.end == effect.end_offset, "what was fetched is appended at the end of the log")

    def _notify(self, effect: fx.Notification) -> None:
        self.notified.append(effect)
        if isinstance(effect, fx.Fail):
            raise ViolationError(f"node {self.node_id} fails: {effect.error}")
        if isinstance(effect, fx.LeadershipGained):
            self.leading_epoch = effect.epoch
        elif isinstance(effect, fx.LeadershipLost):
            check(self.leading_epoch == effect.epoch, "only a leadership that was gained is lost")
            self.leading_epoch = -1

    def _check_message(self, effect: fx.Send | fx.Respond | fx.RespondWithSnapshot) -> None:
        """What must be durable before it is said, is durable."""
        stored = self.disk.election
        durable_epoch = stored.leader_epoch if stored is not None else 0
        if isinstance(effect, fx.Send):
            request = effect.request
            epoch = getattr(request, "epoch", 0)
            check(
                epoch <= max(durable_epoch, self.disk.log.entries[-1].epoch if self.disk.log.entries else 0),
                "an epoch is durable before a request names it",
            )
            if isinstance(request, ms.VoteRequest) and not request.is_pre_vote:
                check(stored is not None and stored.voted_id == self.node_id, "a candidate's own vote is durable")
            if isinstance(request, ms.FetchRequest):
                check(self.disk.log.end >= request.offset, "a fetch claims only what is durable")
        elif isinstance(effect, fx.Respond):
            self._check_response(self.inbox.get(effect.request_id), effect.response)

    def _check_response(self, request: ms.InboundRequest | None, response: ms.Response) -> None:
        if isinstance(request, ms.VoteRequest) and isinstance(response, ms.VoteResponse) and response.is_granted:
            if request.is_pre_vote:
                is_up_to_date = (request.last_epoch, request.end_offset) >= (self.last_epoch, self.log.end)
                check(is_up_to_date, "a pre-vote goes to a log that is as long as the own one")
                return
            stored = self.disk.election
            is_durable = stored is not None and (
                stored.leader_epoch > request.epoch
                or (stored.leader_epoch == request.epoch and stored.voted_id == request.candidate.node_id)
            )
            check(is_durable, "a vote is durable before it is granted")
        elif isinstance(response, ms.VoterChangeResponse) and response.error == ErrorCode.NONE:
            is_early = isinstance(request, ms.AddRaftVoterRequest) and not request.is_acknowledged_when_committed
            assert self.core is not None
            is_committed = self.core.voters.offset < self.core.high_watermark
            check(is_early or is_committed, "a change of the voters is committed before it is acknowledged")

    @property
    def last_epoch(self) -> int:
        if self.log.entries:
            return self.log.entries[-1].epoch
        return self.disk.snapshots[-1].id.epoch if self.disk.snapshots else 0

    # Answers that need the log

    def read(self, request: ms.FetchRequest, until: int) -> list[Any]:
        until = self.log.at(min(until, request.offset + MAX_FETCHED) - 1).batch_end
        return [self.log.at(offset) for offset in range(request.offset, until)]

    def runs_of(self, base_offset: int, entries: list[Any]) -> tuple[LogRun, ...]:
        runs: list[LogRun] = []
        for offset, entry in enumerate(entries, base_offset):
            changes = (entry.change,) if entry.change is not None else ()
            if runs and runs[-1].epoch == entry.epoch:
                previous = runs.pop()
                runs.append(previous._replace(end_offset=offset + 1, changes=(*previous.changes, *changes)))
            else:
                runs.append(LogRun(offset, offset + 1, entry.epoch, changes))
        return tuple(runs)

    def chunk(self, effect: fx.RespondWithSnapshot) -> tuple[ms.FetchSnapshotResponse, Snapshot | None]:
        request = effect.request
        leadership = ms.Leadership(effect.leader_id, effect.epoch)
        snapshot = next((each for each in self.disk.snapshots if each.id == request.snapshot_id), None)
        if snapshot is None:
            return ms.FetchSnapshotResponse(ErrorCode.SNAPSHOT_NOT_FOUND, leadership), None
        size = min(CHUNK_BYTES, SNAPSHOT_BYTES - request.position)
        response = ms.FetchSnapshotResponse(
            ErrorCode.NONE, leadership, snapshot.id, SNAPSHOT_BYTES, request.position, size
        )
        return response, snapshot

    def take_snapshot(self, now_ms: float) -> None:
        """Of everything that is committed and flushed, then the log is cut below it."""
        assert self.core is not None
        end = min(self.core.high_watermark, self.disk.log.end)
        if self.disk.log_operations or end <= max(self.log.start, 1):
            return
        kraft_version, voters = 0, ()
        stored = self.disk.stored()
        changes = [stored.base] if stored.base is not None else []
        for change in [*changes, *stored.changes]:
            if change.offset < end:
                kraft_version = kraft_version if change.kraft_version is None else change.kraft_version
                voters = voters if change.voters is None else change.voters
        epoch, chain = self.log.at(end - 1).epoch, self.log.chain_below(end)
        snapshot = Snapshot(SnapshotId(end, epoch), chain, kraft_version, voters)
        self.disk.snapshots = [*self.disk.snapshots, snapshot][-2:]
        self.step(now_ms, lambda core, now: core.snapshot_created(snapshot.id, now))
        start = self.disk.snapshots[0].id.offset
        for log in (self.log, self.disk.log):
            chain = log.chain_below(start)
            del log.entries[: start - log.start]
            log.start, log.chain = start, chain
        ids = [each.id for each in self.disk.snapshots]
        self.step(now_ms, lambda core, now: core.trimmed(start, ids, now))
