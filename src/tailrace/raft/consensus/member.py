"""One replica's state: epoch, vote, log, voters and role, and the effects of the present step.

Crash rules, kept by `emit`:
- What is sent, answered or written in an epoch is kept back until the election state is durable.
- A vote of an epoch never changes: `vote` is called at most once for each epoch, and the file is read at the start.

Who may call. `RaftCore` and the parts that it is made of (`elections`, `leading`, `following`, `voter_changes`).
"""

from __future__ import annotations

import random
from collections import deque
from typing import Final

from tailrace.model.errors import TailraceError
from tailrace.model.ids import ZERO_DIRECTORY_ID
from tailrace.model.invariant import invariant
from tailrace.protocol.message import Record
from tailrace.raft.consensus.consensus_config import ConsensusConfig
from tailrace.raft.consensus.effects import (
    AppendControl,
    Effect,
    Fail,
    FlushLog,
    HighWatermarkMoved,
    LeadershipLost,
    PersistElection,
    Respond,
    RoleChanged,
    Send,
    TruncateLog,
    VotersChanged,
)
from tailrace.raft.consensus.links import Links
from tailrace.raft.consensus.log_view import LogView
from tailrace.raft.consensus.messages import Leadership, ReplicaKey, Request, Response, VoterChange
from tailrace.raft.consensus.roles import NEVER, Follower, Leader, Prospective, Role, Unattached, leader_of
from tailrace.raft.consensus.voter_log import VoterLog, VoterSet
from tailrace.raft.quorum_state import MAX_EPOCH, QuorumState
from tailrace.raft.snapshot import SnapshotId
from tailrace.raft.voters import NO_NODE, STATIC_VOTERS, QuorumEndpoint, Voter

_NO_NUMBER: Final = 0
_AT_ONCE: Final = (RoleChanged, LeadershipLost, VotersChanged, Fail)


