"""Machines with a controller alone, and machines with what a broker needs to be known to it: lifecycle and link.

The broker's side has no logs and no metadata log. It takes the committed metadata from the memory of the controller, as
if it had fetched it, and learns from the test which node is the active controller.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

from support.brokers.remote_controllers import ScriptedQuorum, client_context
from tailrace.broker.lifecycle import BrokerLifecycle, Stage
from tailrace.broker.node import Node
from tailrace.broker.producer_ids import ProducerIds
from tailrace.broker.remote_controller import RemoteController
from tailrace.config.server import ServerConfig
from tailrace.config.voters import Address
from tailrace.metadata.endpoint import Endpoint
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.versions import SUPPORTED_FEATURES
from tailrace.model.errors import TailraceError
from tailrace.model.ids import DirectoryId
from tailrace.model.listeners import Listeners
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.sim.machine import Machine
from tailrace.sim.node_program import NodeProgram
from tailrace.sim.process import Process
from tailrace.sim.universe import Universe

PORT = 9093
CREATE_TOPICS_VERSION = 7


class ControllerProgram(NodeProgram):
    """A node that is a controller and no broker, alone in its quorum."""

    def __init__(self, process: Process, node_id: int) -> None:
        name = process.machine.name
        settings = {
            "process.roles": "controller",
            "node.id": str(node_id),
            "log.dirs": "/data",
            "listeners": f"CONTROLLER://{name}:{PORT}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"{name}:{PORT}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        }
        super().__init__(process, ServerConfig.of(settings))


class Controllers:
    """Controllers, each alone in its quorum: the first is the one of the cluster, all others have resigned."""

    def __init__(self, universe: Universe, count: int = 1) -> None:
        self.universe = universe
        self.machines = [
            universe.add_machine(f"controller-{number}", partial(ControllerProgram, node_id=100 + number))
            for number in range(count)
        ]
        self._image = MetadataImage()

    def start(self) -> None:
        for machine in self.machines:
            machine.start()
        self.universe.run_until_reached(lambda: all(map(self._is_ready, self.machines)), 20_000, "controllers start")
        for machine in self.machines[1:]:
            controller = self._node(machine).local_controller
            assert controller is not None
            controller.resigned()
        self.cluster_id = self._node(self.machines[0]).cluster_id

    @property
    def image(self) -> MetadataImage:
        """What was last seen of the committed metadata."""
        if self._is_ready(self.machines[0]):
            self._image = self._node(self.machines[0]).image
        return self._image

    def _is_ready(self, machine: Machine) -> bool:
        process = machine.process
        return process is not None and isinstance(process.program, ControllerProgram) and process.program.is_ready

    def _node(self, machine: Machine) -> Node:
        assert machine.process is not None
        assert isinstance(machine.process.program, ControllerProgram)
        return machine.process.program.node

    def address(self, number: int = 0) -> Address:
        return Address(f"controller-{number}", PORT)


class BrokerSide:
    """The program of a machine. Requests of clients are counted, and ids of producers are kept, over all its lives."""

    def __init__(self, process: Process, cluster: RemoteBrokers, node_id: int) -> None:
        self.process = process
        self.is_unfenced = False
        self._cluster = cluster
        self._waits = 0
        settings = {"node.id": str(node_id), "log.dirs": "/data", **cluster.settings}
        self.link = RemoteController(process.env, ServerConfig.single_node(settings), cluster.quorum)
        directory = SimpleNamespace(id=DirectoryId(bytes([200, node_id]) * 8), path="/data", is_cordoned=False)
        self.node: Any = _Node(
            node_id=node_id,
            cluster_id=cluster.controllers.cluster_id,
            config=ServerConfig.single_node(settings),
            env=process.env,
            controller=self.link,
            supported_features=SUPPORTED_FEATURES,
            logs=SimpleNamespace(directories=SimpleNamespace(live=[directory], offline=[]), previous_broker_epoch=None),
            replicas=SimpleNamespace(on_directory_failed=Listeners()),
            image=_FetchedImage(cluster.controllers),
        )
        self.producer_ids = ProducerIds(self.node)
        endpoint = Endpoint("PLAINTEXT", process.machine.name, 9092)
        self.lifecycle = self.node.lifecycle = BrokerLifecycle(self.node, (endpoint,), process.env.random.randbytes(16))
        self.lifecycle.start(self._unfenced, self._failed)

    def _unfenced(self) -> None:
        self.is_unfenced = True

    def _failed(self, error: TailraceError) -> None:
        self._cluster.errors.append(error)
        self.process.exit(str(error))

    @property
    def is_registered(self) -> bool:
        """And unfenced, as this process and the committed metadata both say."""
        known = self._cluster.controllers.image.brokers.get(self.node.node_id)
        is_known = known is not None and known.epoch == self.lifecycle.broker_epoch and not known.is_fenced
        return is_known and self.lifecycle.stage is Stage.RUNNING and not self.lifecycle.is_fenced

    # What clients ask

    @property
    def waits(self) -> int:
        """Requests of clients without a response."""
        return self._waits

    def create_topic(self, name: str) -> None:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        request: Request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        context = client_context(CREATE_TOPICS_VERSION, host="10.0.0.7")
        self._waits += 1
        self.link.forward(request, context, partial(self._created, name))

    def _created(self, name: str, response: Response) -> None:
        (row,) = response.topics  # type: ignore[attr-defined]
        assert row.name == name
        self._waits -= 1
        self._cluster.created[name] = row.error_code

    def take_producer_id(self) -> None:
        self._waits += 1
        self.producer_ids.take(self._taken, self._refused)

    def _taken(self, producer_id: int) -> None:
        self._waits -= 1
        self._cluster.producer_ids.append(producer_id)

    def _refused(self, error: TailraceError) -> None:
        assert error.retriable
        self._waits -= 1

    # The program

    def due_ms(self) -> int | None:
        return None

    def run_due(self, now_ms: int) -> None:
        raise AssertionError("it has no deadlines")

    def ends_with(self, error: Exception) -> bool:
        return False


class _Node(SimpleNamespace):
    @property
    def broker_epoch(self) -> int:
        lifecycle: BrokerLifecycle = self.lifecycle
        return lifecycle.broker_epoch


class _FetchedImage:
    def __init__(self, controllers: Controllers) -> None:
        self._controllers = controllers

    @property
    def offset(self) -> int:
        return self._controllers.image.offset

    @property
    def brokers(self) -> dict[int, Any]:
        return self._controllers.image.brokers


class RemoteBrokers:
    """A cluster of controllers and sides of brokers. `quorum` is what the brokers know of the active controller."""

    def __init__(self, seed: int, controllers: int = 1, **settings: str) -> None:
        self.universe = Universe(seed)
        self.controllers = Controllers(self.universe, controllers)
        self.controllers.start()
        self.settings = {name.replace("_", "."): text for name, text in settings.items()}
        self.quorum = ScriptedQuorum()
        self.machines: dict[str, Machine] = {}
        self.created: dict[str, int] = {}
        self.producer_ids: list[int] = []
        self.errors: list[TailraceError] = []
        self._epoch = 0

    def elect(self, number: int = 0) -> None:
        """Brokers take this controller for the active one; another one than the first refuses them."""
        self._epoch += 1
        self.quorum.elect(100 + number, self._epoch, self.controllers.address(number))

    def add(self, name: str, node_id: int) -> Machine:
        machine = self.universe.add_machine(name, partial(BrokerSide, cluster=self, node_id=node_id))
        self.machines[name] = machine
        machine.start()
        return machine

    def side(self, name: str) -> BrokerSide:
        process = self.machines[name].process
        assert process is not None
        assert isinstance(process.program, BrokerSide)
        return process.program

    def is_registered(self, name: str) -> bool:
        return self.machines[name].process is not None and self.side(name).is_registered
