"""The controller: commands in, records into the metadata log, responses out once they are committed.

A command is decided from the state that all records appended so far make, committed or not: the next command sees at
once what the preceding one did. Records are appended to the quorum first and replayed here when it has taken them, so
that a log which refuses them leaves nothing behind. A response waits until its records are committed, and one without
records until all records that it may have seen are.

Active and inactive. One controller of the quorum is active, the one on its leader. The others replay what is committed.
A controller that resigns answers all waiting requests with NOT_CONTROLLER, because it cannot know whether their records
will be committed, and returns to the committed image. Its state is then that of a controller which was never active,
and it can become active again.

Who may call. The node's thread. The metadata loader passes the quorum's events on; handlers call `handle`; the node
calls `tick` at least a few times a second.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

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
    reassignments,
    topic_deletion,
    topics,
)
from tailrace.controller.activation import activation_records
from tailrace.controller.config_rules import Settings
from tailrace.controller.decision import Decision
from tailrace.controller.error_responses import error_response
from tailrace.controller.limits import MAX_RECORDS
from tailrace.controller.quorum_description import describe_quorum
from tailrace.controller.state import ClusterState, ControllerIdentity, PreparedState
from tailrace.env import Env
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.metrics.gauge import Gauge
from tailrace.metrics.metrics import Metrics
from tailrace.model.errors import (
    InvalidUpdateVersionError,
    NotControllerError,
    RequestTimedOutError,
    StorageError,
    TailraceError,
    UnknownServerError,
    UnsupportedVersionError,
)
from tailrace.model.invariant import invariant
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tailrace.protocol.messages.alter_configs import AlterConfigsRequest
from tailrace.protocol.messages.alter_partition import AlterPartitionRequest
from tailrace.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
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
from tailrace.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tailrace.protocol.messages.update_features import UpdateFeaturesRequest
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.brokers import RegisterBrokerRecord
from tailrace.protocol.records.ledger import NoOpRecord
from tailrace.raft.consensus import ErrorCode
from tailrace.raft.quorum import Quorum

_log = logging.getLogger(__name__)

MAX_TICK_INTERVAL_MS: Final = 1_000
"""A node that runs ticks several times a second. After a longer interval it counts as paused."""
MAX_ELECTIONS: Final = 1000
"""At once, when leaders are put back or found unclean: the rest follows with the next tick."""

_WITH_DEADLINE: Final = (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
)
"""One that has passed at the beginning refuses them; later there is nothing to give up."""

Done = Callable[[Response], None]


class _Waiting(NamedTuple):
    """A response that waits until `offset` is committed."""

    offset: int
    request: Request
    version: int
    response: Response
    done: Done


class Controller:
    def __init__(
        self,
        quorum: Quorum,
        env: Env,
        settings: Settings,
        identity: ControllerIdentity,
        committed_image: MetadataImage,
        metrics: Metrics,
    ) -> None:
        """`committed_image` is kept up to date by the metadata loader, before it notifies the controller."""
        self.state = ClusterState(settings, identity, env.random)
        self.is_active = False
        self.epoch = -1
        self.leader_id: int | None = None
        self._logged_leader: tuple[int | None, int] | None = None
        """Node id of the active controller, None while it is unknown."""
        self._committed_image = committed_image
        self._committed_registrations: dict[int, int] = {}
        """`ClusterState.registration_offsets`, of committed records only."""
        self._env = env
        self._quorum = quorum
        self._committed = -1
        """Offset up to which every record that this controller has appended is committed."""
        self._appended = -1
        self._waiting: deque[_Waiting] = deque()
        self._last_append_ms = self._last_rebalance_ms = self._last_unclean_ms = self._last_tick_ms = 0
        metrics.add(self.gauges)

    @property
    def image(self) -> MetadataImage:
        """With what is appended and not yet committed."""
        return self.state.image

    # Events of the quorum

    def prepare(self, image: MetadataImage) -> PreparedState | None:
        """What makes the first snapshot this controller's state; any thread."""
        return PreparedState.of(image) if self.image.is_new else None

    def loaded(self, prepared: PreparedState | None, delta: MetadataDelta) -> None:
        """A snapshot replaces everything that was known."""
        invariant(not self.is_active, "a leader has the whole log and loads no snapshot")
        image = self._committed_image
        # Where the registrations are in the log is unknown: a broker that has read the whole snapshot has read its own.
        self._committed_registrations = dict.fromkeys(image.brokers, image.offset)
        if prepared is not None and self.image.is_new:
            self.state.adopt(prepared, image, self._committed_registrations)
        else:
            self.state.follow(image, delta, self._committed_registrations)

    def committed(
        self,
        records: Sequence[VersionedRecord],
        delta: MetadataDelta,
        last_offset: int,
        epoch: int,
        timestamp_ms: int,
    ) -> None:
        first_offset = last_offset - len(records) + 1
        for offset, each in enumerate(records, first_offset):
            if type(each.record) is RegisterBrokerRecord:
                self._committed_registrations[each.record.broker_id] = offset
        if last_offset > self.image.offset:  # not its own, which was replayed when it was appended
            self.state.replay((each.record for each in records), first_offset)
            self._applied(last_offset, epoch, timestamp_ms)
        self.state.share(delta)

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """A voter that finds no majority for an election returns to the leader it had, which is not logged again."""
        self.leader_id = leader_id
        is_other = leader_id is not None and leader_id != self.state.identity.node_id
        if is_other and (leader_id, epoch) != self._logged_leader:
            self._logged_leader = (leader_id, epoch)
            _log.info("the active controller is node %s in epoch %s", leader_id, epoch)

    def became_leader(self, epoch: int) -> None:
        """Raises UnsupportedVersionError if the log has a metadata.version that this release does not know."""
        quorum, now_ms = self._quorum, self._env.clock.monotonic_ms()
        identity = self.state.identity
        self.epoch = epoch
        self._appended = self._committed = quorum.log_end_offset - 1
        self.is_active = True
        self._last_append_ms = self._last_rebalance_ms = self._last_unclean_ms = self._last_tick_ms = now_ms
        # This process holds the directories of its own broker: an earlier incarnation of that cannot be alive.
        self.state.heartbeats.restart(
            (
                (
                    broker.id,
                    broker.is_fenced,
                    broker.id == identity.node_id and broker.incarnation_id != identity.incarnation_id,
                )
                for broker in self.image.brokers.values()
            ),
            now_ms,
        )
        min_isr = self.state.config.min_insync_replicas
        try:
            self._append(activation_records(self.image, quorum.bootstrap_records, min_isr))
            self._append(controllers.own_registration(self.state))
        except NotControllerError as error:  # the quorum has lost the leadership already and is about to report it
            _log.info("controller %s could not become active: %s", identity.node_id, error)
        else:
            _log.info("controller %s is active in epoch %s", identity.node_id, epoch)

    def resigned(self) -> None:
        """Answer all waiting requests with NOT_CONTROLLER and discard what is appended but not committed."""
        self.is_active = False
        self.leader_id = None
        self.state.replace(self._committed_image, self._committed_registrations)
        self.state.heartbeats.restart((), 0)
        waiting, self._waiting = self._waiting, deque()
        _log.info("controller %s resigns from epoch %s", self.state.identity.node_id, self.epoch)
        for each in waiting:
            each.done(error_response(each.request, each.version, self._not_controller()))

    def failed(self, error: TailraceError) -> None:
        """The log takes no more records. Waiting requests are not answered: the process is about to stop."""
        self.is_active = False
        self._waiting.clear()
        next_step = f"; next step: {error.hint}" if error.hint else ""
        _log.error("the metadata log has failed: %s%s", error, next_step)

    # Commands

    def handle(self, request: Request, version: int, context: Any, done: Done) -> None:
        """Decide, and call `done` exactly once with the response, now or when it is committed.

        `context` identifies the client; no decision depends on it. The quorum is described at once: administrators ask
        when a leader cannot commit.
        """
        if isinstance(request, DescribeQuorumRequest):
            done(self._describe_quorum(request, version))
            return
        try:
            decision = self._decided(request, version)
            self._append(decision.records, decision.when_written)
        except TailraceError as error:
            self._respond(request, version, error_response(request, version, error), done)
        else:
            self._respond(request, version, decision.response, done)

    def _decided(self, request: Request, version: int) -> Decision:
        if not self.is_active:
            raise self._not_controller()
        if isinstance(request, _WITH_DEADLINE) and request.timeout_ms <= 0:
            raise RequestTimedOutError()
        decide = DECISIONS.get(type(request))
        if decide is None:
            raise UnsupportedVersionError(f"the controller does not handle {type(request).__name__}")
        try:
            return decide(self, request, version)
        except TailraceError:
            raise
        except Exception:
            # A closed connection would be worse than an error: a broker sends the request that it forwards again.
            _log.exception("%s v%s cannot be decided", type(request).__name__, version)
            raise UnknownServerError() from None

    def _not_controller(self) -> NotControllerError:
        if self.leader_id is None:
            return NotControllerError("No controller appears to be active.")
        return NotControllerError(f"The active controller appears to be node {self.leader_id}.")

    def _respond(self, request: Request, version: int, response: Response, done: Done) -> None:
        if self._committed >= self._appended or not self.is_active:
            done(response)
        else:
            self._waiting.append(_Waiting(self._appended, request, version, response, done))

    # The log

    def _append(self, records: Sequence[VersionedRecord], when_written: Callable[[int], None] | None = None) -> None:
        """In batches of at most MAX_RECORDS: who needs one batch has asked for no more."""
        for begin in range(0, len(records), MAX_RECORDS):
            self._append_batch(records[begin : begin + MAX_RECORDS])
        if when_written is not None:
            when_written(self._appended)

    def _append_batch(self, batch: Sequence[VersionedRecord]) -> None:
        # The quorum reports nothing during an append: what follows from a commit sees the batch replayed here.
        last_offset = self._quorum.append(batch, self._batch_committed)
        self.state.replay((each.record for each in batch), last_offset - len(batch) + 1)
        self._appended = last_offset
        self._applied(last_offset, self.epoch, self._env.clock.now_ms())
        self._last_append_ms = self._env.clock.monotonic_ms()

    def _batch_committed(self, offset: int) -> None:
        self._committed = max(self._committed, offset)
        while self._waiting and self._waiting[0].offset <= self._committed:
            waiting = self._waiting.popleft()
            waiting.done(waiting.response)

    def _applied(self, offset: int, epoch: int, timestamp_ms: int) -> None:
        image = self.image
        image.offset, image.epoch, image.timestamp_ms = offset, epoch, timestamp_ms

    # Time

    def tick(self, now_ms: int) -> None:
        """`now_ms` is monotonic. Fences silent brokers, elects leaders, and appends a record to an idle log."""
        if not self.is_active:
            return
        self._notice_pause(now_ms)
        try:
            self._do_what_is_due(now_ms)
        except (StorageError, NotControllerError) as error:
            # A full disk: nothing was written, and there may be space later. Anything worse is reported to `failed`,
            # and a lost leadership to `resigned`.
            _log.warning("the controller cannot write to its log: %s", error)
            self._last_append_ms = now_ms

    def _notice_pause(self, now_ms: int) -> None:
        """Count no broker as silent for a time in which this process did not run, and heartbeats waited unread.

        Otherwise a node that was stopped, or got no processor, for the session timeout fences the brokers that were
        alive all the time, and as the only node even its own broker.
        """
        paused_ms, self._last_tick_ms = now_ms - self._last_tick_ms, now_ms
        if paused_ms > MAX_TICK_INTERVAL_MS:
            _log.warning("the controller did not run paused_ms=%s: all broker sessions are extended", paused_ms)
            self.state.heartbeats.extend(paused_ms, now_ms)

    def _do_what_is_due(self, now_ms: int) -> None:
        config = self.state.config
        self._append(controllers.own_registration(self.state))  # metadata.version may have been raised to have them
        while (stale := brokers.silent_broker(self.state, now_ms)) is not None:
            broker_id, changes = stale
            _log.warning("broker %s is fenced: it was silent for %s ms", broker_id, config.broker_session_timeout_ms)
            self._append(changes)
            self.state.heartbeats.fence(broker_id)
        if now_ms - self._last_unclean_ms >= config.unclean_leader_election_interval_ms:
            records = elections.unclean_where_allowed(self.state, MAX_ELECTIONS)
            if len(records) < MAX_ELECTIONS:
                self._last_unclean_ms = now_ms
            self._append(records)
        if (
            config.auto_leader_rebalance_enable
            and now_ms - self._last_rebalance_ms >= config.leader_imbalance_check_interval_seconds * 1000
        ):
            records = elections.rebalanced(self.state, MAX_ELECTIONS)
            if len(records) < MAX_ELECTIONS:
                self._last_rebalance_ms = now_ms
            self._append(records)
        idle_ms = config.metadata_max_idle_interval_ms
        if 0 < idle_ms <= now_ms - self._last_append_ms:
            self._append([VersionedRecord(NoOpRecord(), 0)])

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
        quorum = features.QuorumFeatures(self._quorum.kraft_version, [voter.node_id for voter in self._quorum.voters])
        decision = features.update_features(self.state, request, version, quorum)
        if features.raises_kraft_version(request, quorum.kraft_version):
            self._upgrade_quorum()
        return decision

    def _upgrade_quorum(self) -> None:
        """kraft.version 0 to 1. The quorum writes control records, which the image does not contain."""
        error = self._quorum.upgrade_kraft_version()
        if error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise self._not_controller()
        if error == ErrorCode.REQUEST_TIMED_OUT:
            raise RequestTimedOutError("Another change of the voters is under way.")
        if error != ErrorCode.NONE:
            raise InvalidUpdateVersionError(
                "The update failed for all features since the following feature had an error: Invalid update version "
                "1 for feature kraft.version. Not every voter has reported its directory and the versions it supports."
            )

    def _describe_quorum(self, request: DescribeQuorumRequest, version: int) -> Response:
        quorum = self._quorum
        description = quorum.describe(self._env.clock.now_ms()) if quorum.is_leader else None
        return describe_quorum(description, request, version)