class Member:
    """`elected` is the leader of `epoch` as far as known, also when it leads no longer: it is never voted against."""

    def __init__(
        self,
        config: ConsensusConfig,
        local: Voter,
        log: LogView,
        voter_log: VoterLog,
        election: QuorumState | None,
        rng: random.Random,
    ) -> None:
        self.config = config
        self.local = local
        self.key = ReplicaKey(local.node_id, local.directory_id)
        self.log = log
        self.voter_log = voter_log
        self.rng = rng
        self.links = Links(config.request_timeout_ms, config.retry_backoff_ms)
        stored = election if election is not None else QuorumState(0)
        self.epoch = max(stored.leader_epoch, log.last_epoch)
        is_current = stored.leader_epoch == self.epoch
        self.elected = stored.leader_id if is_current else NO_NODE
        self.voted = ReplicaKey(stored.voted_id, stored.voted_directory_id) if is_current else ReplicaKey(NO_NODE)
        self.high_watermark = max(log.start_offset, max((each.offset for each in log.snapshots), default=0))
        self.now_ms = 0
        self.role: Role = Unattached(NEVER)
        self.no_round_before_ms = 0
        """Evidence against a leader begins no round of pre-votes before this time: a round was lost a moment ago."""
        self.no_candidate_before_ms = 0
        """A won round of pre-votes makes no candidate before this time: a voter with a lower id has a pre-vote."""
        self.is_stopping = False
        self.installing: SnapshotId | None = None
        self.failure: TailraceError | None = None
        self._persisted_state = stored
        self._effects: list[Effect] = []
        self._held: deque[tuple[int, Effect]] = deque()
        self._last_number = _NO_NUMBER
        self._elections: deque[int] = deque()
        self._flush: tuple[int, int] | None = None
        self._truncation = _NO_NUMBER

    # Effects

    def take_effects(self) -> list[Effect]:
        self._persist_if_changed()
        effects, self._effects = self._effects, []
        return effects

    def emit(self, effect: Effect) -> None:
        """Adds an effect to this step, or keeps it back while the election state is being written.

        Only news of roles and voters goes out at once: it tells of the core, not of the log.
        """
        self._persist_if_changed()
        if self._elections and not isinstance(effect, _AT_ONCE):
            self._held.append((self._elections[-1], effect))
        else:
            self._effects.append(effect)

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def persisted(self, number: int) -> bool:
        """Whether the number was still expected. A flush that a truncation has overtaken is not."""
        if number in self._elections:
            while self._elections and self._elections[0] <= number:
                self._elections.popleft()
            while self._held and self._held[0][0] <= number:
                self._effects.append(self._held.popleft()[1])
            return True
        if self._flush is not None and self._flush[0] == number:
            self.log.flushed_offset = max(self.log.flushed_offset, self._flush[1])
            self._flush = None
            self.flush()
            return True
        if number == self._truncation:
            self._truncation = _NO_NUMBER
            return True
        return False

    @property
    def is_election_durable(self) -> bool:
        return not self._elections and self._election()[:3] == self._persisted_state[:3]

    @property
    def is_log_settled(self) -> bool:
        """Whether the file has what the log view has, durably: only then is a fetch or an offset a promise."""
        is_changing = self._truncation != _NO_NUMBER or self.installing is not None
        return self.log.is_flushed and not is_changing and not self._held

    @property
    def may_stand(self) -> bool:
        """Whether this node may ask for votes. A log that is being replaced must not become that of a leader.

        A node that the newest voter set has removed may still stand while that set is not known to be committed: it
        may have the longest log of the voters before, and then no other can win (Raft thesis, 4.2.2; Kafka does not do
        this). It does not vote for itself, and resigns when the set is committed.
        """
        if self.is_stopping or self.installing is not None:
            return False
        sets = self.voter_log.sets
        is_being_removed = self.voters.offset >= self.high_watermark and len(sets) > 1 and sets[-2].has(self.key)
        return self.is_voter or is_being_removed

    def respond(self, request_id: int, response: Response) -> None:
        self.emit(Respond(request_id, response))

    def send(self, node_id: int, endpoints: tuple[QuorumEndpoint, ...], request: Request) -> None:
        correlation_id = self.links.begin(node_id, request, self.now_ms)
        self.emit(Send(correlation_id, node_id, endpoints, request))

    def fail(self, error: TailraceError) -> None:
        if self.failure is None:
            self.failure = error
            self.emit(Fail(error))

    # Elections

    def _election(self) -> QuorumState:
        voters = self.voters.node_ids if self.voters.kraft_version == STATIC_VOTERS else ()
        directory_id = self.voted.directory_id if self.voters.kraft_version > STATIC_VOTERS else ZERO_DIRECTORY_ID
        return QuorumState(self.epoch, self.elected, self.voted.node_id, directory_id, voters)

    def _persist_if_changed(self) -> None:
        """Called before each effect that may depend on it: no part of the core can forget to persist."""
        state = self._election()
        if state[:3] == self._persisted_state[:3]:
            return
        invariant(state.leader_epoch >= self._persisted_state.leader_epoch, "the epoch never goes back")
        self._persisted_state = state
        number = self._next_number()
        self._elections.append(number)
        self._effects.append(PersistElection(number, state, self.voters.kraft_version))

    def enter_epoch(self, epoch: int) -> None:
        """A new epoch without a leader and without a vote. The caller sets the role."""
        invariant(self.epoch < epoch <= MAX_EPOCH, f"epoch {epoch} follows epoch {self.epoch}")
        self.epoch = epoch
        self.no_candidate_before_ms = 0
        self.elected = NO_NODE
        self.voted = ReplicaKey(NO_NODE)

    def vote(self, candidate: ReplicaKey) -> None:
        invariant(self.voted.node_id in (NO_NODE, candidate.node_id), "a vote of an epoch does not change")
        self.voted = candidate

    def set_role(self, role: Role) -> None:
        """What the previous role had asked for no longer matters."""
        self.role = role
        self.links.forget()
        self._effects.append(RoleChanged(role.name, self.epoch, leader_of(role, self.key.node_id)))

    @property
    def leadership(self) -> Leadership:
        """What responses say of the leader."""
        role = self.role
        if isinstance(role, Leader):
            return Leadership(self.key.node_id, self.epoch, self.local.endpoints)
        leader_id = leader_of(role, self.key.node_id)
        return Leadership(leader_id, self.epoch, self.endpoints_of(leader_id) if leader_id >= 0 else ())

    # Voters

    @property
    def voters(self) -> VoterSet:
        return self.voter_log.latest

    @property
    def is_voter(self) -> bool:
        return self.voters.has(self.key)

    @property
    def other_voters(self) -> list[int]:
        return [node_id for node_id in self.voters.node_ids if node_id != self.key.node_id]

    def endpoints_of(self, node_id: int) -> tuple[QuorumEndpoint, ...]:
        """Of the leader as it said itself, else as the voter set says."""
        role = self.role
        if isinstance(role, Follower | Prospective) and role.endpoints and self.elected == node_id:
            return role.endpoints
        voter = self.voters.voter(node_id)
        return voter.endpoints if voter is not None else ()

    def change_voters(self, change: VoterChange) -> None:
        self.voter_log.append(change)
        self.notify_voters()

    def notify_voters(self) -> None:
        voters = self.voters
        self._effects.append(VotersChanged(voters.kraft_version, voters.voters, voters.offset))

    # Log

    def append_control(self, records: tuple[Record, ...]) -> int:
        """Appends one control batch in this epoch; returns its base offset."""
        base_offset = self.log.end_offset
        self.log.append(base_offset + len(records), self.epoch)
        self.emit(AppendControl(base_offset, self.epoch, records))
        return base_offset

    def flush(self) -> None:
        """Begins a flush unless one is under way, or nothing is to be flushed. The next one takes what comes now."""
        if self._flush is None and not self.log.is_flushed:
            self._flush = (self._next_number(), self.log.end_offset)
            self.emit(FlushLog(*self._flush))

    def truncate(self, end_offset: int) -> None:
        """Cuts the log. A flush that is under way says nothing about what comes after; it is not waited for."""
        invariant(end_offset >= self.high_watermark, "nothing that is committed is truncated")
        self.log.truncate(end_offset)
        self._flush = None
        self._truncation = self._next_number()
        self.emit(TruncateLog(self._truncation, end_offset))
        sets = len(self.voter_log.sets)
        self.voter_log.truncate(end_offset)
        if len(self.voter_log.sets) < sets:
            self.notify_voters()
        self.flush()

    def log_replaced_by(self, snapshot_id: SnapshotId) -> None:
        """The log was replaced by a snapshot, durably. A flush that is under way was of the old log."""
        self.log.replace_by_snapshot(snapshot_id)
        self._flush = None

    def move_high_watermark(self, offset: int) -> bool:
        """Whether it moved; it never goes back, and never beyond the end of the log."""
        invariant(offset <= self.log.end_offset, f"high watermark {offset} is in the log")
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.emit(HighWatermarkMoved(offset))
        return True

    # Time

    def random_election_timeout_ms(self) -> int:
        """At least 1 ms, whatever the setting says: a round that has ended when it begins would never end."""
        timeout_ms = max(1, self.config.election_timeout_ms)
        return timeout_ms + self.rng.randrange(timeout_ms)

    def pause_rounds(self) -> None:
        """A round was lost. What it was lost for may last: a voter that is ahead and gets no votes either."""
        self.no_round_before_ms = (
            self.now_ms + self.config.election_backoff_max_ms // 2 + self.fast_election_delay_ms(without=NO_NODE)
        )

    def fast_election_delay_ms(self, without: int) -> int:
        """100 ms for each voter with a smaller node id, not counting the one that is gone."""
        rank = sum(node_id != without and node_id < self.key.node_id for node_id in self.voters.node_ids)
        return rank * self.config.fast_election_step_ms
