"""Messages without sense, from any replica: the core answers or ignores them, and keeps its promises."""

from __future__ import annotations

import random
from typing import Any

from suite.seeds import examples
from tailrace.model.ids import ZERO_DIRECTORY_ID, DirectoryId
from tailrace.raft.consensus import ConsensusConfig, ErrorCode, LogRun, RaftCore, ReplicaKey, StoredLog, VoterChange
from tailrace.raft.consensus import effects as fx
from tailrace.raft.consensus import messages as ms
from tailrace.raft.snapshot import SnapshotId
from tailrace.raft.voters import QuorumEndpoint, Voter

ERRORS = (*ErrorCode, -1, 41, 999)
STEPS = 150


class Babbling:
    """A core whose effects are executed at once, or late, and whose network talks nonsense."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        voters = tuple(self.voter(node_id) for node_id in (1, 2, 3))
        self.now_ms = 0
        self.core = RaftCore(
            ConsensusConfig(bootstrap=voters[0].endpoints, is_auto_join_enabled=self.rng.random() < 0.5),
            voters[self.rng.choice((0, 0, 2))],
            StoredLog(snapshots=(SnapshotId(0, 0),), base=VoterChange(-1, 1, voters)),
            None,
            random.Random(seed),
            0,
        )
        self.sent: list[fx.Send] = []
        self.numbers: list[int] = []
        self.answers = 0
        self.failure: fx.Fail | None = None
        self.run(self.core.start(0))

    def voter(self, node_id: int) -> Voter:
        return Voter(
            node_id, DirectoryId(bytes([node_id] * 16)), (QuorumEndpoint("CONTROLLER", "host", 9000 + node_id),)
        )

    def number(self, *likely: int) -> int:
        core_offset = self.core.end_offset if hasattr(self, "core") else 0
        return self.rng.choice(
            (*likely, *likely, 0, 1, -1, core_offset, core_offset + 1, 2**31 - 1, 2**31, -(2**31), 2**62)
        )

    def node(self) -> int:
        return self.rng.choice((1, 2, 3, 2, 3, 4, -1, 77))

    def key(self) -> ReplicaKey:
        node_id = self.node()
        directory_id = self.voter(node_id).directory_id if node_id > 0 else ZERO_DIRECTORY_ID
        return ReplicaKey(node_id, self.rng.choice((directory_id, ZERO_DIRECTORY_ID, DirectoryId(bytes([9] * 16)))))

    def epoch(self) -> int:
        return self.number(self.core.epoch, self.core.epoch, self.core.epoch + 1)

    def request(self) -> ms.InboundRequest:
        rng = self.rng
        voter = self.voter(4)._replace(node_id=self.node())
        return rng.choice(
            (
                lambda: ms.VoteRequest(
                    self.epoch(),
                    self.key(),
                    rng.choice((None, self.key())),
                    self.epoch(),
                    self.number(),
                    rng.random() < 0.5,
                ),
                lambda: ms.BeginQuorumEpochRequest(self.epoch(), self.node(), rng.choice((None, self.key()))),
                lambda: ms.EndQuorumEpochRequest(
                    self.epoch(), self.node(), tuple(self.key() for _ in range(rng.randrange(4)))
                ),
                lambda: ms.FetchRequest(
                    self.key(), self.epoch(), self.number(), self.epoch(), self.number(), self.number(500)
                ),
                lambda: ms.FetchSnapshotRequest(
                    self.key(), self.epoch(), SnapshotId(self.number(), self.epoch()), self.number(), self.number()
                ),
                lambda: ms.AddRaftVoterRequest(rng.choice((voter, voter._replace(endpoints=())))),
                lambda: ms.RemoveRaftVoterRequest(self.key()),
                lambda: ms.UpdateRaftVoterRequest(self.epoch(), voter, self.number(), self.number()),
            )
        )()

    def response(self, request: ms.Request) -> ms.Response:
        rng = self.rng
        leadership = ms.Leadership(self.node(), self.epoch())
        error = rng.choice((ErrorCode.NONE, ErrorCode.NONE, rng.choice(ERRORS)))
        match request:
            case ms.VoteRequest():
                return ms.VoteResponse(error, leadership, rng.random() < 0.7)
            case ms.BeginQuorumEpochRequest():
                return ms.BeginQuorumEpochResponse(error, leadership)
            case ms.EndQuorumEpochRequest():
                return ms.EndQuorumEpochResponse(error, leadership)
            case ms.FetchRequest():
                return self.fetched(request, error, leadership)
            case ms.FetchSnapshotRequest():
                size, position = self.number(100), rng.choice((request.position, self.number()))
                snapshot_id = rng.choice((request.snapshot_id, None))
                return ms.FetchSnapshotResponse(error, leadership, snapshot_id, size, position, self.number(100))
            case ms.UpdateRaftVoterRequest():
                return ms.UpdateRaftVoterResponse(error, leadership)
            case ms.KRaftVersionsRequest():
                return ms.KRaftVersionsResponse(error, self.number(), self.number(1))
            case _:
                return ms.VoterChangeResponse(error)

    def fetched(self, request: ms.FetchRequest, error: int, leadership: ms.Leadership) -> ms.FetchResponse:
        rng = self.rng
        runs, offset = [], rng.choice((request.offset, request.offset, self.number()))
        for _ in range(rng.randrange(3)):
            end = offset + rng.choice((1, 3, 0, -2))
            change = VoterChange(offset, voters=(self.voter(1), self.voter(2)))
            runs.append(LogRun(offset, end, self.epoch(), rng.choice(((), (change,)))))
            offset = end
        return ms.FetchResponse(
            error,
            leadership,
            self.number(request.offset),
            self.number(),
            rng.choice((None, None, ms.EndOffset(self.epoch(), self.number()))),
            rng.choice((None, None, SnapshotId(self.number(500), self.epoch()))),
            tuple(runs),
        )

    def step(self) -> None:
        rng, core = self.rng, self.core
        self.now_ms += rng.choice((0, 1, 20, 100, 3_000))
        choice = rng.randrange(6)
        if choice == 0:
            self.run(core.tick(self.now_ms))
        elif choice == 1:
            self.answers += 1
            self.run(core.receive(self.answers, self.request(), self.now_ms))
        elif choice <= 3 and self.sent:
            sent = self.sent.pop(rng.randrange(len(self.sent)))
            self.run(core.answered(sent.correlation_id, self.response(sent.request), self.now_ms))
        elif choice == 4 and self.numbers:
            self.run(core.persisted(self.numbers.pop(0), self.now_ms))
        else:
            self.run(core.leader_unreachable(self.node(), self.now_ms))

    def run(self, effects: list[fx.Effect]) -> None:
        followed: list[Any] = []
        for effect in effects:
            if isinstance(effect, fx.Send):
                self.sent.append(effect)
            elif isinstance(effect, fx.PersistElection | fx.FlushLog | fx.TruncateLog):
                self.numbers.append(effect.number)
            elif isinstance(effect, fx.InstallSnapshot):
                followed.append(effect)
            elif isinstance(effect, fx.Fail):
                self.failure = effect
        for effect in followed:
            if self.rng.random() < 0.7:
                voters = (self.voter(1), self.voter(2))
                self.run(self.core.snapshot_installed(effect.snapshot_id, 1, voters, self.now_ms))
            else:
                self.run(self.core.snapshot_failed(effect.snapshot_id, self.now_ms))


def test_nonsense_never_raises_and_epochs_and_high_watermarks_never_go_back() -> None:
    for seed in range(examples(200)):
        replica = Babbling(seed)
        core = replica.core
        for _ in range(STEPS):
            epoch, high_watermark = core.epoch, core.high_watermark
            replica.step()
            if replica.failure is not None:
                break
            assert core.epoch >= epoch, f"seed {seed}"
            assert high_watermark <= core.high_watermark <= core.end_offset, f"seed {seed}"
            assert core.next_deadline_ms() > replica.now_ms, f"seed {seed}"


def test_failed_core_takes_no_input() -> None:
    failed = 0
    for seed in range(300):
        replica = Babbling(seed)
        for _ in range(STEPS):
            replica.step()
            if replica.failure is not None:
                failed += 1
                assert replica.core.tick(replica.now_ms + 10_000) == []
                break
    assert failed