DECISIONS: Final[dict[type[Request], Callable[[Controller, Any, int], Decision]]] = {
    CreateTopicsRequest: lambda c, request, version: topics.create_topics(c.state, request, version),
    DeleteTopicsRequest: lambda c, request, version: topic_deletion.delete_topics(c.state, request, version),
    CreatePartitionsRequest: lambda c, request, _: partitions.create_partitions(c.state, request),
    AlterConfigsRequest: lambda c, request, _: configs.legacy_alter(c.state, request),
    IncrementalAlterConfigsRequest: lambda c, request, _: configs.incremental_alter(c.state, request),
    ElectLeadersRequest: lambda c, request, version: elections.elect_leaders(c.state, request, version),
    AlterPartitionReassignmentsRequest: lambda c, request, _: reassignments.alter_reassignments(c.state, request),
    ListPartitionReassignmentsRequest: lambda c, request, _: reassignments.list_reassignments(c.state, request),
    UpdateFeaturesRequest: Controller._update_features,
    UnregisterBrokerRequest: lambda c, request, _: brokers.unregister(c.state, request),
    BrokerRegistrationRequest: Controller._register_broker,
    BrokerHeartbeatRequest: Controller._heartbeat,
    ControllerRegistrationRequest: lambda c, request, _: controllers.register(c.state, request),
    AllocateProducerIdsRequest: lambda c, request, _: producer_ids.allocate(c.state, request),
    AlterPartitionRequest: lambda c, request, version: isr_changes.alter_partitions(c.state, request, version),
    AssignReplicasToDirsRequest: lambda c, request, _: directories.assign_replicas(c.state, request),
}
