"""One node: what its roles share, and what its requests are handled with. It knows no socket.

`process.roles` decides what a node is: a broker (`BrokerRole`), a controller (`ControllerRole`), or both over one copy
of the cluster's metadata (`ClusterMetadata`). One thread drives it: requests come in through channels, jobs and
deadlines through `due_ms` and `run_due`. The shell around it (`broker/main.py`; the simulator in tests) owns the
sockets, the clock and the threads of jobs.

    start     format empty directories, lock them, load the metadata log;
              a broker opens its logs, takes its roles in the partitions, registers and is unfenced: ready
    run       the active controller writes metadata records; when they are committed every broker applies them
    shutdown  hand over leadership, write checkpoints, close the metadata log, close every log

If the node cannot continue (the metadata log fails, the last data directory fails, the broker cannot register) it calls
`failed`: the process must end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from socket import getfqdn
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.broker.auto_creation import AutoTopicCreation
from tailrace.broker.broker_role import BrokerRole
from tailrace.broker.channel import Channel, Transport
from tailrace.broker.cluster_metadata import ClusterMetadata
from tailrace.broker.controller_link import ControllerLink
from tailrace.broker.controller_role import ControllerRole
from tailrace.broker.coordinators import Coordinators
from tailrace.broker.dispatch import Dispatch
from tailrace.broker.fetch_sessions import FetchSessions
from tailrace.broker.lifecycle import NO_EPOCH, START_CONTROLLERS
from tailrace.broker.live_config import LiveConfig
from tailrace.broker.metrics import BrokerMetrics, BrokerState
from tailrace.broker.producer_ids import ProducerIds
from tailrace.broker.purgatory import Purgatory
from tailrace.broker.replica_directories import ReplicaDirectories
from tailrace.broker.streams_topics import StreamsTopics
from tailrace.broker.txn_verification import TxnVerification
from tailrace.config.listeners import WILDCARD_HOSTS, Listener
from tailrace.config.server import ServerConfig
from tailrace.controller.controller import Controller
from tailrace.env import Env
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.endpoint import Endpoint
from tailrace.metadata.versions import SUPPORTED_FEATURES
from tailrace.metrics.count import Count
from tailrace.metrics.gauge import Gauge
from tailrace.metrics.metrics import Metrics
from tailrace.model.errors import RegistrationTimeoutError
from tailrace.raft.quorum import Quorum
from tailrace.raft.quorum_gauges import quorum_gauges
from tailrace.replication.partition import Partition
from tailrace.replication.replica_manager import ReplicaManager
from tailrace.storage.manager.log_directories import NodeIdentity
from tailrace.storage.manager.log_manager import LogManager

if TYPE_CHECKING:
    from tailrace.broker.remote_controller import RemoteController
    from tailrace.broker.shares import Shares

TICK_MS: Final = 200


class LeaderEndpoint(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


class Node:
    def __init__(
        self, env: Env, config: ServerConfig, max_open_files: int, failed: Callable[[Exception], None]
    ) -> None:
        """Touches no file."""
        self.env = env
        self.live = LiveConfig(config)
        self.failed = failed
        """The process must end: see the module."""
        self.node_id = config.node_id
        self.cluster_id = ""
        self.metadata = ClusterMetadata(env, config, failed)
        self.metadata.loader.on_changed.add(self._metadata_changed)
        self.image = self.metadata.image
        self.metrics = Metrics()
        self.counters = BrokerMetrics()
        self.purgatory = Purgatory(env.clock)
        self.supported_features: Mapping[str, tuple[int, int]] = SUPPORTED_FEATURES
        self.quorum: Quorum
        self.local_controller: Controller | None = None
        self._is_loaded = False
        """Everything that was committed before this start is in the image."""
        self._is_closing = False
        self._is_ended = False
        self._dispatch = Dispatch(is_controller=False)
        self._controller_dispatch = Dispatch(is_controller=True)
        self.metrics.add(self.counters.read)
        self.metrics.add(self.purgatory.gauges)
        self._controller_role = ControllerRole(self) if config.is_controller else None
        self._broker_role = BrokerRole(self, max_open_files) if config.is_broker else None
        self._remote_controller: RemoteController | None = None
        self.controller: ControllerLink
        if config.is_alone:
            assert self._controller_role is not None, "a node that is alone is its own controller"
            self.controller = self._controller_role
        else:
            from tailrace.broker.remote_controller import RemoteController  # a node that is alone starts without it

            self._remote_controller = RemoteController(env, config, self.metadata, self._controller_role)
            self.controller = self._remote_controller
        if self._broker_role is not None:
            self._add_broker_parts(self._broker_role)

    def _add_broker_parts(self, broker: BrokerRole) -> None:
        """What requests to a broker are handled with; a node without that role has none of these."""
        self.on_left = broker.on_left
        self.logs: LogManager
        self.replicas: ReplicaManager
        self.fetch_sessions = FetchSessions(self.config.max_incremental_fetch_session_cache_slots, self.env.random)
        self.producer_ids = ProducerIds(self)
        self.auto_topics = AutoTopicCreation(self)
        self.replica_directories = ReplicaDirectories(self)
        self.txn_verification = TxnVerification(self)
        self.coordinators = Coordinators(self)
        self.groups = self.coordinators.groups
        self.transactions = self.coordinators.transactions
        self.share_states = self.coordinators.share_states
        self.streams_topics = StreamsTopics(self)
        self.metrics.add(self.fetch_sessions.gauges)
        self.metrics.add(self._share_gauges)

    @cached_property
    def shares(self) -> Shares:
        """What share groups hold of the partitions here. Created, and imported, when first used."""
        from tailrace.broker.shares import Shares

        return Shares(self)

    def _share_gauges(self) -> Iterator[Gauge | Count]:
        return self.shares.gauges() if "shares" in vars(self) else iter(())

    @property
    def config(self) -> ServerConfig:
        """As it is now: settings change at run time."""
        return self.live.config

    @property
    def partition_count(self) -> int:
        """Of the replicas on this node."""
        return self.replicas.count if self._broker_role is not None else 0

    @property
    def broker_epoch(self) -> int:
        """Of the registration of this process, -1 before it. The metadata may list another one under the same id."""
        return self._broker_role.lifecycle.broker_epoch if self._broker_role is not None else NO_EPOCH

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
        """`bound` are the listeners with their ports. Errors of the directories are raised here."""
        self.counters.broker_state = BrokerState.STARTING
        brokers, controllers = self._endpoints(bound)
        formatted = self.metadata.format(controllers)
        self.cluster_id = formatted.cluster_id
        incarnation_id = self.env.random.randbytes(16)
        broker, controller = self._broker_role, self._controller_role
        if broker is not None:
            broker.open(NodeIdentity(formatted.cluster_id, self.node_id), brokers, incarnation_id)
            self.logs, self.replicas = broker.logs, broker.replicas
        self.metadata.open(formatted, controllers)
        self.quorum = self.metadata.quorum
        self.metrics.add(lambda: quorum_gauges(self.quorum, self.env.clock.now_ms()))
        if controller is not None:
            controller.open(controllers, incarnation_id)
            self.local_controller = controller.controller
        self.metadata.start(lambda: self._metadata_loaded(ready))
        if controller is None:
            self._check_for_controller_later()

    def _check_for_controller_later(self) -> None:
        timeout_ms = self.config.initial_broker_registration_timeout_ms
        self.env.jobs.later("broker-registration-timeout", timeout_ms, self._check_for_controller)

    def _check_for_controller(self) -> None:
        """Without an active controller a broker cannot start. A node that votes waits: the quorum may need it."""
        if self._is_loaded or self._is_closing:
            return
        if self.metadata.active_controller is not None:  # there is much to load
            self._check_for_controller_later()
            return
        timeout_ms = self.config.initial_broker_registration_timeout_ms
        self.failed(
            RegistrationTimeoutError(
                f"broker {self.node_id} could not register in {timeout_ms} ms: no active controller is known",
                START_CONTROLLERS,
            )
        )

    def _endpoints(self, bound: tuple[Listener, ...]) -> tuple[tuple[Endpoint, ...], tuple[Endpoint, ...]]:
        """What other nodes connect to, of brokers and of controllers: as advertised, with ports as bound."""
        ports = {listener.name: listener.port for listener in bound}
        config = self.config
        any_host = "localhost" if config.is_alone else ""

        def endpoint(listener: Listener) -> Endpoint:
            host = listener.host if listener.host not in WILDCARD_HOSTS else any_host or getfqdn()
            return Endpoint(listener.name, host, listener.port or ports.get(listener.name, 0))

        brokers = tuple(
            Endpoint(each.name, each.host, each.port or ports.get(each.name, 0)) for each in config.advertised_listeners
        )
        return brokers, tuple(endpoint(each) for each in config.advertised_controller_listeners)

    def _metadata_loaded(self, ready: Callable[[], None]) -> None:
        if self._is_closing:
            return
        self._is_loaded = True
        self._tick()

        def running() -> None:
            self.counters.broker_state = BrokerState.RUNNING
            ready()

        if self._broker_role is not None:
            self._broker_role.start(running)
        else:
            self.live.load(self.image)
            running()

    def why_not_ready(self) -> str | None:
        """None when clients can be served."""
        state = self.counters.broker_state
        return None if state is BrokerState.RUNNING else f"the broker is {state.name.lower().replace('_', ' ')}"

    # Metadata and time

    def _metadata_changed(self, delta: MetadataDelta) -> None:
        """What is committed before `_metadata_loaded` is in the image when the broker starts."""
        if not self._is_loaded:
            return
        if self._broker_role is not None:
            self._broker_role.publish(delta)
        else:
            self.live.apply(delta, self.image)

    def _tick(self) -> None:
        if self._is_ended:
            return
        if self._controller_role is not None:
            self._controller_role.tick()
        self.metadata.tick()
        self.env.jobs.later("controller-tick", TICK_MS, self._tick)

    # End

    def shutdown(self, done: Callable[[], None]) -> None:
        """Cleanly: the next start needs no recovery."""
        self.counters.broker_state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        if self._broker_role is not None:
            self._broker_role.shutdown(lambda: self._close(done))
        else:
            self._close(done)

    def _close(self, done: Callable[[], None]) -> None:
        self._is_closing = True
        self.counters.broker_state = BrokerState.SHUTTING_DOWN
        if self._remote_controller is not None:
            self._remote_controller.close()
        broker = self._broker_role

        def close_metadata() -> None:
            self._is_ended = True
            self.metadata.shutdown(close_logs)

        def close_logs() -> None:
            if broker is not None:
                broker.close_logs(done)
            else:
                done()

        if broker is not None:
            broker.close_partitions(close_metadata)
        else:
            close_metadata()
