"""A run of independent nodes with faults: each is a broker that is its own controller, and has dedicated clients.

Clients produce and read while machines are killed, paused, cut off and lose power. After healing every client must get
an acknowledgement, and then reads everything from the beginning. The brokers share nothing but time, the network and
the seed: the run tests the universe, and that a node keeps its promises in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tailrace.sim.fault_schedule import FaultRules, FaultSchedule
from tailrace.sim.machine import Machine
from tailrace.sim.node_program import node_boot
from tailrace.sim.record_checker import LivingSenders, RecordChecker
from tailrace.sim.record_client import RecordClient, RecordLoad, record_client
from tailrace.sim.run import Goal, Run, RunParameters
from tailrace.sim.universe import Universe

PORT: Final = 9092
MAX_SKEW_MS: Final = 5_000
RESTART_MS: Final = 500


@dataclass(frozen=True, slots=True)
class NodeRunParameters(RunParameters):
    nodes: int = 3
    clients_per_node: int = 1
    load: RecordLoad = field(default_factory=RecordLoad)
    settings: Mapping[str, str] = field(default_factory=dict)
    """In addition to `log.flush.interval.messages=1`, without which power loss may take acknowledged records."""


class NodeRun(Run):
    def __init__(self, seed: int, parameters: NodeRunParameters | None = None) -> None:
        self.parameters = parameters or NodeRunParameters()
        self.checker = RecordChecker()
        self.nodes: list[Machine] = []
        self.clients: list[Machine] = []
        self._clients_of: dict[str, list[Machine]] = {}
        super().__init__(seed, self.parameters, PORT)

    def build(self) -> None:
        universe, parameters = self.universe, self.parameters
        universe.add_checker(self.checker)
        universe.add_checker(LivingSenders())
        chance = universe.random_for("build")
        for number in range(1, parameters.nodes + 1):
            name = f"broker-{number}"
            settings = {
                "node.id": str(number),
                "log.dirs": "/data",
                "listeners": f"PLAINTEXT://{name}:{PORT},CONTROLLER://{name}:{PORT + 1}",
                "log.flush.interval.messages": "1",
                **parameters.settings,
            }
            skew_ms = chance.randint(-MAX_SKEW_MS, MAX_SKEW_MS)
            node = universe.add_machine(name, node_boot(settings), skew_ms=skew_ms)
            node.restart_delay_ms = RESTART_MS
            self.nodes.append(node)
            for index in range(1, parameters.clients_per_node + 1):
                boot = record_client(name, PORT, parameters.load)
                client = universe.add_machine(f"client-{number}.{index}", boot)
                self.clients.append(client)
                self._clients_of.setdefault(name, []).append(client)

    def draw(self, universe: Universe, rules: FaultRules, length_ms: int) -> FaultSchedule:
        peers = {name: [client.name for client in clients] for name, clients in self._clients_of.items()}
        names = [node.name for node in self.nodes]
        return FaultSchedule.draw(universe.random_for("schedule"), rules, names, length_ms, peers)

    def goals(self) -> Iterator[Goal]:
        programs = [self._program(client) for client in self.clients]
        before = {program: program.acked for program in programs}
        yield Goal(
            "every client gets an acknowledgement after healing",
            lambda: all(program.acked > before[program] for program in programs),
        )
        for program in programs:
            program.is_producing = False
            program.position = 0
        ends = {program: self.checker.acked_end(program.broker) for program in programs}
        yield Goal(
            "every client reads every acknowledged record",
            lambda: all(program.position >= ends[program] for program in programs),
        )

    def _program(self, client: Machine) -> RecordClient:
        assert client.process is not None
        assert isinstance(client.process.program, RecordClient)
        return client.process.program

    def counts(self) -> Mapping[str, int]:
        return {"records acknowledged": self.checker.acked_records, "records read": self.checker.read_records}

    def in_columns(self) -> list[str]:
        """Clients beside their brokers."""
        return [
            name for node in self.nodes for name in (node.name, *(each.name for each in self._clients_of[node.name]))
        ]
