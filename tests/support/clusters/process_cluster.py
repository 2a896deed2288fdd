"""A cluster of real processes, on a network with faults, in a directory.

    with ProcessCluster(tmp_path) as cluster:
        cluster.start()
        cluster.node(1).kill()
        cluster.isolate(2)

By default nodes 1 to 3 are controllers and voters, 11 and 12 are brokers. The controllers are formatted with
--initial-controllers, so that voters can be added and removed. Leaving the `with` block kills all processes and removes
the network. Clients call `network.enter()` in each of their threads.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final

from support.clusters.cluster_network import CLIENTS, ClusterNetwork, open_network
from support.clusters.cluster_node import ClusterNode, host_of
from tailrace.env.real import real_env
from tailrace.metadata.versions import NEW_CLUSTER_FEATURES
from tailrace.raft.format import format_directories
from tailrace.raft.initial_controllers import initial_controller
from tailrace.raft.voters import Voter
from tailrace.storage.manager.meta_properties import new_directory_id

ISOLATED_ROLES: Final = {1: "controller", 2: "controller", 3: "controller", 11: "broker", 12: "broker"}
COMBINED_ROLES: Final = dict.fromkeys((1, 2, 3), "broker,controller")
CLUSTER_ID: Final = "cluster-of-the-tests_1"
BROKER_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
LISTENER: Final = "CONTROLLER"
SECURITY: Final = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"


class ProcessCluster:
    def __init__(
        self,
        directory: Path,
        roles: Mapping[int, str] = ISOLATED_ROLES,
        settings: Mapping[str, str] | None = None,
        network: ClusterNetwork | None = None,
    ) -> None:
        """`settings` are those of every node."""
        self.network = open_network() if network is None else network
        self.nodes: dict[int, ClusterNode] = {}
        try:
            for node_id in roles:
                self.network.add_host(host_of(node_id))
            for node_id, each in roles.items():
                own = directory / host_of(node_id)
                own.mkdir()
                node_settings = self._settings(node_id, each, roles, own) | dict(settings or {})
                self.nodes[node_id] = ClusterNode(self.network, node_id, own, node_settings)
        except BaseException:
            self.close()
            raise

    def _settings(self, node_id: int, roles: str, all_roles: Mapping[int, str], directory: Path) -> dict[str, str]:
        controllers = [each for each, names in all_roles.items() if "controller" in names]
        return {
            "process.roles": roles,
            "node.id": str(node_id),
            "log.dirs": str(directory / "data"),
            **self._listeners(host_of(node_id), roles),
            "listener.security.protocol.map": SECURITY,
            "controller.listener.names": LISTENER,
            "controller.quorum.bootstrap.servers": ",".join(map(self.controller_address, controllers)),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        }

    def _listeners(self, host: str, roles: str) -> dict[str, str]:
        ports = {"broker": ("PLAINTEXT", BROKER_PORT), "controller": (LISTENER, CONTROLLER_PORT)}
        own = [ports[role] for role in roles.split(",")]
        routes = [(name, self.network.route(host, port)) for name, port in own]
        return {
            "listeners": ",".join(f"{name}://{route.bound}" for name, route in routes),
            "advertised.listeners": ",".join(f"{name}://{route.advertised}" for name, route in routes),
        }

    def __enter__(self) -> ProcessCluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # Nodes and addresses

    def node(self, node_id: int) -> ClusterNode:
        return self.nodes[node_id]

    @property
    def controllers(self) -> list[ClusterNode]:
        return [node for node in self.nodes.values() if node.is_controller]

    @property
    def brokers(self) -> list[ClusterNode]:
        return [node for node in self.nodes.values() if node.is_broker]

    def controller_address(self, node_id: int) -> str:
        return str(self.network.route(host_of(node_id), CONTROLLER_PORT).advertised)

    def broker_address(self, node_id: int) -> str:
        return str(self.network.route(host_of(node_id), BROKER_PORT).advertised)

    @property
    def bootstrap(self) -> list[str]:
        return [self.broker_address(node.node_id) for node in self.brokers]

    @property
    def controller_bootstrap(self) -> list[str]:
        return [self.controller_address(node.node_id) for node in self.controllers]

    # Life

    def start(self) -> None:
        """Format the directories and start all nodes; returns when all are ready."""
        self.format()
        for node in self.nodes.values():
            node.launch()
        for node in self.nodes.values():
            node.wait_until_ready()

    def format(self) -> None:
        env = real_env()
        self.voters = self._first_voters(random.Random())
        for node in self.nodes.values():
            directory = str(node.data_directory)
            format_directories(
                env,
                [directory],
                directory,
                node.node_id,
                cluster_id=CLUSTER_ID,
                features=NEW_CLUSTER_FEATURES,
                initial_controllers=self.voters if node.is_controller else (),
            )

    def _first_voters(self, dice: random.Random) -> tuple[Voter, ...]:
        found = []
        for node in self.controllers:
            address = self.network.route(node.host, CONTROLLER_PORT).advertised
            directory_id = new_directory_id(dice, ())
            found.append(initial_controller(node.node_id, directory_id, LISTENER, address.host, address.port))
        return tuple(sorted(found))

    def move(self, node_id: int, host: str) -> None:
        """A node that does not run gets another host, and takes its directory with it."""
        node = self.nodes[node_id]
        self.network.add_host(host)
        node.host = host
        node.settings |= self._listeners(host, node.settings["process.roles"])

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()
        self.network.close()

    # Partitions

    def isolate(self, node_id: int) -> None:
        """Nothing goes to a node or comes from it."""
        for other in self._others(node_id):
            self.network.cut(host_of(node_id), other)
            self.network.cut(other, host_of(node_id))

    def mute(self, node_id: int) -> None:
        """What a node sends arrives nowhere; it receives what others send."""
        for other in self._others(node_id):
            self.network.cut(host_of(node_id), other)

    def deafen(self, node_id: int) -> None:
        """Nothing arrives at a node; what it sends does."""
        for other in self._others(node_id):
            self.network.cut(other, host_of(node_id))

    def split(self, node_ids: set[int]) -> None:
        """Between these nodes and the others; clients reach all of them."""
        for inner in node_ids:
            for outer in self.nodes.keys() - node_ids:
                self.network.cut(host_of(inner), host_of(outer))
                self.network.cut(host_of(outer), host_of(inner))

    def _others(self, node_id: int) -> list[str]:
        return [host_of(each) for each in self.nodes if each != node_id] + [CLIENTS]

    def heal(self) -> None:
        """The network, and paused processes. Nodes that do not run stay so."""
        self.network.heal()
        for node in self.nodes.values():
            node.resume()
