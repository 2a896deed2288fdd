"""A controller over a metadata log in memory, which commits when it is told to."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tailrace.config.server import ServerConfig
from tailrace.controller.controller import Controller
from tailrace.controller.state import ControllerIdentity
from tailrace.env import Env, InlineJobs
from tailrace.metadata.endpoint import Endpoint
from tailrace.metadata.versions import LATEST_METADATA_VERSION, METADATA_VERSION, SUPPORTED_FEATURES
from tailrace.metrics.metrics import Metrics
from tailrace.model.errors import TailraceError
from tailrace.protocol.codec import decode, encode
from tailrace.protocol.message import Record, Request, Response
from tailrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tailrace.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
)
from tailrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tailrace.protocol.record_frame import VersionedRecord, decode_metadata_record, encode_metadata_record
from tailrace.protocol.records.settings import FeatureLevelRecord
from tailrace.raft.consensus import ErrorCode
from tailrace.raft.metadata_loader import MetadataLoader
from tailrace.raft.quorum import Quorum, QuorumDescription, QuorumEndpoint, ReplicaState
from tailrace.raft.voters import Voter

CLUSTER_ID = "cluster-of-the-tests_1"
NODE_ID = 100
TICK_MS = 200
BOOTSTRAP = (VersionedRecord(FeatureLevelRecord(name=METADATA_VERSION, feature_level=LATEST_METADATA_VERSION), 0),)


class TestClock:
    __test__ = False

    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class MemoryQuorum:
    """Records are encoded and decoded on the way, as by a real log."""

    def __init__(self) -> None:
        self.batches: list[list[VersionedRecord]] = []
        self.log_end_offset = 1  # the quorum's own first batch
        self.kraft_version = 0
        self.voters: Sequence[Voter] = ()
        self.bootstrap_records: Sequence[VersionedRecord] = BOOTSTRAP
        self.is_leader = True
        self.commits_at_once = True
        self.refusal: TailraceError | None = None
        self.upgrade_error = ErrorCode.NONE
        self.listener: Any = None
        self._is_reporting = False
        self._uncommitted: list[tuple[list[VersionedRecord], int, Callable[[int], None]]] = []

    def append(self, records: Sequence[VersionedRecord], done: Callable[[int], None]) -> int:
        if self.refusal is not None:
            raise self.refusal
        batch = [decode_metadata_record(encode_metadata_record(*each)) for each in records]
        self.batches.append(batch)
        self.log_end_offset += len(batch)
        self._uncommitted.append((batch, self.log_end_offset - 1, done))
        return self.log_end_offset - 1

    def commit(self) -> None:
        """All batches, those too that are appended while others are reported."""
        if self._is_reporting:
            return
        self._is_reporting = True
        while self._uncommitted:
            batch, last_offset, done = self._uncommitted.pop(0)
            self.listener.committed(batch, last_offset, 1, 0)
            done(last_offset)
        self._is_reporting = False

    def describe(self, now_ms: int) -> QuorumDescription:
        voter = ReplicaState(NODE_ID, bytes(16), self.log_end_offset, now_ms, now_ms)
        endpoints = {NODE_ID: (QuorumEndpoint("CONTROLLER", "localhost", 9093),)}
        return QuorumDescription(NODE_ID, 1, self.log_end_offset, (voter,), (), endpoints)

    def upgrade_kraft_version(self) -> ErrorCode:
        if self.upgrade_error == ErrorCode.NONE:
            self.kraft_version = 1
        return self.upgrade_error

    @property
    def records(self) -> list[Record]:
        return [each.record for batch in self.batches for each in batch]


@dataclass
class Settings:
    static: ServerConfig
    config: ServerConfig


class _CommittingController(Controller):
    """Commits after each event if the quorum does: as a real quorum, never within an append."""

    def handle(self, request: Request, version: int, context: Any, done: Callable[[Response], None]) -> None:
        super().handle(request, version, context, done)
        self._commit()

    def tick(self, now_ms: int) -> None:
        super().tick(now_ms)
        self._commit()

    def became_leader(self, epoch: int) -> None:
        super().became_leader(epoch)
        self._commit()

    def _commit(self) -> None:
        quorum = cast(MemoryQuorum, self._quorum)
        if quorum.commits_at_once:
            quorum.commit()


class ControllerRig:
    """A controller that leads, and the image of a broker that follows it."""

    def __init__(self, quorum: MemoryQuorum | None = None, starts: bool = True, **settings: str) -> None:
        self.clock = TestClock()
        self.jobs = InlineJobs()
        self.quorum = quorum or MemoryQuorum()
        config = ServerConfig.single_node({key.replace("_", "."): value for key, value in settings.items()})
        self.settings = Settings(config, config)
        identity = ControllerIdentity(
            NODE_ID, CLUSTER_ID, b"c" * 16, (Endpoint("CONTROLLER", "localhost", 9093),), SUPPORTED_FEATURES
        )
        self.metrics = Metrics()
        env = Env(cast(Any, None), self.clock, self.jobs, random.Random(7))
        self.failures: list[TailraceError] = []
        self.loader = MetadataLoader(self.failures.append)
        self.image = self.loader.image
        self.controller = _CommittingController(
            cast(Quorum, self.quorum), env, self.settings, identity, self.image, self.metrics
        )
        self.loader.controller = self.controller
        self.quorum.listener = self.loader
        self.epochs: dict[int, int] = {}
        if starts:
            self.controller.became_leader(1)

    @property
    def state(self) -> Any:
        return self.controller.state

    def pass_time(self, ms: int) -> None:
        """With ticks as often as a node has them."""
        end_ms = self.clock.ms + ms
        while self.clock.ms < end_ms:
            self.clock.ms = min(self.clock.ms + TICK_MS, end_ms)
            self.controller.tick(self.clock.ms)

    def ask(self, request: Request, version: int | None = None) -> Any:
        """The answer, which must come at once, as a client of the version would see it."""
        version = request.VERSIONS[1] if version is None else version
        answers: list[Response] = []
        self.controller.handle(request, version, None, answers.append)
        assert len(answers) == 1, f"{len(answers)} answers to {request}"
        return decode(type(answers[0]), version, encode(answers[0], version))

    def pending(self, request: Request) -> list[Response]:
        """Where the answer will be."""
        answers: list[Response] = []
        self.controller.handle(request, request.VERSIONS[1], None, answers.append)
        return answers

    # Brokers

    def register(
        self, broker_id: int, rack: str | None = None, incarnation: bytes | None = None, **fields: Any
    ) -> BrokerRegistrationResponse:
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=incarnation or bytes([broker_id % 256]) * 16,
            features=[
                Feature(name=name, min_supported_version=first, max_supported_version=last)
                for name, (first, last) in SUPPORTED_FEATURES.items()
            ],
            rack=rack,
            log_dirs=[bytes([200]) + bytes([broker_id % 256]) * 15],
        )
        for name, value in fields.items():
            setattr(request, name, value)
        response: BrokerRegistrationResponse = self.ask(request)
        if not response.error_code:
            self.epochs[broker_id] = response.broker_epoch
        return response

    def beat(self, broker_id: int, *, epoch: int | None = None, **fields: Any) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.epochs.get(broker_id, -1) if epoch is None else epoch,
            current_metadata_offset=self.image.offset,
        )
        for name, value in fields.items():
            setattr(request, name, value)
        answer: BrokerHeartbeatResponse = self.ask(request)
        return answer

    def brokers(self, *ids: int, racks: Sequence[str | None] = (None,)) -> ControllerRig:
        """Registered and unfenced."""
        for place, broker_id in enumerate(ids):
            assert self.register(broker_id, racks[place % len(racks)]).error_code == 0
            assert not self.beat(broker_id).is_fenced
        return self

    # Topics

    def create(self, *topics: CreatableTopic, version: int = 7, **fields: Any) -> list[CreatableTopicResult]:
        response: CreateTopicsResponse = self.ask(CreateTopicsRequest(topics=list(topics), **fields), version)
        return response.topics


def topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    assignments: dict[int, list[int]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> CreatableTopic:
    if assignments is not None:
        partitions = replicas = -1
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignments or {}).items()
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
