"""One node: a broker, the controller beside it, and everything they own. It knows no socket.

One thread drives it: requests come in through channels, jobs and deadlines through `due_ms` and `run_due`. The shell
around it (`broker/main.py`; the simulator in tests) owns the sockets, the clock and the threads of jobs.

    start     format empty directories, lock them, load the metadata log and lead its quorum of one;
              open the logs that the metadata speaks of; take the roles it gives; register; be unfenced: ready
    run       the controller writes metadata records; when they are committed the broker applies what they change
    shutdown  hand over leadership, write checkpoints, close the metadata log, close every log

What cannot go on (the metadata log fails, the last data directory fails) is told to `failed`: the process must end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.broker.auto_creation import AutoTopicCreation
from tailrace.broker.channel import Channel, Transport
from tailrace.broker.coordinators import Coordinators
from tailrace.broker.dispatch import Dispatch
from tailrace.broker.fetch_sessions import FetchSessions
from tailrace.broker.lifecycle import BrokerLifecycle
from tailrace.broker.live_config import LiveConfig
from tailrace.broker.metrics import BrokerMetrics, BrokerState
from tailrace.broker.producer_ids import ProducerIds
from tailrace.broker.purgatory import Purgatory
from tailrace.broker.replica_directories import ReplicaDirectories
from tailrace.broker.streams_topics import StreamsTopics
from tailrace.broker.txn_verification import TxnVerification
from tailrace.config.listeners import Listener
from tailrace.config.server import ServerConfig
from tailrace.controller.controller import Controller
from tailrace.controller.state import ControllerIdentity
from tailrace.env import Env
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.endpoint import Endpoint
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.versions import NEW_CLUSTER_FEATURES, SUPPORTED_FEATURES
from tailrace.metrics.count import Count
from tailrace.metrics.gauge import Gauge
from tailrace.metrics.metrics import Metrics
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.protocol.message import Request, Response
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.raft.format import format_directories
from tailrace.raft.quorum import Quorum, QuorumEndpoint, QuorumNode
from tailrace.replication.partition import Partition
from tailrace.replication.replica_manager import ReplicaManager
from tailrace.storage.loader import LoadOptions
from tailrace.storage.manager.log_directories import NodeIdentity
from tailrace.storage.manager.log_directory import LogDirectory
from tailrace.storage.manager.log_manager import LogManager
from tailrace.storage.warm import WarmSet

if TYPE_CHECKING:
    from tailrace.broker.shares import Shares

_log = logging.getLogger(__name__)

TICK_MS: Final = 200
WARM_SHARE: Final = 4  # of the files that may be open, so many-th are old segments and indexes


class LeaderEndpoint(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


class LocalController:
    """The way to the controller when it is in the same process."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def send(self, request: Request, version: int, done: Callable[[Response], None]) -> None:
        controller = self._node.local_controller
        assert controller is not None
        controller.handle(request, version, None, done)


