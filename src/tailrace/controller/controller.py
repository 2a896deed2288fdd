"""The controller: commands in, records into the metadata log, answers out once they are committed.

A command is decided from the state that all records appended so far make, committed or not: the next command sees at
once what the one before it did. Records are appended to the quorum first and replayed here when it has taken them, so
that a log which refuses them leaves nothing behind. An answer waits until its records are committed, and one without
records until everything that it may have seen is.

Who may call. The node's thread. The quorum's listener passes on `loaded`, `committed`, `became_leader` and `failed`;
handlers call `handle`; the node calls `tick` at least a few times a second.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from tailrace.controller import (
    brokers,
    configs,
    controllers,
    directories,
    elections,
    features,
    isr_changes,
    partitions,
    producer_ids,
    topic_deletion,
    topics,
)
from tailrace.controller.activation import activation_records
from tailrace.controller.config_rules import Settings
from tailrace.controller.decision import Decision
from tailrace.controller.error_responses import error_response
from tailrace.controller.limits import MAX_RECORDS
from tailrace.controller.quorum_description import describe_quorum
from tailrace.controller.state import ClusterState, ControllerIdentity
from tailrace.env import Env
from tailrace.metadata.image import MetadataImage
from tailrace.metrics.gauge import Gauge
from tailrace.metrics.metrics import Metrics
from tailrace.model.errors import (
    NotControllerError,
    RequestTimedOutError,
    StorageError,
    TailraceError,
    UnsupportedVersionError,
)
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tailrace.protocol.messages.alter_configs import AlterConfigsRequest
from tailrace.protocol.messages.alter_partition import AlterPartitionRequest
from tailrace.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from tailrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tailrace.protocol.messages.broker_registration import BrokerRegistrationRequest
from tailrace.protocol.messages.controller_registration import ControllerRegistrationRequest
from tailrace.protocol.messages.create_partitions import CreatePartitionsRequest
from tailrace.protocol.messages.create_topics import CreateTopicsRequest
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest
from tailrace.protocol.messages.describe_quorum import DescribeQuorumRequest
from tailrace.protocol.messages.elect_leaders import ElectLeadersRequest
from tailrace.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tailrace.protocol.messages.update_features import UpdateFeaturesRequest
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.ledger import NoOpRecord
from tailrace.raft.quorum import Quorum

_log = logging.getLogger(__name__)

MAX_ELECTIONS: Final = 1000
"""At once, when leaders are put back or found unclean: the rest follows in the next round."""

_WITH_DEADLINE: Final = (CreateTopicsRequest, DeleteTopicsRequest, CreatePartitionsRequest, ElectLeadersRequest)
"""One that has passed at the beginning refuses them; later there is nothing to give up."""

Done = Callable[[Response], None]


class Controller:
    def __init__(
        self, quorum: Quorum, env: Env, settings: Settings, identity: ControllerIdentity, metrics: Metrics
    ) -> None:
        """Touches nothing until the quorum speaks."""
        self.state = ClusterState(settings, identity, env.random)
        self.is_active = False
        self.epoch = -1
        self._env = env
        self._quorum = quorum
        self._committed = -1
        """Offset up to which every record that this controller has appended is committed."""
        self._appended = -1
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        """Answers, each with the offset that must be committed before."""
        self._is_appending = False
        self._delayed: deque[Callable[[], None]] = deque()
        """Commands that came while another was being appended."""
        self._is_snapshotting = False
        self._last_append_ms = self._last_rebalance_ms = self._last_unclean_ms = 0
        metrics.add(self.gauges)

    @property
    def image(self) -> MetadataImage:
        """With what is appended and not yet committed."""
        return self.state.image

    # The quorum's listener

    def loaded(self, records: Iterable[VersionedRecord], offset: int, epoch: int, timestamp_ms: int) -> None:
        self.state.forget()
        self.state.replay((each.record for each in records), 0)
        self.state.registration_offsets = {broker.id: broker.epoch for broker in self.image.brokers.values()}
        self._applied(offset, epoch, timestamp_ms)

    def committed(self, records: Sequence[VersionedRecord], last_offset: int, epoch: int, timestamp_ms: int) -> None:
        if last_offset <= self.image.offset or self._is_appending:
            return  # its own: replayed when it was appended
        self.state.replay((each.record for each in records), last_offset - len(records) + 1)
        self._applied(last_offset, epoch, timestamp_ms)

    def became_leader(self, epoch: int) -> None:
        """Raises UnsupportedVersionError where the log is of a release that this one does not know."""
        quorum, now_ms = self._quorum, self._env.clock.monotonic_ms()
        self.epoch = epoch
        self._appended = self._committed = quorum.log_end_offset - 1
        self.is_active = True
        self._last_append_ms = self._last_rebalance_ms = self._last_unclean_ms = now_ms
        own_id = self.state.identity.node_id
        # This process holds the directories of its own broker: an earlier incarnation of that cannot be alive.
        others = ((broker.id, broker.is_fenced) for broker in self.image.brokers.values() if broker.id != own_id)
        self.state.heartbeats.restart(others, now_ms)
        self._append(activation_records(self.image, quorum.bootstrap_records))
        self._append(controllers.own_registration(self.state))
        _log.info("controller %s is active in epoch %s", own_id, epoch)

    def failed(self, error: TailraceError) -> None:
        """Nothing more can be written. Whoever waits is told nothing: the process is about to stop."""
        self.is_active = False
        self._waiting.clear()
        self._delayed.clear()
        _log.error("the metadata log has failed: %s", error)

    def stop(self) -> None:
        """Nothing is decided any more; what is appended is still committed and answered."""
        self.is_active = False

    # Commands

    def handle(self, request: Request, version: int, context: Any, done: Done) -> None:
        """Decide, and call `done` exactly once with the answer, now or when it is committed.

        `context` says who asks; nothing depends on it as long as everybody may ask everything.
        """
        if self._is_appending:
            self._delayed.append(lambda: self.handle(request, version, context, done))
            return
        try:
            decision = self._decided(request, version)
            self._append(decision.records, decision.when_written)
        except TailraceError as error:
            self._answer(done, error_response(request, version, error))
        else:
            self._answer(done, decision.response)

    def _decided(self, request: Request, version: int) -> Decision:
        if not self.is_active:
            raise NotControllerError("this is not the active controller")
        if isinstance(request, _WITH_DEADLINE) and request.timeout_ms <= 0:
            raise RequestTimedOutError()
        decide = _DECISIONS.get(type(request))
        if decide is None:
            raise UnsupportedVersionError(f"the controller has no answer to {type(request).__name__}")
        return decide(self, request, version)

    def _answer(self, done: Done, response: Response) -> None:
        if self._committed >= self._appended or not self.is_active:
            done(response)
        else:
            self._waiting.append((self._appended, lambda: done(response)))

    # The log

    def _append(self, records: Sequence[VersionedRecord], when_written: Callable[[int], None] | None = None) -> None:
        """In batches of at most MAX_RECORDS: who needs one batch has asked for no more."""
        for begin in range(0, len(records), MAX_RECORDS):
            self._append_batch(records[begin : begin + MAX_RECORDS])
        if when_written is not None:
            when_written(self._appended)

    def _append_batch(self, batch: Sequence[VersionedRecord]) -> None:
        early: list[int] = []
        self._is_appending = True
        try:
            # A quorum may commit at once; what follows from that waits until the batch is replayed here.
            last_offset = self._quorum.append(batch, lambda offset: self._batch_committed(offset, early))
        finally:
            self._is_appending = False
        self.state.replay((each.record for each in batch), last_offset - len(batch) + 1)
        self._appended = last_offset
        self._applied(last_offset, self.epoch, self._env.clock.now_ms())
        self._last_append_ms = self._env.clock.monotonic_ms()
        for offset in early:
            self._batch_committed(offset, early)
        if self._delayed:
            self._env.jobs.later("commands to the controller", 0, self._handle_delayed)

    def _batch_committed(self, offset: int, early: list[int]) -> None:
        if self._is_appending:
            early.append(offset)
            return
        self._committed = max(self._committed, offset)
        while self._waiting and self._waiting[0][0] <= self._committed:
            _, answer = self._waiting.popleft()
            answer()

    def _handle_delayed(self) -> None:
        delayed, self._delayed = self._delayed, deque()
        for command in delayed:
            command()

    def _applied(self, offset: int, epoch: int, timestamp_ms: int) -> None:
        image = self.image
        image.offset, image.epoch, image.timestamp_ms = offset, epoch, timestamp_ms

    # Time

    def tick(self, now_ms: int) -> None:
        """`now_ms` is monotonic. Fences silent brokers, keeps the log moving, looks after leaders, takes snapshots."""
        if not self.is_active or self._is_appending:
            return
        try:
            self._do_what_is_due(now_ms)
        except StorageError as error:
            # A full disk: nothing was written, and there may be room later. Of anything worse `failed` is told.
            _log.warning("the controller cannot write to its log: %s", error)
            self._last_append_ms = now_ms

    def _do_what_is_due(self, now_ms: int) -> None:
        config = self.state.config
        while (stale := brokers.silent_broker(self.state, now_ms)) is not None:
            broker_id, records = stale
            _log.warning("broker %s is fenced: it was silent for %s ms", broker_id, config.broker_session_timeout_ms)
            self._append(records)
            self.state.heartbeats.fence(broker_id)
        if now_ms - self._last_unclean_ms >= config.unclean_leader_election_interval_ms:
            self._last_unclean_ms = now_ms
            self._append(elections.unclean_where_allowed(self.state, MAX_ELECTIONS))
        if (
            config.auto_leader_rebalance_enable
            and now_ms - self._last_rebalance_ms >= config.leader_imbalance_check_interval_seconds * 1000
        ):
            self._last_rebalance_ms = now_ms
            self._append(elections.rebalanced(self.state, MAX_ELECTIONS))
        idle_ms = config.metadata_max_idle_interval_ms
        if 0 < idle_ms <= now_ms - self._last_append_ms:
            self._append([VersionedRecord(NoOpRecord(), 0)])
        self._snapshot_if_due()

    def _snapshot_if_due(self) -> None:
        image, quorum = self.image, self._quorum
        if self._is_snapshotting or image.held_back is not None:
            return
        if quorum.snapshot_is_due(self._env.clock.now_ms()):
            self._is_snapshotting = True
            quorum.snapshot(image.records(), self._snapshot_written, image.offset)

    def _snapshot_written(self) -> None:
        self._is_snapshotting = False

    # Metrics

    def gauges(self) -> Iterator[Gauge]:
        index, registered = self.state.index, list(self.image.brokers.values())
        values = {
            "ActiveControllerCount": int(self.is_active),
            "GlobalTopicCount": len(self.image.topics),
            "GlobalPartitionCount": index.partition_count,
            "OfflinePartitionsCount": index.leaderless_count,
            "PreferredReplicaImbalanceCount": index.not_preferred_count,
            "ActiveBrokerCount": sum(not broker.is_fenced for broker in registered),
            "FencedBrokerCount": sum(broker.is_fenced for broker in registered),
            "LastAppliedRecordOffset": self.image.offset,
        }
        for name, value in values.items():
            yield Gauge("controller", "KafkaController", name, value)

    # Decisions that need more than the state

    def _register_broker(self, request: BrokerRegistrationRequest, version: int) -> Decision:
        next_offset = self._quorum.log_end_offset
        return brokers.register(self.state, request, next_offset, self._env.clock.monotonic_ms())

    def _heartbeat(self, request: BrokerHeartbeatRequest, version: int) -> Decision:
        return brokers.heartbeat(self.state, request, self._env.clock.monotonic_ms())

    def _update_features(self, request: UpdateFeaturesRequest, version: int) -> Decision:
        return features.update_features(self.state, request, version, self._quorum.kraft_version)

    def _describe_quorum(self, request: DescribeQuorumRequest, version: int) -> Decision:
        return Decision(describe_quorum(self._quorum.describe(self._env.clock.now_ms()), request, version))


_DECISIONS: Final[dict[type[Request], Callable[[Controller, Any, int], Decision]]] = {
    CreateTopicsRequest: lambda c, request, version: topics.create_topics(c.state, request, version),
    DeleteTopicsRequest: lambda c, request, version: topic_deletion.delete_topics(c.state, request, version),
    CreatePartitionsRequest: lambda c, request, _: partitions.create_partitions(c.state, request),
    AlterConfigsRequest: lambda c, request, _: configs.legacy_alter(c.state, request),
    IncrementalAlterConfigsRequest: lambda c, request, _: configs.incremental_alter(c.state, request),
    ElectLeadersRequest: lambda c, request, version: elections.elect_leaders(c.state, request, version),
    UpdateFeaturesRequest: Controller._update_features,
    UnregisterBrokerRequest: lambda c, request, _: brokers.unregister(c.state, request),
    BrokerRegistrationRequest: Controller._register_broker,
    BrokerHeartbeatRequest: Controller._heartbeat,
    ControllerRegistrationRequest: lambda c, request, _: controllers.register(c.state, request),
    AllocateProducerIdsRequest: lambda c, request, _: producer_ids.allocate(c.state, request),
    AlterPartitionRequest: lambda c, request, version: isr_changes.alter_partitions(c.state, request, version),
    AssignReplicasToDirsRequest: lambda c, request, _: directories.assign_replicas(c.state, request),
    DescribeQuorumRequest: Controller._describe_quorum,
}
