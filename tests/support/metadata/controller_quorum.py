"""Several controllers over one replicated log in memory: leadership moves, uncommitted suffixes are lost.

The log is the model: a list of batches, of which a prefix is committed. Each member has a controller and applies the
committed batches at its own pace, by replay or by a snapshot. What Raft guarantees is assumed here: a leader has all
committed batches, and there is one leader per epoch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from support.metadata.controllers import BOOTSTRAP, CLUSTER_ID, Settings, TestClock
from support.metadata.histories import contents
from tailrace.config.server import ServerConfig
from tailrace.controller.controller import Controller
from tailrace.controller.state import ControllerIdentity
from tailrace.env import Env, InlineJobs
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.endpoint import Endpoint
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.versions import SUPPORTED_FEATURES
from tailrace.metrics.metrics import Metrics
from tailrace.model.errors import NotControllerError, TailraceError
from tailrace.protocol.message import Record, Request, Response
from tailrace.protocol.record_frame import VersionedRecord, decode_metadata_record, encode_metadata_record
from tailrace.protocol.records.ledger import BeginTransactionRecord
from tailrace.protocol.records.topics import TopicRecord
from tailrace.raft.metadata_loader import MetadataLoader
from tailrace.raft.quorum import Quorum, QuorumDescription, ReplicaState
from tailrace.raft.voters import Voter


@dataclass
class Batch:
    records: list[VersionedRecord]
    first_offset: int
    epoch: int
    done: Callable[[int], None] | None = None

    @property
    def last_offset(self) -> int:
        """A batch without records is the quorum's own and takes one offset."""
        return self.first_offset + max(len(self.records), 1) - 1


@dataclass
class Asked:
    """A request and its responses, of which there must be exactly one unless the process is killed."""

    request: Request
    responses: list[Response] = field(default_factory=list)
    is_lost: bool = False
    """The process that it was sent to was killed."""
    is_checked: bool = False