class Node:
    def __init__(
        self, env: Env, config: ServerConfig, max_open_files: int, failed: Callable[[Exception], None]
    ) -> None:
        """Touches no file."""
        self.env = env
        self.live = LiveConfig(config)
        self.node_id = config.node_id
        self.cluster_id = ""
        self.image = MetadataImage()
        self.metrics = Metrics()
        self.counters = BrokerMetrics()
        self.purgatory = Purgatory(env.clock)
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots, env.random)
        self.controller = LocalController(self)
        self.local_controller: Controller | None = None
        self.producer_ids = ProducerIds(self)
        self.auto_topics = AutoTopicCreation(self)
        self.replica_directories = ReplicaDirectories(self)
        self.txn_verification = TxnVerification(self)
        self.coordinators = Coordinators(self)
        self.groups = self.coordinators.groups
        self.transactions = self.coordinators.transactions
        self.share_states = self.coordinators.share_states
        self.streams_topics = StreamsTopics(self)
        self.supported_features: Mapping[str, tuple[int, int]] = SUPPORTED_FEATURES
        self.logs: LogManager
        self.replicas: ReplicaManager
        self.quorum: Quorum
        self.lifecycle: BrokerLifecycle
        self.on_left: Callable[[], None] = _nobody
        """Told when the cluster knows that this broker is leaving: from then on there is nothing to say to clients."""
        self._max_open_files = max_open_files
        self._failed = failed
        self._metadata_directory: LogDirectory | None = None
        """Where the metadata log has one of its own, outside of log.dirs: held as long as the node lives."""
        self._is_closing = False
        self._is_ended = False
        self._is_publishing = False
        """The logs are open: what the metadata changes is applied at once."""
        self._dispatch = Dispatch(is_controller=False)
        self._controller_dispatch = Dispatch(is_controller=True)
        for source in (self.counters.read, self.purgatory.gauges, self.fetch_sessions.gauges, self._share_gauges):
            self.metrics.add(source)

    @cached_property
    def shares(self) -> Shares:
        """What share groups hold of the partitions here. Made, and imported, when somebody asks."""
        from tailrace.broker.shares import Shares

        return Shares(self)

    def _share_gauges(self) -> Iterator[Gauge | Count]:
        return self.shares.gauges() if "shares" in vars(self) else iter(())

    @property
    def config(self) -> ServerConfig:
        """As it is now: settings change at run time."""
        return self.live.config

    # Requests

    def dispatch(self, is_controller_listener: bool) -> Dispatch:
        return self._controller_dispatch if is_controller_listener else self._dispatch

    def open_channel(self, transport: Transport, listener: str, peer_host: str) -> Channel:
        """A client has connected."""
        dispatch = self.dispatch(listener in self.config.controller_listener_names)
        return Channel(self, dispatch, transport, listener, peer_host, self.config.socket_request_max_bytes)

    def leader_of(self, partition: Partition, listener: str) -> tuple[LeaderEndpoint, int] | None:
        """Where the partition's clients should go instead, and the leader's epoch."""
        topic = self.image.topics.get(partition.topic)
        registration = topic.partitions.get(partition.index) if topic is not None else None
        broker = self.image.brokers.get(registration.leader) if registration is not None else None
        endpoint = broker.endpoint(listener) if broker is not None else None
        if registration is None or broker is None or endpoint is None:
            return None
        return LeaderEndpoint(broker.id, endpoint.host, endpoint.port, broker.rack), registration.leader_epoch

    # Start

    def start(self, bound: tuple[Listener, ...], ready: Callable[[], None]) -> None:
        """`bound` are the listeners with the ports that they have got. Errors of the directories are raised here."""
        config = self.config
        self.counters.broker_state = BrokerState.STARTING
        self._bound = bound
        self._tell_ready = ready
        brokers, controllers = self._endpoints(bound)
        directory = config.metadata_log_dir or config.broker.directories[0]
        formatted = format_directories(
            self.env,
            config.broker.directories,
            directory,
            self.node_id,
            standalone=() if config.controller_quorum_voters else _quorum_endpoints(controllers),
            features=NEW_CLUSTER_FEATURES,
        )
        self.cluster_id = formatted.cluster_id
        identity = NodeIdentity(formatted.cluster_id, self.node_id)
        warm = WarmSet(max(self._max_open_files // WARM_SHARE, 64))
        options = LoadOptions(
            producer_expiration_ms=config.producer_id_expiration_ms,
            max_transaction_timeout_ms=config.transaction_max_timeout_ms,
            verifies_transactions=config.transaction_partition_verification_enable,
        )
        self.logs = LogManager(self.env, config.broker, identity, warm, options, self.metrics)
        self.logs.open()
        if directory not in config.broker.directories:
            self._metadata_directory = LogDirectory(self.env.files, directory)
            self._metadata_directory.lock()
        self.replicas = ReplicaManager(self.env, self.logs, self.node_id, config, self.metrics)
        self.replicas.on_directory_differs = self._directory_differs
        self.replicas.on_role_changed = self.coordinators.role_changed
        incarnation = self.env.random.randbytes(16)
        controller_identity = ControllerIdentity(
            self.node_id, self.cluster_id, incarnation, controllers, self.supported_features
        )
        quorum_node = QuorumNode(self.node_id, self.cluster_id, formatted.directory_id, _quorum_endpoints(controllers))
        self.quorum = Quorum(self.env, directory, quorum_node, config, self)
        self.local_controller = Controller(self.quorum, self.env, self.live, controller_identity, self.metrics)
        self.lifecycle = BrokerLifecycle(self, brokers, incarnation)
        self.quorum.start(self._metadata_loaded)

    def _endpoints(self, bound: tuple[Listener, ...]) -> tuple[tuple[Endpoint, ...], tuple[Endpoint, ...]]:
        """What brokers and controllers are told to connect to: as advertised, with ports as bound."""
        ports = {listener.name: listener.port for listener in bound}
        config = self.config
        endpoints = [
            Endpoint(each.name, each.host, each.port or ports.get(each.name, 0)) for each in config.advertised_listeners
        ]
        names = config.controller_listener_names
        controllers = {each.name: each for each in endpoints if each.name in names}
        for listener in bound:
            if listener.name in names and listener.name not in controllers:
                controllers[listener.name] = Endpoint(listener.name, listener.host or "localhost", listener.port)
        return tuple(each for each in endpoints if each.name not in names), tuple(controllers.values())

    def _metadata_loaded(self) -> None:
        """Everything that was committed before this start is in the image."""
        if self._is_closing:
            return
        configs = self.live.load(self.image)
        self.counters.broker_state = BrokerState.RECOVERY
        self.logs.start(self._logs_open, configs, self._is_stray)

    def _is_stray(self, partition: TopicPartition, topic_id: TopicId | None) -> bool:
        """Whether a directory holds what the metadata knows nothing of, or knows elsewhere."""
        topic = self.image.topics.get(partition.topic)
        if topic is None or (topic_id is not None and topic.id != topic_id):
            return True
        registration = topic.partitions.get(partition.partition)
        return registration is None or self.node_id not in registration.replicas

    def _logs_open(self) -> None:
        if self._is_closing:
            return
        self.live.attach(self.logs)
        self._forget_producers_later()
        self.replicas.start()
        self._is_publishing = True
        self._publish(_everything(self.image))
        self.lifecycle.start(self._registered)

    def _registered(self) -> None:
        self.counters.broker_state = BrokerState.RUNNING
        self._tell_ready()

    def why_not_ready(self) -> str | None:
        """None when clients can be served."""
        state = self.counters.broker_state
        return None if state is BrokerState.RUNNING else f"the broker is {state.name.lower().replace('_', ' ')}"

    # The metadata log speaks

    def loaded(self, records: Iterator[VersionedRecord], offset: int, epoch: int, timestamp_ms: int) -> None:
        delta = MetadataDelta(self.image)
        assert self.local_controller is not None
        kept = list(records)
        for each in kept:
            delta.replay(each.record)
        self._advance(offset, epoch, timestamp_ms)
        self.local_controller.loaded(iter(kept), offset, epoch, timestamp_ms)

    def committed(self, records: list[VersionedRecord], last_offset: int, epoch: int, timestamp_ms: int) -> None:
        delta = MetadataDelta(self.image)
        for each in records:
            delta.replay(each.record)
        self._advance(last_offset, epoch, timestamp_ms)
        assert self.local_controller is not None
        self.local_controller.committed(records, last_offset, epoch, timestamp_ms)
        if self._is_publishing and not delta.is_empty:
            self._publish(delta)

    def _advance(self, offset: int, epoch: int, timestamp_ms: int) -> None:
        self.image.offset, self.image.epoch, self.image.timestamp_ms = offset, epoch, timestamp_ms

    def became_leader(self, epoch: int) -> None:
        assert self.local_controller is not None
        try:
            self.local_controller.became_leader(epoch)
        except TailraceError as error:  # a log of a release that this one does not know
            self.failed(error)
            return
        self._tick()

    def failed(self, error: TailraceError) -> None:
        if self.local_controller is not None:
            self.local_controller.failed(error)
        self._failed(error)

    def _tick(self) -> None:
        if not self._is_ended and self.local_controller is not None:
            self.local_controller.tick(self.env.clock.monotonic_ms())
            self.env.jobs.later("controller-tick", TICK_MS, self._tick)

    def _forget_producers_later(self) -> None:
        def forget() -> None:
            if not self._is_ended:
                self.logs.forget_idle_producers()
                self._forget_producers_later()

        interval_ms = self.config.producer_id_expiration_check_interval_ms
        self.env.jobs.later("producer-expiration", interval_ms, forget)

    def _publish(self, delta: MetadataDelta) -> None:
        """Settings first: a new log is made with its topic's. Then roles."""
        self.live.apply(delta, self.image)
        self.replicas.apply(delta, self.image)
        self.coordinators.metadata_changed(delta)
        if self.node_id in delta.changed_brokers:
            self._tell_if_left()
        for topic in delta.deleted_topics:
            if topic.name not in self.image.topics:
                self.counters.forget_topic(topic.name)

    def _tell_if_left(self) -> None:
        """Whoever asked now would hear of a cluster without brokers, and a client may take that for the last word."""
        registration = self.image.brokers.get(self.node_id)
        is_leaving = self.counters.broker_state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        if is_leaving and (registration is None or registration.is_fenced):
            self.on_left()

    def _directory_differs(self, partition: Partition, directory: LogDirectory) -> None:
        assert directory.id is not None
        self.replica_directories.report(partition.topic_id, partition.index, directory.id)

    # End

    def shutdown(self, done: Callable[[], None]) -> None:
        """Cleanly: the next start needs no recovery."""
        self.counters.broker_state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        if self._is_publishing:
            self.lifecycle.shutdown(lambda: self._close(done))
        else:
            self._close(done)

    def _close(self, done: Callable[[], None]) -> None:
        self._is_closing = True
        self.counters.broker_state = BrokerState.SHUTTING_DOWN
        epoch = self.lifecycle.broker_epoch

        def close_logs() -> None:
            """Last, because with it the directories are unlocked."""
            self.logs.shutdown(done, epoch)

        def close_metadata() -> None:
            self._is_ended = True
            self.quorum.shutdown(close_logs)

        if self._is_publishing:
            self.replicas.shutdown(close_metadata)
        else:
            close_metadata()


def _nobody() -> None:
    pass


def _everything(image: MetadataImage) -> MetadataDelta:
    """All of the metadata as if it had just come."""
    delta = MetadataDelta(image)
    for topic in image.topics.values():
        for index, registration in topic.partitions.items():
            delta.changed_partitions[topic.name, index] = registration
    return delta


def _quorum_endpoints(endpoints: tuple[Endpoint, ...]) -> tuple[QuorumEndpoint, ...]:
    return tuple(QuorumEndpoint(each.name, each.host, each.port) for each in endpoints)
