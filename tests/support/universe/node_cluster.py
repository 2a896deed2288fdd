"""Three controllers and two brokers on one simulated network, as they are in processes."""

from __future__ import annotations

from functools import partial
from typing import Any

from tailrace.broker.node import Node
from tailrace.config.server import ServerConfig
from tailrace.env import Env
from tailrace.metadata.versions import NEW_CLUSTER_FEATURES
from tailrace.protocol.message import Request
from tailrace.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from tailrace.raft.format import format_directories
from tailrace.sim.kafka_link import KafkaLink
from tailrace.sim.machine import Machine
from tailrace.sim.node_program import NodeProgram
from tailrace.sim.process import Process
from tailrace.sim.universe import Universe

CLUSTER_ID = "cluster-of-the-tests_1"
CONTROLLERS = (1, 2, 3)
BROKERS = (11, 12)
PORT, CONTROLLER_PORT = 9092, 9093


def name_of(node_id: int) -> str:
    return f"node-{node_id}"


def settings_of(node_id: int) -> dict[str, str]:
    is_broker = node_id in BROKERS
    common = {
        "node.id": str(node_id),
        "log.dirs": "/data",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(f"{each}@{name_of(each)}:{CONTROLLER_PORT}" for each in CONTROLLERS),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    if is_broker:
        return common | {"process.roles": "broker", "listeners": f"PLAINTEXT://{name_of(node_id)}:{PORT}"}
    return common | {"process.roles": "controller", "listeners": f"CONTROLLER://{name_of(node_id)}:{CONTROLLER_PORT}"}


def boot(node_id: int, is_formatted: bool, process: Process) -> NodeProgram:
    if is_formatted:
        formatted(process.env, node_id)
    return NodeProgram(process, ServerConfig.of(settings_of(node_id)))


def formatted(env: Env, node_id: int) -> None:
    format_directories(env, ["/data"], "/data", node_id, cluster_id=CLUSTER_ID, features=NEW_CLUSTER_FEATURES)


class Client:
    """A machine with one connection to each broker."""

    def __init__(self, process: Process) -> None:
        self.links = {each: KafkaLink(process, name_of(each), PORT, 30_000) for each in BROKERS}

    def due_ms(self) -> int | None:
        return None

    def run_due(self, now_ms: int) -> None:
        """Nothing is ever due."""

    def ends_with(self, error: Exception) -> bool:
        return False


class Cluster:
    def __init__(self, seed: int, *, is_formatted: bool = True) -> None:
        self.universe = Universe(seed)
        self.machines = {
            each: self.universe.add_machine(name_of(each), partial(boot, each, is_formatted))
            for each in (*CONTROLLERS, *BROKERS)
        }
        for machine in self.machines.values():
            machine.restart_delay_ms = 500
        self.client_machine = self.universe.add_machine("client", Client)
        for machine in (*self.machines.values(), self.client_machine):
            machine.start()

    def program(self, node_id: int) -> NodeProgram | None:
        process = self.machines[node_id].process
        found = process.program if process is not None else None
        return found if isinstance(found, NodeProgram) else None

    def node(self, node_id: int) -> Node:
        program = self.program(node_id)
        assert program is not None
        return program.node

    def active(self) -> int | None:
        for each in CONTROLLERS:
            program = self.program(each)
            controller = program.node.local_controller if program is not None else None
            if controller is not None and controller.is_active:
                return each
        return None

    def until(self, goal: Any, what: str, within_ms: int = 30_000) -> int:
        """Milliseconds that it took."""
        began_us = self.universe.time.now_us
        self.universe.run_until_reached(goal, within_ms, what)
        return (self.universe.time.now_us - began_us) // 1000

    def are_brokers_ready(self) -> bool:
        return all((program := self.program(each)) is not None and program.is_ready for each in BROKERS)

    def ask(self, broker_id: int, request: Request, version: int) -> Any:
        answers: list[Any] = []
        process = self.client_machine.process
        assert process is not None
        client = process.program
        assert isinstance(client, Client)
        process.perform(lambda: client.links[broker_id].ask(request, version, answers.append))
        self.until(lambda: bool(answers), "a response", 60_000)
        return answers[0]

    def create_topic(self, name: str, through: int) -> int:
        """The error code. The topic has one replica on each broker's turn: partition 0 on 11, partition 1 on 12."""
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=[broker])
            for index, broker in enumerate(BROKERS)
        ]
        topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
        response = self.ask(through, CreateTopicsRequest(topics=[topic], timeout_ms=20_000), 7)
        assert response is not None
        code: int = response.topics[0].error_code
        return code

    def machine(self, node_id: int) -> Machine:
        return self.machines[node_id]
