"""This node's copy of the cluster's metadata: quorum, committed image and snapshots. Every role of a process has it.

    format    create the directories' identity and the metadata log's, if they are empty
    open      lock the metadata log's directory, create the quorum
    start     load the log; `ready` is called when everything that was committed before is in the image
    shutdown  close the log, unlock its directory

The directory of the metadata log is one of `log.dirs` or a separate one. A broker's log manager locks `log.dirs`; a
directory that no log manager holds is locked here, until the metadata log is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tailrace.broker.active_controller import ActiveController, OtherControllers
from tailrace.config.server import ServerConfig
from tailrace.config.voters import Address
from tailrace.env import Env
from tailrace.metadata.endpoint import Endpoint
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.versions import NEW_CLUSTER_FEATURES
from tailrace.model.errors import TailraceError, UnformattedLogDirError
from tailrace.model.listeners import Listeners
from tailrace.raft.format import Formatted, format_directories
from tailrace.raft.listener import QuorumListener
from tailrace.raft.metadata_loader import MetadataLoader
from tailrace.raft.quorum import Quorum, QuorumEndpoint, QuorumNode
from tailrace.raft.snapshot_generator import SnapshotGenerator
from tailrace.storage.manager.log_directory import LogDirectory
from tailrace.storage.manager.meta_properties import META_PROPERTIES_FILE, MetaProperties
from tailrace.storage.names import join


class ClusterMetadata:
    def __init__(self, env: Env, config: ServerConfig, failed: Callable[[TailraceError], None]) -> None:
        """Touches no file. `failed` is called when the metadata log cannot continue: the process must stop."""
        self.loader = MetadataLoader(failed)
        self.listener: QuorumListener = self.loader
        """What the quorum reports to. A simulation puts an observer in front of the loader before `open`."""
        self.quorum: Quorum
        self._env = env
        self._config = config
        self._directory = config.metadata_log_dir or config.broker.directories[0]
        self._snapshots: SnapshotGenerator
        self._lock: LogDirectory | None = None
        self.on_active_controller_changed: Listeners[()] = Listeners()
        self.loader.on_leader_changed.add(self.on_active_controller_changed)

    @property
    def image(self) -> MetadataImage:
        return self.loader.image

    @property
    def active_controller(self) -> ActiveController | None:
        """See ActiveControllerSource."""
        leader = self.quorum.leadership
        address = self._address_of(leader.endpoints)
        return ActiveController(leader.leader_id, leader.epoch, address) if address is not None else None

    @property
    def other_controllers(self) -> OtherControllers:
        """See ActiveControllerSource."""
        voters = self.quorum.voters
        if not voters:
            servers = self._config.controller_quorum_bootstrap_servers
            return OtherControllers(servers, len(servers))
        others = [self._address_of(each.endpoints) for each in voters if each.node_id != self._config.node_id]
        return OtherControllers(tuple(each for each in others if each is not None), len(voters) - len(voters) // 2)

    def _address_of(self, endpoints: Iterable[QuorumEndpoint]) -> Address | None:
        by_name = {each.name: each for each in endpoints}
        for name in self._config.controller_listener_names:
            if name in by_name:
                return Address(by_name[name].host, by_name[name].port)
        return None

    def format(self, controllers: tuple[Endpoint, ...]) -> Formatted:
        """`controllers` are the endpoints of this node's controller. Raises errors of the directories.

        Only a founder creates a cluster at its first start: of several nodes, each would create one.
        """
        config = self._config
        if (
            not config.is_founder
            and MetaProperties.read(self._env.files, join(self._directory, META_PROPERTIES_FILE)) is None
        ):
            raise UnformattedLogDirError(f"{self._directory} is not formatted, and this node belongs to a cluster")
        return format_directories(
            self._env,
            config.broker.directories,
            self._directory,
            config.node_id,
            standalone=() if config.controller_quorum_voters else _quorum_endpoints(controllers),
            features=NEW_CLUSTER_FEATURES,
        )

    def open(self, formatted: Formatted, controllers: tuple[Endpoint, ...]) -> None:
        """After the log manager, if there is one, has locked `log.dirs`."""
        config = self._config
        if not config.is_broker or self._directory not in config.broker.directories:
            self._lock = LogDirectory(self._env.files, self._directory)
            self._lock.lock()
        node = QuorumNode(config.node_id, formatted.cluster_id, formatted.directory_id, _quorum_endpoints(controllers))
        self.quorum = Quorum(self._env, self._directory, node, config, self.listener, is_alone=config.is_alone)
        self._snapshots = SnapshotGenerator(self.quorum, self.image, self._env.clock)

    def start(self, ready: Callable[[], None]) -> None:
        self.quorum.start(ready)

    def tick(self) -> None:
        """On the node's thread, a few times a second."""
        self._snapshots.tick()

    def shutdown(self, done: Callable[[], None]) -> None:
        def closed() -> None:
            if self._lock is not None:
                self._lock.unlock()
            done()

        self.quorum.shutdown(closed)


def _quorum_endpoints(endpoints: tuple[Endpoint, ...]) -> tuple[QuorumEndpoint, ...]:
    return tuple(QuorumEndpoint(each.name, each.host, each.port) for each in endpoints)
