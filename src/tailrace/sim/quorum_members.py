"""The nodes of a simulated cluster with a quorum: their settings, how their disks are formatted, and their programs.

Controllers are nodes 1 to 5, brokers begin at 11. Settings are those that an operator would write: a node reads them
when it starts. A directory is formatted as by `tailrace storage format`: with the first voters on the first disk of a
controller, without any on a disk that replaces it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from tailrace.broker.node import Node
from tailrace.config.server import ServerConfig
from tailrace.metadata.versions import NEW_CLUSTER_FEATURES
from tailrace.model.ids import DirectoryId
from tailrace.raft.format import format_directories
from tailrace.raft.voters import QuorumEndpoint, Voter
from tailrace.sim.appended_batches import AppendWatch
from tailrace.sim.machine import Boot
from tailrace.sim.node_program import NodeProgram
from tailrace.sim.process import Process
from tailrace.sim.quorum_observer import QuorumObserver

CLUSTER_ID: Final = "simulated-cluster-id_1"
DIRECTORY: Final = "/data"
CONTROLLER_LISTENER: Final = "CONTROLLER"
FIRST_BROKER_ID: Final = 11
PORT: Final = 9092
"""Of every listener, until an operator moves it."""
MOVED_PORT: Final = 9192

SMALL_LOGS: Final = {
    "internal.metadata.log.segment.bytes": "20000",
    "metadata.log.max.record.bytes.between.snapshots": "8000",
    "metadata.max.retention.bytes": "30000",
    "internal.metadata.delete.delay.millis": "1000",
    "default.replication.factor": "1",
    "num.partitions": "1",
}
"""Snapshots, segments and their deletion within a minute."""


@dataclass(slots=True)
class Member:
    node_id: int
    is_controller: bool
    port: int = PORT
    generation: int = 0
    """How often its disk was replaced."""
    directory_id: DirectoryId | None = None
    """Of the present disk, once it was formatted."""
    observer: QuorumObserver | None = None
    """Of the newest process."""

    @property
    def name(self) -> str:
        return f"{'controller' if self.is_controller else 'broker'}-{self.node_id}"

    @property
    def endpoint(self) -> QuorumEndpoint:
        return QuorumEndpoint(CONTROLLER_LISTENER, self.name, self.port)

    @property
    def voter(self) -> Voter | None:
        """As a record of the log names it; None until the id of its directory is known."""
        return Voter(self.node_id, self.directory_id, (self.endpoint,)) if self.directory_id is not None else None


class QuorumMembers:
    def __init__(self, controllers: int, brokers: int, *, is_dynamic: bool, settings: Mapping[str, str]) -> None:
        self.is_dynamic = is_dynamic
        self.controllers = [Member(number, True) for number in range(1, controllers + 1)]
        self.brokers = [Member(FIRST_BROKER_ID + index, False) for index in range(brokers)]
        self.by_name = {member.name: member for member in (*self.controllers, *self.brokers)}
        self._settings = settings
        if is_dynamic:
            for member in self.controllers:
                member.directory_id = DirectoryId(bytes([7, *([0] * 14), member.node_id]))

    @property
    def first_voters(self) -> tuple[Voter, ...]:
        if self.is_dynamic:
            return tuple(member.voter for member in self.controllers if member.voter is not None)
        return tuple(Voter(member.node_id, endpoints=(member.endpoint,)) for member in self.controllers)

    def addresses(self) -> list[tuple[str, int]]:
        """Where administrators send requests: mostly to brokers."""
        brokers = [(member.name, member.port) for member in self.brokers]
        return brokers * 2 + [(member.name, member.port) for member in self.controllers]

    def settings_of(self, member: Member) -> dict[str, str]:
        controllers = [f"{each.name}:{each.port}" for each in self.controllers]
        if self.is_dynamic:
            quorum = {"controller.quorum.bootstrap.servers": ",".join(controllers)}
        else:
            voters = [f"{each.node_id}@{address}" for each, address in zip(self.controllers, controllers, strict=True)]
            quorum = {"controller.quorum.voters": ",".join(voters)}
        listener = CONTROLLER_LISTENER if member.is_controller else "PLAINTEXT"
        return {
            "node.id": str(member.node_id),
            "process.roles": "controller" if member.is_controller else "broker",
            "log.dirs": DIRECTORY,
            "listeners": f"{listener}://{member.name}:{member.port}",
            "controller.listener.names": CONTROLLER_LISTENER,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            **quorum,
            **SMALL_LOGS,
            **self._settings,
        }

    def boot(self, member: Member) -> Boot:
        return partial(self._boot, member)

    def _boot(self, member: Member, process: Process) -> NodeProgram:
        process.machine.disk.watch_writes(AppendWatch(process.machine).wrote)
        has_voters = self.is_dynamic and member.is_controller and member.generation == 0
        formatted = format_directories(
            process.env,
            [DIRECTORY],
            DIRECTORY,
            member.node_id,
            cluster_id=CLUSTER_ID,
            features=NEW_CLUSTER_FEATURES,
            initial_controllers=self.first_voters if has_voters else (),
        )
        member.directory_id = formatted.directory_id

        def watch(node: Node) -> None:
            member.observer = QuorumObserver(process, node)

        return NodeProgram(process, ServerConfig.of(self.settings_of(member)), watch)
