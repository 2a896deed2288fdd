"""Node 1 of three static voters: a core that gets what a test gives it, and keeps every effect."""

from __future__ import annotations

import random

from tailrace.model.ids import DirectoryId
from tailrace.raft.consensus import ConsensusConfig, ErrorCode, LogRun, RaftCore, StoredLog
from tailrace.raft.consensus import effects as fx
from tailrace.raft.consensus import messages as ms
from tailrace.raft.consensus.effects import Effect
from tailrace.raft.quorum_state import QuorumState
from tailrace.raft.voters import QuorumEndpoint, Voter

VOTERS = tuple(
    Voter(node_id, endpoints=(QuorumEndpoint("CONTROLLER", "host", 9000 + node_id),)) for node_id in (1, 2, 3)
)
LOCAL = VOTERS[0]._replace(directory_id=DirectoryId(bytes([1] * 16)))


class Replica:
    """All that it writes is durable at once, unless `is_slow`."""

    def __init__(
        self,
        log: StoredLog | None = None,
        election: QuorumState | None = None,
        local: Voter = LOCAL,
        config: ConsensusConfig | None = None,
    ) -> None:
        settings = config or ConsensusConfig(static_voters=VOTERS)
        self.core = RaftCore(settings, local, log or StoredLog(), election, random.Random(1), 0)
        self.now_ms = 0
        self.is_slow = False
        self.effects: list[Effect] = []
        self.run(self.core.start(0))

    def run(self, effects: list[Effect]) -> None:
        self.effects += effects
        for effect in effects:
            if isinstance(effect, fx.PersistElection | fx.FlushLog | fx.TruncateLog) and not self.is_slow:
                self.run(self.core.persisted(effect.number, self.now_ms))

    def sent(self, kind: type) -> list[fx.Send]:
        return [each for each in self.effects if isinstance(each, fx.Send) and isinstance(each.request, kind)]

    def of(self, kind: type) -> list[Effect]:
        return [each for each in self.effects if isinstance(each, kind)]

    def answer(self, sent: fx.Send, response: ms.Response) -> None:
        self.run(self.core.answered(sent.correlation_id, response, self.now_ms))

    def after(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        self.run(self.core.tick(self.now_ms))

    def follow(self, leader_id: int, epoch: int) -> fx.Send:
        """Returns the first fetch from the leader."""
        self.run(self.core.receive(1, ms.BeginQuorumEpochRequest(epoch, leader_id, None), self.now_ms))
        return self.sent(ms.FetchRequest)[-1]


def fetched(epoch: int, *runs: LogRun, high_watermark: int = -1) -> ms.FetchResponse:
    return ms.FetchResponse(ErrorCode.NONE, ms.Leadership(2, epoch), high_watermark, 0, runs=runs)