class Member:
    """One process: a controller, its loader, and the interface of its quorum."""

    kraft_version = 0
    voters: Sequence[Voter] = ()
    bootstrap_records = BOOTSTRAP

    def __init__(self, cluster: ControllerCluster, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.applied = 0
        """Number of batches that were reported to this process."""
        self.snapshot_at = 0
        """Number of batches in the last snapshot that it loaded."""
        self.is_active = False
        """Between `became_leader` and `resigned`."""
        self.asked: list[Asked] = []
        self.failures: list[TailraceError] = []
        self.jobs = InlineJobs()
        self.incarnation = cluster.dice.randbytes(16)
        config = ServerConfig.single_node({"broker.session.timeout.ms": "9000", "node.id": str(node_id)})
        endpoints = (Endpoint("CONTROLLER", "localhost", 9000 + node_id),)
        identity = ControllerIdentity(node_id, CLUSTER_ID, self.incarnation, endpoints, SUPPORTED_FEATURES)
        env = Env(cast(Any, None), cluster.clock, self.jobs, random.Random(cluster.dice.random()))
        self.loader = MetadataLoader(self.failures.append)
        self.controller = Controller(
            cast(Quorum, self), env, Settings(config, config), identity, self.loader.image, Metrics()
        )
        self.loader.controller = self.controller

    # The interface of Quorum

    @property
    def is_leader(self) -> bool:
        return self.is_active and self.cluster.leader is self

    @property
    def log_end_offset(self) -> int:
        return self.cluster.end_offset

    def append(self, records: Sequence[VersionedRecord], done: Callable[[int], None]) -> int:
        if not self.is_leader:
            raise NotControllerError(f"node {self.node_id} does not lead")
        copies = [decode_metadata_record(encode_metadata_record(*each)) for each in records]
        batch = Batch(copies, self.cluster.end_offset, self.cluster.epoch, done)
        self.cluster.log.append(batch)
        return batch.last_offset

    def describe(self, now_ms: int) -> QuorumDescription:
        voter = ReplicaState(self.node_id, bytes(16), self.log_end_offset, now_ms, now_ms)
        return QuorumDescription(self.node_id, self.cluster.epoch, self.log_end_offset, (voter,), (), {})

    # What happens to it

    def ask(self, request: Request) -> Asked:
        asked = Asked(request)
        self.asked.append(asked)
        self.controller.handle(request, request.VERSIONS[1], None, asked.responses.append)
        if self is self.cluster.leader and self.cluster.dice.random() < 0.3:
            self.cluster.commit(len(self.cluster.log))
        assert len(asked.responses) <= 1
        return asked

    def apply(self, batch: Batch) -> None:
        self.applied += 1
        self.loader.committed(batch.records, batch.last_offset, batch.epoch, 0)
        if batch.done is not None and self.is_active:
            done, batch.done = batch.done, None
            done(batch.last_offset)

    def load_snapshot(self, batches: int) -> None:
        """Of at most the first `batches` of the log: a snapshot is never taken within a transaction."""
        while (image := self.cluster.replayed(self.cluster.log[:batches])).held_back is not None:
            batches -= 1
        if batches <= self.applied:
            return
        last = self.cluster.log[batches - 1]
        self.applied = self.snapshot_at = batches
        self.loader.loaded(self.loader.prepare(image.records()), last.last_offset, last.epoch, 0)

    def resign(self) -> None:
        """What is appended and not committed is dropped from now on, as far as this process is concerned."""
        for batch in self.cluster.log:
            batch.done = None
        self.is_active = False
        self.loader.resigned()
        assert all(len(each.responses) == 1 for each in self.asked if not self.jobs.waiting)


class ControllerCluster:
    def __init__(self, seed: int, size: int) -> None:
        self.dice = random.Random(seed)
        self.clock = TestClock()
        self.log: list[Batch] = []
        self.committed = 0
        """Number of batches."""
        self.epoch = 0
        self.leader: Member | None = None
        self.deposed: Member | None = None
        """It has lost the leadership and was not notified yet."""
        self.members = [Member(self, node_id) for node_id in range(1, size + 1)]
        self.killed: list[Member] = []
        self._is_committing = False

    @property
    def end_offset(self) -> int:
        return self.log[-1].last_offset + 1 if self.log else 0

    @property
    def committed_records(self) -> list[Record]:
        return [each.record for batch in self.log[: self.committed] for each in batch.records]

    # Leadership

    def elect(self, member: Member) -> None:
        """Its epoch begins with a batch of the quorum; it becomes active when that is committed."""
        self.depose(at_once=True)
        if self.dice.random() < 0.2 and self.replayed(self.log).held_back is None:
            self._leave_transaction_open()
        self.epoch += 1
        self.leader = member
        self.log.append(Batch([], self.end_offset, self.epoch))
        for each in self.members:
            if each is not member:
                each.loader.leader_changed(member.node_id, self.epoch)

    def _leave_transaction_open(self) -> None:
        """The former leader died within a metadata transaction."""
        begin = BeginTransactionRecord(name="unfinished")
        topic = TopicRecord(name="never", topic_id=self.dice.randbytes(16))
        records = [VersionedRecord(begin, 0), VersionedRecord(topic, 0)]
        self.log.append(Batch(records, self.end_offset, self.epoch))

    def depose(self, *, at_once: bool) -> None:
        """End the leadership; of the uncommitted batches some survive in the log of the next leader, in order."""
        former, self.leader = self.leader, None
        if former is not None:
            survivors = self.dice.randint(0, len(self.log) - self.committed)
            del self.log[self.committed + survivors :]
            if former.is_active:
                self.deposed = former
        if at_once and self.deposed is not None:
            self.notify_deposed()

    def notify_deposed(self) -> None:
        deposed, self.deposed = self.deposed, None
        if deposed is not None:
            deposed.resign()

    def commit(self, count: int) -> None:
        """Up to `count` batches more. The leader applies them at once, and becomes active when it has all of them."""
        leader = self.leader
        if leader is None:
            return
        self.committed = min(self.committed + count, len(self.log))
        if self._is_committing:
            return
        self._is_committing = True
        while leader.applied < self.committed:
            leader.apply(self.log[leader.applied])
        self._is_committing = False
        if not leader.is_active and self.log[self.committed - 1].epoch == self.epoch:
            leader.is_active = True
            leader.loader.leader_changed(leader.node_id, self.epoch)
            leader.loader.became_leader(self.epoch)

    # Followers and processes

    def catch_up(self, member: Member, count: int) -> None:
        """Report committed batches to a follower."""
        if member in (self.leader, self.deposed):
            return
        for batch in self.log[member.applied : min(member.applied + count, self.committed)]:
            member.apply(batch)

    def snapshot_to(self, member: Member) -> None:
        """A follower that is far behind gets a snapshot."""
        if member in (self.leader, self.deposed) or member.applied >= self.committed:
            return
        member.load_snapshot(self.dice.randint(member.applied + 1, self.committed))

    def restart(self, member: Member) -> Member:
        """Kill the process; the next one has what is committed, from a snapshot or from the beginning."""
        if member is self.leader:
            self.depose(at_once=False)
        if member is self.deposed:
            self.deposed = None
        for asked in member.asked:
            asked.is_lost = True
        self.killed.append(member)
        fresh = Member(self, member.node_id)
        self.members[self.members.index(member)] = fresh
        if self.committed and self.dice.random() < 0.5:
            fresh.load_snapshot(self.dice.randint(1, self.committed))
        self.catch_up(fresh, self.dice.randint(0, self.committed))
        return fresh

    # The model

    def replayed(self, batches: Sequence[Batch]) -> MetadataImage:
        image = MetadataImage()
        delta = MetadataDelta(image)
        for batch in batches:
            for each in batch.records:
                delta.replay(each.record)
            image.offset, image.epoch = batch.last_offset, batch.epoch
        return image

    def check(self) -> None:
        for member in self.members:
            assert member.failures == []
            committed = contents(self.replayed(self.log[: member.applied]))
            ignored = {"timestamp_ms": 0, "epoch": 0}
            assert contents(member.loader.image) | ignored == committed | ignored
            state = member.controller.state
            if member is self.leader and member.is_active:
                assert contents(state.image) | ignored == contents(self.replayed(self.log)) | ignored
            elif member is not self.deposed:
                assert contents(state.image) | ignored == committed | ignored
                assert state_of(member) == state_of(self._fresh(member))
            assert all(len(each.responses) <= 1 for each in member.asked)

    def _fresh(self, member: Member) -> Member:
        """A controller that was never active and has the same snapshot and the same batches behind it."""
        fresh = Member(self, member.node_id)
        if member.snapshot_at:
            fresh.load_snapshot(member.snapshot_at)
        for batch in self.log[fresh.applied : member.applied]:
            fresh.apply(Batch(batch.records, batch.first_offset, batch.epoch))
        return fresh


def state_of(member: Member) -> dict[str, Any]:
    """What a controller derives from the records, without the image."""
    state = member.controller.state
    index = {name: dict(value) for name, value in vars(state.index).items()}
    return {
        "index": index,
        "colliding": state.colliding,
        "registration_offsets": state.registration_offsets,
        "sessions": vars(state.heartbeats)["_sessions"],
        "is_active": member.controller.is_active,
    }
